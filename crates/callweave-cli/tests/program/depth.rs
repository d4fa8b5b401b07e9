//! Any nesting, in every form that the program prints, with little stack.

use std::process::{Command, Stdio};

use super::Ran;

const LEVELS: usize = 6_000;
const NEEDLE: &str = "needle-in-the-deep";

/// Runs the program with a stack of 1 MiB, an eighth of what a main thread has.
fn run(arguments: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -s 1024 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_callweave")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    Ran(output)
}

fn nested(open: &str, close: &str) -> String {
    format!("{}{{\"{NEEDLE}\":0}}{}", open.repeat(LEVELS), close.repeat(LEVELS))
}

const BRACKETS: [(&str, &str); 2] = [("[", "]"), ("{\"a\":", "}")];

#[test]
fn answers() {
    for (open, close) in BRACKETS {
        let deep = nested(open, close);
        let arguments = serde_json::to_string(&format!("{{\"a\":{deep}}}")).expect("a text is JSON");
        for body in [
            format!(
                "{{\"object\":\"chat.completion\",\"choices\":[{{\"message\":{{\"content\":\"x\",\"annotations\":[{deep}],\"tool_calls\":[{{\"id\":\"c\",\"function\":{{\"name\":\"f\",\"arguments\":{arguments}}}}}]}},\"finish_reason\":\"tool_calls\"}}],\"usage\":{{\"a\":{deep}}},\"x\":{deep}}}"
            ),
            format!(
                "{{\"output\":{{\"message\":{{\"content\":[{{\"toolUse\":{{\"toolUseId\":\"t\",\"name\":\"f\",\"input\":{{\"a\":{deep}}}}}}}]}}}},\"stopReason\":\"tool_use\"}}"
            ),
            format!("{{\"error\":{deep}}}"),
        ] {
            for form in ["message", "events", "text", "view"] {
                let ran = run(&["decode", "--as", form, "--color", "always"], &body);
                let is_told =
                    form == "text" || ran.stdout().contains(NEEDLE) || ran.stderr().contains(NEEDLE);
                assert!(ran.code() < 3 && (is_told || form == "view"), "{form}: {}", ran.stderr());
            }
            let row = serde_json::json!({"data": body}).to_string();
            assert!(run(&["decode", "--jsonl"], &row).stdout().contains(NEEDLE));
        }
    }
}

#[test]
fn texts_and_documents() {
    for (open, close) in BRACKETS {
        let deep = nested(open, close);
        let call = format!("<tool_call>{{\"name\":\"f\",\"arguments\":{{\"a\":{deep}}}}}</tool_call>");
        for input in [deep.as_str(), &call, &deep[..deep.len() / 2]] {
            for arguments in [
                &["extract"][..],
                &["extract", "--color", "always"],
                &["extract", "--dialect", "hermes"],
                &["repair"],
                &["repair", "--explain"],
            ] {
                let ran = run(arguments, input);
                assert!(ran.code() < 3, "{arguments:?}: {}", ran.stderr());
            }
        }
    }
}
