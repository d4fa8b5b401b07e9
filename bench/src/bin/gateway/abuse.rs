//! The loads that a gateway must bear: many slow streams, clients that leave or never come to the point, upstreams that
//! die.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::load::request;
use crate::process::Process;
use crate::rest;

const PATH: &str = "/v1/messages";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Opens a stream and reads its first bytes.
async fn open(address: SocketAddr, model: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("somebody listens");
    stream.write_all(&request(PATH, model, true)).await.expect("a request is taken");
    let mut first = [0; 512];
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut first)).await;
    stream
}

/// Measures the memory of many open streams, and the rest of it when they are gone.
pub(crate) fn slow_streams(gateway: &Process, count: usize) {
    let (before, files) = (gateway.resident(), gateway.files());
    let during = runtime().block_on(async {
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(open(gateway.address, "up/slow").await);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        gateway.resident()
    });
    let each = (during - before) * 1024.0 / count as f64;
    println!("{count} slow streams: {before:.1} MB before, {during:.1} MB with them ({each:.1} KB each)");
    settle("  after they left", gateway, files);
}

/// Clients that leave in mid-response.
pub(crate) fn disconnects(gateway: &Process, count: usize) {
    let files = gateway.files();
    let before = gateway.resident();
    runtime().block_on(async {
        for at in 0..count {
            drop(open(gateway.address, if at % 2 == 0 { "up/slow" } else { "up/paced" }).await);
        }
    });
    println!("{count} disconnects: {before:.1} MB before");
    settle("  after", gateway, files);
}

/// Clients that send a byte now and then.
pub(crate) fn slow_clients(gateway: &Process, count: usize) {
    let files = gateway.files();
    runtime().block_on(async {
        let mut streams = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(gateway.address).await.expect("somebody listens");
            stream
                .write_all(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-a: ")
                .await
                .expect("a part of a head");
            streams.push(stream);
        }
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            for stream in &mut streams {
                let _ = stream.write_all(b"b").await;
            }
        }
        // Another client is served meanwhile.
        let start = Instant::now();
        drop(open(gateway.address, "up/burst").await);
        println!(
            "{count} clients that send a byte at a time: another is answered after {:?}",
            start.elapsed()
        );
    });
    settle("  after they left", gateway, files);
}

/// Upstreams that are killed, stall, close half-way or talk nonsense: every stream must end with an error.
pub(crate) fn dying_upstream(callweave: &str, own: &str) {
    let upstream = Process::start(own, |port| vec!["upstream".into(), port.to_string()], None);
    let config = std::env::temp_dir().join(format!("callweave-abuse-{}.toml", std::process::id()));
    let url = format!("http://{}/v1", upstream.address);
    let text = format!(
        "[upstreams.up]\nbase_url = \"{url}\"\nprotocol = \"openai-chat\"\nmodels = [\"json\"]\nretries = 0\n[timeouts]\nidle = 7\nfirst_byte = 2\n"
    );
    std::fs::write(&config, text).expect("a folder for what is temporary");
    let serve = |port: u16| {
        let words =
            ["serve", "--config", &config.display().to_string(), "--listen", &format!("127.0.0.1:{port}")];
        words.map(str::to_owned).to_vec()
    };
    let gateway = Process::start(callweave, serve, None);
    let files = gateway.files();
    let mut upstream = Some(upstream);
    for (model, what) in [
        ("up/half", "closed in the middle"),
        ("up/garbage", "that talks nonsense"),
        ("up/stall", "that stalls"),
        ("up/slow", "killed in mid-stream"),
        ("up/slow", "that is not there"),
    ] {
        let answers = runtime().block_on(async {
            let tasks: Vec<_> =
                (0..50).map(|_| tokio::spawn(to_the_end(gateway.address, model.to_owned()))).collect();
            if what.starts_with("killed") {
                tokio::time::sleep(Duration::from_secs(6)).await;
                upstream.take();
            }
            let mut answers = Vec::new();
            for task in tasks {
                answers.push(task.await.expect("no panic"));
            }
            answers
        });
        let errors = answers.iter().filter(|answer| answer.contains("\"type\":\"error\"")).count();
        let ends = answers.iter().filter(|answer| answer.contains("message_stop")).count();
        println!("50 streams of an upstream {what}: {errors} end with an error, {ends} as if all were well");
    }
    settle("  after", &gateway, files);
    let _ = std::fs::remove_file(&config);
}

async fn to_the_end(address: SocketAddr, model: String) -> String {
    let mut stream = TcpStream::connect(address).await.expect("somebody listens");
    let mut asked = request(PATH, &model, true);
    let at = asked.windows(2).position(|window| window == b"\r\n").map_or(0, |at| at + 2);
    asked.splice(at..at, b"connection: close\r\n".iter().copied());
    stream.write_all(&asked).await.expect("a request is taken");
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until the connections are gone, and prints the remaining resources.
fn settle(title: &str, gateway: &Process, files: usize) {
    let start = Instant::now();
    while gateway.files() > files + 4 && start.elapsed() < Duration::from_secs(10) {
        rest(100);
    }
    println!(
        "{title}: {:.1} MB, {} open files more than before, {:.1} s later",
        gateway.resident(),
        gateway.files().saturating_sub(files),
        start.elapsed().as_secs_f64()
    );
}
