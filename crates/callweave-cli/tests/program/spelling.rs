//! Numbers as they were written and members in their order, from the input to what is printed.

use crate::run;

const WRITTEN: &str = r#"{"z":12345678901234567890123,"a":[1.50,1e5,-0,1e400],"m":{"y":null,"b":0.10}}"#;

fn answer() -> String {
    format!(
        r#"{{"object":"chat.completion","odd":{WRITTEN},"choices":[{{"index":0,"finish_reason":"tool_calls","message":{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":{WRITTEN}}}}}]}}}}]}}"#
    )
}

#[test]
fn decoding() {
    let quoted = callweave::json::Value::from(WRITTEN).to_string();
    let message = run(&["decode", "--as", "message"], answer()).good();
    assert!(message.stdout().contains(WRITTEN) && message.stdout().contains(&quoted), "{}", message.stdout());
    let events = run(&["decode", "--as", "events"], answer()).good();
    assert!(events.stdout().contains(&format!("\"extra\":{{\"odd\":{WRITTEN}}}")), "{}", events.stdout());
    let rows = run(&["decode", "--jsonl"], format!("{{\"data\":{}}}\n", answer())).good();
    assert_eq!(rows.stdout(), message.stdout());
}

#[test]
fn repairing() {
    let schema = concat!(env!("CARGO_TARGET_TMPDIR"), "/spelling.schema.json");
    std::fs::write(schema, r#"{"properties":{"z":{"type":"integer"},"n":{"type":"integer"}}}"#)
        .expect("a file");
    // Arguments that fit as written are not reported as repaired.
    let report = run(&["repair", "--report", "--schema", schema], WRITTEN).good();
    assert!(report.stdout().contains("\"verdict\":\"valid\""), "{}", report.stdout());
    assert!(report.stdout().contains(&format!("\"value\":{WRITTEN}")), "{}", report.stdout());
    let broken = WRITTEN.replace("\"z\"", "z").replace("}}", "},\"n\":\"7\",}");
    let repaired = run(&["repair", "--schema", schema], broken).good();
    assert_eq!(repaired.stdout().trim_end(), WRITTEN.replace("}}", "},\"n\":7}"));
}

#[test]
fn extracting() {
    let text = format!("<tool_call>{{\"name\":\"f\",\"arguments\":{WRITTEN}}}</tool_call>");
    let found = run(&["extract", "--dialect", "hermes", "--as", "message"], text).good();
    assert_eq!(found.json()["calls"][0]["arguments"], WRITTEN);
}

#[test]
fn listing() {
    let rows = run(&["dialects", "hermes"], "").good();
    assert!(rows.stdout().starts_with("{\"name\":\"hermes\",\"aliases\":"), "{}", rows.stdout());
    let tools = concat!(env!("CARGO_TARGET_TMPDIR"), "/spelling.tools.json");
    std::fs::write(tools, format!(r#"[{{"name":"f","parameters":{{"default":{WRITTEN}}}}}]"#))
        .expect("a file");
    let prompt = run(&["teach", "--tools", tools], "").good();
    assert!(prompt.stdout().contains(WRITTEN), "{}", prompt.stdout());
}

/// A call that does not fit its tool is marked in the message; everything else is the same as without.
#[test]
fn marking() {
    let tools = concat!(env!("CARGO_TARGET_TMPDIR"), "/spelling.marking.json");
    std::fs::write(tools, r#"[{"name":"f","parameters":{"properties":{"z":{"type":"string"}}}}]"#)
        .expect("a file");
    let message = run(&["decode", "--as", "message", "--tools", tools], answer());
    assert!(message.stdout().contains("\"invalid\":"), "{}", message.stdout());
    assert!(message.stdout().contains(&format!("{{\"odd\":{WRITTEN}}}")), "{}", message.stdout());
    assert!(message.stdout().starts_with("{\"id\":"), "{}", message.stdout());
}
