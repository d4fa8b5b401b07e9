//! The laws of exchanges, and each rule of theirs alone.

#![cfg(feature = "exchange")]

#[path = "../support/cores.rs"]
mod cores;
#[path = "../support/driver.rs"]
mod driver;
#[path = "../laws/mod.rs"]
mod laws;
#[path = "../support/prefix.rs"]
mod prefix;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/shared.rs"]
mod shared;

mod broken_off;
mod flow;
mod order;
mod policies;
mod stored;
mod turns;

use std::sync::Arc;

use callweave::exchange::http::HttpWire;
use callweave::exchange::{ExchangeEngine, ExchangePolicy, InvalidCalls, SchemaMode, StopMode};
use callweave::protocol::{OPENAI_CHAT, Protocol};
use callweave::request::RequestOptions;
use driver::{CLIENTS, Client, End, Reply, drive};
use laws::cut_lists;
use samples::{Sample, all_samples};
use serde_json::json;

/// A policy, by what it is called in failures.
type NamedPolicy = (&'static str, fn(&mut ExchangePolicy));

/// A policy by what it does.
const POLICIES: [NamedPolicy; 6] = [
    ("usual", |_| {}),
    ("relay", relays),
    ("error", |policy| policy.invalid_calls = InvalidCalls::Error),
    ("reask", |policy| policy.invalid_calls = InvalidCalls::Reask),
    ("stop at the first call", |policy| policy.stop.is_on = Some(true)),
    ("stop after all calls", |policy| {
        policy.stop.is_on = Some(true);
        policy.stop.mode = Some(StopMode::All);
    }),
];

/// A policy by which nothing is done.
fn relays(policy: &mut ExchangePolicy) {
    policy.dialect = "none".to_owned();
    policy.splits_reasoning = Some(false);
    policy.repair = false;
    policy.schema = SchemaMode::Off;
}

/// An engine for an upstream of a protocol.
fn engine(protocol: &'static Protocol, set: impl FnOnce(&mut ExchangePolicy)) -> Arc<ExchangeEngine> {
    let mut policy = ExchangePolicy::default();
    policy.base_url = "http://upstream/v1".to_owned();
    policy.protocol = Some(protocol);
    set(&mut policy);
    ExchangeEngine::new(policy).expect("a policy")
}

/// A request in the client's protocol, with a tool.
fn request(client: &Client) -> Vec<u8> {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let chat = json!({
        "model": "m",
        "stream": client.is_streamed,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}],
    });
    let written = OPENAI_CHAT.translate_request(chat.into(), client.protocol(), &RequestOptions::default());
    written.expect("a request").body.to_string().into_bytes()
}

/// Own cases, and some of the recordings, of protocols in which upstreams are asked, except for very long ones.
fn responses() -> Vec<(usize, Sample)> {
    let is_asked = |sample: &Sample| HttpWire::of(sample.protocol).is_some() && sample.bytes.len() < 20_000;
    let is_tried = |(at, sample): &(usize, Sample)| sample.is_own || at % 8 == 0;
    all_samples().into_iter().filter(is_asked).enumerate().filter(is_tried).collect()
}

/// Engines of all policies for all upstreams.
struct Engines(Vec<(&'static str, &'static Protocol, Arc<ExchangeEngine>)>);

impl Engines {
    fn new() -> Self {
        let asked = callweave::protocol::TABLE.iter().copied().filter(|row| HttpWire::of(row).is_some());
        let engines = asked.flat_map(|row| POLICIES.map(|(name, set)| (name, row, engine(row, set))));
        Self(engines.collect())
    }

    fn of(&self, policy: usize, protocol: &Protocol) -> (&'static str, &Arc<ExchangeEngine>) {
        let (name, _) = POLICIES[policy % POLICIES.len()];
        let found = self.0.iter().find(|(own, row, _)| *own == name && *row == protocol);
        found.map(|(name, _, engine)| (*name, engine)).expect("an engine for every upstream")
    }
}

/// The clients and policies with which a response is tried: some of all pairs, others for each response. A relayed
/// response is of the kind that the client asked for.
fn pairs(at: usize, sample: &Sample) -> impl Iterator<Item = (&'static Client, usize)> {
    let count = if sample.is_own { 4 } else { 1 };
    let is_body = serde_json::from_slice::<serde::de::IgnoredAny>(&sample.bytes).is_ok();
    let is_fitting = move |(client, policy): &(&Client, usize)| {
        let is_relayed =
            POLICIES[policy % POLICIES.len()].0 == "relay" && client.protocol() == sample.protocol;
        !is_relayed || client.is_streamed != is_body
    };
    (0..count).map(move |pair| (&CLIENTS[(at + 3 * pair) % CLIENTS.len()], at / 2 + pair)).filter(is_fitting)
}

/// Fails with the first of the faults, and a list of where they are.
fn expect_none(faults: Vec<Vec<(String, String)>>) {
    let faults: Vec<_> = faults.into_iter().flatten().collect();
    let Some((_, first)) = faults.first() else { return };
    let places: Vec<&str> = faults.iter().map(|(place, _)| place.as_str()).collect();
    panic!("{} faults:\n{}\nthe first: {first}", faults.len(), places.join("\n"));
}

#[test]
fn cuts_change_nothing() {
    let engines = Engines::new();
    let faults = cores::each(&responses(), |(at, sample)| {
        let mut faults = Vec::new();
        for (client, policy) in pairs(*at, sample) {
            let (name, engine) = engines.of(policy, sample.protocol);
            let get = |cuts: &[usize]| {
                let incoming = client.incoming("m", &request(client), "cut");
                let got = drive(engine, incoming, |_| Reply::cut(&sample.bytes, cuts, End::Finish));
                got.expect("a request that can be read").read(client)
            };
            let complete = get(&[]);
            let lists = cut_lists(sample.bytes.len(), 3);
            if let Some((cuts, got)) =
                lists.iter().map(|cuts| (cuts, get(cuts))).find(|(_, got)| *got != complete)
            {
                let place = format!("{}, {}, {name}: cut at {:?}", sample.title, client.name, cuts.first());
                faults.push((place, format!("{got:#?}\ncomplete: {complete:#?}")));
            }
        }
        faults
    });
    expect_none(faults);
}

#[test]
fn no_prefix_looks_complete() {
    let engines = Engines::new();
    let faults = cores::each(&responses(), |(at, sample)| {
        let mut faults = Vec::new();
        for (client, policy) in pairs(*at, sample) {
            let (name, engine) = engines.of(policy, sample.protocol);
            let length = sample.bytes.len();
            for to in (0..length).step_by((length / 9).max(1)).chain(length.saturating_sub(2)..length) {
                let prefix = &sample.bytes[..to];
                for end in [End::Finish, End::Fail] {
                    let incoming = client.incoming("m", &request(client), "prefix");
                    let got = drive(engine, incoming, |_| Reply::cut(prefix, &[], end));
                    let got = got.expect("a request that can be read");
                    // A response that the policy ended did not break off.
                    let what = prefix::judge(client, &got, sample.protocol, prefix, end).err();
                    if let Some(what) = what.filter(|_| !got.is_interrupted) {
                        let place =
                            format!("{}, {}, {name}: {to}, {end:?}: {what}", sample.title, client.name);
                        faults.push((place, got.text()));
                    }
                }
            }
        }
        faults
    });
    expect_none(faults);
}
