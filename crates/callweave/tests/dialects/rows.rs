//! Reading recorded rows of other parsers' tests, and comparing an extraction with one.

use callweave::dialect::{ExtractOptions, Extraction, TextStart, Tools};
use callweave::event::BlockCompletion;
use callweave::json::Value;

use crate::shared;

/// One recorded row.
pub(crate) struct Row {
    pub(crate) number: usize,
    pub(crate) value: Value,
    pub(crate) is_reasoning: bool,
}

pub(crate) fn load(file: &str) -> Option<Vec<Row>> {
    let text =
        std::fs::read_to_string(shared::find(&format!("vectors/{file}"))?).expect("the rows can be read");
    // Python writes NaN into JSON; such values cannot be compared anyway. Nor can what nests too deeply.
    let is_reasoning = file.starts_with("reasoning");
    let parse = |(number, line): (usize, &str)| {
        let value =
            serde_json::from_str(line).or_else(|_| serde_json::from_str(&line.replace("NaN", "null")));
        let is_deep = |error: &serde_json::Error| error.to_string().contains("nests more than");
        match value {
            Ok(value) => Some(Row { number, value, is_reasoning }),
            Err(error) if is_deep(&error) => None,
            Err(error) => panic!("row {number} is not JSON: {error}"),
        }
    };
    Some(text.lines().enumerate().filter_map(parse).collect())
}

impl Row {
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value[key].as_str()
    }

    pub(crate) fn format(&self) -> &str {
        self.text("format").expect("a row has a format")
    }

    /// Whether calls and content are asserted in full.
    pub(crate) fn counts(&self) -> bool {
        self.is_reasoning || matches!(self.text("assert_level"), Some("full" | "recorded"))
    }

    pub(crate) fn options(&self) -> ExtractOptions {
        let mut options = ExtractOptions::new(self.format()).expect("every format is a dialect");
        options = options.tools(Tools::from_json(&self.value["tools"]));
        if self.value["reasoning_open"] == Value::Bool(true) {
            options = options.starting_in(TextStart::Reasoning);
        }
        options
    }

    pub(crate) fn chunks(&self) -> Vec<String> {
        match self.value["chunks"].as_array() {
            Some(chunks) => chunks.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            None => vec![self.text("text").expect("a row has a text").to_owned()],
        }
    }

    /// The same without naming the dialect.
    #[allow(dead_code, reason = "a test's, not a report's")]
    pub(crate) fn auto(&self) -> ExtractOptions {
        let mut options =
            ExtractOptions::new("auto").expect("auto").tools(Tools::from_json(&self.value["tools"]));
        if self.value["reasoning_open"] == Value::Bool(true) {
            options = options.starting_in(TextStart::Reasoning);
        }
        options
    }

    /// Whether nobody has said why it should be answered otherwise.
    #[allow(dead_code, reason = "a test's, not a report's")]
    pub(crate) fn is_undisputed(&self) -> bool {
        self.text("aside").is_none() && self.text("unclear").is_none()
    }

    pub(crate) fn extract(&self) -> Extraction {
        self.extract_with(&self.options())
    }

    pub(crate) fn extract_with(&self, options: &ExtractOptions) -> Extraction {
        let chunks = self.chunks();
        Extraction::of_deltas(chunks.iter().map(String::as_str), options)
    }

    /// The row, and our difference, for the reader of a failure.
    pub(crate) fn story(&self, difference: Option<&str>) -> String {
        let name = self.text("name").unwrap_or_default();
        let text = self.text("text").unwrap_or_default();
        format!(
            "{} {name}\n  text {text:?}\n  want {} | {} | {}\n  got  {}",
            self.format(),
            self.value["expected_calls"],
            self.value["expected_content"],
            self.value["expected_reasoning"],
            difference.unwrap_or("the same"),
        )
    }

    /// Returns the difference from the row, if there is one.
    pub(crate) fn difference(&self, found: &Extraction) -> Option<String> {
        let notes = self.text("notes").unwrap_or_default();
        let mut differences: Vec<String> = self.difference_of_calls(found).into_iter().collect();
        let is_content_asserted = !notes.contains("content not asserted");
        let expected = self.text("expected_content").unwrap_or_default();
        if is_content_asserted && expected.trim() != found.content.trim() {
            differences.push(format!("content {:?}", found.content));
        }
        if let Some(expected) = self.text("expected_reasoning")
            && expected.trim() != found.reasoning.trim()
        {
            differences.push(format!("reasoning {:?}", found.reasoning));
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }

    /// Returns the difference in the calls of the row, if there is one.
    pub(crate) fn difference_of_calls(&self, found: &Extraction) -> Option<String> {
        let mut differences = Vec::new();
        if let Some(calls) = self.value["expected_calls"].as_array() {
            // Other parsers have no mark for a truncated call: they show it, or they show nothing.
            let mut found: Vec<_> = found.calls.iter().collect();
            if calls.len() < found.len() {
                found.retain(|call| call.completion != BlockCompletion::Truncated);
            }
            if calls.len() != found.len() {
                differences.push(format!("{} calls instead of {}", found.len(), calls.len()));
            }
            for (expected, call) in calls.iter().zip(found) {
                let is_same_name = expected["name"].as_str() == Some(&call.name);
                let is_same_id = expected["id"].as_str().is_none_or(|id| call.id == id);
                if !is_same_name || !is_same_id || !same_arguments(&expected["arguments"], call.arguments()) {
                    differences.push(format!("call {} {} id {:?}", call.name, call.arguments(), call.id));
                }
            }
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// Our answer, as it is recorded for rows that are set aside.
#[allow(dead_code, reason = "a test's, not a report's")]
pub(crate) fn answer(found: &Extraction) -> Value {
    let mut answer = Value::of(found).expect("an extraction is JSON");
    let codes: Vec<_> = found.notices.iter().map(|notice| notice.code).collect();
    if let Some(notices) = answer.get_mut("notices") {
        *notices = Value::of(&codes).expect("codes are JSON");
    }
    answer
}

fn same_arguments(expected: &Value, found: &str) -> bool {
    match expected {
        Value::Null => true,
        Value::String(raw) if raw.trim() == found.trim() => true,
        _ => serde_json::from_str::<Value>(found).is_ok_and(|found| same(expected, &found)),
    }
}

/// Equality by value: numbers are compared as numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// The scores of rows, by format.
#[derive(Default)]
pub(crate) struct Board {
    formats: std::collections::BTreeMap<String, Score>,
    /// The rows that differ and were not set aside.
    lines: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Score {
    good: usize,
    all: usize,
    aside: usize,
}

impl Board {
    pub(crate) fn add(&mut self, row: &Row, difference: Option<String>, aside: Option<&str>) {
        let score = self.formats.entry(row.format().to_owned()).or_default();
        score.all += 1;
        match (difference, aside) {
            (None, _) => score.good += 1,
            (Some(_), Some(_)) => score.aside += 1,
            (Some(difference), None) => {
                self.lines.push(format!("row {} {}", row.number, row.story(Some(&difference))));
            }
        }
    }

    /// Leaves the rows that differ out of the report.
    #[allow(dead_code, reason = "a report's, not a test's")]
    pub(crate) fn hide_rows(&mut self, is_hidden: bool) {
        if is_hidden {
            self.lines.clear();
        }
    }

    /// The share of good rows, of all and of those that were not set aside.
    pub(crate) fn shares(&self) -> (f64, f64) {
        let sum = self.sum();
        (sum.good as f64 / sum.all as f64, sum.good as f64 / (sum.all - sum.aside) as f64)
    }

    fn sum(&self) -> Score {
        self.formats.values().fold(Score::default(), |sum, score| Score {
            good: sum.good + score.good,
            all: sum.all + score.all,
            aside: sum.aside + score.aside,
        })
    }
}

impl std::fmt::Display for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{:22} good   all  set aside", "format")?;
        for (format, score) in &self.formats {
            writeln!(f, "{format:22} {:4} {:5} {:10}", score.good, score.all, score.aside)?;
        }
        let (sum, (stands, aside)) = (self.sum(), self.shares());
        write!(f, "{:22} {:4} {:5} {:10}", "all", sum.good, sum.all, sum.aside)?;
        write!(f, "  {:.1} % as they stand, {:.1} % without those set aside", stands * 100.0, aside * 100.0)
    }
}
