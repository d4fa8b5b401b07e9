//! JSON: scanning long strings, and a value that is looked at while it grows.

use std::rc::Rc;

use callweave::json::partial::{PartialValue, UnfinishedValues};
use callweave::json::{JsonScanner, ScanStatus};
use jiter::{Jiter, JsonValue, PartialMode};
use serde::de::IgnoredAny;

use crate::measure::{Aim, Case, Row, Target, Way};
use crate::peers::Outcome;

/// The number of bytes by which the value's text grows.
const DELTA: usize = 4;
/// The number of deltas for a peer that reads everything anew with each delta.
const LOOKS: usize = 2_500;

pub(crate) fn cases() -> Vec<Case> {
    let line = "A sentence as a model writes it into a file, and then another one that goes on for a while. ";
    let code = "let value = compute(input, \\\"name\\\");\\n";
    // 3 GB per second.
    let aim = Some(Target(4, Aim::Nanoseconds(1000.0 / 3.0)));
    let scans =
        [("scanner, long strings of prose", line, aim), ("scanner, long strings of code", code, None)];
    let scans = scans.map(|(name, line, target)| Case {
        group: "JSON",
        name: name.into(),
        unit: "kB",
        pieces: 1_000,
        target,
        make: Box::new(move |kilobytes| scan(line, kilobytes)),
    });
    let sizes = [(1, "1 kB"), (10, "10 kB"), (100, "100 kB"), (1_000, "1 MB")];
    let partial = sizes.map(|(kilobytes, size)| Case {
        group: "JSON",
        name: format!("partial value, {size}"),
        unit: "delta",
        pieces: kilobytes * 1000 / DELTA,
        target: (kilobytes >= 10).then_some(Target(4, Aim::Ratio(10.0))),
        make: Box::new(move |deltas| partial(code, deltas)),
    });
    scans.into_iter().chain(partial).collect()
}

fn object(line: &str, size: usize) -> Rc<str> {
    format!(r#"{{"path": "src/lib.rs", "content": "{}"}}"#, line.repeat(size / line.len() + 1)).into()
}

fn scan(line: &str, kilobytes: usize) -> Row {
    let text = object(line, kilobytes * 1000);
    let read = |is_read: bool| Outcome::of_text(if is_read { "read" } else { "not read" });
    let [ours, serde, jiter, sonic] = [(); 4].map(|()| Rc::clone(&text));
    Row {
        pieces: kilobytes,
        ways: vec![
            Way::new("callweave", move || {
                let mut scanner = JsonScanner::new();
                scanner.push(&ours);
                read(scanner.status() == ScanStatus::Complete)
            }),
            Way::new("serde_json", move || read(serde_json::from_str::<IgnoredAny>(&serde).is_ok())),
            Way::new("jiter", move || read(Jiter::new(jiter.as_bytes()).next_skip().is_ok())),
            Way::new("sonic-rs", move || read(sonic_rs::from_str::<IgnoredAny>(&sonic).is_ok())),
        ],
    }
}

fn partial(line: &str, deltas: usize) -> Row {
    let text = object(line, deltas * DELTA);
    let ours = Rc::clone(&text);
    let step = (deltas / LOOKS).max(1);
    Row {
        pieces: text.len() / DELTA,
        ways: vec![
            Way::new("callweave", move || {
                let mut partial = PartialValue::new(UnfinishedValues::Strings);
                for delta in ours.as_bytes().chunks(DELTA) {
                    partial.push(std::str::from_utf8(delta).expect("it is ASCII"));
                    std::hint::black_box(partial.value());
                }
                Outcome::of_json(move || partial.value().map(ToString::to_string).unwrap_or_default())
            }),
            Way::new("jiter, all anew", move || {
                let mut last = JsonValue::Null;
                let ends = (DELTA..text.len()).step_by(DELTA * step).chain([text.len()]);
                for end in ends {
                    let prefix = &text.as_bytes()[..end];
                    last = JsonValue::parse_with_config(prefix, true, PartialMode::TrailingStrings)
                        .expect("a prefix of JSON");
                }
                let last = last.into_static();
                Outcome::of_json(move || strings(&last))
            })
            .one_of(step),
        ],
    }
}

/// An object of strings, as JSON.
fn strings(value: &JsonValue<'_>) -> String {
    let JsonValue::Object(members) = value else { return String::new() };
    let members = members.iter().filter_map(|(key, value)| match value {
        JsonValue::Str(text) => Some((key.to_string(), serde_json::Value::from(&**text))),
        _ => None,
    });
    serde_json::Value::from_iter(members).to_string()
}
