//! Exchanges: for any response of an upstream, in any pieces, the client gets the same; the next step stays consistent,
//! and a connection that fails is never a success.
//!
//! The first byte chooses the client, the second the upstream's protocol, the third the policy, the next two a split;
//! the rest is the upstream's response.

use std::sync::{Arc, LazyLock};

use callweave::event::EventKind;
use callweave::exchange::http::HttpWire;
use callweave::exchange::{ExchangeEngine, ExchangePolicy, InvalidCalls, SchemaMode, StopMode};
use callweave::protocol::{OPENAI_CHAT, Protocol, TABLE};
use callweave::request::RequestOptions;

use super::driver::{CLIENTS, Client, End, Reply, drive};
use super::laws::decode_truncated;

/// A policy that differs from the usual one.
const POLICIES: [fn(&mut ExchangePolicy); 5] = [
    |_| {},
    |policy| {
        policy.dialect = "none".to_owned();
        policy.splits_reasoning = Some(false);
        policy.repair = false;
        policy.schema = SchemaMode::Off;
    },
    |policy| policy.invalid_calls = InvalidCalls::Error,
    |policy| policy.invalid_calls = InvalidCalls::Reask,
    |policy| {
        policy.stop.is_on = Some(true);
        policy.stop.mode = Some(StopMode::All);
    },
];

/// The engines of an upstream's protocol, one for each policy.
type Engines = (&'static Protocol, Vec<Arc<ExchangeEngine>>);

/// An engine for each upstream's protocol and each policy.
static ENGINES: LazyLock<Vec<Engines>> = LazyLock::new(|| {
    let engine = |protocol: &'static Protocol, set: fn(&mut ExchangePolicy)| {
        let mut policy = ExchangePolicy::default();
        policy.protocol = Some(protocol);
        set(&mut policy);
        ExchangeEngine::new(policy).expect("a policy")
    };
    let asked = TABLE.iter().copied().filter(|row| HttpWire::of(row).is_some());
    asked.map(|row| (row, POLICIES.iter().map(|set| engine(row, *set)).collect())).collect()
});

static REQUESTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| CLIENTS.iter().map(request).collect());

/// A client's request, with a tool.
fn request(client: &Client) -> Vec<u8> {
    let chat = serde_json::json!({
        "model": "m",
        "stream": client.is_streamed,
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
    });
    let written = OPENAI_CHAT.translate_request(chat.into(), client.protocol(), &RequestOptions::default());
    written.expect("a request").body.to_string().into_bytes()
}

/// The number of an upstream's protocol.
pub(crate) fn choice(protocol: &str) -> Option<u8> {
    ENGINES.iter().position(|(row, _)| row.name == protocol).map(|at| at as u8)
}

/// Checks one input.
pub(crate) fn check(input: &[u8]) {
    let Some((&[client, protocol, policy, high, low], bytes)) = input.split_first_chunk::<5>() else {
        return;
    };
    let number = usize::from(client) % CLIENTS.len();
    let client = &CLIENTS[number];
    let (protocol, engines) = &ENGINES[usize::from(protocol) % ENGINES.len()];
    let engine = &engines[usize::from(policy) % engines.len()];
    let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
    let get = |bytes: &[u8], cuts: &[usize], end| {
        let incoming = client.incoming("m", &REQUESTS[number], "fuzz");
        drive(engine, incoming, |_| Reply::cut(bytes, cuts, end)).expect("a request that can be read")
    };
    let complete = get(bytes, &[], End::Finish).read(client);
    let every: Vec<usize> = if bytes.len() < 512 { (1..bytes.len()).collect() } else { Vec::new() };
    for cuts in [vec![at], every] {
        assert_eq!(get(bytes, &cuts, End::Finish).read(client), complete, "cut at {at}");
    }
    let prefix = &bytes[..at];
    get(prefix, &[], End::Finish);
    let failed = get(prefix, &[], End::Fail);
    let decoded = decode_truncated(Some(protocol), prefix, &[]);
    let is_over = |body: &EventKind<'_>| matches!(body, EventKind::End | EventKind::Error(_));
    let has_ended = decoded.events[..decoded.before_finish].iter().any(|event| is_over(&event.body));
    let is_success = failed.error.is_none() && !failed.is_interrupted;
    assert!(!is_success || has_ended, "a failed connection is a success: {}", failed.text());
}
