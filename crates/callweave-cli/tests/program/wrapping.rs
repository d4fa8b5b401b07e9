//! Gzip and the headers of `curl -i` are read through, as they come.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::{Running, clean, file, path, run};

const HEAD: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 302 \r\nlocation: /there\r\n\r\n\
    HTTP/2 200 \r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

#[test]
fn a_wrapped_answer_is_the_answer() {
    let plain = run(&["decode"], clean()).good();
    let curl = [HEAD.as_bytes(), &clean()].concat();
    let mut raw = HEAD.as_bytes().to_vec();
    for chunk in clean().chunks(1000) {
        raw.extend(format!("{:x}\r\n", chunk.len()).bytes());
        raw.extend(chunk);
        raw.extend(b"\r\n");
    }
    raw.extend(b"0\r\n\r\n");
    let crlf = HEAD.replace("\r\n", "\n").into_bytes();
    for (what, wrapped) in [
        ("gzip", gzip(&clean())),
        ("curl -i", curl.clone()),
        ("line feeds", [crlf, clean()].concat()),
        ("curl -i --raw", raw.clone()),
        ("curl -i of gzip", [HEAD.as_bytes(), &gzip(&clean())].concat()),
        ("gzip of curl -i", gzip(&raw)),
    ] {
        assert_eq!(run(&["decode"], &wrapped).good().stdout(), plain.stdout(), "{what}");
        let named = file("wrapped.input", &wrapped);
        let row = json!({"file": named}).to_string();
        assert_eq!(run(&["decode", "--jsonl"], row).good().json(), plain.json(), "{what}");
    }
    let ran = run(&["decode", "-v"], gzip(&curl)).fine();
    assert!(ran.stderr().contains("read through gzip, http, http, http, status 200"), "{}", ran.stderr());
}

#[test]
fn every_command_reads_gzip_and_only_decode_reads_heads() {
    assert_eq!(run(&["repair"], gzip(b"{a: 1}")).good().json(), json!({"a": 1}));
    assert_eq!(run(&["extract"], gzip(b"hi")).good().json()["content"], "hi");
    assert_eq!(run(&["repair", "--jsonl"], gzip(b"{\"input\": \"1\"}\n")).good().json()["value"], 1);
    let text = "HTTP/1.1 200 OK\n\nis what a server says";
    assert_eq!(run(&["extract"], text).good().json()["content"], text);
}

#[test]
fn a_status_that_refuses_is_told_with_what_the_body_says() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\n\r\n";
    let told = "status 429 (rate_limit, retry after 7s)";
    for body in ["", "not now", "<html>not now</html>", "{\"error\": {\"message\": \"not now\"}}"] {
        let ran = run(&["decode"], format!("{head}{body}")).bad(told);
        assert_eq!(ran.stderr().contains("not now"), !body.is_empty(), "{}", ran.stderr());
        assert_eq!(ran.json()["errors"].as_array().map(Vec::len), Some(1), "{body}");
    }
    let row = json!({"data": head}).to_string();
    let row = run(&["decode", "--jsonl"], row).bad("1 of 1").json();
    assert!(row["problem"].as_str().is_some_and(|problem| problem.contains(told)), "{row}");
}

#[test]
fn what_is_wrapped_is_read_as_it_comes() {
    let mut running = Running::start(&["decode", "--as", "text"]);
    running.write(HEAD);
    let clean = clean();
    let (first, second) = clean.split_at(clean.len() * 3 / 4);
    running.write(first);
    running.wait_for("I'll look up");
    running.write(second);
    running.finish();
    // A compressor that flushes is heard at once.
    let mut running = Running::start(&["decode", "--as", "text"]);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(first).and_then(|()| encoder.flush()).expect("memory takes all");
    running.write(std::mem::take(encoder.get_mut()));
    running.wait_for("I'll look up");
    encoder.write_all(second).expect("memory takes all");
    running.write(encoder.finish().expect("memory takes all"));
    running.finish();
}

#[test]
fn what_a_cut_file_still_gave_is_printed() {
    let whole = gzip(&clean());
    let ran = run(&["decode"], &whole[..whole.len() / 2]).bad("cannot read the input to its end");
    assert_eq!(ran.json()["model"], "aurora-1-mini");
    let named = file("packed.zst", b"\x28\xb5\x2f\xfd....");
    run(&["decode", path(&named)], "").bad("unpack it first: zstd -dc");
}
