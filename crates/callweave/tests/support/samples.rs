//! Responses to test with: every own case and, where they are at hand, every recording.

use std::fs;
use std::path::PathBuf;

use callweave::protocol::{Protocol, TABLE};
use serde_json::Value;

use crate::laws::{data, folders, name};
use crate::shared;

/// A response as it came over the wire.
#[allow(dead_code, reason = "not every test asks everything")]
pub(crate) struct Sample {
    /// The protocol and the case, or the file of the recording.
    pub(crate) title: String,
    pub(crate) protocol: &'static Protocol,
    /// Whether it is one of our own cases.
    pub(crate) is_own: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Own cases and the first recordings; `ONLY` narrows them down to titles that contain it.
#[allow(dead_code, reason = "not every test asks everything")]
pub(crate) fn samples() -> Vec<Sample> {
    samples_of(&["corpus"])
}

/// The same, with all recordings.
#[allow(dead_code, reason = "not every test asks everything")]
pub(crate) fn all_samples() -> Vec<Sample> {
    samples_of(&["corpus", "corpus-2"])
}

fn samples_of(recordings: &[&str]) -> Vec<Sample> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut rows: Vec<(String, &'static Protocol, bool, PathBuf)> = Vec::new();
    for protocol in TABLE.iter().copied() {
        for case in folders(&data("protocol").join(protocol.name)) {
            let input = fs::read_dir(&case)
                .expect("a readable case")
                .map(|entry| entry.expect("a readable entry").path())
                .find(|path| path.file_stem().is_some_and(|stem| stem == "input"))
                .expect("a case has an input");
            rows.push((format!("{}/{}", protocol.name, name(&case)), protocol, true, input));
        }
    }
    for corpus in recordings.iter().filter_map(|part| shared::find(part)) {
        let index = fs::read_to_string(corpus.join("INDEX.jsonl")).expect("an index");
        for line in index.lines() {
            let row: Value = serde_json::from_str(line).expect("an index row");
            let file = row["file"].as_str().expect("a file name");
            if let Some(protocol) = row["protocol"].as_str().and_then(Protocol::named) {
                rows.push((file.to_owned(), protocol, false, corpus.join(file)));
            }
        }
    }
    rows.retain(|(title, ..)| title.contains(&only));
    let sample = |(title, protocol, is_own, path): (String, &'static Protocol, bool, PathBuf)| {
        let bytes = fs::read(&path).expect("a readable answer");
        Sample { title, protocol, is_own, bytes }
    };
    rows.into_iter().map(sample).collect()
}
