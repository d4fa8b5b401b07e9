//! The rows of the shared repair vectors, and how one is judged. Used by the tests and by
//! `cargo xtask scoreboard repair`.

use std::path::{Path, PathBuf};

use callweave::json::Value;
use callweave::json::repair::{ChangeClass, RepairOptions, RepairVerdict};

use crate::shared;

/// One case of another project's test suite.
pub(crate) struct Row {
    /// The project and file it comes from.
    pub(crate) source: String,
    /// `valid`, `repair`, `partial`, `extract`, `error`, `none`, or a kind that needs a schema.
    pub(crate) kind: String,
    /// The text to repair.
    pub(crate) input: String,
    /// The value that should come out.
    pub(crate) expected: Value,
    /// The name of the test and the options it was run with.
    pub(crate) notes: String,
}

/// The outcome of a row.
pub(crate) enum Outcome {
    /// The result that its source expects.
    Pass,
    /// Another result.
    Differs(String),
    /// It does not ask for repair alone.
    SetAside(&'static str),
}

/// The path of the vectors, if they are there.
pub(crate) fn path() -> Option<PathBuf> {
    shared::find("vectors/json_repair.jsonl")
}

/// Reads the rows of a file of vectors.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line)?;
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Ok(Row {
            source: text("source"),
            kind: text("kind"),
            input: text("input"),
            expected: row["expected"].clone(),
            notes: text("notes"),
        })
    });
    rows.collect()
}

impl Row {
    /// A name for the row that does not depend on its place in the file.
    pub(crate) fn id(&self) -> String {
        let expected = self.expected.to_string();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for part in [&self.source, &self.kind, &self.input, &expected, &self.notes] {
            for byte in part.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        format!("{hash:016x}")
    }

    /// Runs the row with the options that its source's contract amounts to.
    pub(crate) fn judge(&self) -> Outcome {
        if let Some(why) = self.set_aside() {
            return Outcome::SetAside(why);
        }
        let options = self.options();
        let repair = options.repair(&self.input);
        let got =
            repair.closed().map(|text| serde_json::from_str::<Value>(text).expect("repaired text is JSON"));
        let shown =
            || format!("{:?} {}", repair.verdict, got.as_ref().map_or_else(String::new, Value::to_string));
        let is_as_expected = match self.kind.as_str() {
            // Refused: nothing came out, or nothing that passes for complete.
            "error" | "none" => {
                matches!(repair.verdict, RepairVerdict::Hopeless { .. } | RepairVerdict::Incomplete)
                    && repair.text.is_empty()
            }
            "valid" => repair.verdict == RepairVerdict::Valid && repair.text == self.input,
            _ => got.as_ref().is_some_and(|got| is_same(got, &self.expected)),
        };
        if is_as_expected { Outcome::Pass } else { Outcome::Differs(shown()) }
    }

    pub(crate) fn needs_schema(&self) -> bool {
        self.kind.starts_with("schema")
    }

    /// Our answer, as it is recorded for rows that are set aside.
    #[allow(dead_code, reason = "a test's, not a report's")]
    pub(crate) fn answer(&self) -> Value {
        let repair = self.options().repair(&self.input);
        let value =
            repair.closed().map(|text| serde_json::from_str::<Value>(text).expect("repaired text is JSON"));
        let verdict = format!("{:?}", repair.verdict);
        Value::object([("verdict", verdict.as_str().into()), ("value", value.unwrap_or(Value::Null))])
    }

    /// The reason why the row is no matter of repair alone.
    fn set_aside(&self) -> Option<&'static str> {
        if self.needs_schema() {
            return Some("needs a schema");
        }
        if self.kind != "error" {
            return None;
        }
        if self.notes.contains("\"schema\"") || self.notes.contains("target FieldType") {
            return Some("only a schema makes it an error");
        }
        let is_valid = serde_json::from_str::<Value>(&self.input).is_ok();
        is_valid.then_some("the input is valid, only an option makes it an error")
    }

    fn options(&self) -> RepairOptions {
        let mut options = RepairOptions::new();
        if self.kind == "partial" || self.source.contains("partial-json-parser") {
            options = options.prefix();
        }
        // The bit 1 of the mask stands for strings.
        let mask = self.notes.split("allow=").nth(1).and_then(|mask| mask.trim().parse::<i64>().ok());
        if self.notes.contains("partial_mode=on") || mask.is_some_and(|mask| mask & 1 == 0) {
            options = options.drop_unfinished_strings();
        }
        if self.notes.contains("\"strict\": true") {
            options = options.allow(ChangeClass::Lossless);
        }
        options
    }
}

/// Equality of values, with numbers compared as numbers.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64().is_some_and(|left| Some(left) == right.as_f64())
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| is_same(value, other)))
        }
        _ => left == right,
    }
}
