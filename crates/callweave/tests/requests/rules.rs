//! The requests that providers refuse, as code.
//!
//! The rules are those that providers state in their errors and client libraries in their types: names and ids, the
//! order of calls and results, who may speak when, the allowed content of a text, a schema and a body.

#[path = "rules/anthropic.rs"]
mod anthropic;
#[path = "rules/openai.rs"]
mod openai;
#[path = "rules/others.rs"]
mod others;

use std::collections::HashSet;

use callweave::Value;

use anthropic::anthropic;
use openai::{chat, responses};
use others::{cohere, converse, gemini, ollama};

/// Violations as they are found.
pub(super) type Found<'f> = &'f mut Vec<String>;

/// Looks for violations in a body.
pub(super) type Rules = fn(&Value, Found<'_>);

/// The rules of each protocol's own provider.
pub(super) const RULES: &[(&str, Rules)] = &[
    ("openai-chat", chat),
    ("openai-responses", responses),
    ("anthropic-messages", anthropic),
    ("gemini-generatecontent", gemini),
    ("ollama", ollama),
    ("cohere-v2", cohere),
    ("bedrock-converse", converse),
];

/// Returns the faults for which the provider of a protocol refuses a body.
pub(super) fn refused(protocol: &str, body: &Value) -> Vec<String> {
    let (_, rules) = RULES.iter().find(|(name, _)| *name == protocol).expect("a protocol with rules");
    let mut found = Vec::new();
    rules(body, &mut found);
    found
}

/// The additional faults that providers of OpenAI's Chat refuse.
pub(super) const PROVIDERS: &[(&str, Rules)] = &[
    ("mistral", mistral),
    ("deepseek", thinking_kept),
    ("moonshot", moonshot),
    ("groq", thinking_refused),
    ("cerebras", thinking_refused),
];

fn mistral(body: &Value, found: Found<'_>) {
    for member in ["max_completion_tokens", "stream_options", "seed", "store", "user"] {
        if body.get(member).is_some() {
            found.push(format!("a member {member}"));
        }
    }
    thinking_refused(body, found);
    let messages: Vec<&Value> = list(body, "messages").collect();
    for pair in messages.windows(2) {
        if pair[0]["role"] == "tool" && pair[1]["role"] == "user" {
            found.push("the user speaks after a tool".to_owned());
        }
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant" && last["prefix"] != true) {
        found.push("the model's own words at the end are no prefix".to_owned());
    }
    let ids = messages.iter().flat_map(|message| list(message, "tool_calls")).map(|call| text(call, "id"));
    let results = messages.iter().filter_map(|message| message["tool_call_id"].as_str());
    for id in ids.chain(results) {
        if id.len() != 9 || !is_word(id, "", 9) {
            found.push(format!("an id {id}"));
        }
    }
}

fn thinking_kept(body: &Value, found: Found<'_>) {
    for message in list(body, "messages") {
        if list(message, "tool_calls").next().is_some() && !message["reasoning_content"].is_string() {
            found.push("calls without a thought".to_owned());
        }
    }
}

/// Its models know a call by `functions.NAME:NUMBER`.
fn moonshot(body: &Value, found: Found<'_>) {
    thinking_kept(body, found);
    let calls = list(body, "messages").flat_map(|message| list(message, "tool_calls"));
    for call in calls {
        let id = text(call, "id");
        let number = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
        if number.is_none_or(|(name, number)| name.is_empty() || number.parse::<usize>().is_err()) {
            found.push(format!("an id {id}"));
        }
    }
}

fn thinking_refused(body: &Value, found: Found<'_>) {
    if list(body, "messages").any(|message| message.get("reasoning_content").is_some()) {
        found.push("a thought".to_owned());
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn only(body: &Value, keys: &[&str], what: &str, found: Found<'_>) {
    for key in body.as_object().into_iter().flat_map(|object| object.keys()) {
        if !keys.contains(&key) {
            found.push(format!("{what} has a member {key}"));
        }
    }
}

fn is_word(word: &str, others: &str, most: usize) -> bool {
    (1..=most).contains(&word.len())
        && word.chars().all(|own| own.is_ascii_alphanumeric() || others.contains(own))
}

fn names<'v>(names: impl Iterator<Item = &'v str>, others: &str, most: usize, found: Found<'_>) {
    let mut seen = HashSet::new();
    for name in names {
        if !is_word(name, others, most) {
            found.push("a tool's name is refused".to_owned());
        }
        if !seen.insert(name) {
            found.push("two tools have one name".to_owned());
        }
    }
}

/// Calls and results in turns of a conversation: the ids of calls, and of the results right behind.
#[derive(Default)]
struct Pairing {
    open: Vec<String>,
    seen: HashSet<String>,
    has_calls: bool,
}

impl Pairing {
    fn call(&mut self, id: &str, found: Found<'_>) {
        self.has_calls = true;
        if !self.seen.insert(id.to_owned()) {
            found.push("two calls have one id".to_owned());
        }
        self.open.push(id.to_owned());
    }

    fn result(&mut self, id: &str, found: Found<'_>) {
        match self.open.iter().position(|open| open == id) {
            Some(at) => {
                self.open.remove(at);
            }
            None => found.push("a result has no call".to_owned()),
        }
    }

    /// Somebody else speaks.
    fn turn(&mut self, found: Found<'_>) {
        if !self.open.is_empty() {
            found.push("a call has no result".to_owned());
        }
        self.open.clear();
    }
}

fn object_schema(schema: &Value, found: Found<'_>) {
    if schema["type"] != "object" {
        found.push("the root of a schema is no object".to_owned());
    }
}

fn alternating(roles: &[&str], found: Found<'_>) {
    if roles.windows(2).any(|pair| pair[0] == pair[1]) {
        found.push("somebody speaks twice in a row".to_owned());
    }
}

fn only_without_tools(body: &Value, keys: &[&str], found: Found<'_>) {
    for key in keys {
        if body.get(*key).is_some() {
            found.push(format!("{key} without tools"));
        }
    }
}
