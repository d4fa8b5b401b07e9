//! Law: the content of a request arrives in every other protocol, or is named as a loss.
//!
//! The written body is read again, and both requests are asked the same questions. A writer that forgets something, and
//! a reader that does, therefore cannot pass unless they say so.

use std::collections::{BTreeMap, HashMap};

use callweave::json::Value;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{
    CallArguments, CallKind, Loss, MediaSource, MessageContent, OutputFormat, PartKind, ReasoningMode,
    Request, RequestOptions, RequestTool, Role, ToolChoice, ToolKind, WrittenRequest,
};

use super::{own, recorded, written};

/// The content of a request, in a form in which two can be compared.
#[derive(Default)]
pub(super) struct Said {
    system: Vec<String>,
    user: Vec<String>,
    assistant: Vec<String>,
    pub(super) results: Vec<String>,
    thoughts: Vec<String>,
    seals: Vec<String>,
    calls: Vec<String>,
    media: Vec<String>,
    tools: Vec<String>,
    settings: BTreeMap<&'static str, String>,
}

impl Said {
    pub(super) fn by(request: &Request, names: &HashMap<String, String>) -> Self {
        let mut said = Self::default();
        said.content(Role::System, &request.instructions, names);
        for message in &request.messages {
            said.content(message.role, &message.content, names);
        }
        let mut open: Vec<(&RequestTool, Option<&str>)> =
            request.tools.iter().map(|tool| (tool, None)).collect();
        while let Some((tool, group)) = open.pop() {
            let name = names.get(&tool.name).unwrap_or(&tool.name);
            match &tool.kind {
                ToolKind::Group(members) => {
                    let group = Some(tool.name.as_str()).filter(|name| !name.is_empty());
                    open.extend(members.iter().map(|member| (member, group)));
                }
                ToolKind::Builtin(_) => {}
                _ => said.tools.push(group.map_or(name.clone(), |group| format!("{group}.{name}"))),
            }
        }
        said.settings = settings(request);
        said
    }

    pub(super) fn content(&mut self, role: Role, content: &MessageContent, names: &HashMap<String, String>) {
        for part in &content.parts {
            if let Some(seal) = &part.signature {
                self.seals.push(seal.data.clone());
            }
            match &part.body {
                PartKind::Text(text) | PartKind::Refusal(text) => match role {
                    Role::System | Role::Developer => self.system.push(text.clone()),
                    Role::User => self.user.push(text.clone()),
                    Role::Assistant => self.assistant.push(text.clone()),
                    Role::Tool => self.results.push(text.clone()),
                    other => panic!("a new role: {other:?}"),
                },
                PartKind::Reasoning(thought) => {
                    self.thoughts.extend(thought.text.clone());
                    self.thoughts.extend(thought.summary.iter().flatten().cloned());
                    self.seals.extend(thought.encrypted.iter().map(|seal| seal.data.clone()));
                }
                PartKind::Media(media) => match &media.source {
                    // The alphabet for URLs says the same.
                    MediaSource::Data(data) => self.media.push(data.replace('-', "+").replace('_', "/")),
                    MediaSource::Url(place) => {
                        let data = place.strip_prefix("data:").and_then(|own| own.split_once(";base64,"));
                        self.media.push(data.map_or(place.as_str(), |(_, data)| data).to_owned());
                    }
                    MediaSource::Id(place) => self.media.push(place.clone()),
                    MediaSource::Text(text) => self.user.push(text.clone()),
                    _ => {}
                },
                PartKind::Call(call) => {
                    let name = match &call.namespace {
                        Some(group) => format!("{group}.{}", call.name),
                        None => names.get(&call.name).unwrap_or(&call.name).clone(),
                    };
                    // A model may call a tool of a group by its name in full.
                    let name = name.replace('.', "__");
                    self.calls.push(format!("{name} {}", arguments(&call.arguments, call.kind)));
                }
                PartKind::Result(result) => {
                    self.results.extend(result.value.iter().flat_map(texts));
                    self.content(Role::Tool, &result.content, names);
                }
                PartKind::Tools(tools) => {
                    let named = tools
                        .iter()
                        .filter(|tool| !matches!(tool.kind, ToolKind::Builtin(_) | ToolKind::Group(_)));
                    self.tools.extend(named.map(|tool| tool.name.clone()));
                }
                _ => {}
            }
        }
    }
}

/// The texts in a value.
pub(super) fn texts(value: &Value) -> Vec<String> {
    let (mut texts, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(list) => open.extend(list.iter()),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    texts
}

/// Arguments by value; free text in any wrapping is the text.
pub(super) fn arguments(arguments: &CallArguments, kind: CallKind) -> String {
    let value = match arguments {
        CallArguments::Text(text) if kind == CallKind::Custom => return text.clone(),
        CallArguments::Text(text) if text.trim().is_empty() => return "{}".to_owned(),
        CallArguments::Text(text) => text.parse().unwrap_or_else(|_| Value::from(text.as_str())),
        CallArguments::Json(value) => value.clone(),
    };
    let is_alone = value.as_object().is_some_and(|members| members.len() == 1);
    let wrapped = ["input", "arguments"].iter().find_map(|key| value.get(*key).and_then(Value::as_str));
    wrapped.filter(|_| is_alone).map_or_else(|| value.to_string(), str::to_owned)
}

fn settings(request: &Request) -> BTreeMap<&'static str, String> {
    let sampling = &request.sampling;
    let reasoning = &request.reasoning;
    let number =
        |number: &Option<callweave::json::Number>| number.as_ref().map(|number| number.as_str().to_owned());
    let thinks = reasoning.mode.is_some_and(|mode| mode != ReasoningMode::Off)
        || reasoning.effort.as_ref().is_some_and(|effort| effort != "none")
        || reasoning.budget.as_ref().is_some_and(|budget| budget.as_str() != "0");
    let rests = reasoning.mode == Some(ReasoningMode::Off)
        || reasoning.effort.as_deref() == Some("none")
        || reasoning.budget.as_ref().is_some_and(|budget| budget.as_str() == "0");
    let choice =
        request.tool_choice.as_ref().filter(|_| !request.tools.is_empty()).and_then(|choice| match choice {
            ToolChoice::None => Some("none"),
            ToolChoice::Required | ToolChoice::Tool { .. } => Some("must"),
            ToolChoice::Allowed { .. } => Some("some"),
            _ => None,
        });
    let all = [
        ("max tokens", number(&request.max_tokens)),
        ("temperature", number(&sampling.temperature)),
        ("top_p", number(&sampling.top_p)),
        ("top_k", number(&sampling.top_k)),
        ("min_p", number(&sampling.min_p)),
        ("frequency penalty", number(&sampling.frequency_penalty)),
        ("presence penalty", number(&sampling.presence_penalty)),
        ("repetition penalty", number(&sampling.repetition_penalty)),
        ("seed", number(&sampling.seed)),
        ("several choices", number(&sampling.choices).filter(|count| count != "1")),
        ("logit bias", sampling.logit_bias.as_ref().map(ToString::to_string)),
        ("logprobs", sampling.logprobs.filter(|is_on| *is_on).map(|_| String::new())),
        ("top logprobs", number(&sampling.top_logprobs)),
        ("stop", (!request.stop.is_empty()).then(|| request.stop.join("|"))),
        (
            "format",
            request.format.as_ref().and_then(|format| match format {
                OutputFormat::Json => Some("json".to_owned()),
                OutputFormat::Schema { .. } => Some("schema".to_owned()),
                _ => None,
            }),
        ),
        ("thinking", thinks.then(String::new)),
        ("thinking off", rests.then(String::new)),
        ("tool choice", choice.map(str::to_owned)),
        (
            "parallel calls",
            request
                .parallel_calls
                .filter(|can| !can)
                .filter(|_| !request.tools.is_empty())
                .map(|_| String::new()),
        ),
        ("store", request.store.filter(|is_on| *is_on).map(|_| String::new())),
        ("previous response", request.previous.clone()),
        ("metadata", request.metadata.as_ref().filter(|all| !all.is_empty()).map(ToString::to_string)),
        ("user", request.user.clone()),
        ("service tier", request.service_tier.clone()),
        (
            "modalit",
            (!request.modalities.iter().all(|word| word == "text")).then(|| request.modalities.concat()),
        ),
        ("cache key", request.cache_key.clone()),
        ("verbosity", request.verbosity.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(super) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The names of tools as they are sent, and as the client knows them.
pub(super) fn own_names(written: &WrittenRequest) -> HashMap<String, String> {
    let mut names: HashMap<String, String> = written.names.iter().cloned().collect();
    for (sent, group) in &written.namespaces {
        names.entry(sent.clone()).and_modify(|own| *own = format!("{group}.{own}"));
    }
    names
}

/// Returns the content that does not arrive and is not named.
pub(super) fn missing(before: &Said, after: &Said, losses: &[Loss]) -> Vec<String> {
    let is_named =
        |words: &[&str]| losses.iter().any(|loss| words.iter().any(|word| loss.what.contains(word)));
    let mut found = Vec::new();
    let mut spoken = |what: &str, before: &[String], after: &[String], words: &[&str]| {
        let all = squeeze(&after.concat());
        if before.iter().any(|text| !all.contains(&squeeze(text))) && !is_named(words) {
            found.push(format!("a {what}"));
        }
    };
    // The user speaks for operators, marked, where these may not speak in mid-conversation.
    let is_marked = losses.iter().any(|loss| loss.what.contains("role of a system message"));
    let marked = after.user.iter().filter(|_| is_marked);
    let system: Vec<String> = after.system.iter().chain(marked).cloned().collect();
    spoken("system text", &before.system, &system, &[]);
    // An unknown role speaks as a user.
    let user: Vec<String> = after.user.iter().chain(&after.results).cloned().collect();
    spoken("user's text", &before.user, &user, &["by url", "file"]);
    spoken("answer", &before.assistant, &after.assistant, &[]);
    let results: Vec<String> = after
        .results
        .iter()
        .cloned()
        .chain(
            after
                .results
                .iter()
                .flat_map(|text| text.parse::<Value>().map(|value| texts(&value)).unwrap_or_default()),
        )
        .collect();
    spoken("result", &before.results, &results, &["result without a call"]);
    spoken("thought", &before.thoughts, &after.thoughts, &["reasoning"]);
    let mut counted = |what: &str, before: &[String], after: &[String], words: &[&str]| {
        let mut rest: Vec<&String> = after.iter().collect();
        for one in before {
            match rest.iter().position(|other| *other == one) {
                Some(at) => {
                    rest.swap_remove(at);
                }
                None if is_named(words) => {}
                None => found.push(format!("a {what}")),
            }
        }
    };
    counted("seal", &before.seals, &after.seals, &["reasoning", "signature"]);
    counted("call", &before.calls, &after.calls, &["arguments that are not an object"]);
    counted("medium", &before.media, &after.media, &["image", "audio", "video", "file"]);
    let is_narrowed =
        matches!(before.settings.get("tool choice").map(String::as_str), Some("none" | "must" | "some"));
    if !is_narrowed {
        counted("tool", &before.tools, &after.tools, &["tool"]);
    }
    for (name, value) in &before.settings {
        let words: &[&str] = match *name {
            "thinking" | "thinking off" => &["thinking", "effort"],
            "format" => &["format"],
            "modalities" => &["modality"],
            name => &[name],
        };
        let is_same = match (*name, after.settings.get(name)) {
            (_, Some(other)) if other == value => true,
            // Numbers by value: `40.0` is 40.
            (_, Some(other)) if other.parse::<f64>().is_ok_and(|own| value.parse() == Ok(own)) => true,
            // Without tools nothing can be called.
            ("tool choice", None) => value == "none" && after.tools.is_empty() || value == "some",
            // The tools that may not be called are left out.
            ("tool choice", Some(other)) => value == "some" && other == "must",
            ("parallel calls", None) => after.tools.is_empty(),
            _ => false,
        };
        if !is_same && !is_named(words) {
            found.push(format!("{name} ({value} → {:?})", after.settings.get(name)));
        }
    }
    found
}

/// Returns the content of a request that does not arrive in another protocol, and is not named as a loss.
pub(super) fn lost_in_silence(request: &Request, target: &Protocol) -> Vec<String> {
    let before = Said::by(request, &HashMap::new());
    let written = written(target, request, &RequestOptions::default());
    let again = target.read_request(written.body.clone()).expect("a request");
    missing(&before, &Said::by(&again, &own_names(&written)), &written.losses)
}

/// The fate of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Carried,
    Changed,
    Lost,
}

/// Returns the fate of each part of a request in another protocol.
pub(super) fn fates(request: &Request, target: &Protocol) -> Vec<(&'static str, Fate)> {
    let written = written(target, request, &RequestOptions::default());
    let again = target.read_request(written.body.clone()).expect("a request");
    let (before, after) = (Said::by(request, &HashMap::new()), Said::by(&again, &own_names(&written)));
    let mut fates = Vec::new();
    let all = [&after.system, &after.user, &after.assistant, &after.results, &after.thoughts];
    let all = squeeze(&all.into_iter().flatten().cloned().collect::<String>());
    for (what, said, told) in [
        ("what operators say", &before.system, &after.system),
        ("what users say", &before.user, &after.user),
        ("what the model said", &before.assistant, &after.assistant),
        ("results", &before.results, &after.results),
        ("reasoning", &before.thoughts, &after.thoughts),
    ] {
        let told = squeeze(&told.concat());
        for text in said.iter().map(|text| squeeze(text)).filter(|text| !text.is_empty()) {
            let fate = match (told.contains(&text), all.contains(&text)) {
                (true, _) => Fate::Carried,
                (false, true) => Fate::Changed,
                (false, false) => Fate::Lost,
            };
            fates.push((what, fate));
        }
    }
    for (what, said, told) in [
        ("signatures and encrypted reasoning", &before.seals, &after.seals),
        ("calls", &before.calls, &after.calls),
        ("images, files, sounds", &before.media, &after.media),
        ("tools", &before.tools, &after.tools),
    ] {
        let name = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
        for one in said {
            let fate = match told.contains(one) {
                true => Fate::Carried,
                false if what == "calls" && told.iter().any(|other| name(other) == name(one)) => {
                    Fate::Changed
                }
                false => Fate::Lost,
            };
            fates.push((what, fate));
        }
    }
    for (what, value) in &before.settings {
        let is_equal =
            |other: &String| other == value || other.parse::<f64>().is_ok_and(|own| value.parse() == Ok(own));
        let fate = match after.settings.get(what) {
            Some(other) if is_equal(other) => Fate::Carried,
            Some(_) => Fate::Changed,
            None => Fate::Lost,
        };
        fates.push((what, fate));
    }
    fates
}

#[test]
fn what_a_request_says_arrives_or_is_named() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sample in own().into_iter().chain(recorded()) {
        let request = sample.protocol.read_request(sample.body.clone()).expect("a request");
        for &other in TABLE.iter().filter(|other| other.has_requests()) {
            for what in lost_in_silence(&request, other) {
                let pair = format!("{} → {}: {what}", sample.protocol.name, other.name);
                found.entry(pair).or_default().push(sample.title.clone());
            }
        }
    }
    let lines: Vec<String> = found
        .iter()
        .map(|(what, titles)| format!("{what}: {} bodies, such as {}", titles.len(), titles[0]))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}
