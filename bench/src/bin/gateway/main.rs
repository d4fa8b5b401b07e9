//! The cost of the gateway, beside a plain relay of the same bytes and beside no relay at all, on loopback.
//!
//! usage: gateway CALLWEAVE [--quick] [--beside CALLWEAVE]
//!
//! The upstream, the relay and the gateway are processes of their own, so that the processor time of each can be read
//! from the system; the load comes from this one. Rounds are interleaved, and the median of the rounds is reported: the
//! machine is never quiet. The gateway parses, repairs, coerces to the schema, checks and, on `/v1/messages`,
//! translates. Another build of it is measured beside it, in the same rounds, where one is named, which shows the cost
//! of a change.

mod abuse;
mod calls;
mod load;
mod process;
mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use load::{Kind, Load};
use process::Process;

/// The target of a measurement.
struct Target {
    name: &'static str,
    address: SocketAddr,
    path: &'static str,
    /// The prefix of models' names.
    prefix: &'static str,
    process: Option<usize>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["upstream", port] => servers::upstream(port.parse().expect("a port")),
        ["relay", port, upstream] => {
            servers::relay(port.parse().expect("a port"), upstream.parse().expect("an address"));
        }
        [callweave] => measure(callweave, 5, None),
        [callweave, "--quick"] => measure(callweave, 1, None),
        [callweave, "--beside", other] => measure(callweave, 5, Some(other)),
        [callweave, "--quick", "--beside", other] => measure(callweave, 1, Some(other)),
        _ => eprintln!("usage: gateway CALLWEAVE [--quick] [--beside CALLWEAVE]"),
    }
}

fn measure(callweave: &str, rounds: usize, other: Option<&str>) {
    let own = std::env::current_exe().expect("a program").display().to_string();
    let upstream = Process::start(&own, |port| vec!["upstream".into(), port.to_string()], None);
    let at = upstream.address;
    let relay = Process::start(&own, |port| vec!["relay".into(), port.to_string(), at.to_string()], None);
    let config = std::env::temp_dir().join(format!("callweave-bench-{}.toml", std::process::id()));
    let text = format!(
        "[upstreams.up]\nbase_url = \"http://{at}/v1\"\nprotocol = \"openai-chat\"\nmodels = [\"json\"]\n[timeouts]\nidle = 600\n"
    );
    std::fs::write(&config, text).expect("a folder for what is temporary");
    let serve = |port: u16| {
        let words =
            ["serve", "--config", &config.display().to_string(), "--listen", &format!("127.0.0.1:{port}")];
        words.map(str::to_owned).to_vec()
    };
    let gateway = Process::start(callweave, serve, None);
    let other = other.map(|other| Process::start(other, serve, None));
    let idle = gateway.resident();
    let processes: Vec<&Process> = [&relay, &gateway].into_iter().chain(&other).collect();
    let chat = "/v1/chat/completions";
    let target = |name, path, process: usize, prefix| {
        let address = processes[process].address;
        Target { name, address, path, prefix, process: Some(process) }
    };
    let mut targets = vec![
        Target { name: "direct", address: upstream.address, path: chat, prefix: "", process: None },
        target("relay", chat, 0, ""),
        target("gateway, chat", chat, 1, "up/"),
        target("gateway, messages", "/v1/messages", 1, "up/"),
    ];
    if other.is_some() {
        targets.push(target("other, chat", chat, 2, "up/"));
        targets.push(target("other, messages", "/v1/messages", 2, "up/"));
    }
    println!("resident when idle: gateway {:.1} MB, relay {:.1} MB\n", idle, relay.resident());
    calls::frames(&targets, upstream.address);
    for (title, kind, unit, connections, count) in [
        ("whole answers, one after the other", Kind::Json, "request", 1, 1500),
        ("whole answers, 16 connections", Kind::Json, "request", 16, 6000),
        ("streams of 32 chunks, 16 connections", Kind::Burst, "stream", 16, 1500),
        ("a stream of 100 chunks, one every 2 ms", Kind::Paced, "chunk", 1, 8),
        ("a call of 100 chunks, one every 2 ms", Kind::Call, "chunk", 1, 8),
        ("16 streams of 100 chunks, one every 2 ms", Kind::Paced, "chunk", 16, 48),
        ("16 calls of 100 chunks, one every 2 ms", Kind::Call, "chunk", 16, 48),
    ] {
        let mut results: Vec<Vec<load::Result>> = targets.iter().map(|_| Vec::new()).collect();
        for round in 0..=rounds {
            for (target, results) in targets.iter().zip(&mut results) {
                let load = Load {
                    address: target.address,
                    path: target.path,
                    model: target.prefix,
                    kind,
                    connections,
                    count,
                };
                let process = target.process.map(|at| processes[at]);
                let before = process.map(Process::busy);
                let mut result = load.run();
                let units = if kind.is_paced() { count * 100 } else { count };
                result.busy = process.zip(before).map(|(it, before)| (it.busy() - before) / units as f64);
                // The first round warms up.
                if round > 0 {
                    results.push(result);
                }
            }
        }
        println!("{title}");
        let of_relay = median(results[1].iter().filter_map(|result| result.busy));
        for (target, results) in targets.iter().zip(&results) {
            let busy = median(results.iter().filter_map(|result| result.busy));
            let cost = match target.process {
                None => String::new(),
                Some(_) => format!("{busy:8.1} µs CPU per {unit} ({:.2} of the relay)", busy / of_relay),
            };
            println!(
                "  {:18} {:8.0}/s  p50 {:8.0} µs  p99 {:8.0} µs {cost}",
                target.name,
                median(results.iter().map(|result| result.rate)),
                median(results.iter().map(|result| result.p50)),
                median(results.iter().map(|result| result.p99)),
            );
        }
        println!();
    }
    abuse::slow_streams(&gateway, 1000);
    if let Some(other) = &other {
        print!("other: ");
        abuse::slow_streams(other, 1000);
    }
    abuse::disconnects(&gateway, 1000);
    abuse::slow_clients(&gateway, 200);
    abuse::dying_upstream(callweave, &own);
    println!("resident in the end: gateway {:.1} MB", gateway.resident());
    let _ = std::fs::remove_file(&config);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A pause.
fn rest(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
