//! Scalars as models spell them: numbers with separators and signs, words for truth, names of choices.

use crate::json::{Number, Value};

/// The scope in which a value is searched for in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchReach {
    /// The text is the value, in some spelling.
    Value,
    /// The value is somewhere in a response.
    Prose,
}

/// A value of a choice, with its other names.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedChoice<'g> {
    pub(super) value: &'g Value,
    pub(super) title: Option<&'g str>,
}

pub(super) fn is_null_word(text: &str) -> bool {
    ["null", "none", "nil", "undefined", ""].iter().any(|word| text.eq_ignore_ascii_case(word))
}

pub(super) fn boolean(text: &str, reach: SearchReach) -> Option<bool> {
    const WORDS: [(&str, bool); 4] = [("true", true), ("false", false), ("yes", true), ("no", false)];
    let spelled =
        |text: &str| WORDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|found| found.1);
    if let Some(truth) = spelled(text) {
        return Some(truth);
    }
    if reach == SearchReach::Value {
        return None;
    }
    // In prose only the literals of JSON count, and only where they do not contradict each other.
    let mut said = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false"))
        .filter_map(spelled);
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// The boolean that `number` stands for: one and zero, however many decimals they are written with.
pub(super) fn truth(number: &Number) -> Option<bool> {
    let written = number.as_str();
    let whole = match written.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole,
        _ => written,
    };
    match whole {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

pub(super) fn number(text: &str, reach: SearchReach) -> Option<Number> {
    if let Some(number) = spelled_number(text) {
        return Some(number);
    }
    if reach == SearchReach::Value {
        return None;
    }
    let mut spans = text
        .split(|letter: char| letter.is_whitespace() || matches!(letter, '(' | ')' | '"' | '*' | '`'))
        .map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?']))
        .filter(|word| word.contains(|letter: char| letter.is_ascii_digit()))
        .map(spelled_number);
    match (spans.next(), spans.next()) {
        (Some(number), None) => number,
        _ => None,
    }
}

/// `1,234.5`, `1.234,5`, `1_000`, `$5.00`, `12%`, `+7`, `.5`, `007` and `1/4` as numbers.
fn spelled_number(text: &str) -> Option<Number> {
    let is_currency = |letter: char| matches!(letter, '$' | '€' | '£' | '¥' | '₹');
    let text = text.trim();
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let text = text.trim_start_matches(is_currency).trim_start();
    let text = text.trim_end_matches(|letter| is_currency(letter) || letter == '%').trim_end();
    if !text.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        return None;
    }
    if let Some((above, below)) = text.split_once('/') {
        let (above, below) = (plain(above)?.parse::<f64>().ok()?, plain(below)?.parse::<f64>().ok()?);
        let quotient = if is_negative { -above / below } else { above / below };
        return Number::from_f64(quotient);
    }
    let digits = plain(text)?;
    let sign = if is_negative { "-" } else { "" };
    format!("{sign}{digits}").parse().ok()
}

/// A number without sign as JSON writes it: separators of thousands gone, a point for the decimals.
fn plain(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let is_grouped = |whole: &str, separator: char| {
        let mut groups = whole.split(separator);
        groups.next().is_some_and(|first| (1..=3).contains(&first.len()))
            && groups.all(|group| group.len() == 3)
    };
    let points = mantissa.matches('.').count();
    let commas = mantissa.matches(',').count();
    let (whole, decimals) = match (points, commas) {
        (0, 0) => (mantissa.replace('_', ""), ""),
        (1, 0) => split(mantissa, '.'),
        (0, _) if is_grouped(mantissa, ',') => (mantissa.replace(',', ""), ""),
        (0, 1) => split(mantissa, ','),
        (2.., 0) if is_grouped(mantissa, '.') => (mantissa.replace('.', ""), ""),
        // Both: the later one stands before the decimals.
        (1, _) if mantissa.rfind(',') < mantissa.rfind('.') => {
            let (whole, decimals) = split(mantissa, '.');
            is_grouped(&whole, ',').then_some(())?;
            (whole.replace(',', ""), decimals)
        }
        (_, 1) if mantissa.rfind('.') < mantissa.rfind(',') => {
            let (whole, decimals) = split(mantissa, ',');
            is_grouped(&whole, '.').then_some(())?;
            (whole.replace('.', ""), decimals)
        }
        _ => return None,
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(&whole) || !is_digits(decimals) || (whole.is_empty() && decimals.is_empty()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{whole}{point}{decimals}{exponent}"))
}

fn split(text: &str, separator: char) -> (String, &str) {
    let (whole, decimals) = text.split_once(separator).unwrap_or((text, ""));
    (whole.replace('_', ""), decimals)
}

/// The one of `choices` that `value` means: the same text in another spelling, or in prose the one that is named, most
/// often if several are.
pub(super) fn choose<'g>(
    choices: &[NamedChoice<'g>],
    value: &Value,
    reach: SearchReach,
) -> Option<&'g Value> {
    let written = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let named: Vec<(Vec<String>, &Value)> =
        choices.iter().map(|choice| (choice.names(), choice.value)).collect();
    // From the closest spelling to the loosest; a spelling that fits several choices decides nothing.
    let spellings: [fn(&str) -> String; 3] =
        [str::to_owned, |text| text.to_lowercase(), |text| letters_and_digits(text)];
    for spell in spellings {
        let written = spell(&written);
        let mut fitting = named.iter().filter(|(names, _)| names.iter().any(|name| spell(name) == written));
        match (fitting.next(), fitting.next()) {
            (Some((_, value)), None) => return Some(value),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
    }
    if reach == SearchReach::Value {
        return None;
    }
    let foldings: [fn(&str) -> String; 2] = [str::to_owned, |text| text.to_lowercase()];
    for fold in foldings {
        let written = fold(&written);
        let count =
            |names: &[String]| names.iter().map(|name| mentions(&written, &fold(name))).max().unwrap_or(0);
        let counts: Vec<usize> = named.iter().map(|(names, _)| count(names)).collect();
        let most = counts.iter().copied().max().filter(|&most| most > 0);
        let Some(most) = most else { continue };
        let mut best = counts.iter().enumerate().filter(|(_, count)| **count == most);
        return match (best.next(), best.next()) {
            (Some((at, _)), None) => Some(named[at].1),
            _ => None,
        };
    }
    None
}

impl NamedChoice<'_> {
    /// The names by which the choice may be written.
    fn names(&self) -> Vec<String> {
        let own = match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) | Value::Null => Some(self.value.to_string()),
            Value::Array(_) | Value::Object(_) => None,
        };
        own.into_iter().chain(self.title.map(str::to_owned)).collect()
    }
}

/// The number of times that `name` is in `text` as separate words.
fn mentions(text: &str, name: &str) -> usize {
    if name.is_empty() {
        return 0;
    }
    text.match_indices(name)
        .filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
        .count()
}

/// The text without its punctuation, spaces and case: `In-Progress`, `in_progress` and `in progress` agree.
pub(super) fn letters_and_digits(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_they_are_spelled() {
        for (text, expected) in [
            ("5", "5"),
            (" -7 ", "-7"),
            ("+7", "7"),
            ("007", "7"),
            (".5", "0.5"),
            ("12.50", "12.50"),
            ("1e3", "1e3"),
            ("12,111", "12111"),
            ("1,234,567.89", "1234567.89"),
            ("1.234.567,89", "1234567.89"),
            ("3,5", "3.5"),
            ("1_000", "1000"),
            ("$1,234.56", "1234.56"),
            ("-$5.00", "-5.00"),
            ("5 €", "5"),
            ("12%", "12"),
            ("1/4", "0.25"),
            ("12345678901234567890123", "12345678901234567890123"),
        ] {
            assert_eq!(
                spelled_number(text).map(|number| number.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in ["", "-", "five", "1,2,3", "1.2.3", "5 km", "1 2", "0x10", "1/0", "v2", "1-2"] {
            assert_eq!(spelled_number(text), None, "{text}");
        }
    }

    #[test]
    fn prose_names_one_number_or_none() {
        assert_eq!(number("It is **42**.", SearchReach::Prose), "42".parse().ok());
        assert_eq!(number("It is 42.", SearchReach::Value), None);
        assert_eq!(number("Between 1 and 2", SearchReach::Prose), None);
    }

    #[test]
    fn truth_must_not_contradict_itself() {
        assert_eq!(boolean("TRUE", SearchReach::Value), Some(true));
        assert_eq!(boolean("I say true", SearchReach::Value), None);
        assert_eq!(boolean("I say **True**.", SearchReach::Prose), Some(true));
        assert_eq!(boolean("true or false", SearchReach::Prose), None);
    }

    #[test]
    fn choices_by_spelling_and_by_mention() {
        let values = ["IN_PROGRESS", "done", "Done!"].map(Value::from);
        let choices = values.each_ref().map(|value| NamedChoice { value, title: None });
        let chosen = |text: &str, reach| choose(&choices, &text.into(), reach).and_then(Value::as_str);
        assert_eq!(chosen("in progress", SearchReach::Value), Some("IN_PROGRESS"));
        assert_eq!(chosen("done", SearchReach::Value), Some("done"));
        assert_eq!(chosen("d-o-n-e", SearchReach::Value), None, "two choices are spelled so");
        assert_eq!(chosen("it is IN_PROGRESS", SearchReach::Value), None);
        assert_eq!(chosen("it is IN_PROGRESS", SearchReach::Prose), Some("IN_PROGRESS"));
    }
}
