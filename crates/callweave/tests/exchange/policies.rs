//! Policies made ready, and the rules of each.

use std::time::Duration;

use callweave::ErrorKind;
use callweave::exchange::http::ClientEndpoint;
use callweave::exchange::{
    ExchangeEngine, ExchangePolicy, NextStep, OutgoingRequest, SchemaMode, StopMode, StopPolicy,
};
use callweave::protocol::{
    ANTHROPIC_MESSAGES, BEDROCK_INVOKE, CODEX_APP_SERVER, GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT,
    OPENAI_RESPONSES,
};

use crate::driver::{CLIENTS, End, Reply, drive};
use crate::{engine, relays, request};

/// The reason why a policy cannot be made ready.
fn refused(set: impl FnOnce(&mut ExchangePolicy)) -> String {
    let mut policy = ExchangePolicy::default();
    set(&mut policy);
    let error = ExchangeEngine::new(policy).err().expect("a policy that cannot be made ready");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    error.to_string()
}

#[test]
fn names_that_nobody_knows_are_errors() {
    let dialect = refused(|policy| policy.dialect = "hermse".to_owned());
    assert!(dialect.contains("hermse"), "{dialect}");
    let provider = refused(|policy| policy.provider = Some("nobody".to_owned()));
    assert!(provider.contains("nobody"), "{provider}");
    // It is an envelope of other protocols: it is read, but nobody is asked in it.
    let protocol = refused(|policy| policy.protocol = Some(&BEDROCK_INVOKE));
    assert!(protocol.contains(BEDROCK_INVOKE.name), "{protocol}");
}

#[test]
fn names_that_are_known_are_not() {
    for dialect in ["auto", "model", "none", "hermes"] {
        let mut policy = ExchangePolicy::default();
        policy.dialect = dialect.to_owned();
        assert!(ExchangeEngine::new(policy).is_ok(), "{dialect}");
    }
    for protocol in [&OPENAI_CHAT, &OLLAMA, &CODEX_APP_SERVER] {
        let mut policy = ExchangePolicy::default();
        policy.protocol = Some(protocol);
        policy.provider = Some("mistral".to_owned());
        assert!(ExchangeEngine::new(policy).is_ok(), "{}", protocol.name);
    }
}

#[test]
fn paths_belong_to_protocols() {
    let found = |path: &str| {
        let route = ClientEndpoint::find(path)?;
        Some((route.protocol.name, route.model, route.is_streamed))
    };
    let plain = |protocol: &callweave::protocol::Protocol| Some((protocol.name, None, None));
    assert_eq!(found("/chat/completions"), plain(&OPENAI_CHAT));
    assert_eq!(found("/responses"), plain(&OPENAI_RESPONSES));
    assert_eq!(found("/messages"), plain(&ANTHROPIC_MESSAGES));
    assert_eq!(found("/api/chat"), plain(&OLLAMA));
    let gemini = |model: &str, is_streamed| {
        Some((GEMINI_GENERATE_CONTENT.name, Some(model.to_owned()), Some(is_streamed)))
    };
    assert_eq!(found("/models/m:generateContent"), gemini("m", false));
    assert_eq!(found("/models/m:streamGenerateContent"), gemini("m", true));
    // Names have colons and slashes of their own, and come escaped.
    assert_eq!(found("/models/up/qwen3:8b:generateContent"), gemini("up/qwen3:8b", false));
    assert_eq!(found("/models/up%2Fm%3A1:generateContent"), gemini("up/m:1", false));
    for path in
        ["", "/", "/chat", "/messages/", "/models/m", "/models/m:countTokens", "/models", "/v1/responses"]
    {
        assert_eq!(found(path), None, "{path}");
    }
}

/// Spaces, the order of members and numbers as they were written; only the model has another name.
#[test]
fn a_body_is_relayed_as_it_came() {
    let engine = engine(&OPENAI_CHAT, |_| {});
    let body = br#"{ "messages" : [ {"content": "Hi", "role": "user"} ],  "model":"m", "seed": 1.50, "x_own": {"b":1,"a":2} }"#;
    let mut exchange = engine.open(CLIENTS[1].incoming("m", body, "1")).expect("a request");
    let Some(OutgoingRequest::Request(sent)) = exchange.take_outgoing() else { panic!("a request") };
    assert_eq!(String::from_utf8_lossy(sent.body.as_ref()), String::from_utf8_lossy(body));
    assert!(exchange.losses().is_empty());
}

#[test]
fn a_response_is_relayed_as_it_came() {
    let bytes = "{ \"id\":\"c1\", \"choices\": [{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"<tool_call>{'name': 'get_weather'}</tool_call>\"},\"finish_reason\":\"stop\"}], \"x\": 1.50 }";
    let engine = engine(&OPENAI_CHAT, relays);
    let got = drive(&engine, CLIENTS[1].incoming("m", &request(&CLIENTS[1]), "1"), |_| {
        Reply::cut(bytes.as_bytes(), &[7, 20], End::Finish)
    });
    assert_eq!(got.expect("a request").text(), bytes);
}

#[test]
fn keys_are_masked_in_errors() {
    let engine = engine(&OPENAI_CHAT, |policy| policy.api_key = Some("sk-secret-1234".to_owned()));
    let words = r#"{"error":{"message":"no such key: sk-secret-1234","type":"authentication_error","code":"sk-secret-1234"}}"#;
    let late = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"error\":{\"message\":\"the key sk-secret-1234 has expired\"}}\n\n";
    for client in &CLIENTS {
        let incoming = || client.incoming("m", &request(client), "1");
        let mut has_key = false;
        let got = drive(&engine, incoming(), |request| {
            has_key = request.headers.iter().any(|(_, value)| value == "Bearer sk-secret-1234");
            Reply::refused(401, words)
        });
        let got = got.expect("a request");
        assert!(has_key && got.status == 401, "{}: {}", client.name, got.status);
        assert!(got.text().contains("***") && !got.text().contains("sk-secret"), "{}", got.text());
        let got = drive(&engine, incoming(), |_| Reply::cut(late.as_bytes(), &[], End::Finish));
        let got = got.expect("a request");
        assert!(got.text().contains("***") && !got.text().contains("sk-secret"), "{}", got.text());
        assert!(got.error.is_some_and(|error| !error.contains("sk-secret")));
    }
}

/// Words that stand for no key are no secrets, and may stand in any sentence.
#[test]
fn short_keys_are_not_masked() {
    let engine = engine(&OPENAI_CHAT, |policy| policy.api_key = Some("none".to_owned()));
    let got = drive(&engine, CLIENTS[1].incoming("m", &request(&CLIENTS[1]), "1"), |_| {
        Reply::refused(400, r#"{"error":{"message":"none of it","type":"invalid_request_error"}}"#)
    });
    assert!(got.expect("a request").text().contains("none of it"));
}

const CALL: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"Oslo\\\"}\"}}]}}]}\n\n";
const NEXT: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"y\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\"}}]}}]}\n\n";
const REST: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"\\\"Rome\\\"}\"}}]}}]}\n\n";

/// The grace time for the next call runs once one is over and while none is open.
#[test]
fn the_grace_begins_with_the_end_of_a_call() {
    for (grace_ms, expected) in [(None, 300), (Some(20), 20)] {
        let engine = engine(&OPENAI_CHAT, |policy| {
            // Calls that are coerced are held to their end, and have not begun before.
            policy.schema = SchemaMode::Off;
            policy.stop = StopPolicy {
                is_on: Some(true),
                mode: Some(StopMode::All),
                grace_ms,
                ..StopPolicy::default()
            };
        });
        let client = &CLIENTS[0];
        let mut exchange = engine.open(client.incoming("m", &request(client), "1")).expect("a request");
        exchange.take_outgoing().expect("a request");
        assert_eq!(exchange.next(), NextStep::Read(None));
        exchange.accept([("content-type", "text/event-stream")]);
        assert_eq!(exchange.next(), NextStep::Read(None));
        // The call ends when the next begins: then that one is open.
        exchange.push([CALL, NEXT].concat().as_bytes());
        assert_eq!(exchange.next(), NextStep::Read(None));
        exchange.push(REST.as_bytes());
        exchange
            .push(b"data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" So\"}}]}\n\n");
        assert_eq!(exchange.next(), NextStep::Read(Some(Duration::from_millis(expected))));
        exchange.silence();
        assert_eq!(exchange.next(), NextStep::Interrupt);
        exchange.interrupt();
        assert_eq!(exchange.next(), NextStep::Over);
        let bytes = exchange.take_bytes();
        let message = crate::laws::decode_truncated(Some(&OPENAI_CHAT), &bytes, &[]).message;
        assert_eq!(message.tool_calls().count(), 2, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(message.text(), "");
    }
}

#[test]
fn a_policy_for_stopping_takes_what_is_not_set_from_another() {
    let own = StopPolicy { is_on: Some(true), grace_ms: Some(5), ..StopPolicy::default() };
    let other = StopPolicy { is_on: Some(false), mode: Some(StopMode::All), ..StopPolicy::default() };
    let both = own.or(other);
    assert_eq!(
        (both.is_on, both.mode, both.grace()),
        (Some(true), Some(StopMode::All), Duration::from_millis(5))
    );
    assert_eq!(StopPolicy::default().grace(), Duration::from_millis(300));
}

/// A refusal at an unknown path leads to another request, in another protocol; its outcome is kept for the next
/// exchange.
#[test]
fn another_protocol_is_asked_in_where_one_is_not_spoken() {
    use callweave::exchange::{IncomingHead, UpstreamRefusal};

    let engine = engine(&OPENAI_CHAT, |policy| {
        policy.other_protocols = vec![&OPENAI_RESPONSES, &ANTHROPIC_MESSAGES];
        policy.base_url = "http://127.0.0.1:8000".to_owned();
    });
    let body = br#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}"#;
    let open_at = |created: u64| {
        let route = ClientEndpoint::find("/messages").expect("a path");
        let mut incoming = IncomingHead::new(route, &body[..], "1");
        incoming.created = created;
        engine.open(incoming).expect("a request")
    };
    let open = || open_at(1_000);
    let sent = |exchange: &mut callweave::exchange::Exchange| match exchange.take_outgoing() {
        Some(OutgoingRequest::Request(request)) => request.url,
        other => panic!("{other:?}"),
    };
    let mut exchange = open();
    assert_eq!(sent(&mut exchange), "http://127.0.0.1:8000/v1/messages");
    exchange.refuse(&UpstreamRefusal::new(405));
    assert_eq!((exchange.next(), exchange.failure().is_none()), (NextStep::Send, true));
    assert_eq!(sent(&mut exchange), "http://127.0.0.1:8000/v1/chat/completions");
    exchange.accept([("content-type", "application/json")]);
    exchange.push(
        br#"{"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}"#,
    );
    exchange.finish();
    assert_eq!(exchange.head().status, 200);
    let body = String::from_utf8(exchange.take_bytes()).expect("text");
    assert!(body.contains("\"type\":\"message\"") && body.contains("Hello"), "{body}");
    assert!(engine.speaks(&OPENAI_CHAT) && !engine.speaks(&ANTHROPIC_MESSAGES));
    let mut exchange = open();
    assert_eq!(sent(&mut exchange), "http://127.0.0.1:8000/v1/chat/completions");
    // A status of another kind is the client's.
    exchange.refuse(&UpstreamRefusal::new(400));
    assert_eq!((exchange.next(), exchange.head().status), (NextStep::Over, 400));
    // Some time later the server may have been upgraded.
    assert_eq!(sent(&mut open_at(1_599)), "http://127.0.0.1:8000/v1/chat/completions");
    assert_eq!(sent(&mut open_at(1_600)), "http://127.0.0.1:8000/v1/messages");
}
