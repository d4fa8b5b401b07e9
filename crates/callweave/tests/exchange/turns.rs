//! A model that is asked again: the fate of its second response, and the usage of both.

use callweave::exchange::{CallResolution, InvalidCalls};
use callweave::protocol::OPENAI_CHAT;

use crate::driver::{CLIENTS, Client, End, Got, Reply, drive};
use crate::{engine, request};

/// A streamed response with one call, without an id of its own.
fn call(text: &str, arguments: &str, tokens: u32) -> String {
    let arguments = serde_json::to_string(arguments).expect("a text");
    format!(
        "data: {{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\",\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"get_weather\",\"arguments\":{arguments}}}}}]}}}}]}}\n\n\
         data: {{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"tool_calls\"}}],\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n"
    )
}

fn get(client: &Client, id: &str, replies: Vec<Reply>) -> Got {
    let engine = engine(&OPENAI_CHAT, |policy| policy.invalid_calls = InvalidCalls::Reask);
    let (mut replies, incoming) = (replies.into_iter(), client.incoming("m", &request(client), id));
    drive(&engine, incoming, |_| replies.next().expect("not asked so often"))
        .expect("a request that can be read")
}

fn reply(bytes: &str) -> Reply {
    Reply::cut(bytes.as_bytes(), &[], End::Finish)
}

fn outcomes(got: &Got) -> Vec<CallResolution> {
    got.outcomes.iter().map(|call| call.outcome).collect()
}

#[test]
fn a_second_response_takes_the_place_of_the_first() {
    for client in &CLIENTS {
        let got =
            get(client, "1", vec![reply(&call("No. ", "{}", 10)), reply(&call("", r#"{"city":"Oslo"}"#, 7))]);
        let message = got.message(client.protocol());
        assert_eq!((got.status, got.asked, got.error.as_deref()), (200, 2, None), "{}", client.name);
        assert_eq!(outcomes(&got), [CallResolution::Retried, CallResolution::Native], "{}", client.name);
        let arguments: Vec<&str> = message.tool_calls().map(|call| call.arguments()).collect();
        assert_eq!(arguments, [r#"{"city":"Oslo"}"#], "{}: {}", client.name, got.text());
        assert_eq!(message.text(), "", "{}", client.name);
        assert_eq!(
            (got.usage.input_tokens, got.usage.output_tokens),
            (Some(17), Some(17)),
            "{}",
            client.name
        );
    }
}

/// Nothing was shown of the first response, so the refusal has its own status.
#[test]
fn a_refused_second_request_is_a_failure_with_its_status() {
    for client in &CLIENTS {
        let refused = Reply::refused(429, r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#);
        let got = get(client, "1", vec![reply(&call("No. ", "{}", 10)), refused]);
        assert_eq!((got.status, got.asked), (429, 2), "{}: {}", client.name, got.text());
        assert!(got.text().contains("slow down") && !got.text().contains("No. "), "{}", got.text());
        assert_eq!(outcomes(&got), [CallResolution::Retried], "{}", client.name);
        assert_eq!(got.usage.output_tokens, Some(10), "{}", client.name);
    }
}

/// The client has its head, since a keep-alive was sent.
#[test]
fn a_refused_second_request_is_an_error_in_a_stream_that_has_begun() {
    use callweave::exchange::{NextStep, UpstreamRefusal};

    for client in CLIENTS.iter().filter(|client| client.is_streamed) {
        let engine = engine(&OPENAI_CHAT, |policy| policy.invalid_calls = InvalidCalls::Reask);
        let mut exchange = engine.open(client.incoming("m", &request(client), "1")).expect("a request");
        exchange.take_outgoing().expect("a request");
        exchange.accept([("content-type", "text/event-stream")]);
        assert_eq!(exchange.head().status, 200);
        exchange.push(call("No. ", "{}", 10).as_bytes());
        assert_eq!((exchange.next(), exchange.has_bytes()), (NextStep::Send, false), "{}", client.name);
        exchange.take_outgoing().expect("a second request");
        exchange.refuse(&UpstreamRefusal::new(503));
        assert_eq!((exchange.next(), exchange.head().status), (NextStep::Over, 200));
        let bytes = exchange.take_bytes();
        let message = crate::laws::decode_truncated(Some(client.protocol()), &bytes, &[]).message;
        assert!(message.error().is_some(), "{}: {}", client.name, String::from_utf8_lossy(&bytes));
        assert!(message.text().is_empty() && message.tool_calls().next().is_none(), "{}", client.name);
    }
}

#[test]
fn a_model_is_asked_no_more_often_than_allowed() {
    let bad = || reply(&call("", "{}", 10));
    let got = get(&CLIENTS[0], "1", vec![bad(), bad(), bad()]);
    assert_eq!((got.status, got.asked), (200, 3));
    assert_eq!(outcomes(&got), [CallResolution::Retried, CallResolution::Retried, CallResolution::Invalid]);
    assert_eq!(got.usage.output_tokens, Some(30));
}

#[test]
fn made_ids_differ_between_turns_and_requests() {
    let bad = || reply(&call("", "{}", 10));
    let mut ids: Vec<String> = Vec::new();
    for id in ["1", "2", "1r1", "0123456789abcdef1", "0123456789abcdef2"] {
        let got = get(&CLIENTS[0], id, vec![bad(), bad(), bad()]);
        ids.extend(got.outcomes.into_iter().map(|call| call.id));
    }
    let count = ids.len();
    ids.sort();
    let all = ids.clone();
    ids.dedup();
    assert_eq!((count, ids.len()), (15, 15), "{all:?}");
}
