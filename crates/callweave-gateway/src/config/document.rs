//! The text of a file: the keys with their lines, and everything that cannot be read.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::ConfigOrigin;
use super::{Config, ConfigProblem, nearest};

/// The maximum number of problems reported at once.
const MAX: usize = 32;

/// Keys that others have, and what they are called here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("api_key", "a key does not stand in the file: name the variable that holds it as api_key_env"),
    ("key", "a key does not stand in the file: name the variable that holds it as api_key_env"),
    ("token", "a key does not stand in the file: name the variable that holds it as api_key_env"),
    ("port", "it is listen = \"127.0.0.1:PORT\" here"),
    ("host", "it is listen = \"ADDRESS:PORT\" here"),
    ("bind", "it is listen = \"ADDRESS:PORT\" here"),
    ("timeout", "it is a table here, [timeouts]"),
    ("max_retries", "it is retries here"),
    ("cors_origins", "it is allowed_origins here"),
];

/// Keys that have another name now: their table (`*` for any name), the old key and the new one. They are read, with a
/// warning.
const RENAMED: &[(&str, &str, &str)] = &[
    ("upstreams.*", "url", "base_url"),
    ("upstreams.*", "key_env", "api_key_env"),
    ("upstreams.*", "ask_again", "reask"),
    ("limits", "answer", "response"),
    ("timeouts", "answer", "response"),
    ("store", "answers", "responses"),
];

/// Reads a text. Unreadable parts are left out and reported; the rest is read nevertheless, so that all is reported at
/// once.
pub(super) fn read(text: &str) -> (Config, Option<ConfigProblem>) {
    let line = |span: Option<Range<usize>>| {
        span.map(|span| text.as_bytes()[..span.start.min(text.len())].split(|byte| *byte == b'\n').count())
    };
    let mut found: Option<ConfigProblem> = None;
    let mut tell = |error: &toml::de::Error| {
        let problem = ConfigProblem::new(told(error.message().trim())).at_line(line(error.span()));
        found = Some(match found.take() {
            Some(earlier) => earlier.and(problem),
            None => problem,
        });
    };
    let (mut document, errors) = DeTable::parse_recoverable(text);
    // Text that is no TOML may mean anything.
    if !errors.is_empty() {
        errors.iter().take(MAX).for_each(&mut tell);
        return (Config::default(), found);
    }
    let mut origin = ConfigOrigin::default();
    index(document.get_ref(), "", &mut |path, at| {
        let at = line(Some(at..at)).unwrap_or_default();
        match renamed(path) {
            Some((old, path)) => origin.put_renamed(old, path, at),
            None => origin.put_line(path, at),
        }
    });
    for _ in 0..MAX {
        match Config::deserialize(toml::Deserializer::from(document.clone())) {
            Ok(config) => return (Config { origin, ..config }, found),
            Err(error) => {
                tell(&error);
                let is_smaller = error.span().is_some_and(|span| remove(document.get_mut(), &span));
                if !is_smaller {
                    break;
                }
            }
        }
    }
    (Config { origin, ..Config::default() }, found)
}

/// The old name of a key, and the path that it has now.
fn renamed(path: &str) -> Option<(&'static str, String)> {
    let (table, key) = path.rsplit_once('.')?;
    let is_of = |pattern: &str| match pattern.strip_suffix('*') {
        Some(parent) => table.strip_prefix(parent).is_some_and(|name| !name.contains('.')),
        None => table == pattern,
    };
    let (_, old, new) = RENAMED.iter().find(|(pattern, old, _)| *old == key && is_of(pattern))?;
    Some((old, format!("{table}.{new}")))
}

/// The message of an error: serde's words, and the probable intention.
fn told(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let Some(word) = words.next().filter(|_| is_unknown) else { return message.to_owned() };
    if let Some((_, here)) = ELSEWHERE.iter().find(|(other, _)| *other == word) {
        return format!("unknown field `{word}`: {here}");
    }
    match nearest(word, words) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// Reports the path of every key, and its position.
fn index(table: &DeTable<'_>, path: &str, tell: &mut impl FnMut(&str, usize)) {
    for (key, value) in table.iter() {
        let own =
            if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        tell(&own, key.span().start);
        within(value, &own, tell);
    }
}

fn within(value: &Spanned<DeValue<'_>>, path: &str, tell: &mut impl FnMut(&str, usize)) {
    match value.get_ref() {
        DeValue::Table(table) => index(table, path, tell),
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let own = format!("{path}.{at}");
                tell(&own, item.span().start);
                within(item, &own, tell);
            }
        }
        _ => {}
    }
}

/// Removes the innermost key that an error speaks of; false if there is none.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let holds = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (_, value) in table.iter_mut() {
        let is_done = match value.get_mut() {
            DeValue::Table(inner) => remove(inner, span),
            DeValue::Array(items) => items.iter_mut().any(|item| match item.get_mut() {
                DeValue::Table(inner) => remove(inner, span),
                _ => false,
            }),
            _ => false,
        };
        if is_done {
            return true;
        }
    }
    let own = table.iter().find(|(key, value)| key.span() == *span || holds(&value.span()));
    let Some(name) = own.map(|(key, _)| key.get_ref().to_string()) else { return false };
    table.remove(name.as_str()).is_some()
}
