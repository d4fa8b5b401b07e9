//! Calls in any order: they do nothing harmful, and what is next stays consistent.

use callweave::exchange::{Exchange, NextStep, UpstreamFault, UpstreamRefusal};
use callweave::protocol::OPENAI_CHAT;

use crate::driver::{CLIENTS, Client};
use crate::laws::decode_truncated;
use crate::{POLICIES, engine, request};

const CALL: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hm. \",\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{}\"}}]}}]}\n\n";
const END: &str = "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

/// One call of a driver.
fn step(exchange: &mut Exchange, number: u64) {
    match number {
        0 => drop(exchange.take_outgoing()),
        1 => exchange.accept([("x-request-id", "r1")]),
        2 => exchange.push(CALL.as_bytes()),
        3 => exchange.push(END.as_bytes()),
        4 => exchange.push(b"data: {\"id"),
        5 => exchange.finish(),
        6 => exchange.fail(&UpstreamFault::lost("lost the connection")),
        7 => exchange.silence(),
        8 => exchange.interrupt(),
        9 => exchange.refuse(&UpstreamRefusal::new(429)),
        10 => drop(exchange.head().clone()),
        _ => drop(exchange.usage()),
    }
}

/// Whether an exchange may go from one to the other.
fn may_follow(before: NextStep, after: NextStep, number: u64) -> bool {
    match (before, after) {
        _ if before == after => true,
        // Nothing but a request that is taken leads to a response, and only a failure leads to the end without one.
        (NextStep::Send, NextStep::Read(None)) => number == 0,
        (NextStep::Send, NextStep::Over) => matches!(number, 0 | 6 | 9),
        (NextStep::Read(_), NextStep::Read(_)) => matches!(number, 1..=4 | 7),
        // The model is asked again, or its response is over.
        (NextStep::Read(_), _) => matches!(number, 2..=7 | 9),
        (NextStep::Interrupt, NextStep::Over) => number == 8,
        _ => false,
    }
}

#[test]
fn any_order_of_calls_is_harmless() {
    let engines = POLICIES.map(|(_, set)| engine(&OPENAI_CHAT, set));
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let bodies: Vec<(&Client, Vec<u8>)> = CLIENTS.iter().map(|client| (client, request(client))).collect();
    for round in 0..4000 {
        let (client, body) = &bodies[round % bodies.len()];
        let engine = &engines[round / bodies.len() % engines.len()];
        let mut exchange = engine.open(client.incoming("m", body, "order")).expect("a request");
        let (mut bytes, mut steps, mut head) = (Vec::new(), Vec::new(), None);
        for _ in 0..24 {
            let (before, number) = (exchange.next(), next(13));
            step(&mut exchange, number);
            steps.push(number);
            let after = exchange.next();
            assert!(may_follow(before, after, number), "{before:?} to {after:?} by {steps:?}");
            if before == NextStep::Over {
                assert!(
                    number == 10 || !exchange.has_bytes() || head.is_none(),
                    "more after the end: {steps:?}"
                );
            }
            if number == 10 {
                let status = exchange.head().status;
                assert_eq!(*head.get_or_insert(status), status, "{steps:?}");
            }
            // A driver takes bytes once it has sent the head.
            if head.is_some() {
                bytes.extend(exchange.take_bytes());
            }
        }
        if exchange.next() != NextStep::Over || head != Some(200) || !client.is_streamed {
            continue;
        }
        // A stream that is over has its end, or an error.
        let decoded = decode_truncated(Some(client.protocol()), &bytes, &[]);
        let is_marked = decoded.message.error().is_some();
        assert_eq!(exchange.error().is_some(), is_marked, "{steps:?}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn bytes_before_the_status_are_not_taken() {
    let client = &CLIENTS[0];
    let engine = engine(&OPENAI_CHAT, |_| {});
    let mut exchange = engine.open(client.incoming("m", &request(client), "early")).expect("a request");
    exchange.accept([("x-request-id", "r0")]);
    exchange.push(CALL.as_bytes());
    assert_eq!(exchange.next(), NextStep::Send);
    exchange.take_outgoing().expect("a request");
    exchange.push(CALL.as_bytes());
    exchange.finish();
    assert_eq!((exchange.next(), exchange.has_bytes()), (NextStep::Read(None), false));
    exchange.accept([("x-request-id", "r1")]);
    exchange.accept([("x-request-id", "r1")]);
    exchange.push([CALL, END].concat().as_bytes());
    assert_eq!(exchange.next(), NextStep::Over);
    assert_eq!(exchange.outcomes().len(), 1);
}
