//! Output comes while input is still open, and a reader that goes away is no error.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{program, sample};

#[test]
fn events_and_text_are_seen_before_the_input_ends() {
    for (form, awaited) in [("events", r#""type":"start""#), ("text", "I'll look up"), ("view", "thinking")] {
        let mut child = program(&["decode", "--as", form])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        let mut stdout = child.stdout.take().expect("piped");
        let sample = sample();
        // Into the middle of a frame, while a call grows.
        stdin.write_all(&sample[..sample.len() / 2]).expect("the program reads");
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(awaited) {
            let mut piece = [0; 4096];
            let length = stdout.read(&mut piece).expect("the program writes");
            assert!(length > 0, "{form}: nothing came before the end");
            seen.extend_from_slice(&piece[..length]);
        }
        stdin.write_all(&sample[sample.len() / 2..]).expect("the program reads");
        drop(stdin);
        stdout.read_to_end(&mut seen).expect("the program writes");
        assert!(child.wait().expect("the program ends").success());
    }
}

#[test]
fn a_row_is_answered_before_the_next_is_asked() {
    let mut child = program(&["decode", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut answers = BufReader::new(child.stdout.take().expect("piped")).lines();
    for text in ["a", "b", "c"] {
        let body =
            json!({"object": "chat.completion", "choices": [{"index": 0, "message": {"content": text}}]});
        writeln!(stdin, "{}", json!({"data": body})).expect("the program reads");
        let answer = answers.next().expect("an answer").expect("the program writes");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["content"], text);
    }
    drop(stdin);
    assert!(child.wait().expect("the program ends").success());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let forms: [&[&str]; 4] = [
        &["decode", "--as", "events"],
        &["decode", "--as", "view"],
        &["decode", "--jsonl"],
        &["completions", "bash"],
    ];
    for arguments in forms {
        let mut child = program(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let mut stdin = child.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || {
            let input = match stdin.write_all(b"{\"data\":\"\"}\n") {
                Ok(()) => sample().repeat(20),
                Err(_) => return,
            };
            drop(stdin.write_all(&input));
        });
        let output = child.wait_with_output().expect("the program ends");
        writer.join().expect("the writer ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert!(output.status.success(), "{arguments:?}");
    }
}
