//! Rows of others' tests that we answer otherwise, or that ask for something else: why, and what we answer.
//!
//! A set is a file in `data/aside`. A line that begins with `#` says why the rows below it are set aside; every
//! other line is a row's name and our answer, in short. An answer that has changed fails the test, with the old
//! and the new one shown; `BLESS=1` writes the new ones, and a row is added as a line with its name alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use callweave::json::{AsValue, Value};

/// One set of rows.
pub(crate) struct Record {
    path: PathBuf,
    entries: Vec<Entry>,
    faults: Vec<String>,
}

struct Entry {
    why: String,
    row: String,
    answer: String,
    is_seen: bool,
}

impl Record {
    /// Opens the set of that name.
    pub(crate) fn open(set: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| folder.join("crates/callweave/tests/data/aside"))
            .find(|folder| folder.is_dir());
        let path = folder.expect("the records are in the repository").join(format!("{set}.txt"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut why, mut entries) = (String::new(), Vec::<Entry>::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(reason) = line.strip_prefix("# ") {
                reason.clone_into(&mut why);
                continue;
            }
            let (row, answer) = line.split_once(' ').unwrap_or((line, ""));
            assert!(entries.iter().all(|entry| entry.row != row), "{}: {row} stands twice", path.display());
            entries.push(Entry {
                why: why.clone(),
                row: row.to_owned(),
                answer: answer.to_owned(),
                is_seen: false,
            });
        }
        Self { path, entries, faults: Vec::new() }
    }

    /// The reason why a row is set aside, if it is.
    #[allow(dead_code, reason = "asked for scores alone")]
    pub(crate) fn reason(&self, row: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.row == row).map(|entry| entry.why.as_str())
    }

    /// Compares our answer to a row with the recorded one. `story` describes the row for the reader of a failure.
    #[allow(dead_code, reason = "a report asks for reasons alone")]
    pub(crate) fn see(&mut self, row: &str, answer: &impl AsValue, story: impl FnOnce() -> String) {
        let answer = &*answer.as_value();
        let found = compact(answer);
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.row == row) else {
            let fault =
                format!("{row} is answered otherwise and not set aside\n  {}\n  answer {answer}", story());
            self.faults.push(fault);
            return;
        };
        entry.is_seen = true;
        if found != entry.answer && std::env::var_os("BLESS").is_none() {
            let Entry { why, answer: old, .. } = &entry;
            let fault = format!(
                "{row} was set aside with another answer\n  why {why}\n  {}\n  old {old}\n  new {found}\n  in full {answer}",
                story()
            );
            self.faults.push(fault);
        }
        entry.answer = found;
    }

    /// Ends the comparison: every row of the set must have been seen.
    #[allow(dead_code, reason = "a report asks for reasons alone")]
    pub(crate) fn close(mut self) {
        for entry in self.entries.iter().filter(|entry| !entry.is_seen) {
            self.faults.push(format!("{} is set aside and need not be: take its line away", entry.row));
        }
        let shown = self.path.display();
        assert!(
            self.faults.is_empty(),
            "{shown}: {} rows (BLESS=1 writes new answers)\n{}",
            self.faults.len(),
            self.faults.join("\n")
        );
        if std::env::var_os("BLESS").is_some() {
            let (mut text, mut why) = (String::new(), "");
            for entry in &self.entries {
                if entry.why != why {
                    why = &entry.why;
                    let gap = if text.is_empty() { "" } else { "\n" };
                    let _ = writeln!(text, "{gap}# {why}");
                }
                let _ = writeln!(text, "{} {}", entry.row, entry.answer);
            }
            std::fs::write(&self.path, text).expect("the record can be written");
        }
    }
}

/// An answer in short: long strings are shortened, with a digest for the rest, so that any change shows.
fn compact(answer: &Value) -> String {
    let mut out = String::new();
    shorten(answer, &mut out);
    out
}

fn shorten(value: &Value, out: &mut String) {
    const LONG: usize = 24;
    match value {
        Value::String(text) if text.chars().count() > LONG => {
            let head: String = text.chars().take(LONG / 2).collect();
            let _ = write!(out, "{}…{:08x}", Value::from(head.as_str()), digest(text));
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                shorten(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                let _ = write!(out, "{}{}:", if at > 0 { "," } else { "" }, Value::from(key));
                shorten(value, out);
            }
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// FNV-1a: small, and the same everywhere.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
