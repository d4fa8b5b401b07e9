//! `--jsonl`: order, bad lines, exit codes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{clean, file, path, run, sample};

fn body(text: &str) -> Value {
    json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
}

fn requests(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

#[test]
fn decode_takes_data_in_every_form() {
    let named = file("rows.sse", clean());
    let text = body("text").to_string();
    let input = requests(&[
        json!({"data": text}),
        json!({"data": body("object")}),
        json!({"data_base64": STANDARD.encode(body("base64").to_string()), "protocol": "openai"}),
        json!({"file": path(&named), "protocol": "auto", "note": "the caller's own"}),
    ]);
    let rows = run(&["decode", "--jsonl", "-"], input).good().lines();
    let contents: Vec<_> = rows.iter().map(|row| row["content"].as_str().expect("content")).collect();
    assert_eq!(contents[..3], ["text", "object", "base64"]);
    assert_eq!(rows[3], run(&["decode", path(&named)], "").json());
}

#[test]
fn a_bad_line_gives_an_error_row_and_the_run_goes_on() {
    let input = requests(&[json!({"data": body("a")}), json!({"protocol": "no such", "data": ""})])
        + "not json\n\n"
        + &requests(&[
            json!({"file": "no-such-file"}),
            json!({}),
            json!({"data": "", "file": "both"}),
            json!({"data": body("z")}),
        ]);
    let ran = run(&["decode", "--jsonl"], input).bad("5 of 7 rows failed");
    let rows = ran.lines();
    assert_eq!(rows.len(), 7);
    assert_eq!((&rows[0]["content"], &rows[6]["content"]), (&json!("a"), &json!("z")));
    let expected = ["unknown protocol", "not JSON", "cannot read no-such-file", "exactly one", "exactly one"];
    for (row, part) in rows[1..6].iter().zip(expected) {
        assert!(row["error"].as_str().is_some_and(|error| error.contains(part)), "{row} for {part}");
    }
    let lines: Vec<_> = rows.iter().map(|row| row["line"].as_u64()).collect();
    assert_eq!(lines, [None, Some(2), Some(3), Some(5), Some(6), Some(7), None]);
}

#[test]
fn a_damaged_answer_keeps_what_was_recovered() {
    let damaged = [&sample()[..3000], &[b'x'; 5000]].concat();
    let input = requests(&[json!({"data": String::from_utf8(damaged).expect("UTF-8")})]);
    let rows = run(&["decode", "--jsonl", "--max-frame", "4096"], input).bad("1 of 1").lines();
    assert!(rows[0]["error"].as_str().is_some_and(|error| error.contains("4096")), "{}", rows[0]["error"]);
    assert_eq!(rows[0]["message"]["model"], "aurora-1-mini");
}

#[test]
fn many_rows_come_back_in_order() {
    let rows: Vec<_> = (0..2000).map(|number| json!({"data": body(&number.to_string())})).collect();
    let answers = run(&["decode", "--jsonl"], requests(&rows)).good().lines();
    assert_eq!(answers.len(), rows.len());
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["content"], number.to_string());
    }
}

#[test]
fn rows_are_the_same_whoever_works_on_them() {
    let row = |number: usize| match number % 7 {
        // Some take long, some are over at once, some are wrong.
        0 => json!({"id": number, "data": body(&"word ".repeat(40 * (200 - number)))}).to_string(),
        1 => format!("{{\"id\": {number}, oops"),
        2 => String::new(),
        3 => json!({"data": "", "id": number}).to_string(),
        _ => json!({"data": body(&number.to_string())}).to_string(),
    };
    let rows: String = (0..200).map(|number| row(number) + "\n").collect();
    let one = run(&["decode", "--jsonl", "--jobs", "1"], &rows).bad("of 171 rows failed");
    let lines = one.lines();
    assert_eq!(lines.len(), 171);
    assert_eq!((&lines[1]["line"], &lines[2]["line"]), (&json!(2), &json!(4)));
    for jobs in ["2", "5", "16"] {
        let many = run(&["decode", "--jsonl", "--jobs", jobs], &rows);
        assert_eq!((many.stdout(), many.stderr()), (one.stdout(), one.stderr()), "{jobs} jobs");
    }
    assert_eq!(run(&["decode", "--jobs", "2"], "").code(), 2, "only rows are worked on by several");
    assert_eq!(run(&["decode", "--jsonl", "--jobs", "0"], "").code(), 2);
}

#[test]
fn forms_are_not_for_rows() {
    assert_eq!(run(&["decode", "--jsonl", "--as", "text"], "").code(), 2);
}

#[test]
fn rows_echo_the_id_of_the_caller() {
    let mut with_id = body("a");
    with_id["id"] = json!("chatcmpl-1");
    let rows = requests(&[
        json!({"id": "first", "data": with_id}),
        json!({"data": with_id}),
        json!({"id": {"n": [2]}, "data": ""}),
        json!({"id": 3}),
    ]);
    let rows = run(&["decode", "--jsonl"], rows).bad("2 of 4 rows failed").lines();
    let ids: Vec<_> = rows.iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, [json!("first"), json!("chatcmpl-1"), json!({"n": [2]}), json!(3)]);
    assert_eq!((&rows[0]["message_id"], &rows[0]["content"]), (&json!("chatcmpl-1"), &json!("a")));
    assert!(
        rows[1].get("message_id").is_none() && rows[2]["error"].is_string() && rows[3]["error"].is_string()
    );
    let one = |command: &str, row: Value| run(&[command, "--jsonl"], row.to_string()).good().json();
    assert_eq!(one("extract", json!({"id": 7, "text": "x"}))["id"], 7);
    assert_eq!(one("repair", json!({"id": 7, "input": "1"}))["id"], 7);
    let prompt =
        one("teach", json!({"id": 7, "tools": [{"name": "look"}], "compact": true, "system": "Be kind."}));
    assert_eq!(prompt["id"], 7);
    let text = prompt["prompt"].as_str().expect("a prompt");
    assert!(text.starts_with("Be kind.") && text.ends_with("\n- look()"), "{text}");
}

#[test]
fn a_row_tells_its_own_problem_and_keeps_its_shape() {
    let cut = String::from_utf8(sample()[..9000].to_vec()).expect("UTF-8");
    let rows = requests(&[
        json!({"data": body("a")}),
        json!({"data": cut}),
        json!({"data": {"error": {"message": "not now"}}, "protocol": "openai"}),
    ]);
    let rows = run(&["decode", "--jsonl"], rows).bad("2 of 3 rows failed").lines();
    assert!(rows[0].get("problem").is_none());
    assert_eq!(rows[1]["model"], "aurora-1-mini");
    for (row, part) in rows[1..].iter().zip(["cut off", "not now"]) {
        assert!(row["problem"].as_str().is_some_and(|problem| problem.contains(part)), "{row} for {part}");
    }
}
