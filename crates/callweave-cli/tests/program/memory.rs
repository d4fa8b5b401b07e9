//! Memory does not grow with the input: finished responses are printed and forgotten.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::program;

/// The responses of an input, by number.
type Pieces = fn(usize) -> String;

/// The peak memory of the program, in KiB, when it had read `bytes` bytes of the pieces.
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
    let choice = answered("message", &format!(r#""role":"assistant","content":"{text}""#), r#""stop""#);
    format!(r#"{{"id":"c{number}","object":"chat.completion","choices":[{choice}]}}"#)
}

fn row(number: usize) -> String {
    format!("{{\"data\":{}}}\n", body(number))
}

fn stream(number: usize) -> String {
    let chunk = |delta: &str, reason: &str| {
        let choice = answered("delta", delta, reason);
        format!(
            "data: {{\"id\":\"c{number}\",\"object\":\"chat.completion.chunk\",\"choices\":[{choice}]}}\n\n"
        )
    };
    let text = format!("{number:08} ").repeat(TEXT / 9 / 4);
    let piece = chunk(&format!(r#""content":"{text}""#), "null");
    piece.repeat(4) + &chunk("", r#""stop""#) + "data: [DONE]\n\n"
}

/// A choice. It is written as text: to escape many megabytes would take longer than to read them.
fn answered(key: &str, members: &str, reason: &str) -> String {
    format!(r#"{{"index":0,"{key}":{{{members}}},"finish_reason":{reason}}}"#)
}

/// Memory does not grow with what is read.
fn check(arguments: &[&str], piece: Pieces) {
    let (few, many) = (peak(arguments, piece, 4 << 20), peak(arguments, piece, 20 << 20));
    assert!(many < few + (8 << 10), "{arguments:?}: {few} KiB, then {many} KiB");
}

#[test]
fn bodies_are_not_kept() {
    check(&["decode"], |number| body(number) + "\n");
}

#[test]
fn streams_are_not_kept() {
    check(&["decode"], stream);
}

#[test]
fn events_are_not_kept() {
    check(&["decode", "--as", "events"], stream);
}

#[test]
fn what_is_converted_is_not_kept() {
    check(&["convert", "--to", "anthropic-messages"], stream);
}

#[test]
fn rows_are_not_kept() {
    check(&["decode", "--jsonl", "--jobs", "1"], row);
}

#[test]
fn rows_of_several_workers_are_not_kept() {
    check(&["decode", "--jsonl", "--jobs", "4"], row);
}
