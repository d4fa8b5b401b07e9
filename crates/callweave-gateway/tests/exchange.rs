//! Upstreams that misbehave, as a strict client sees them through an exchange alone: no server, no runtime, no clock. The
//! scenarios of `scenarios.rs`, for every client protocol, streamed and not. The client repairs nothing and reads no
//! dialect. Then the laws: cuts of the upstream's bytes change nothing, and no prefix of them looks complete.

#[path = "../../callweave/tests/support/driver.rs"]
mod driver;
#[path = "../../callweave/tests/laws/mod.rs"]
mod laws;
mod misbehaviour;
#[path = "../../callweave/tests/support/prefix.rs"]
mod prefix;
#[path = "../../callweave/tests/requests/rules.rs"]
#[allow(dead_code, reason = "the scripted models are providers without rules of their own")]
mod rules;

use std::sync::Arc;

use callweave::Value;
use callweave::exchange::{ExchangeEngine, ExchangePolicy, HttpRequest};
use callweave::protocol::OPENAI_CHAT;
use callweave_gateway::demo::{self, DemoScript};
use driver::{CLIENTS, Client, End, Reply, Step, drive};
use laws::cut_lists;
use misbehaviour::{ClientView, SCENARIOS, judge};

/// The client's request.
fn request(client: &Client, model: &str) -> Vec<u8> {
    misbehaviour::request(client.protocol(), model, client.is_streamed)
}

fn engine() -> Arc<ExchangeEngine> {
    let mut policy = ExchangePolicy::default();
    policy.base_url = "http://upstream/v1".to_owned();
    policy.protocol = Some(&OPENAI_CHAT);
    ExchangeEngine::new(policy).expect("a policy")
}

/// The script that a model plays for a request, and the faults of the request.
fn script(request: &HttpRequest) -> (DemoScript, Vec<String>) {
    let body: Value = std::str::from_utf8(request.body.as_ref()).expect("text").parse().expect("JSON");
    let mut faults = rules::refused(request.protocol.name, &body);
    if let Err(error) = request.protocol.read_request(body) {
        faults.push(error.to_string());
    }
    if request.headers.iter().all(|header| *header != ("content-type", "application/json".to_owned())) {
        faults.push("the body is not said to be JSON".to_owned());
    }
    let script = demo::response(&request.model, request.body.as_ref(), request.is_streamed);
    (script.expect("a scripted model"), faults)
}

/// The same as a reply.
fn reply(script: DemoScript) -> Reply {
    let mut end = End::Finish;
    let step = |step| match step {
        demo::ScriptStep::Send(bytes) => Some(Step::Bytes(bytes)),
        demo::ScriptStep::Wait(_) => Some(Step::Silence),
        demo::ScriptStep::Break => {
            end = End::Fail;
            None
        }
    };
    let steps = script.steps.into_iter().filter_map(step).collect();
    let mut headers: Vec<(String, Vec<u8>)> =
        script.headers.into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes())).collect();
    headers.push(("x-request-id".to_owned(), b"req-demo-1".to_vec()));
    Reply { status: script.status, headers, steps, end }
}

#[test]
fn every_scenario_is_right_for_every_client() {
    let engine = engine();
    let (mut matrix, mut failures) = (String::new(), Vec::new());
    for (name, model, expected) in SCENARIOS {
        matrix += &format!("{name:14}");
        for client in &CLIENTS {
            let incoming = client.incoming(model, &request(client, model), "scenario");
            let mut faults = Vec::new();
            let got = drive(&engine, incoming, |request| {
                let (script, found) = script(request);
                faults.extend(found);
                reply(script)
            });
            let got = got.expect("a request that can be read");
            let view = ClientView {
                protocol: client.protocol(),
                is_streamed: client.is_streamed,
                status: got.status,
                header: &|name| got.header(name),
                body: &got.body,
                is_complete: !got.is_broken,
            };
            faults.extend(judge(&view, expected).err());
            matrix += if faults.is_empty() { " ok   " } else { " WRONG" };
            failures.extend(faults.into_iter().map(|what| format!("{name}, {}: {what}", client.name)));
        }
        matrix += "\n";
    }
    println!("{matrix}");
    assert!(failures.is_empty(), "{}\n{matrix}", failures.join("\n\n"));
}

/// The bytes of a scenario for a client, and how they end; none where the model refuses.
fn recorded(engine: &Arc<ExchangeEngine>, client: &Client, model: &str) -> Option<(Vec<u8>, End)> {
    let mut recorded = None;
    let incoming = client.incoming(model, &request(client, model), "scenario");
    let got = drive(engine, incoming, |request| {
        let script = script(request).0;
        let bytes = script.bytes();
        let reply = reply(script);
        if reply.status == 200 {
            recorded = Some((bytes, reply.end));
        }
        reply
    });
    got.expect("a request that can be read");
    recorded
}

#[test]
fn cuts_change_nothing() {
    let engine = engine();
    for (name, model, _) in SCENARIOS {
        for client in &CLIENTS {
            let Some((bytes, end)) = recorded(&engine, client, model) else { continue };
            let get = |cuts: &[usize]| {
                let incoming = client.incoming(model, &request(client, model), "scenario");
                let got = drive(&engine, incoming, |_| Reply::cut(&bytes, cuts, end));
                got.expect("a request that can be read").read(client)
            };
            let complete = get(&[]);
            for cuts in cut_lists(bytes.len(), 12) {
                assert_eq!(get(&cuts), complete, "{name}, {}: cut at {:?}", client.name, cuts.first());
            }
        }
    }
}

#[test]
fn no_prefix_looks_complete() {
    let engine = engine();
    for (name, model, _) in SCENARIOS {
        for client in &CLIENTS {
            let Some((bytes, _)) = recorded(&engine, client, model) else { continue };
            let step = (bytes.len() / 24).max(1);
            for at in (0..bytes.len()).step_by(step).chain(bytes.len().saturating_sub(8)..bytes.len()) {
                for end in [End::Finish, End::Fail] {
                    let incoming = client.incoming(model, &request(client, model), "scenario");
                    let got = drive(&engine, incoming, |_| Reply::cut(&bytes[..at], &[], end));
                    let got = got.expect("a request that can be read");
                    let what = prefix::judge(client, &got, &OPENAI_CHAT, &bytes[..at], end);
                    let about = format!("{name}, {}, {at} of {} bytes, {end:?}", client.name, bytes.len());
                    assert_eq!(what, Ok(()), "{about}:\n{}", got.text());
                }
            }
        }
    }
}
