//! Law: a provider's seals come back to it through a client of any other protocol, over several turns, whatever the
//! client keeps of the reasoning; and never to anybody else, in another scope, or with reasoning that was changed.

use std::sync::Arc;

use callweave::Value;
use callweave::accumulator::Accumulator;
use callweave::encode::EncodeOptions;
use callweave::event::{AttachmentKind, Event, ReasoningForm};
use callweave::message::{self, Choice};
use callweave::pipeline::Decoder;
use callweave::protocol::{Protocol, TABLE};
use callweave::request::{
    CallArguments, CallKind, CallResult, ContentPart, MessageContent, PartKind, ProviderSeal,
    ReasoningSettings, Request, RequestCall, RequestMessage, RequestOptions, RequestReasoning, RequestTool,
    ReverseMappingStage, Role, SealHarvest, SealKeeper, SealScope, ToolKind, TurnCache, WrittenRequest,
};

use super::protocol;
use super::rules;

/// Providers that seal, and a model of each.
const UPSTREAMS: &[(&str, &str)] = &[
    ("anthropic-messages", "claude-sonnet-4-5"),
    ("bedrock-converse", "anthropic.claude-sonnet-4-5-v1:0"),
    ("gemini-generatecontent", "gemini-3-pro"),
    ("openai-responses", "gpt-5.1"),
];

/// The part of reasoning that a client keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    Drops,
    KeepsText,
    KeepsAll,
    Edits,
}

const HABITS: [Habit; 4] = [Habit::Drops, Habit::KeepsText, Habit::KeepsAll, Habit::Edits];

const SCOPE: SealScope<'_> = SealScope { client: b"key 1", issuer: b"upstream 1" };

fn keeper() -> SealKeeper {
    SealKeeper::new(Arc::new(TurnCache::new(1 << 20, 1000)), [3; 16])
}

fn json(text: &str) -> Value {
    text.parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns a provider's response in a round, and its seals. The last round has no calls.
fn answer(upstream: &str, round: usize) -> (String, Vec<String>) {
    let seal = |what: &str| format!("{what}{round}AAA");
    let is_last = round == 2;
    let calls = if is_last { 0 } else { 2 - round };
    let thought = format!("think {round}\\n\\nhard");
    let text = if round == 1 { None } else { Some(format!("so {round}")) };
    let quoted = |parts: Vec<String>| parts.join(",");
    match upstream {
        "anthropic-messages" => {
            let mut blocks = vec![
                format!(r#"{{"type":"thinking","thinking":"{thought}","signature":"{}"}}"#, seal("Ethk")),
                format!(r#"{{"type":"redacted_thinking","data":"{}"}}"#, seal("Ered")),
            ];
            blocks.extend(text.map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)));
            blocks.extend((0..calls).map(|at| {
                format!(r#"{{"type":"tool_use","id":"toolu_{round}_{at}","name":"look","input":{{"q":{at}.0,"r":"é"}}}}"#)
            }));
            let stop = if is_last { "end_turn" } else { "tool_use" };
            let body = format!(
                r#"{{"id":"m","type":"message","role":"assistant","model":"m","content":[{}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":1,"output_tokens":1}}}}"#,
                quoted(blocks)
            );
            (body, vec![seal("Ethk"), seal("Ered")])
        }
        "bedrock-converse" => {
            let mut blocks = vec![format!(
                r#"{{"reasoningContent":{{"reasoningText":{{"text":"{thought}","signature":"{}"}}}}}}"#,
                seal("Ethk")
            )];
            blocks.extend(text.map(|text| format!(r#"{{"text":"{text}"}}"#)));
            blocks.extend((0..calls).map(|at| {
                format!(r#"{{"toolUse":{{"toolUseId":"tooluse_{round}_{at}","name":"look","input":{{"q":{at},"r":"é"}}}}}}"#)
            }));
            let stop = if is_last { "end_turn" } else { "tool_use" };
            let body = format!(
                r#"{{"output":{{"message":{{"role":"assistant","content":[{}]}}}},"stopReason":"{stop}","usage":{{"inputTokens":1,"outputTokens":1,"totalTokens":2}},"metrics":{{"latencyMs":1}}}}"#,
                quoted(blocks)
            );
            (body, vec![seal("Ethk")])
        }
        "gemini-generatecontent" => {
            let mut seals = vec![seal("Cthk")];
            let mut parts =
                vec![format!(r#"{{"text":"{thought}","thought":true,"thoughtSignature":"{}"}}"#, seals[0])];
            if let Some(text) = text {
                let sealed = is_last.then(|| format!(r#","thoughtSignature":"{}""#, seal("Ctxt")));
                seals.extend(is_last.then(|| seal("Ctxt")));
                parts.push(format!(r#"{{"text":"{text}"{}}}"#, sealed.unwrap_or_default()));
            }
            for at in 0..calls {
                let sealed = (at == 0).then(|| format!(r#","thoughtSignature":"{}""#, seal("Ccal")));
                seals.extend((at == 0).then(|| seal("Ccal")));
                parts.push(format!(
                    r#"{{"functionCall":{{"name":"look","args":{{"q":{at},"r":"é"}}}}{}}}"#,
                    sealed.unwrap_or_default()
                ));
            }
            let body = format!(
                r#"{{"candidates":[{{"index":0,"content":{{"role":"model","parts":[{}]}},"finishReason":"STOP"}}],"modelVersion":"m","responseId":"r"}}"#,
                quoted(parts)
            );
            (body, seals)
        }
        _ => {
            let mut items = vec![
                format!(
                    r#"{{"type":"reasoning","id":"rs_{round}","summary":[{{"type":"summary_text","text":"think {round}"}},{{"type":"summary_text","text":"hard"}}],"encrypted_content":"{}"}}"#,
                    seal("gAAA")
                ),
                format!(
                    r#"{{"type":"reasoning","id":"rs_{round}b","summary":[],"encrypted_content":"{}"}}"#,
                    seal("gBBB")
                ),
            ];
            items.extend(text.map(|text| {
                format!(r#"{{"type":"message","id":"msg_{round}","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{text}","annotations":[]}}]}}"#)
            }));
            items.extend((0..calls).map(|at| {
                format!(r#"{{"type":"function_call","id":"fc_{round}_{at}","call_id":"call_{round}_{at}","status":"completed","name":"look","arguments":"{{\"q\": {at}.0, \"r\": \"é\"}}"}}"#)
            }));
            let body = format!(
                r#"{{"id":"resp_{round}","object":"response","created_at":1,"status":"completed","model":"m","output":[{}]}}"#,
                quoted(items)
            );
            (body, vec![seal("gAAA"), seal("gBBB")])
        }
    }
}

/// The response as the client gets it.
fn relayed(
    client: &'static Protocol,
    upstream: &'static Protocol,
    answer: &str,
    is_streamed: bool,
    (mut undo, mut harvest): (ReverseMappingStage, SealHarvest),
    made: String,
) -> callweave::Message {
    let encoding = EncodeOptions::normalized().id("answer").model("m").created(1);
    let mut bytes = answer.as_bytes().to_vec();
    if is_streamed {
        let mut out = Vec::new();
        let mut encoder = upstream.encoder(&EncodeOptions::default()).expect("answers are written");
        let mut sink = |event: Event<'_>| encoder.encode(&event, &mut out);
        let mut decoder = Decoder::new(upstream);
        decoder.push(&bytes, &mut sink).expect("an answer");
        decoder.finish(&mut sink).expect("an answer");
        bytes = out;
    }
    let mut out = Vec::new();
    let mut decoder = Decoder::builder().protocol(upstream).id_prefix(made).build();
    if is_streamed {
        let mut encoder = client.encoder(&encoding).expect("answers are written");
        let mut sink = |event: Event<'_>| {
            undo.push(event, &mut |event: Event<'_>| {
                harvest.push(event, &mut |event: Event<'_>| encoder.encode(&event, &mut out));
            });
        };
        for piece in bytes.chunks(11) {
            decoder.push(piece, &mut sink).expect("an answer");
        }
        decoder.finish(&mut sink).expect("an answer");
    } else {
        let mut message = Accumulator::new();
        let mut sink = |event: Event<'_>| {
            undo.push(event, &mut |event: Event<'_>| harvest.push(event, &mut message));
        };
        decoder.push(&bytes, &mut sink).expect("an answer");
        decoder.finish(&mut sink).expect("an answer");
        assert!(client.encode_body(message.message(), &encoding, &mut out));
    }
    callweave::pipeline::decode_as(client, &out).expect("an answer")
}

/// Returns the parts that the client keeps of a response, in the words of its protocol.
fn kept(client: &'static Protocol, choice: &Choice, habit: Habit) -> Vec<ContentPart> {
    let seal = |own: &[message::Attachment], kind| {
        let value = own.iter().rfind(|own| own.kind == kind).filter(|_| habit == Habit::KeepsAll);
        // As a text that the client does not look into.
        value.map(|own| {
            Box::new(ProviderSeal {
                issuer: family(client.name).into(),
                data: own.value.to_text().expect("text").into_owned(),
            })
        })
    };
    let (signature, encrypted) = (AttachmentKind::Signature, AttachmentKind::Encrypted);
    let mut parts: Vec<ContentPart> = Vec::new();
    for block in &choice.blocks {
        let item = choice.items.iter().find(|item| Some(item.number) == block.item);
        let mut part = match &block.content {
            message::BlockContent::Text(text) => ContentPart::text(text.clone()),
            message::BlockContent::Reasoning { .. } if habit == Habit::Drops => continue,
            message::BlockContent::Reasoning { form, text } => {
                let mut thought = RequestReasoning::default();
                let text = if habit == Habit::Edits { text.replace("think", "guess") } else { text.clone() };
                match form {
                    ReasoningForm::Summary => thought.summary = Some(vec![text]),
                    ReasoningForm::Raw => thought.text = Some(text),
                    _ => {}
                }
                let on_item = item.and_then(|item| seal(&item.attachments, encrypted));
                thought.encrypted = seal(&block.attachments, encrypted).or(on_item);
                if thought == RequestReasoning::default() {
                    continue;
                }
                ContentPart::new(thought)
            }
            message::BlockContent::ToolCall(call) => {
                ContentPart::new(PartKind::Call(Box::new(own_call(call))))
            }
            _ => continue,
        };
        part.signature = seal(&block.attachments, signature);
        parts.push(part);
    }
    parts
}

fn own_call(call: &message::ToolCall) -> RequestCall {
    let value = Value::object([
        ("id", call.id.as_str().into()),
        ("name", call.name.as_str().into()),
        ("namespace", Value::Null),
        ("arguments", Value::object([("json", json(call.arguments()))])),
        ("kind", "function".into()),
    ]);
    serde_json::from_str(&value.to_string()).expect("a call")
}

fn asked(client: &Protocol) -> Request {
    let mut request = Request::default();
    request.protocol = Some(client.name);
    request.model = Some("m".to_owned());
    request.max_tokens = Some(9000.into());
    request.messages.push(RequestMessage::new(Role::User, MessageContent::text("go")));
    let schema =
        json(r#"{"type": "object", "properties": {"q": {"type": "number"}, "r": {"type": "string"}}}"#);
    request.tools.push(RequestTool::new("look", ToolKind::Function { schema: Some(schema) }));
    request
}

/// All seals of a body, under any name of the wire.
fn seals(value: &Value) -> Vec<String> {
    const WORDS: &[&str] = &["signature", "thoughtSignature", "encrypted_content", "data", "redactedContent"];
    let (mut found, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list.iter().rev()),
            Value::Object(members) => {
                for (key, value) in members {
                    match value {
                        Value::String(seal) if WORDS.contains(&key) => found.push(seal.clone()),
                        value => open.push(value),
                    }
                }
            }
            _ => {}
        }
    }
    found.retain(|seal| seal != PLACEHOLDER);
    found.sort();
    found
}

/// The placeholder that Gemini accepts as a signature.
const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Returns the family of providers that seal in the protocol.
fn family(name: &str) -> &'static str {
    match name {
        "anthropic-messages" | "bedrock-converse" => "anthropic",
        "gemini-generatecontent" => "google",
        "openai-responses" => "openai",
        _ => "",
    }
}

struct Conversation {
    client: &'static Protocol,
    history: Request,
    round: usize,
}

impl Conversation {
    fn new(client: &'static Protocol) -> Self {
        Self { client, history: asked(client), round: 0 }
    }

    /// Returns the client's next request, as it is sent on.
    fn sent(&self, upstream: (&str, &str), seals: Option<(&SealKeeper, SealScope<'_>)>) -> WrittenRequest {
        let target = protocol(upstream.0).expect("a protocol with requests");
        let mut options = RequestOptions::default();
        options.model = Some(upstream.1.to_owned());
        let body = self.client.write_request(&self.history, &RequestOptions::default()).expect("a body").body;
        let mut request = self.client.read_request(body).expect("a request");
        request.reasoning = ReasoningSettings::default();
        request.reasoning.effort = Some("high".to_owned());
        if let Some((keeper, scope)) = seals {
            keeper.restore(&mut request, target, &options, scope);
        }
        target.write_last_request(request, &options).expect("a body")
    }

    /// Takes a response, and says what comes next. Returns its seals, and whether the client has changed reasoning.
    fn answered(
        &mut self,
        upstream: (&str, &str),
        written: &WrittenRequest,
        harvest: SealHarvest,
        habit: Habit,
        is_streamed: bool,
    ) -> (Vec<String>, bool) {
        let target = protocol(upstream.0).expect("a protocol with requests");
        let (text, sealed) = answer(upstream.0, self.round);
        let stages = (ReverseMappingStage::new(written), harvest);
        let made = format!("c{}_", self.round);
        let message = relayed(self.client, target, &text, is_streamed, stages, made);
        let parts = kept(self.client, message.first().expect("a choice"), habit);
        let is_shown = |part: &ContentPart| match &part.body {
            PartKind::Reasoning(thought) => thought.text.is_some() || thought.summary.is_some(),
            _ => false,
        };
        let is_edited = habit == Habit::Edits && parts.iter().any(is_shown);
        let results: Vec<RequestMessage> = parts
            .iter()
            .filter_map(|part| if let PartKind::Call(call) = &part.body { Some(call) } else { None })
            .map(|call| {
                let result = format!(
                    r#"{{"id": "{}", "name": "look", "content": {{}}, "value": null, "is_error": null, "kind": "function"}}"#,
                    call.id.as_deref().unwrap_or_default()
                );
                let mut result: CallResult = serde_json::from_str(&result).expect("a result");
                result.content = MessageContent::text("found");
                RequestMessage::new(Role::Tool, MessageContent::list(vec![ContentPart::new(result)]))
            })
            .collect();
        self.history.messages.push(RequestMessage::new(Role::Assistant, MessageContent::list(parts)));
        if results.is_empty() {
            self.history.messages.push(RequestMessage::new(Role::User, MessageContent::text("and now?")));
        }
        self.history.messages.extend(results);
        self.round += 1;
        (sealed, is_edited)
    }
}

fn clients() -> impl Iterator<Item = &'static Protocol> {
    TABLE.iter().copied().filter(|protocol| protocol.has_requests())
}

#[test]
fn seals_come_back_through_clients_of_every_protocol() {
    let mut edited = 0;
    for client in clients() {
        for &upstream in UPSTREAMS.iter().filter(|(name, _)| family(name) != family(client.name)) {
            for (habit, is_streamed) in HABITS.into_iter().flat_map(|habit| [(habit, false), (habit, true)]) {
                let title =
                    format!("{} before {}, {habit:?}, streamed {is_streamed}", client.name, upstream.0);
                let keeper = keeper();
                let mut conversation = Conversation::new(client);
                let mut issued = Vec::new();
                for _ in 0..4 {
                    let written = conversation.sent(upstream, Some((&keeper, SCOPE)));
                    let body = &written.body;
                    issued.sort();
                    assert_eq!(seals(body), issued, "{title}, round {}: {body:#}", conversation.round);
                    let refused = rules::refused(upstream.0, body);
                    assert_eq!(
                        refused,
                        Vec::<String>::new(),
                        "{title}, round {}: {body:#}",
                        conversation.round
                    );
                    check_order(upstream.0, body, &issued, &title);
                    if conversation.round < 3 {
                        let harvest = keeper.harvest(&written, client, SCOPE);
                        let (sealed, is_edited) =
                            conversation.answered(upstream, &written, harvest, habit, is_streamed);
                        edited += usize::from(is_edited);
                        issued.extend(sealed.into_iter().filter(|_| !is_edited));
                    }
                }
            }
        }
    }
    assert!(edited > 0);
}

/// Seals stand where the provider wants them.
fn check_order(upstream: &str, body: &Value, issued: &[String], title: &str) {
    if issued.is_empty() {
        return;
    }
    match upstream {
        "anthropic-messages" => {
            let said: Vec<&Value> =
                list(&body["messages"]).filter(|one| one["role"] == "assistant").collect();
            for (round, message) in said.iter().enumerate() {
                let thought = format!("think {round}\n\nhard");
                assert_eq!(message["content"][0]["thinking"], thought.as_str(), "{title}: {body:#}");
                assert_eq!(message["content"][1]["type"], "redacted_thinking", "{title}: {body:#}");
            }
            assert_eq!(body["thinking"]["type"], "enabled", "{title}: {body:#}");
        }
        "gemini-generatecontent" => {
            for content in list(&body["contents"]) {
                let first = list(&content["parts"]).find(|part| part.get("functionCall").is_some());
                if let Some(first) = first {
                    let seal = first["thoughtSignature"].as_str().expect("a signature");
                    assert!(seal.starts_with("Ccal"), "{title}: {body:#}");
                }
            }
        }
        "openai-responses" => {
            let words: Vec<&str> = list(&body["input"]).filter_map(|item| item["type"].as_str()).collect();
            let first = words.iter().position(|word| *word == "reasoning").expect("reasoning");
            assert_eq!(
                words[first..first + 5],
                ["reasoning", "reasoning", "message", "function_call", "function_call"],
                "{title}: {body:#}"
            );
            assert_eq!(
                list(&body["include"]).next().and_then(Value::as_str),
                Some("reasoning.encrypted_content")
            );
        }
        _ => {}
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// One turn of a conversation, and the keeper that has its seals.
fn harvested(client: &'static Protocol, upstream: (&str, &str), habit: Habit) -> (SealKeeper, Conversation) {
    let (keeper, mut conversation) = (keeper(), Conversation::new(client));
    let written = conversation.sent(upstream, Some((&keeper, SCOPE)));
    let harvest = keeper.harvest(&written, client, SCOPE);
    conversation.answered(upstream, &written, harvest, habit, true);
    (keeper, conversation)
}

#[test]
fn seals_go_to_nobody_else() {
    for client in clients() {
        for &upstream in UPSTREAMS.iter().filter(|(name, _)| family(name) != family(client.name)) {
            for habit in HABITS {
                let (keeper, conversation) = harvested(client, upstream, habit);
                let title = format!("{} before {}, {habit:?}", client.name, upstream.0);
                let others = [
                    SealScope { client: b"key 2", ..SCOPE },
                    SealScope { issuer: b"upstream 2", ..SCOPE },
                    SealScope { client: b"key 1upstream 1", issuer: b"" },
                ];
                for scope in others {
                    let body = conversation.sent(upstream, Some((&keeper, scope))).body;
                    assert_eq!(seals(&body), Vec::<String>::new(), "{title}, {scope:?}: {body:#}");
                }
                let other_key = SealKeeper::new(Arc::new(TurnCache::new(1 << 20, 9)), [4; 16]);
                let issuers = UPSTREAMS.iter().filter(|(name, _)| family(name) != family(upstream.0));
                for (&other, keeper) in issuers.flat_map(|other| [(other, &keeper), (other, &other_key)]) {
                    let body = conversation.sent(other, Some((keeper, SCOPE))).body;
                    assert_eq!(seals(&body), Vec::<String>::new(), "{title} to {}: {body:#}", other.0);
                }
                for other in UPSTREAMS.iter().chain([&("openai-chat", "small"), &("ollama", "small")]) {
                    let body = conversation.sent(*other, None).body;
                    assert_eq!(seals(&body), Vec::<String>::new(), "{title} to {}, alone: {body:#}", other.0);
                }
            }
        }
    }
}

/// A provider that thinks only if it is asked to would refuse reasoning otherwise.
#[test]
fn reasoning_stays_away_where_it_is_switched_off() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    let upstream = UPSTREAMS[0];
    let (keeper, conversation) = harvested(chat, upstream, Habit::KeepsAll);
    let target = protocol(upstream.0).expect("a protocol with requests");
    let mut options = RequestOptions::default();
    options.model = Some(upstream.1.to_owned());
    for (effort, choice, count) in
        [("high", "auto", 2), ("none", "auto", 0), ("", "auto", 0), ("high", "required", 0)]
    {
        let mut body =
            chat.write_request(&conversation.history, &RequestOptions::default()).expect("a body").body;
        let members = body.as_object_mut().expect("an object");
        members.insert("tool_choice", choice);
        if !effort.is_empty() {
            members.insert("reasoning_effort", effort);
        }
        let mut request = chat.read_request(body).expect("a request");
        keeper.restore(&mut request, target, &options, SCOPE);
        let body = target.write_last_request(request, &options).expect("a body").body;
        assert_eq!(seals(&body).len(), count, "{effort}, {choice}: {body:#}");
    }
}

/// A request in which turns are repeated costs what one costs.
#[test]
fn a_turn_comes_back_once() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    for &upstream in UPSTREAMS {
        let (keeper, mut conversation) = harvested(chat, upstream, Habit::Drops);
        let once = seals(&conversation.sent(upstream, Some((&keeper, SCOPE))).body);
        let turn = conversation.history.messages.clone();
        for _ in 0..20 {
            conversation.history.messages.extend(turn.iter().cloned());
        }
        let often = seals(&conversation.sent(upstream, Some((&keeper, SCOPE))).body);
        assert_eq!(often, once, "{}", upstream.0);
    }
}

/// Clients put calls and their results side by side, and write arguments anew.
#[test]
fn calls_are_known_however_they_are_written() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    for &upstream in UPSTREAMS {
        let (keeper, conversation) = harvested(chat, upstream, Habit::Drops);
        let sent = |change: &dyn Fn(&mut RequestCall)| {
            let mut changed = Conversation { client: chat, history: conversation.history.clone(), round: 1 };
            for part in changed.history.messages.iter_mut().flat_map(|message| &mut message.content.parts) {
                if let PartKind::Call(call) = &mut part.body {
                    change(call);
                }
            }
            seals(&changed.sent(upstream, Some((&keeper, SCOPE))).body)
        };
        let arguments = |call: &mut RequestCall, spell: &dyn Fn(Value) -> String| {
            let own = std::mem::replace(&mut call.arguments, CallArguments::Json(Value::Null));
            call.arguments = CallArguments::Text(spell(json(&own.into_text())));
        };
        let same = sent(&|_| {});
        assert!(!same.is_empty());
        let spelled = |value: Value| {
            format!("{{ \"r\": \"\\u00e9\", \"q\" : {} }}", value["q"].as_f64().expect("a number"))
        };
        assert_eq!(sent(&|call| arguments(call, &spelled)), same, "{}", upstream.0);
        let other = |_: Value| r#"{"q": 7, "r": "é"}"#.to_owned();
        assert_eq!(sent(&|call| arguments(call, &other)), Vec::<String>::new(), "{}", upstream.0);
        assert_eq!(sent(&|call| call.name = "other".to_owned()), Vec::<String>::new(), "{}", upstream.0);
        assert_eq!(sent(&|call| assert_eq!(call.kind, CallKind::Function)), same);
    }
}

/// The seals that come back without any store, in fields of the client's own: seals of three turns, and of which parts.
const IN_PLACE: &[(&str, &str, &[&str])] = &[
    ("anthropic-messages", "bedrock-converse", &["Ethk"]),
    ("anthropic-messages", "gemini-generatecontent", &["Cthk"]),
    ("anthropic-messages", "openai-responses", &[]),
    ("bedrock-converse", "anthropic-messages", &["Ered", "Ethk"]),
    ("bedrock-converse", "gemini-generatecontent", &["Cthk"]),
    ("bedrock-converse", "openai-responses", &[]),
    ("gemini-generatecontent", "anthropic-messages", &["Ered", "Ethk"]),
    ("gemini-generatecontent", "bedrock-converse", &["Ethk"]),
    ("gemini-generatecontent", "openai-responses", &[]),
    ("openai-responses", "anthropic-messages", &["Ethk"]),
    ("openai-responses", "bedrock-converse", &["Ethk"]),
    ("openai-responses", "gemini-generatecontent", &["Cthk"]),
];

#[test]
fn seals_come_back_in_places_of_the_clients_own() {
    let mut seen = Vec::new();
    for client in clients().filter(|client| !family(client.name).is_empty()) {
        for &upstream in UPSTREAMS.iter().filter(|(name, _)| *name != client.name) {
            for is_streamed in [false, true] {
                let keeper = SealKeeper::new(Arc::new(TurnCache::new(0, 0)), [3; 16]);
                let mut conversation = Conversation::new(client);
                let title = format!("{} before {}, streamed {is_streamed}", client.name, upstream.0);
                let mut last = Vec::new();
                for _ in 0..4 {
                    let written = conversation.sent(upstream, Some((&keeper, SCOPE)));
                    let refused = rules::refused(upstream.0, &written.body);
                    assert_eq!(refused, Vec::<String>::new(), "{title}: {:#}", written.body);
                    last = seals(&written.body);
                    if conversation.round < 3 {
                        let harvest = keeper.harvest(&written, client, SCOPE);
                        conversation.answered(upstream, &written, harvest, Habit::KeepsAll, is_streamed);
                    }
                    for message in list(&written.body["messages"]).filter(|one| one["role"] == "assistant") {
                        let thoughts = list(&message["content"]).filter_map(|block| block.get("thinking"));
                        for thought in thoughts.filter_map(Value::as_str) {
                            assert!(thought.ends_with("\n\nhard"), "{title}: {:#}", written.body);
                        }
                        for block in list(&message["content"]) {
                            let is_of = |key: &str, start: &str| {
                                block
                                    .get(key)
                                    .and_then(Value::as_str)
                                    .is_none_or(|seal| seal.starts_with(start))
                            };
                            assert!(is_of("signature", "Ethk") && is_of("data", "Ered"), "{title}: {block}");
                        }
                    }
                }
                let whats: Vec<String> = last.iter().map(|seal| seal.chars().take(4).collect()).collect();
                seen.push((client.name, upstream.0, is_streamed, whats));
            }
        }
    }
    for (client, upstream, is_streamed, whats) in &seen {
        let row = IN_PLACE.iter().find(|row| (row.0, row.1) == (client, upstream));
        let expected: Vec<&str> = row
            .map(|row| row.2.iter().flat_map(|what| [*what; 3]).collect())
            .unwrap_or_else(|| panic!("{client} before {upstream} has no row"));
        assert_eq!(*whats, expected, "{client} before {upstream}, streamed {is_streamed}\n{seen:#?}");
    }
}

/// A client that gives back the complete message that it got, with members that it does not know.
#[test]
fn chat_clients_give_details_back() {
    let chat = protocol("openai-chat").expect("a protocol with requests");
    for (&upstream, whats) in UPSTREAMS.iter().zip([2, 1, 1, 2]) {
        let target = protocol(upstream.0).expect("a protocol with requests");
        let keeper = SealKeeper::new(Arc::new(TurnCache::new(0, 0)), [3; 16]);
        let mut options = RequestOptions::default();
        options.model = Some(upstream.1.to_owned());
        let ask = |messages: &str, target: &'static Protocol, keeper: Option<&SealKeeper>| {
            let body = json(&format!(
                r#"{{"model":"m","max_tokens":9000,"reasoning_effort":"high","messages":[{messages}],"tools":[{{"type":"function","function":{{"name":"look","parameters":{{"type":"object","properties":{{}}}}}}}}]}}"#
            ));
            let mut request = chat.read_request(body).expect("a request");
            if let Some(keeper) = keeper {
                keeper.restore(&mut request, target, &options, SCOPE);
            }
            target.write_last_request(request, &options).expect("a body")
        };
        let user = r#"{"role":"user","content":"go"}"#;
        let written = ask(user, target, Some(&keeper));
        let (text, issued) = answer(upstream.0, 0);
        let (mut harvest, mut message) = (keeper.harvest(&written, chat, SCOPE), Accumulator::new());
        let mut decoder = Decoder::new(target);
        decoder
            .push(text.as_bytes(), &mut |event: Event<'_>| harvest.push(event, &mut message))
            .expect("an answer");
        decoder.finish(&mut |event: Event<'_>| harvest.push(event, &mut message)).expect("an answer");
        let mut out = Vec::new();
        assert!(chat.encode_body(message.message(), &EncodeOptions::normalized(), &mut out));
        let said = json(std::str::from_utf8(&out).expect("text"));
        let said = &said["choices"][0]["message"];
        let results: Vec<String> = list(&said["tool_calls"])
            .map(|call| format!(r#"{{"role":"tool","tool_call_id":{},"content":"found"}}"#, call["id"]))
            .collect();
        let messages = format!("{user},{said},{}", results.join(","));
        let body = ask(&messages, target, Some(&keeper)).body;
        let mut told = seals(&body);
        told.retain(|seal| issued.contains(seal));
        assert_eq!(told.len(), whats, "{}: {said:#} {body:#}", upstream.0);
        assert_eq!(rules::refused(upstream.0, &body), Vec::<String>::new(), "{}: {body:#}", upstream.0);
        // Another server of the client's own protocol is not sent what it cannot read.
        let body = ask(&messages, chat, None).body;
        assert!(seals(&body).is_empty(), "{}: {body:#}", upstream.0);
    }
}
