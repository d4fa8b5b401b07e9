//! The page: method, machine, targets, and all rows.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use super::{aim, best_peer, figure, word};

/// The targets, by the number that rows name.
const TARGETS: [(u64, &str); 7] = [
    (
        1,
        "Bytes of a stream → message: ≥ 8x (chat) and ≥ 5x (Anthropic) the best that is written by hand from existing crates, ≥ 25x what users of async-openai run; recorded streams from 50 events ≥ 4x (chat), ≥ 3x (Responses), ≥ 2x (Anthropic); knowing shapes never slower than not",
    ),
    (2, "Every frame new: not slower than serde_json into typed structs with the same fields"),
    (
        3,
        "Dialects: an argument delta and a delta of plain text ≤ 170 instructions; all markers at once ≤ 2x of one dialect",
    ),
    (
        4,
        "JSON: ≥ 3 GB/s inside long strings; a growing value ≥ 10x reading it anew from 10 kB on, and linear beyond",
    ),
    (5, "Translating an answer ≤ 2x of decoding it"),
    (6, "The program: 1 GB of recorded answers per second of user time; rows of `--jsonl` on all cores"),
    (7, "≤ 4 KB per open stream beside its message; no allocation per delta (`tests/*allocations.rs`)"),
];

pub(super) fn page(rows: &[Value]) -> String {
    let mut page = String::from(METHOD);
    let _ = write!(page, "\n## Machine\n\n{}\n", machine());
    page.push_str(
        "\n## Targets\n\n| | wanted | the row that comes closest to missing it | met |\n|---|---|---|---|\n",
    );
    for (number, text) in TARGETS {
        let own: Vec<&Value> =
            rows.iter().filter(|row| row["target"] == number && !row["met"].is_null()).collect();
        let missed = own.iter().filter(|row| row["met"] == false).count();
        let met = match (own.len(), missed) {
            (0, _) => "not measured".to_owned(),
            (_, 0) => "yes".to_owned(),
            (all, missed) => format!("{} of {all} rows", all - missed),
        };
        let worst = own.iter().min_by(|one, other| margin(one).total_cmp(&margin(other)));
        let worst = worst.map_or(String::new(), |row| {
            format!("{}: {} ({})", word(row, "name"), measured(row), aim(row).unwrap_or_default())
        });
        let _ = writeln!(page, "| {number} | {text} | {worst} | {met} |");
    }
    page.push_str(FLOORS);
    page.push_str(
        "\n## Growth\n\n![What a piece costs, by the size of the stream](performance.svg)\n\nA line that stays level is \
         work that grows with the input and no faster.\n",
    );
    let mut group = "";
    for row in rows {
        if word(row, "group") != group {
            group = word(row, "group");
            let _ = write!(
                page,
                "\n## {group}\n\n| | ours | best peer | ratio: best | median | instructions | target |\n|---|--:|--:|--:|--:|--:|---|\n"
            );
        }
        page.push_str(&line(row));
    }
    page
}

/// The obstacles where targets are missed; read off profiles.
const FLOORS: &str = "
### What stands in the way of those that are missed

- **Recorded streams.** Of their frames, seven to nine in ten are known, and cost little. The others are read in full,
  and they are the long ones: starts with all tools and instructions, results of a provider's tools, closing restatements of
  everything. What is written by hand skips their members; a message keeps them. How far that can go was read off a profile
  of each recording: what its known frames cost, the tapes of the others, checking them as UTF-8, and what the fold makes of
  them, which is the message itself, its memory and the rules by which fragments belong together. Were all else free (framing,
  protocols, what learns shapes), Anthropic would come to 1.6x (median; least 0.9x), Responses to 2.7x (least 0.9x), chat to
  6.5x (least 1.3x). So the targets for Anthropic and Responses, and all targets for the least, are out of
  reach for who notes every value of such frames and folds them by these rules. With a fold that cost nothing but its memory, the
  medians would be 1.8x and 3.4x. In the Anthropic recording of the least ratio nine tenths
  are results of searches: copying what is kept costs one instruction per byte as valgrind counts it, finding the ends of
  strings, checking UTF-8 and noting the values two. In the chats of the least ratio each chunk has another id, which is told
  each time. That such frames be known
  before the stream begins, by examples in the protocol's table, was tried: recorded Anthropic streams gain a tenth, since nothing
  need be learned, but to find the example that a frame is like costs as much as its tape, and each frame that is like none
  pays for it, too; so short streams lose what long ones gain.
- **Short recordings beside every frame in full.** Learning a shape costs two frames read in full, and pays with the
  third that has it. A stream that ends right after the shape was learned has paid for nothing; whether it ends there
  nobody knows before. To learn from the second frame instead of the third was tried: recorded chats from 50 events gain 4 %,
  but the least of the short ones falls from 0.8x to 0.77x, and the median of Anthropic's from 0.98x to 0.92x. Where nothing is
  learned, one look at the size of each frame is what is left: 0.99x.
- **Every frame new.** Recorded answers, every frame in full, cost 2.0 to 3.4 times fewer instructions than before this work
  began (medians of streams and of bodies by protocol; chat streams 1.65 times). A whole body of a kilobyte costs 35,000
  instructions: 6,600 are 34 allocations and what frees them, 5,100 the tape, which also tells that all has come, 3,000 take
  escapes out of its texts, 2,500 are 100 moves of values too large for registers; the rest is flat. The tape, UTF-8 and the fold
  are four fifths of a body of twenty calls, so that with a protocol and a framing that cost nothing it would come to 0.76x. Typed structs leave out
  what a message has besides (events, blocks and members in order, whether arguments are complete JSON, counters as written,
  notices), and a body is read once, so that what a decoder is made of counts in full. Gemini stands right above its target: a
  fifth of a frame is its tape, which spends 48 instructions on a key, 35 to 40 on a value, and is near what safe code can do
  with one value after the other.
";

const METHOD: &str = "\
# Performance

Written by `cargo xtask bench --write`; `cargo xtask bench` prints the same as a table, `--json` as one row per measurement.

## Method

- callweave and its peers run side by side in one program, built as callweave is shipped (thin LTO, the default target). The peers
  are dependencies of the crate `bench/` alone: what people write by hand around eventsource-stream, memchr, async-openai,
  serde_json, sonic-rs and jiter, with the smallest borrowed structs; where a row says \"typed\", with all the fields that our
  message has.
- Every peer's text and arguments are compared with ours before anything is timed. Who makes something else of an input is
  not raced on it.
- Rounds of all ways take turns, so that a slow phase of the machine hits all of them. Shown is the best of the rounds, and
  two ratios: the best peer's best by our best, and the median of what each round gave. A time alone says little; a ratio of
  one run does.
- Instructions are ours, per piece, counted by valgrind: of a process that does the work twice, less one that does it once.
  `cargo xtask check` counts the hot paths again and fails where one costs 10 % more than `xtask/src/instructions/counts.tsv` says.
- Streams are generated from a seed: half text, half arguments of four calls, in fragments of about four bytes; 320 bytes
  per chunk of chat, 126 per event of Anthropic. Recorded ones are read by a decoder that has seen nothing before, and since
  most are too short for a clock, their ratios are of instructions.
- Memory is what 4,000 open streams, forty events in, take of a process's resident memory, beside their messages and with
  them, and with what the allocator itself needs. `tests/allocations.rs` counts without that, and bounds it.
";

/// Cores and the name of the processor; nothing that names a machine.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let compiler =
        Command::new("rustc").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let compiler = String::from_utf8_lossy(&compiler).trim().to_owned();
    format!("{cores} cores of {}, {compiler}.", model.unwrap_or("an unnamed processor").trim())
}

/// The factor by which a row is above its aim.
fn margin(row: &Value) -> f64 {
    let Some((kind, wanted)) = row["aim"].as_object().and_then(|aim| aim.iter().next()) else {
        return f64::MAX;
    };
    let wanted = wanted.as_f64().unwrap_or(f64::NAN);
    let value = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    match kind.as_str() {
        "ratio" => value("ratio") / wanted,
        "nanoseconds" => wanted / value("ours_ns"),
        kind => wanted / value(kind),
    }
}

/// The figure that the target of a row is about.
fn measured(row: &Value) -> String {
    let value = |key: &str| row[key].as_f64().map_or(String::new(), figure);
    let kind = row["aim"].as_object().and_then(|aim| aim.keys().next()).map_or("", String::as_str);
    match kind {
        "ratio" => format!("{}x", value("ratio")),
        "nanoseconds" => format!("{} ns per {}", value("ours_ns"), word(row, "unit")),
        kind => format!("{} {kind}", value(kind)),
    }
}

fn line(row: &Value) -> String {
    let value = |key: &str| row[key].as_f64().map_or(String::new(), figure);
    let times = |key: &str| row[key].as_f64().map_or(String::new(), |ratio| format!("{}x", figure(ratio)));
    let is_timed = !row["ours_ns"].is_null();
    let ours = match row["bytes"].as_f64() {
        Some(bytes) => format!("{} bytes", figure(bytes)),
        None if is_timed => format!("{} ns/{}", value("ours_ns"), word(row, "unit")),
        None => String::new(),
    };
    let unit = if is_timed { "ns" } else { "instructions" };
    let peer =
        best_peer(row).map_or(String::new(), |(name, cost)| format!("{} {unit} ({name})", figure(cost)));
    let target = aim(row).map_or(String::new(), |aim| {
        let met = row["met"].as_bool().map_or("", |is_met| if is_met { ", met" } else { ", **missed**" });
        format!("{aim}{met}")
    });
    let mut name = word(row, "name").to_owned();
    for note in row["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        // A peer that is not raced is named without the list of its results.
        let note = note.split_once(": the ").map_or(note, |(who, _)| who);
        let _ = write!(name, "<br><small>{note}</small>");
    }
    let [ratio, median] = ["ratio", "median_ratio"].map(times);
    format!("| {name} | {ours} | {peer} | {ratio} | {median} | {} | {target} |\n", value("instructions"))
}
