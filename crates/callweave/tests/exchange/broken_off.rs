//! Responses that break off, each way alone.

use callweave::exchange::{InvalidCalls, StopMode};
use callweave::protocol::{GEMINI_GENERATE_CONTENT, OLLAMA, OPENAI_CHAT};

use crate::driver::{CLIENTS, Client, End, Got, Reply, drive};
use crate::{engine, relays, request};

fn client(name: &str) -> &'static Client {
    CLIENTS.iter().find(|client| client.name == name).expect("a client")
}

fn get(name: &str, set: impl FnOnce(&mut callweave::exchange::ExchangePolicy), bytes: &str, end: End) -> Got {
    let client = client(name);
    let engine = engine(client.protocol(), set);
    let incoming = client.incoming("m", &request(client), "broken");
    drive(&engine, incoming, |_| Reply::cut(bytes.as_bytes(), &[], end)).expect("a request that can be read")
}

#[test]
fn a_body_that_breaks_off_behind_its_finish_reason_is_an_error() {
    let part = r#"{"id": "c1", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "The sky i"#;
    let got = get("chat", |_| {}, part, End::Finish);
    assert_eq!(got.status, 502, "{}", got.text());
}

#[test]
fn a_frame_that_breaks_off_behind_its_finish_reason_is_an_error() {
    let part = "data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"finish_reason\": \"stop\", \"delta\": {\"content\": \"The sky i";
    let got = get("chat, streamed", |_| {}, part, End::Finish);
    assert!(got.message(&OPENAI_CHAT).error().is_some() || got.status == 502, "{}", got.text());
}

/// The frame that came is read by itself, even if the next one broke off.
#[test]
fn a_relayed_stream_that_breaks_off_inside_a_frame_ends_with_an_error_of_its_own() {
    let cases = [
        (
            "chat, streamed",
            "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n",
        ),
        (
            "ollama, streamed",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}",
        ),
        ("gemini, streamed", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}]}"),
    ];
    for (name, part) in cases {
        let got = get(name, relays, part, End::Fail);
        let message = got.message(client(name).protocol());
        assert_eq!((got.status, &*message.text()), (200, "Hi"), "{name}: {}", got.text());
        assert!(message.error().is_some_and(|error| error.message.contains("lost the connection")), "{name}");
        assert!(got.text().starts_with(part), "{name}: {}", got.text());
    }
}

#[test]
fn a_relayed_beginning_is_not_written_twice() {
    let part = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    let got = get("messages, streamed", relays, part, End::Fail);
    assert_eq!(got.text().matches("event: message_start").count(), 1, "{}", got.text());
    assert!(got.text().contains("event: error"), "{}", got.text());
}

/// The upstream is asked for server-sent events, so its bytes are not those of an array.
#[test]
fn an_array_is_written_where_events_come() {
    let bytes = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}],\"role\":\"model\"},\"finishReason\":\"STOP\"}]}\n\n";
    let got = get("gemini, an array", relays, bytes, End::Finish);
    let array: serde_json::Value = serde_json::from_slice(&got.body).expect("an array");
    assert_eq!(array[0]["candidates"][0]["content"]["parts"][0]["text"], "Hi", "{}", got.text());
    let got = get("gemini, streamed", relays, bytes, End::Finish);
    assert_eq!(got.text(), bytes);
    assert_eq!(*client("gemini, streamed").protocol(), GEMINI_GENERATE_CONTENT);
    assert_eq!(*client("ollama").protocol(), OLLAMA);
}

/// A head that is asked for before anything came, for a client that must not wait longer.
#[test]
fn a_failure_behind_an_early_head_stands_in_the_stream() {
    use callweave::exchange::{NextStep, UpstreamRefusal};

    for client in CLIENTS.iter().filter(|client| client.is_streamed) {
        for set in [(|_| {}) as fn(&mut _), relays] {
            for is_refused in [true, false] {
                let engine = engine(client.protocol(), set);
                let mut exchange =
                    engine.open(client.incoming("m", &request(client), "early")).expect("a request");
                exchange.take_outgoing().expect("a request");
                assert_eq!(exchange.head().status, 200);
                match is_refused {
                    true => exchange.refuse(&UpstreamRefusal::new(503)),
                    false => {
                        exchange.accept([("content-type", "text/event-stream")]);
                        exchange.finish();
                    }
                }
                assert_eq!(exchange.next(), NextStep::Over);
                assert_eq!(exchange.head().status, 200);
                let bytes = exchange.take_bytes();
                let message = crate::laws::decode_truncated(Some(client.protocol()), &bytes, &[]).message;
                let text = String::from_utf8_lossy(&bytes);
                assert!(message.error().is_some(), "{}, {is_refused}: {text:?}", client.name);
            }
        }
    }
}

/// Nobody declared tools, so nothing is held: the error comes before the end, not behind it.
#[test]
fn an_invalid_call_that_nobody_declared_ends_the_response_once() {
    let call = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"[1]\"}}]}}]}\n\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let engine = engine(&OPENAI_CHAT, |policy| policy.invalid_calls = InvalidCalls::Error);
    let body = br#"{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Look."}]}"#;
    for (name, is_streamed) in [("chat, streamed", true), ("chat", false)] {
        let body = String::from_utf8_lossy(body).replace("true", &is_streamed.to_string());
        let incoming = client(name).incoming("m", body.as_bytes(), "once");
        let got =
            drive(&engine, incoming, |_| Reply::cut(call.as_bytes(), &[], End::Finish)).expect("a request");
        let is_ended = got.text().contains("[DONE]");
        assert!(!(is_ended && got.text().contains("\"error\"")), "{name}: {}", got.text());
        assert_eq!(got.error.is_some(), !is_ended && (got.status != 200 || is_streamed), "{name}: {got:?}");
    }
}

/// Silence ends a response only where it was waited for.
#[test]
fn silence_amid_a_call_ends_nothing() {
    let start = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\": \"}}]}}]}\n\n";
    let rest = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"Oslo\\\"}\"}}]}}]}\n\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    for (mode, suppress_tail) in
        [(Some(StopMode::All), None), (Some(StopMode::First), None), (None, Some(true))]
    {
        let engine = engine(&OPENAI_CHAT, |policy| {
            policy.stop.is_on = Some(mode.is_some());
            (policy.stop.mode, policy.stop.suppress_tail) = (mode, suppress_tail);
        });
        let client = client("chat, streamed");
        let mut exchange = engine.open(client.incoming("m", &request(client), "silent")).expect("a request");
        exchange.silence();
        exchange.take_outgoing().expect("a request");
        exchange.silence();
        exchange.accept([("content-type", "text/event-stream")]);
        exchange.silence();
        exchange.push(start.as_bytes());
        exchange.silence();
        exchange.push(rest.as_bytes());
        exchange.finish();
        let bytes = exchange.take_bytes();
        let message = crate::laws::decode_truncated(Some(&OPENAI_CHAT), &bytes, &[]).message;
        let calls: Vec<&str> = message.tool_calls().map(|call| call.arguments()).collect();
        assert_eq!(calls, [r#"{"city": "Oslo"}"#], "{mode:?}: {}", String::from_utf8_lossy(&bytes));
    }
}
