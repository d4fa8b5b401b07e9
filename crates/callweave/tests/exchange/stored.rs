//! Clients that refer to an earlier response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use callweave::exchange::http::ClientRoute;
use callweave::exchange::store::{Scope, Store, StoredResponse};
use callweave::exchange::{Engine, Incoming, Outgoing, Policy, Shared};
use callweave::protocol::{OPENAI_CHAT, OPENAI_RESPONSES, Protocol};
use callweave::request::{TurnKey, TurnStore};

use crate::driver::{End, Reply, run};

/// A store without limits.
#[derive(Default)]
struct Kept(Mutex<HashMap<(Scope, String), Arc<StoredResponse>>>);

impl TurnStore for Kept {
    fn put(&self, _: &[TurnKey], _: &[u8]) {}

    fn get(&self, _: &TurnKey) -> Option<Arc<[u8]>> {
        None
    }
}

impl Store for Kept {
    fn response(&self, scope: &Scope, id: &str) -> Option<Arc<StoredResponse>> {
        self.0.lock().expect("nobody panicked").get(&(*scope, id.to_owned())).cloned()
    }

    fn put_response(&self, scope: &Scope, id: &str, response: StoredResponse) {
        self.0.lock().expect("nobody panicked").insert((*scope, id.to_owned()), Arc::new(response));
    }

    fn remove_response(&self, scope: &Scope, id: &str) -> bool {
        self.0.lock().expect("nobody panicked").remove(&(*scope, id.to_owned())).is_some()
    }
}

fn engine(protocol: &'static Protocol) -> Arc<Engine> {
    let mut policy = Policy::default();
    policy.protocol = Some(protocol);
    policy.base_url = "http://upstream/v1".to_owned();
    Engine::with_shared(policy, Arc::new(Shared::with_store(Arc::new(Kept::default()), [7; 16])))
        .expect("a policy")
}

fn incoming(id: &str, scope: u8, body: &str) -> Incoming {
    let route = ClientRoute::find("/responses").expect("a path");
    let mut incoming = Incoming::new(route, body.as_bytes(), id);
    incoming.scope = Scope([scope; 32]);
    incoming
}

/// The body that the upstream gets, or the error that the client gets instead.
fn sent(engine: &Arc<Engine>, incoming: Incoming, answer: &str) -> Result<String, String> {
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
        let mut policy = Policy::default();
        policy.protocol = Some(&OPENAI_RESPONSES);
        (policy.base_url, policy.keeps_responses) = (base_url.to_owned(), keeps);
        policy
    };
    let shared = || Arc::new(Shared::with_store(Arc::new(Kept::default()), [7; 16]));
    for (policy, shared) in [
        (policy("http://upstream/v1", Some(true)), shared()),
        (policy("https://api.openai.com/v1", None), shared()),
        (policy("https://me.openai.azure.com/openai/v1", None), shared()),
        // Nobody else could keep it.
        (policy("http://upstream/v1", None), Arc::default()),
    ] {
        let engine = Engine::with_shared(policy, shared).expect("a policy");
        let mut exchange = engine.open(incoming("b", 1, next)).expect("a request");
        let Some(Outgoing::Request(request)) = exchange.take_outgoing() else { panic!("a request") };
        assert_eq!(String::from_utf8_lossy(request.body.as_ref()), next);
    }
    for base in ["http://upstream/v1", "https://api.openai.com.example/v1"] {
        let engine = Engine::with_shared(policy(base, None), shared()).expect("a policy");
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
    assert!(engine.shared().store().expect("a store").response(&Scope([1; 32]), "resp_a").is_none());
}
