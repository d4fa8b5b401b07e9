//! Memory does not grow with the input: what is over is printed and forgotten.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::program;

/// The answers of an input, by number.
type Pieces = fn(usize) -> String;

/// The most memory that the program had, in KiB, when it had read so many bytes of what `piece` gives.
fn peak(arguments: &[&str], piece: Pieces, bytes: usize) -> u64 {
    let mut child = program(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let mut written = 0;
    for number in 0.. {
        let piece = piece(number);
        stdin.write_all(piece.as_bytes()).expect("the program reads");
        written += piece.len();
        if written >= bytes {
            break;
        }
    }
    // All but what a pipe holds was read by now.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the program runs");
    drop(stdin);
    assert!(child.wait().expect("the program ends").success(), "{arguments:?}");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its most memory");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

const TEXT: usize = 16 << 10;

fn body(number: usize) -> String {
    let text = format!("{number:08} ").repeat(TEXT / 9);
    json!({"id": format!("c{number}"), "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": text}}]})
    .to_string()
}

fn row(number: usize) -> String {
    format!("{{\"data\":{}}}\n", body(number))
}

fn stream(number: usize) -> String {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let id = format!("c{number}");
        format!("data: {}\n\n", json!({"id": id, "object": "chat.completion.chunk", "choices": [choice]}))
    };
    let text = format!("{number:08} ").repeat(TEXT / 9 / 4);
    let pieces: String = (0..4).map(|_| chunk(json!({"content": text}), None)).collect();
    pieces + &chunk(json!({}), Some("stop")) + "data: [DONE]\n\n"
}

#[test]
fn a_recording_of_many_answers_is_not_kept() {
    let cases: [(&[&str], Pieces); 6] = [
        (&["decode"], |number| body(number) + "\n"),
        (&["decode"], stream),
        (&["decode", "--as", "events"], stream),
        (&["convert", "--to", "anthropic-messages"], stream),
        (&["decode", "--jsonl", "--jobs", "1"], row),
        (&["decode", "--jsonl", "--jobs", "4"], row),
    ];
    for (arguments, piece) in cases {
        let (few, many) = (peak(arguments, piece, 4 << 20), peak(arguments, piece, 20 << 20));
        assert!(many < few + (8 << 10), "{arguments:?}: {few} KiB, then {many} KiB");
    }
}
