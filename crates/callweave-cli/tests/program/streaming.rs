//! Output comes while input is still open, and a reader that goes away is no error.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::{Running, clean, program, run, sample};

#[test]
fn events_and_text_are_seen_before_the_input_ends() {
    for (form, awaited) in [("events", r#""type":"start""#), ("text", "I'll look up"), ("view", "reasoning")]
    {
        let whole = run(&["decode", "--as", form], clean()).good();
        let mut running = Running::start(&["decode", "--as", form]);
        // Into the middle of a frame, while a call grows.
        let sample = clean();
        let (first, second) = sample.split_at(sample.len() * 3 / 4);
        running.write(first);
        running.wait_for(awaited);
        running.write(second);
        assert_eq!(running.finish(), whole.stdout(), "{form}");
    }
}

#[test]
fn a_row_is_answered_before_the_next_is_asked() {
    let mut running = Running::start(&["decode", "--jsonl"]);
    for text in ["a", "b", "c"] {
        let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": text}}]});
        running.write(format!("{}\n", json!({"data": body})));
        running.wait_for(&format!("\"content\":\"{text}\""));
    }
    assert_eq!(running.finish().lines().count(), 3);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let forms: [&[&str]; 6] = [
        &["decode", "--as", "events"],
        &["decode", "--as", "view"],
        &["decode", "--as", "message"],
        &["decode", "--jsonl", "--jobs", "1"],
        &["decode", "--jsonl", "--jobs", "4"],
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
