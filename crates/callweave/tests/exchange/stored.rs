//! Clients that refer to an earlier response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use callweave::exchange::http::ClientEndpoint;
use callweave::exchange::store::{ExchangeStore, StoreScope, StoredResponse};
use callweave::exchange::{ExchangeEngine, ExchangePolicy, IncomingHead, OutgoingRequest, SharedState};
use callweave::protocol::{OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use callweave::request::{TurnCache, TurnKey, TurnStore};
use serde_json::{Value, json};

use crate::driver::{End, Reply, run};

type Responses = HashMap<(StoreScope, String), Arc<StoredResponse>>;

/// A store without limits, for all that tests keep.
struct Kept(Mutex<Responses>, TurnCache);

impl Default for Kept {
    fn default() -> Self {
        Self(Mutex::default(), TurnCache::new(1 << 20, 1_000))
    }
}

impl TurnStore for Kept {
    fn put(&self, keys: &[TurnKey], value: &[u8]) {
        self.1.put(keys, value);
    }

    fn get(&self, key: &TurnKey) -> Option<Arc<[u8]>> {
        self.1.get(key)
    }
}

impl ExchangeStore for Kept {
    fn response(&self, scope: &StoreScope, id: &str) -> Option<Arc<StoredResponse>> {
        self.0.lock().expect("nobody panicked").get(&(*scope, id.to_owned())).cloned()
    }

    fn put_response(&self, scope: &StoreScope, id: &str, response: StoredResponse) {
        self.0.lock().expect("nobody panicked").insert((*scope, id.to_owned()), Arc::new(response));
    }

    fn remove_response(&self, scope: &StoreScope, id: &str) -> bool {
        self.0.lock().expect("nobody panicked").remove(&(*scope, id.to_owned())).is_some()
    }
}

fn engine(protocol: &'static Protocol) -> Arc<ExchangeEngine> {
    let mut policy = ExchangePolicy::default();
    policy.protocol = Some(protocol);
    policy.base_url = "http://upstream/v1".to_owned();
    ExchangeEngine::with_shared(policy, Arc::new(SharedState::with_store(Arc::new(Kept::default()), [7; 16])))
        .expect("a policy")
}

fn incoming(id: &str, scope: u8, body: &str) -> IncomingHead {
    let route = ClientEndpoint::find("/responses").expect("a path");
    let mut incoming = IncomingHead::new(route, body.as_bytes(), id);
    incoming.scope = StoreScope([scope; 32]);
    incoming
}

/// The body that the upstream gets, or the error that the client gets instead.
fn sent(engine: &Arc<ExchangeEngine>, incoming: IncomingHead, answer: &str) -> Result<String, String> {
    let exchange = engine.open(incoming).map_err(|error| format!("{:?} {error}", error.code))?;
    let mut sent = String::new();
    let got = run(exchange, |request| {
        sent = String::from_utf8_lossy(request.body.as_ref()).into_owned();
        Reply::cut(answer.as_bytes(), &[], End::Finish)
    });
    assert_eq!(got.status, 200, "{}", got.text());
    Ok(sent)
}

const ANSWER: &str = r#"{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"It is blue."},"finish_reason":"stop"}]}"#;

#[test]
fn an_earlier_response_becomes_a_part_of_the_conversation() {
    let engine = engine(&OPENAI_CHAT);
    sent(&engine, incoming("a", 1, r#"{"model":"m","input":"The sky?"}"#), ANSWER).expect("a first turn");
    let next = r#"{"model":"m","input":"And the sea?","previous_response_id":"resp_a"}"#;
    let second = sent(&engine, incoming("b", 1, next), ANSWER).expect("a second turn");
    let body: serde_json::Value = serde_json::from_str(&second).expect("JSON");
    let texts: Vec<String> =
        body["messages"].as_array().expect("messages").iter().map(|it| it["content"].to_string()).collect();
    assert_eq!(texts.len(), 3, "{second}");
    for (text, part) in texts.iter().zip(["The sky?", "It is blue.", "And the sea?"]) {
        assert!(text.contains(part), "{second}");
    }
    assert!(!second.contains("previous_response_id"), "{second}");
    // The third refers to the second, which refers to the first.
    let last = next.replace("resp_a", "resp_b");
    assert_eq!(
        sent(&engine, incoming("c", 1, &last), ANSWER).expect("a third turn").matches("It is blue.").count(),
        2
    );
}

#[test]
fn nobody_refers_to_what_another_scope_or_nobody_keeps() {
    let engine = engine(&OPENAI_CHAT);
    sent(&engine, incoming("a", 1, r#"{"model":"m","input":"The sky?"}"#), ANSWER).expect("a first turn");
    let unkept = r#"{"model":"m","input":"The sky?","store":false}"#;
    sent(&engine, incoming("n", 1, unkept), ANSWER).expect("a first turn");
    for (scope, id) in [(2, "resp_a"), (1, "resp_n"), (1, "resp_x")] {
        let next = format!(r#"{{"model":"m","input":"And?","previous_response_id":"{id}"}}"#);
        let error = sent(&engine, incoming("b", scope, &next), ANSWER).expect_err("no such response");
        assert!(error.contains("previous_response_not_found") && error.contains(id), "{error}");
    }
}

#[test]
fn an_upstream_that_keeps_responses_itself_gets_the_reference() {
    let next = r#"{"model":"m","input":"And the sea?","previous_response_id":"resp_of_theirs"}"#;
    let policy = |base_url: &str, keeps: Option<bool>| {
        let mut policy = ExchangePolicy::default();
        policy.protocol = Some(&OPENAI_RESPONSES);
        (policy.base_url, policy.keeps_responses) = (base_url.to_owned(), keeps);
        policy
    };
    let shared = || Arc::new(SharedState::with_store(Arc::new(Kept::default()), [7; 16]));
    for (policy, shared) in [
        (policy("http://upstream/v1", Some(true)), shared()),
        (policy("https://api.openai.com/v1", None), shared()),
        (policy("https://me.openai.azure.com/openai/v1", None), shared()),
        // Nobody else could keep it.
        (policy("http://upstream/v1", None), Arc::default()),
    ] {
        let engine = ExchangeEngine::with_shared(policy, shared).expect("a policy");
        let mut exchange = engine.open(incoming("b", 1, next)).expect("a request");
        let Some(OutgoingRequest::Request(request)) = exchange.take_outgoing() else { panic!("a request") };
        assert_eq!(String::from_utf8_lossy(request.body.as_ref()), next);
    }
    for base in ["http://upstream/v1", "https://api.openai.com.example/v1"] {
        let engine = ExchangeEngine::with_shared(policy(base, None), shared()).expect("a policy");
        let refused = engine.open(incoming("b", 1, next)).err().expect("nobody has it");
        assert_eq!(refused.code.as_deref(), Some("previous_response_not_found"));
    }
}

#[test]
fn a_failed_response_is_not_kept() {
    let engine = engine(&OPENAI_CHAT);
    let exchange = engine.open(incoming("a", 1, r#"{"model":"m","input":"The sky?"}"#)).expect("a request");
    let got = run(exchange, |_| Reply::cut(&ANSWER.as_bytes()[..60], &[], End::Fail));
    assert_eq!(got.status, 502);
    assert!(engine.shared().store().expect("a store").response(&StoreScope([1; 32]), "resp_a").is_none());
}

/// A Responses upstream that keeps its responses and gives its calls these ids, and a client of it.
struct KeepingUpstream {
    engine: Arc<ExchangeEngine>,
    turns: usize,
}

impl KeepingUpstream {
    fn new(change: impl FnOnce(&mut ExchangePolicy)) -> Self {
        let mut policy = ExchangePolicy::default();
        policy.protocol = Some(&OPENAI_RESPONSES);
        policy.base_url = "http://upstream/v1".to_owned();
        policy.keeps_responses = Some(true);
        change(&mut policy);
        let shared = Arc::new(SharedState::with_store(Arc::new(Kept::default()), [7; 16]));
        Self { engine: ExchangeEngine::with_shared(policy, shared).expect("a policy"), turns: 0 }
    }

    /// The response with calls of these ids: the body that went up, and the ids that the client got.
    fn ask(&mut self, scope: u8, mut body: Value, ids: &[&str], is_streamed: bool) -> (Value, Vec<String>) {
        self.turns += 1;
        let call = |(at, id): (usize, &&str)| {
            json!({"type": "function_call", "id": format!("fc_{}_{at}", self.turns), "call_id": id, "name": "look",
                "arguments": "{\"call_id\":\"call_0\"}", "status": "completed"})
        };
        let output: Vec<Value> = ids.iter().enumerate().map(call).collect();
        let response = json!({"id": format!("resp_{}", self.turns), "object": "response", "status": "completed",
            "model": "m", "output": output});
        let mut answer = response.to_string();
        if is_streamed {
            body["stream"] = json!(true);
            let mut begun = response.clone();
            (begun["output"], begun["status"]) = (json!([]), json!("in_progress"));
            let mut events = vec![json!({"type": "response.created", "response": begun})];
            for (at, item) in output.iter().enumerate() {
                for kind in ["response.output_item.added", "response.output_item.done"] {
                    events.push(json!({"type": kind, "output_index": at, "item": item}));
                }
            }
            events.push(json!({"type": "response.completed", "response": response}));
            let event =
                |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""));
            answer = events.iter().map(event).collect();
        }
        let exchange = self.engine.open(incoming("a", scope, &body.to_string())).expect("a request");
        let mut sent = Value::Null;
        let got = run(exchange, |request| {
            sent = serde_json::from_slice(request.body.as_ref()).expect("JSON");
            Reply::cut(answer.as_bytes(), &[], End::Finish)
        });
        assert_eq!(got.status, 200, "{}", got.text());
        let text = got.text();
        let last = text.lines().rfind(|line| line.starts_with("data: {")).map(|line| &line[6..]);
        let last: Value = serde_json::from_str(last.unwrap_or(&text)).expect("JSON");
        let response = last.get("response").unwrap_or(&last);
        assert_eq!(response["id"], format!("resp_{}", self.turns), "{text}");
        let calls = response["output"].as_array().expect("items").iter();
        (sent, calls.map(|call| call["call_id"].as_str().expect("an id").to_owned()).collect())
    }
}

fn plain(policy: &mut ExchangePolicy) {
    policy.dialect = "none".to_owned();
    policy.repair = false;
    policy.schema = callweave::exchange::SchemaMode::Off;
}

fn result(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "blue"})
}

const TOOLS: &str = r#"[{"type": "function", "name": "look", "parameters": {"type": "object"}}]"#;

/// The client gets a unique id, and the upstream its own back.
#[test]
fn a_replaced_call_id_is_mapped_back_where_the_upstream_keeps_the_conversation() {
    let tools: Value = serde_json::from_str(TOOLS).expect("JSON");
    for is_streamed in [false, true] {
        for change in [|_: &mut ExchangePolicy| {}, plain] {
            let mut upstream = KeepingUpstream::new(change);
            let first = json!({"model": "m", "input": "The sky?", "tools": tools});
            let (_, ids) = upstream.ask(1, first, &["call_0"], is_streamed);
            assert_eq!(ids, ["call_0"]);
            // The model begins anew with every response.
            let next = |ids: &[String]| {
                let input: Vec<Value> = ids.iter().map(|id| result(id)).collect();
                json!({"model": "m", "input": input, "tools": tools, "odd": 1})
            };
            let mut seen = ids.clone();
            let mut last = ids;
            for turn in 1..4 {
                let mut body = next(&last);
                body["previous_response_id"] = json!(format!("resp_{turn}"));
                let (sent, ids) = upstream.ask(1, body.clone(), &["call_0", "call_1"], is_streamed);
                let results = sent["input"].as_array().expect("items").iter();
                let results: Vec<&Value> = results.map(|item| &item["call_id"]).collect();
                assert_eq!(results, ["call_0", "call_1"][..last.len()], "{sent}");
                assert_eq!(
                    (&sent["previous_response_id"], &sent["odd"]),
                    (&body["previous_response_id"], &json!(1))
                );
                for id in &ids {
                    assert!(!seen.contains(id) && id.len() <= 40, "{id} is in {seen:?}");
                    seen.push(id.clone());
                }
                last = ids;
            }
            assert_eq!(seen[2], "call_1", "an id that is new stays");
            // Another client's ids are its own.
            let mut body = next(&last[..1]);
            body["previous_response_id"] = json!("resp_4");
            let (sent, _) = upstream.ask(2, body, &["call_0"], is_streamed);
            assert_eq!(sent["input"][0]["call_id"], json!(last[0]));
        }
    }
}

/// A history that is sent in full gives ids that the upstream does not use again for the client.
#[test]
fn ids_are_mapped_back_after_a_history_that_the_client_sent_and_in_conversations() {
    let history = json!([{"role": "user", "content": "The sky?"},
        {"type": "function_call", "call_id": "call_0", "name": "look", "arguments": "{}"}, result("call_0")]);
    let mut upstream = KeepingUpstream::new(|_| {});
    let (_, ids) = upstream.ask(1, json!({"model": "m", "input": history}), &["call_0"], false);
    assert_ne!(ids, ["call_0"]);
    let next = json!({"model": "m", "input": [result(&ids[0])], "previous_response_id": "resp_1"});
    assert_eq!(upstream.ask(1, next, &[], false).0["input"][0]["call_id"], "call_0");
    // A conversation is followed by its own id.
    for conversation in [json!("conv_1"), json!({"id": "conv_2"})] {
        let asked = |input: Value| json!({"model": "m", "input": input, "conversation": conversation});
        let (_, ids) = upstream.ask(1, asked(history.clone()), &["call_0"], false);
        let (sent, again) = upstream.ask(1, asked(json!([result(&ids[0])])), &["call_0"], false);
        assert_eq!((&sent["input"][0]["call_id"], &sent["conversation"]), (&json!("call_0"), &conversation));
        assert!(again != ids && again != ["call_0"], "{again:?}");
    }
}

/// Without a place to keep ids, both sides know calls by the upstream's.
#[test]
fn an_id_that_could_not_be_mapped_back_stays() {
    let mut policy = ExchangePolicy::default();
    policy.protocol = Some(&OPENAI_RESPONSES);
    let mut upstream = KeepingUpstream { engine: ExchangeEngine::new(policy).expect("a policy"), turns: 0 };
    let next = json!({"model": "m", "input": [result("call_0")], "previous_response_id": "resp_0"});
    let (sent, ids) = upstream.ask(1, next, &["call_0"], false);
    assert_eq!((&sent["input"][0]["call_id"], ids), (&json!("call_0"), vec!["call_0".to_owned()]));
}

/// Kimi wants ids of its own form: an id renamed for the client goes up so, in the call and in its result.
#[test]
fn a_replaced_call_id_goes_up_in_the_form_of_the_provider() {
    let mut policy = ExchangePolicy::default();
    policy.protocol = Some(&OPENAI_CHAT);
    (policy.base_url, policy.provider) = ("http://upstream/v1".to_owned(), Some("kimi".to_owned()));
    let engine = ExchangeEngine::new(policy).expect("a policy");
    let answer = json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": null, "tool_calls": [{"id": "functions.look:0", "type": "function",
            "function": {"name": "look", "arguments": "{}"}}]}}]});
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let mut messages = vec![json!({"role": "user", "content": "The sky?"})];
    let mut sent = Value::Null;
    for turn in 0..3 {
        let body = json!({"model": "kimi-k2", "messages": messages, "tools": tools}).to_string();
        let route = ClientEndpoint::find("/chat/completions").expect("a path");
        let exchange =
            engine.open(IncomingHead::new(route, body.as_bytes(), format!("r{turn}"))).expect("a request");
        let got = run(exchange, |request| {
            sent = serde_json::from_slice(request.body.as_ref()).expect("JSON");
            Reply::cut(answer.to_string().as_bytes(), &[], End::Finish)
        });
        let got: Value = serde_json::from_str(&got.text()).expect("JSON");
        let message = got["choices"][0]["message"].clone();
        let id = message["tool_calls"][0]["id"].clone();
        assert!(!messages.iter().any(|own| own["tool_call_id"] == id), "{id} in {messages:?}");
        messages.extend([message, json!({"role": "tool", "tool_call_id": id, "content": "blue"})]);
    }
    let list = sent["messages"].as_array().expect("messages");
    let calls: Vec<&Value> = list.iter().filter_map(|own| own.pointer("/tool_calls/0/id")).collect();
    let results: Vec<&Value> = list.iter().filter_map(|own| own.get("tool_call_id")).collect();
    assert_eq!(calls, ["functions.look:0", "functions.look:1"]);
    assert_eq!(results, calls);
}
