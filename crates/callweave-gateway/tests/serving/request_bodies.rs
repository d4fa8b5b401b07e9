//! Bodies as clients send them: compressed, in chunks, and only after `100 Continue`.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Got, address, gateway, messages, send};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes).expect("memory");
    writer.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut writer = ZlibEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes).expect("memory");
    writer.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

type Packing = fn(&[u8]) -> Vec<u8>;

const PACKINGS: [(&str, Packing); 4] = [("gzip", gzip), ("deflate", deflate), ("zstd", zstd), ("GZip", gzip)];

async fn post(config: &str, encoding: &str, body: Vec<u8>) -> Got {
    let request = Request::post("/v1/messages").header("content-encoding", encoding);
    send(&gateway(config), request.body(Full::new(Bytes::from(body))).expect("a request")).await
}

#[tokio::test]
async fn compressed_bodies_are_read() {
    let body = messages("demo/hermes", false).to_string();
    for (encoding, pack) in PACKINGS {
        let got = post("", encoding, pack(body.as_bytes())).await;
        assert_eq!(got.json()["stop_reason"], "tool_use", "{encoding}: {}", got.text);
    }
    // A second compressed member of the same kind belongs to the first.
    let (one, two) = body.as_bytes().split_at(body.len() / 2);
    for (encoding, pack) in [("gzip", gzip as Packing), ("zstd", zstd)] {
        let got = post("", encoding, [pack(one), pack(two)].concat()).await;
        assert_eq!(got.json()["stop_reason"], "tool_use", "{encoding}: {}", got.text);
    }
}

#[tokio::test]
async fn a_small_body_that_unpacks_to_a_large_one_is_refused() {
    let large = vec![b' '; 20_000_000];
    for (encoding, pack) in PACKINGS {
        let packed = pack(&large);
        assert!(packed.len() < 100_000, "{encoding}: {}", packed.len());
        let got = post("[limits]\nbody = 100000\ndecompressed = 1000000", encoding, packed).await;
        assert_eq!((got.status, &got.json()["type"]), (413, &"error".into()), "{encoding}: {}", got.text);
    }
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_the_clients_fault() {
    let body = messages("demo/hermes", false).to_string();
    for (encoding, pack) in PACKINGS {
        let packed = pack(body.as_bytes());
        for broken in [&packed[..packed.len() / 2], b"nothing of the kind", b""] {
            let got = post("", encoding, broken.to_vec()).await;
            assert_eq!((got.status, &got.json()["type"]), (400, &"error".into()), "{encoding}: {}", got.text);
        }
    }
    let got = post("", "br", vec![1]).await;
    assert_eq!((got.status, &got.json()["type"]), (415, &"error".into()), "{}", got.text);
    assert_eq!(got.headers["accept-encoding"], "gzip, deflate, zstd");
}

#[tokio::test]
async fn a_body_may_come_in_chunks_and_wait_until_it_is_wanted() {
    let server = address(gateway("listen = \"127.0.0.1:0\"")).await;
    let body = messages("demo/hermes", false).to_string();
    let mut stream = TcpStream::connect(server).await.expect("a server");
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
    stream.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).await.expect("taken");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.expect("an interim answer");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    for piece in body.as_bytes().chunks(100) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        stream.write_all(&chunk).await.expect("taken");
    }
    stream.write_all(b"0\r\n\r\n").await.expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tool_use"), "{answer}");
}

#[tokio::test]
async fn a_body_that_will_not_be_taken_is_not_asked_for() {
    let server = address(gateway(&format!(
        "listen = \"127.0.0.1:0\"\nclient_keys = [\"{}\"]",
        callweave_gateway::keys::KeyDigest::of("key")
    )))
    .await;
    let mut stream = TcpStream::connect(server).await.expect("a server");
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 9\r\n";
    stream.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).await.expect("taken");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
