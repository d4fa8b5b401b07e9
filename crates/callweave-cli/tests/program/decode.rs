//! `callweave decode` on complete files.

use serde_json::{Value, json};

use crate::{clean, file, path, run, sample};

#[test]
fn a_pipe_gets_one_message() {
    let message = run(&["decode"], sample()).bad("--repair").json();
    assert_eq!(message["model"], "aurora-1-mini");
    assert_eq!(message["finish_reason"], "tool_calls");
    assert_eq!(message["usage"]["total_tokens"], 343);
    let calls = message["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2);
    assert!(calls[0].get("invalid").is_none());
    assert_eq!(calls[1]["invalid"]["reason"], "not_json");
}

#[test]
fn several_answers_are_several_lines() {
    let body = |id: &str, text: &str| {
        format!(
            r#"{{"id":"{id}","object":"chat.completion","choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#
        )
    };
    let input = format!("{}\n{}\n", body("a", "Hello"), body("b", "Bye"));
    let messages = run(&["decode"], &input).good().lines();
    assert_eq!((&messages[0]["id"], &messages[1]["id"], messages.len()), (&"a".into(), &"b".into(), 2));
    assert_eq!(run(&["decode", "--as", "text"], &input).good().stdout(), "Hello\nBye\n");
    let view = run(&["decode", "--as", "view"], &input);
    let places = ["Hello", "stop", "Bye"].map(|word| view.stdout().find(word).expect("it is shown"));
    assert!(places.is_sorted(), "{}", view.stdout());
    let row = serde_json::json!({ "data": input }).to_string();
    let first = run(&["decode", "--jsonl"], &row).bad("1 of 1 rows failed").json();
    assert_eq!(first["id"], "a");
    assert_eq!(first["problem"], "more responses follow in the same input: 1");
    run(&["decode"], "data: [DONE]\n\n").bad("the response is empty");
    run(&["decode", "--protocol", "anthropic"], &input).bad("it looks like openai-chat");
}

#[test]
fn a_file_and_standard_input_give_the_same() {
    let named = file("decode-same.sse", clean());
    let from_file = run(&["decode", path(&named)], "").good();
    let from_stdin = run(&["decode", "--as", "message", "-"], clean()).good();
    assert_eq!(from_file.stdout(), from_stdin.stdout());
    assert_eq!(from_file.stdout().lines().count(), 1);
}

#[test]
fn events_are_json_lines() {
    let events = run(&["decode", "--as", "events"], clean()).good().lines();
    let types: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(types.len(), events.len());
    assert_eq!(types.iter().filter(|kind| **kind == "block_start").count(), 3);
    assert_eq!(types.iter().filter(|kind| **kind == "block_end").count(), 3);
}

#[test]
fn text_is_the_text_alone() {
    let expected = run(&["decode"], clean()).json()["content"].as_str().expect("text").to_owned();
    assert_eq!(run(&["decode", "--as", "text"], clean()).good().stdout(), expected + "\n");
}

#[test]
fn text_goes_out_byte_for_byte_and_ends_its_line_once() {
    let body = |text: &str| {
        json!({"object": "chat.completion", "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
    };
    let text = |body| run(&["decode", "--as", "text"], body).good().stdout().to_owned();
    assert_eq!(text(body("a\u{1b}[31m\r\n").to_string()), "a\u{1b}[31m\r\n");
    assert_eq!(text(body("a").to_string()), "a\n");
    assert_eq!(text(body("").to_string()), "");
}

#[test]
fn several_choices_do_not_mix_in_text() {
    let mut stream = String::new();
    for (index, text) in [(0, "one "), (1, "two "), (0, "one"), (1, "two")] {
        let chunk = json!({"object": "chat.completion.chunk", "choices": [
            {"index": index, "delta": {"content": text}}]});
        stream += &format!("data: {chunk}\n\n");
    }
    let text = run(&["decode", "--as", "text"], &stream);
    assert_eq!(text.stdout(), "one one\n");
}

#[test]
fn a_named_protocol_is_used_under_any_of_its_names() {
    for name in ["openai-chat", "openai", "OpenAI-Chat", "auto"] {
        let message = run(&["decode", "--protocol", name], clean()).good().json();
        assert_eq!(message["model"], "aurora-1-mini", "{name}");
    }
}

#[test]
fn an_unknown_protocol_is_a_usage_error() {
    let ran = run(&["decode", "--protocol", "openai-chatt"], sample());
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("openai-chat"), "{}", ran.stderr());
}

#[test]
fn damage_is_told_after_what_was_recovered() {
    let sample = sample();
    let head = &sample[..sample.len() / 2];
    let damaged = [head, &[b'x'; 5000], b"\n\n", head].concat();
    let ran = run(&["decode", "--max-frame", "4096"], &damaged).bad("--max-frame");
    assert_eq!(ran.json()["model"], "aurora-1-mini");
    let ran = run(&["decode", "--max-frame", "4096", "--as", "events"], &damaged).bad("--max-frame");
    assert!(ran.lines().len() > 10);
}

#[test]
fn what_cannot_be_told_is_an_error_that_says_what_to_do() {
    let ran = run(&["decode"], r#"{"hello": 1}"#).bad("--protocol");
    assert_eq!(ran.stdout(), "");
    run(&["decode"], "").bad("empty");
}

#[test]
fn an_upstream_error_is_printed_and_fails() {
    let body = r#"{"error": {"message": "no such model", "type": "invalid_request_error"}}"#;
    let ran = run(&["decode", "--protocol", "openai"], body).bad("no such model");
    assert_eq!(ran.json()["errors"][0]["message"], "no such model");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    run(&["decode", "no-such-file.sse"], "").bad("cannot read no-such-file.sse");
    run(&["decode", env!("CARGO_TARGET_TMPDIR")], "").bad("directory");
}

#[test]
fn a_dialect_is_read_behind_any_protocol() {
    let text = "Sure. <tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"sky\"}}</tool_call>";
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]});
    let body = body.to_string();
    let plain = run(&["decode", "--dialect", "none"], &body).good().json();
    assert_eq!((&plain["content"], plain["tool_calls"].as_array().map(Vec::len)), (&json!(text), Some(0)));
    let read = run(&["decode"], &body).good().json();
    assert_eq!(read, run(&["decode", "--dialect", "auto"], &body).good().json());
    assert_eq!((&read["content"], &read["tool_calls"][0]["name"]), (&json!("Sure. "), &json!("look")));
    assert_eq!(read["finish_reason"], "tool_calls");
    assert_eq!(read, run(&["decode", "--model", "Hermes-3-8B"], &body).good().json());
    let row = json!({"data": body, "dialect": "hermes"}).to_string();
    assert_eq!(read, run(&["decode", "--jsonl"], row).good().json());
    let row = json!({"data": body, "dialect": "none"}).to_string();
    assert_eq!(plain, run(&["decode", "--jsonl"], &row).good().json());
    let row = json!({"data": body}).to_string();
    assert_eq!(read, run(&["decode", "--jsonl"], &row).good().json());
    assert_eq!(plain, run(&["decode", "--jsonl", "--dialect", "none"], &row).good().json());
    assert_eq!(read, run(&["decode", "--jsonl", "--dialect", "hermes"], row).good().json());
}

/// Reasoning and a broken call of a local model, as it streams them: repaired, they are a success.
#[test]
fn a_broken_call_in_the_text_of_a_stream_is_repaired() {
    let chunk = |content: &str, finish: Value| {
        let choice = json!({"index": 0, "delta": {"content": content}, "finish_reason": finish});
        format!("data: {}\n\n", json!({"object": "chat.completion.chunk", "choices": [choice]}))
    };
    let stream = [
        chunk("<think>hm</think><tool_call>{\"name\": \"look\", ", Value::Null),
        chunk("\"arguments\": {at: 'sky', n: 1,}}</tool", Value::Null),
        chunk("_call>", json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    for dialect in ["auto", "hermes"] {
        run(&["decode", "--dialect", dialect], &stream).bad("--repair fixes it");
        let read = run(&["decode", "--repair", "--dialect", dialect], &stream).good().json();
        assert_eq!((&read["reasoning"], &read["content"]), (&json!("hm"), &Value::Null));
        assert_eq!(read["tool_calls"][0]["arguments"], "{\"at\": \"sky\", \"n\": 1}");
        let codes: Vec<_> =
            read["notices"].as_array().expect("notices").iter().map(|it| &it["code"]).collect();
        assert_eq!(codes, ["repaired"]);
    }
}

#[test]
fn what_was_found_is_told_on_request() {
    let text = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>";
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]});
    let ran = run(&["decode", "-v", "--dialect", "none"], body.to_string()).fine();
    assert!(ran.stderr().starts_with("protocol openai-chat"), "{}", ran.stderr());
    assert!(ran.stderr().contains("framing json-values, dialect not looked for"), "{}", ran.stderr());
    let ran = run(&["decode", "-v"], body.to_string()).fine();
    assert!(
        ran.stderr().contains(", dialect ") && ran.stderr().ends_with(" or one alike\n"),
        "{}",
        ran.stderr()
    );
    let ran = run(&["decode", "-v", "--dialect", "hermes"], body.to_string()).fine();
    assert!(ran.stderr().ends_with("dialect hermes\n"), "{}", ran.stderr());
    let ran = run(&["decode", "--verbose"], clean()).fine();
    assert!(ran.stderr().contains("framing sse, dialect found nowhere"), "{}", ran.stderr());
    assert_eq!(run(&["extract", "-v", "--dialect", "hermes"], text).fine().stderr(), "dialect hermes\n");
    assert_eq!(run(&["extract", "-v"], "no call").fine().stderr(), "dialect found nowhere\n");
}

#[test]
fn arguments_are_repaired_on_request_and_each_change_is_told() {
    let message = run(&["decode", "--repair"], sample()).good().json();
    let call = &message["tool_calls"][1];
    assert!(call.get("invalid").is_none(), "{call}");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&arguments["city"], &arguments["units"]), (&json!("Tromsø"), &json!("metric")));
    let notices = message["notices"].as_array().expect("notices");
    let told: Vec<_> = notices.iter().filter(|notice| notice["code"] == "repaired").collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let detail = told[0]["detail"].as_str().expect("words");
    assert!(detail.contains("quote at bytes 1, 5, ") && detail.contains("comment at byte 77"), "{detail}");
    assert!(told[0]["text"].as_str().is_some_and(|text| text.starts_with("{city: '")), "{}", told[0]);
    // A repaired call causes no complaint any more.
    assert_eq!(notices.len(), 1, "{notices:?}");
    // A valid call is as the model wrote it.
    assert_eq!(message["tool_calls"][0], run(&["decode"], sample()).json()["tool_calls"][0]);
    let events = run(&["decode", "--repair", "--as", "events"], sample()).good().lines();
    // Text emitted before the first oddity is not taken back.
    assert!(events.iter().all(|event| event["type"] != "correction"));
    assert!(events.iter().all(|event| event["completion"] != "cut"));
}

#[test]
fn what_was_cut_off_is_not_repaired() {
    let sample = sample();
    let half = &sample[..sample.len() - 3000];
    let ran = run(&["decode", "--repair"], half).bad("cut off");
    let call = ran.json()["tool_calls"][1].clone();
    assert!(call["invalid"].is_object(), "{call}");
    assert!(call["arguments"].as_str().is_some_and(|text| text.starts_with("{city: '")), "{call}");
}

/// The body of a response that calls `look` with these arguments.
fn calling(name: &str, arguments: &str) -> String {
    json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": name, "arguments": arguments}}]}}]})
    .to_string()
}

#[test]
fn native_calls_are_checked_against_the_tools() {
    let tools = json!([{"name": "look", "parameters": {"type": "object",
        "properties": {"times": {"type": "integer"}}, "required": ["times"]}}]);
    let named = file("native-tools.json", tools.to_string());
    let decode = |name: &str, arguments: &str, more: &[&str]| {
        let all = [&["decode", "--tools", path(&named)], more].concat();
        run(&all, calling(name, arguments))
    };
    decode("look", "{\"times\": 1}", &[]).good();
    let ran = decode("look", "{\"times\": \"1\"}", &[]).bad("do not fit its schema: $.times");
    let invalid = ran.json()["tool_calls"][0]["invalid"].clone();
    assert_eq!(invalid["reason"], "schema_mismatch");
    assert!(invalid["detail"].as_str().is_some_and(|detail| detail.contains("$.times")), "{invalid}");
    assert_eq!(ran.json()["notices"][0]["code"], "schema_mismatch");
    let ran = decode("look", "", &[]).bad("do not fit its schema");
    assert_eq!(ran.json()["tool_calls"][0]["invalid"]["reason"], "schema_mismatch");
    let ran = decode("jump", "{}", &[]).bad("the tool \"jump\" was not declared");
    assert_eq!(ran.json()["tool_calls"][0]["invalid"]["reason"], "unknown_tool");
    decode("look", "{\"times\": ", &[]).bad("cut off");
    let message = decode("look", "{times: '1'}", &["--repair", "--coerce"]).good().json();
    assert_eq!(message["tool_calls"][0]["arguments"], "{\"times\": 1}");
    // Rows bring their own.
    let row = json!({"data": calling("jump", "{}"), "tools": tools}).to_string();
    let row = run(&["decode", "--jsonl"], row).bad("1 of 1 rows failed").json();
    assert_eq!(row["tool_calls"][0]["invalid"]["reason"], "unknown_tool");
    assert!(row["problem"].as_str().is_some_and(|problem| problem.contains("jump")), "{row}");
}

#[test]
fn a_stranger_in_the_text_is_told_once() {
    let text = "<tool_call>{\"name\": \"jump\", \"arguments\": {}}</tool_call>";
    let body = json!({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]});
    let named = file("strange-tools.json", r#"[{"name": "look"}]"#);
    let arguments = ["decode", "--dialect", "hermes", "--tools", path(&named)];
    let message = run(&arguments, body.to_string()).bad("not declared").json();
    assert_eq!(message["notices"].as_array().map(Vec::len), Some(1), "{}", message["notices"]);
    assert_eq!(message["tool_calls"][0]["invalid"]["reason"], "unknown_tool");
    let found = run(&["extract", "--tools", path(&named)], text).bad("not declared").json();
    assert_eq!(found["notices"].as_array().map(Vec::len), Some(1), "{found}");
}

#[test]
fn sizes_have_units() {
    let damaged = [&clean()[..], b"data: ", &[b'x'; 70_000], b"\n\n"].concat();
    run(&["decode", "--max-frame", "64KiB"], &damaged).bad("--max-frame");
    run(&["decode", "--max-frame", "1MB"], &damaged).bad("a frame is damaged");
    for wrong in ["1XB", "0", "MB"] {
        let ran = run(&["decode", "--max-frame", wrong], "");
        assert_eq!(ran.code(), 2, "{wrong}");
        assert!(ran.stderr().contains("a size"), "{}", ran.stderr());
    }
}

/// Input that fits nowhere is shortened, whatever its kind, in every form.
#[test]
fn a_log_that_was_given_by_mistake_does_not_flood_the_output() {
    let chunk =
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hi"}}]});
    let line = "12:00 INFO worker[7]: handled request path=/v1/x \"quoted\" took=12ms\n";
    let logs = [
        line.repeat(22_000_000 / line.len()),
        "lorem ipsum ".repeat(500_000),
        format!("data: {chunk}\n\n{}", "data: junk \"x\"\n\n".repeat(200_000)),
        "{\"level\": \"info\", \"took\": 12}\n".repeat(100_000),
    ];
    for log in logs {
        let ran = run(&["decode"], &log);
        assert_eq!(ran.code(), 1);
        assert!(ran.stdout().len() < 100_000, "{} bytes", ran.stdout().len());
        assert!(ran.stderr().len() < 2_000, "{}", ran.stderr());
    }
    for form in ["events", "view", "text"] {
        let ran = run(&["decode", "--as", form], line.repeat(30_000));
        assert_eq!(ran.code(), 1);
        assert!(ran.stdout().len() < 20_000, "{form}: {} bytes", ran.stdout().len());
        assert!(ran.stderr().contains("callweave extract") && ran.stderr().contains("--protocol"));
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let chunk =
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hi"}}]});
    let damaged = format!("data: {chunk}\n\n{}", "data: junk\n\n".repeat(50_000));
    let message = run(&["decode"], damaged).bad("a frame is damaged").json();
    let notices = message["notices"].as_array().expect("notices");
    let last = notices.last().and_then(|notice| notice["detail"].as_str()).expect("a notice");
    let (count, words) = last.split_once(' ').expect("a count");
    assert_eq!(words, "more notices and errors are not shown");
    let shown = notices.iter().filter(|notice| notice["code"] == "malformed_frame").count();
    let count: usize = count.parse().expect("a number");
    assert!(count > 40_000 && count + shown >= 50_000, "{count} and {shown}");
}

/// A mark changes nothing but the call that it is on: not the order of members, not a long number.
#[test]
fn a_message_with_a_marked_call_is_otherwise_as_it_was() {
    let body = r#"{"id":"own","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":
        {"role":"assistant","content":"hi","tool_calls":[{"id":"c","type":"function","function":
        {"name":"jump","arguments":"{}"}}]}}],"usage":{"prompt_tokens":12345678901234567890123}}"#;
    let named = file("marking-tools.json", r#"[{"name": "look"}]"#);
    let plain = run(&["decode"], body).good();
    let marked = run(&["decode", "--tools", path(&named)], body).bad("jump");
    let words = r#""detail":"the tool \"jump\" was not declared""#;
    let mark = format!(r#","invalid":{{"reason":"unknown_tool",{words}}}"#);
    let notice = format!(r#"{{"code":"unknown_tool","offset":0,"block":1,{words}}}"#);
    assert!(marked.stdout().contains(&mark) && marked.stdout().contains("12345678901234567890123"));
    assert_eq!(marked.stdout().replace(&mark, "").replace(&notice, ""), plain.stdout());
    let row = json!({"id": "mine", "data": body}).to_string();
    let row = run(&["decode", "--jsonl", "--tools", path(&named)], row).bad("1 of 1");
    assert!(row.stdout().starts_with(r#"{"id":"mine","message_id":"own","model""#), "{}", row.stdout());
}
