//! The memory of an open stream, beside its message and with the short one that it has by then.

use std::process::Command;

use callweave::accumulator::Accumulator;
use callweave::event::Event;
use callweave::pipeline::Decoder;

use super::wire::{PLAIN_ANTHROPIC, PLAIN_CHAT, PLAIN_RESPONSES, Stream};
use crate::measure::{Aim, Report, Target};
use crate::peers::protocol;
use crate::streams::Reads;

/// Streams that are open at once.
const OPEN: usize = 4_000;
/// Events that each has had.
const EVENTS: usize = 40;

const STREAMS: [(&str, Stream); 3] =
    [("chat", PLAIN_CHAT), ("anthropic", PLAIN_ANTHROPIC), ("responses", PLAIN_RESPONSES)];

/// Each in a process of its own, since what was freed before would be taken again.
pub(crate) fn reports() -> Vec<Report> {
    let ways = [
        ("beside", ", beside its message", Some(Target(7, Aim::Bytes(4096.0)))),
        ("with", ", with it", None),
    ];
    let measured = ways.iter().flat_map(|(way, told, target)| {
        STREAMS.iter().filter_map(move |(name, _)| {
            let output =
                Command::new(std::env::current_exe().ok()?).args(["memory", name, way]).output().ok()?;
            let bytes = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
            Some(Report {
                bytes: Some(bytes),
                target: *target,
                ..Report::new("Memory", format!("memory per open stream{told}, {name}"), "stream")
            })
        })
    });
    measured.collect()
}

/// Opens streams, and prints how many bytes each takes.
pub(crate) fn tell(name: &str, way: &str) -> Result<(), String> {
    let (_, stream) = STREAMS.iter().find(|(own, _)| *own == name).ok_or("no such stream")?;
    let reads = Reads::by_event((stream.generate)(200));
    let mut open: Vec<(Decoder, Option<Box<Accumulator>>)> = Vec::with_capacity(OPEN);
    let before = resident().ok_or("this system does not tell what is resident")?;
    for _ in 0..OPEN {
        let mut decoder = Decoder::new(protocol(stream.protocol));
        let mut message = (way == "with").then(Box::<Accumulator>::default);
        for piece in reads.pieces().take(EVENTS) {
            let pushed = match &mut message {
                Some(message) => decoder.push(piece, &mut **message),
                None => decoder.push(piece, &mut |_: Event<'_>| {}),
            };
            pushed.map_err(|error| error.to_string())?;
        }
        open.push((decoder, message));
    }
    let after = resident().ok_or("this system does not tell what is resident")?;
    println!("{}", (after - before) / open.len() as f64);
    Ok(())
}

/// Bytes of this process in memory.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}
