//! Law: a body that goes through another protocol and back says what it said, in the same order and with every result at
//! its call, but for the losses that both ways name.
//!
//! The returned body is compared with the own protocol's normalized form of the body: order and pairing are settled
//! there, so that both sides speak of the same conversation.

use std::collections::{BTreeMap, HashMap};

use callweave::Value;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{CallResult, Loss, PartKind, Request, RequestMode, RequestOptions, Role};

use super::survival::{Said, arguments, missing, own_names, squeeze};
use super::{own, recorded, written};

/// Returns the texts of a conversation, one after the other. Texts of one speaker in a row are one text.
fn order(request: &Request, names: &HashMap<String, String>) -> Vec<String> {
    let mut said: Vec<(&str, String)> = Vec::new();
    // Ids and names of calls that wait for a result.
    let mut calls: Vec<(Option<String>, String)> = Vec::new();
    for message in &request.messages {
        let speaker = match message.role {
            Role::System | Role::Developer => continue,
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
            other => panic!("a new role: {other:?}"),
        };
        for part in &message.content.parts {
            match &part.body {
                PartKind::Text(text) | PartKind::Refusal(text) => {
                    let text = squeeze(text);
                    match said.last_mut().filter(|(own, _)| *own == speaker) {
                        Some((_, last)) => last.push_str(&text),
                        None if text.is_empty() => {}
                        None => said.push((speaker, text)),
                    }
                }
                PartKind::Call(call) => {
                    let name = match &call.namespace {
                        Some(group) => format!("{group}.{}", call.name),
                        None => names.get(&call.name).unwrap_or(&call.name).clone(),
                    };
                    let name = name.replace('.', "__");
                    calls.push((call.id.clone(), call.name.clone()));
                    said.push(("call", format!("{name} {}", arguments(&call.arguments, call.kind))));
                }
                PartKind::Result(result) => {
                    let is_of = |(id, name): &(Option<String>, String)| match &result.id {
                        Some(own) => id.as_ref() == Some(own),
                        None => result.name.as_ref() == Some(name),
                    };
                    let call = calls.iter().position(is_of);
                    if let Some(call) = call {
                        // It is answered.
                        calls[call] = (Some(String::new()), String::new());
                    }
                    let call = call.map_or(0, |call| call + 1);
                    said.push(("result", format!("{call} {}", result_text(result))));
                }
                _ => {}
            }
        }
    }
    said.into_iter().map(|(kind, text)| format!("{kind} {text}")).collect()
}

/// Returns the content of a result, however it is wrapped: its texts and numbers, one after the other.
fn result_text(result: &CallResult) -> String {
    let texts = result.content.parts.iter().filter_map(|part| part.as_text()).collect::<String>();
    let mut open = vec![Value::from(texts)];
    open.extend(result.value.clone());
    let mut said = String::new();
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list.into_iter().rev()),
            Value::Object(members) => {
                let mut members: Vec<Value> = members.into_iter().map(|(_, value)| value).collect();
                members.reverse();
                open.append(&mut members);
            }
            Value::String(text) => match text.parse::<Value>() {
                Ok(inner) if !inner.is_string() => open.push(inner),
                _ if text == "(no output)" => {}
                _ => said.push_str(&squeeze(&text)),
            },
            value => said.push_str(&value.to_string()),
        }
    }
    said
}

/// Returns the content that does not come back and is not named.
fn lost(source: &Protocol, target: &Protocol, request: &Request) -> Vec<String> {
    let mut mended = RequestOptions::default();
    mended.mode = RequestMode::Normalized;
    let settled = written(source, request, &mended);
    let before = source.read_request(settled.body.clone()).expect("a request");
    let there = written(target, &before, &RequestOptions::default());
    let between = target.read_request(there.body.clone()).expect("a request");
    let back = written(source, &between, &RequestOptions::default());
    let after = source.read_request(back.body.clone()).expect("a request");
    let mut names = own_names(&back);
    let outer = own_names(&there);
    for own in names.values_mut() {
        if let Some(outer) = outer.get(own) {
            own.clone_from(outer);
        }
    }
    for (sent, own) in outer {
        names.entry(sent).or_insert(own);
    }
    let losses: Vec<Loss> = there.losses.iter().chain(&back.losses).cloned().collect();
    let none = HashMap::new();
    let mut found = missing(&Said::by(&before, &none), &Said::by(&after, &names), &losses);
    let is_named =
        |words: &[&str]| losses.iter().any(|loss| words.iter().any(|word| loss.what.contains(word)));
    let (one, other) = (order(&before, &none), order(&after, &names));
    // The rest stands in the same order where something is named as lost.
    let is_truncated = is_named(&[
        "conversation",
        "result",
        "arguments",
        "file",
        "title",
        "role of a system message",
        "form of",
        "speaker",
    ]);
    let is_same = match is_truncated {
        false => one == other,
        true => {
            let common: Vec<&String> = one.iter().filter(|own| other.contains(own)).collect();
            let rest: Vec<&String> = other.iter().filter(|own| one.contains(own)).collect();
            common == rest
        }
    };
    if !is_same {
        let at = one
            .iter()
            .zip(&other)
            .position(|(one, other)| one != other)
            .unwrap_or(one.len().min(other.len()));
        let short = |list: &[String]| list.get(at).map(|own| own.chars().take(160).collect::<String>());
        found.push(format!("the order at {at}: {:?} is {:?}", short(&one), short(&other)));
    }
    found
}

#[test]
fn a_body_comes_back_from_every_other_protocol() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for &other in TABLE.iter().filter(|other| other.has_requests() && **other != sample.protocol) {
            count += 1;
            for what in lost(sample.protocol, other, &request) {
                let pair = format!("{} → {}: {what}", sample.protocol.name, other.name);
                found.entry(pair).or_default().push(sample.title.clone());
            }
        }
    }
    println!("{count} ways there and back");
    let lines: Vec<String> = found
        .iter()
        .map(|(what, titles)| format!("{what}: {} bodies, such as {}", titles.len(), titles[0]))
        .collect();
    assert!(lines.is_empty(), "{} kinds\n{}", lines.len(), lines.join("\n"));
}
