//! Recorded responses, each with a decoder that has seen nothing yet: beside memchr + jiter by hand, and beside itself
//! reading every frame in full. They are too short for a clock, so that instructions are compared.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::wire::{Peer, Peers, Stream, by_event};
use crate::instructions;
use crate::measure::{Aim, Report, Row, Target, Way, least, median};
use crate::peers::{Collected, anthropic, callweave, chat, protocol, responses};
use crate::streams::Reads;

/// The minimum number of events of a long stream.
const LONG: usize = 50;
/// The number of recordings of a set that are compared with ourselves.
const SOME: usize = 8;

/// Protocols, who reads them by hand, and how much more that should cost.
const PROTOCOLS: [(&str, Peers, f64); 3] = [
    ("openai-chat", &[("memchr + jiter", Peer::Lines(chat::jiter))], 4.0),
    ("openai-responses", &[("memchr + jiter", Peer::Lines(responses::jiter))], 3.0),
    ("anthropic-messages", &[("memchr + jiter", Peer::Lines(anthropic::jiter))], 2.0),
];

struct Recording {
    file: String,
    protocol: &'static str,
    peers: Peers,
    events: usize,
    body: Vec<u8>,
}

impl Recording {
    /// Ours, by hand, and ours with every frame read in full.
    fn row(&self) -> Row {
        let stream = Stream {
            group: "Recorded streams",
            protocol: self.protocol,
            generate: |_| String::new(),
            reads: by_event,
            decoder: |builder| builder,
            peers: self.peers,
        };
        let mut row = stream.row(Reads::by_event(self.body.clone()), self.events);
        let (reads, protocol) = (Reads::by_event(self.body.clone()), protocol(self.protocol));
        row.ways.push(Way::new("every frame in full", move || {
            let decoder = callweave::pipeline::Decoder::builder().read_all().protocol(protocol);
            callweave(&reads, decoder.build())
        }));
        row
    }
}

fn folder() -> Option<PathBuf> {
    let folders =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/corpus"));
    folders.into_iter().find(|folder| folder.exists())
}

/// The recorded streams beside the repository whose file is wanted, if they are there.
fn recordings(is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Recording>> {
    let folder = folder()?;
    let index = std::fs::read_to_string(folder.join("INDEX.jsonl")).ok()?;
    let recordings = index.lines().filter_map(|line| {
        let row: Value = serde_json::from_str(line).ok()?;
        let &(protocol, peers, _) = PROTOCOLS.iter().find(|(name, ..)| row["protocol"] == *name)?;
        let is_response = row["streaming"] == true && row["is_error"] == false;
        let file = row["file"].as_str().filter(|file| is_response && is_wanted(file))?.to_owned();
        let body = std::fs::read(folder.join(&file)).ok()?;
        Some(Recording { file, protocol, peers, events: row["events"].as_u64()? as usize, body })
    });
    Some(recordings.collect())
}

/// Does the work of one recording in one way, to be counted.
pub(crate) fn run(file: &str, way: &str, times: &str) -> Result<(), String> {
    let number = |word: &str| word.parse::<u32>().map_err(|error| error.to_string());
    let recordings = recordings(|own| own == file).ok_or("there are no recordings")?;
    recordings.first().ok_or("no such recording")?.row().run(number(way)? as usize, number(times)?);
    Ok(())
}

pub(crate) fn reports() -> Vec<Report> {
    let Some(recordings) = recordings(|_| true) else {
        eprintln!("skipped: recorded streams: `shared/corpus` is not beside the repository");
        return Vec::new();
    };
    let mut reports = Vec::new();
    for (name, _, ratio) in PROTOCOLS {
        let own = recordings.iter().filter(|recording| recording.protocol == name);
        let (long, short): (Vec<_>, Vec<_>) = own.partition(|recording| recording.events >= LONG);
        let target = |ratio: f64| Some(Target(1, Aim::Ratio(ratio)));
        reports.extend(spread(&format!("recorded {name}, from {LONG} events"), target(ratio), &long, 1));
        for (told, set) in [("from", long), ("below", short)] {
            let some: Vec<_> = set.iter().copied().step_by(set.len().div_ceil(SOME).max(1)).collect();
            let title = format!("recorded {name}, {told} {LONG} events, beside every frame in full");
            reports.extend(spread(&title, target(1.0), &some, 2));
        }
    }
    reports
}

/// The least and the median ratio of the other way to ours, over a set of recordings.
fn spread(title: &str, target: Option<Target>, set: &[&Recording], other: usize) -> Vec<Report> {
    let mut differences = Vec::new();
    let mut same: Vec<&Recording> = Vec::new();
    let mut peer = "";
    for recording in set {
        let mut row = recording.row();
        row.ways.swap(1, other);
        row.ways.truncate(2);
        peer = row.ways[1].name();
        match row.compare_by(Collected::contradiction).pop() {
            Some(difference) => differences.push(format!("{}: {difference}", recording.file)),
            None => same.push(recording),
        }
    }
    differences.iter().for_each(|difference| eprintln!("left out: {difference}"));
    let words = |recording: &Recording, way: usize| -> instructions::Counted {
        let words = ["count-recorded", &recording.file, &way.to_string()].map(str::to_owned);
        (words.to_vec(), recording.events)
    };
    let counted: Vec<_> =
        same.iter().flat_map(|recording| [words(recording, 0), words(recording, other)]).collect();
    let counts = instructions::count(&counted);
    let mut pairs: Vec<(f64, f64)> =
        counts.chunks_exact(2).filter_map(|pair| Some((pair[0]?, pair[1]?))).collect();
    pairs.sort_by(|one, next| (one.1 / one.0).total_cmp(&(next.1 / next.0)));
    if pairs.is_empty() {
        return Vec::new();
    }
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.1 / pair.0).collect();
    let mut note = format!("{} streams", pairs.len());
    if !differences.is_empty() {
        note += &format!("; {} left out, which the peer reads otherwise", differences.len());
    }
    let report = |told: &str, ratio: f64, (ours, theirs): (f64, f64)| Report {
        target,
        ratio: Some(ratio),
        instructions: Some(ours),
        peers_instructions: vec![(peer.to_owned(), theirs)],
        notes: vec![note.clone()],
        ..Report::new("Recorded streams", format!("{title}: {told}"), "event")
    };
    vec![
        report("median", median(ratios.clone()), pairs[pairs.len() / 2]),
        report("least", least(&ratios), pairs[0]),
    ]
}
