//! The expectations of a program that has the library, with all of its features, among its dependencies: its own types
//! and values are read and written as they would be without it.

#![cfg(test)]

use std::collections::BTreeMap;
use std::process::Command;

use callweave::json::{Object, Value};
use callweave::message::{Message, ToolCall};
use callweave::pipeline::decode;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { r: f64 },
    Square { side: f32, corner: Option<f64> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Placed {
    name: String,
    #[serde(flatten)]
    shape: Shape,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, f64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Amount {
    Exact(f64),
    Range { from: f64, to: f64 },
}

/// A type of the program itself, with arguments that it keeps as they are.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    id: u32,
    #[serde(flatten)]
    content: Content,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    arguments: Value,
    details: Object,
}

/// The response of a provider with one call.
fn answer(arguments: &str) -> Message {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "draw", "arguments": arguments}}]}}]});
    decode(body.to_string().as_bytes()).expect("an answer")
}

fn call(arguments: &str) -> ToolCall {
    answer(arguments).tool_calls().next().expect("a call").clone()
}

#[test]
fn tagged_floats() {
    let shape: Shape = call(r#"{"kind":"circle","r":1.5}"#).parse().expect("a circle");
    assert_eq!(shape, Shape::Circle { r: 1.5 });
    let shape: Shape = call(r#"{"side":2,"kind":"square","corner":0.25}"#).parse().expect("a square");
    assert_eq!(shape, Shape::Square { side: 2.0, corner: Some(0.25) });
    let value = serde_json::to_value(&shape).expect("a value");
    assert_eq!(serde_json::from_value::<Shape>(value).expect("a square"), shape);
}

#[test]
fn flattened_floats() {
    let measured: Measured = call(r#"{"name":"a","x":3,"y":-0.5}"#).parse().expect("measured");
    assert_eq!((measured.rest["x"], measured.rest["y"]), (3.0, -0.5));
    let placed: Placed = call(r#"{"name":"a","kind":"circle","r":1.5}"#).parse().expect("placed");
    assert_eq!(placed.shape, Shape::Circle { r: 1.5 });
    let text = serde_json::to_string(&placed).expect("text");
    assert_eq!(serde_json::from_str::<Placed>(&text).expect("placed"), placed);
}

#[test]
fn untagged_floats() {
    let amounts: BTreeMap<String, Amount> =
        call(r#"{"a":1.5,"b":7,"c":{"from":0.5,"to":1e3}}"#).parse().expect("amounts");
    assert_eq!(amounts["a"], Amount::Exact(1.5));
    assert_eq!(amounts["b"], Amount::Exact(7.0));
    assert_eq!(amounts["c"], Amount::Range { from: 0.5, to: 1000.0 });
}

/// `serde_json`'s own values are what they are without us: sorted, and of 64 bits.
#[test]
fn the_values_of_serde_json_stay_as_they_are() {
    let text = r#"{"b":1.50,"a":12345678901234567890123}"#;
    let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(value.to_string(), r#"{"a":1.2345678901234568e+22,"b":1.5}"#);
    let members: serde_json::Map<String, serde_json::Value> = call(text).parse().expect("members");
    assert_eq!(members.keys().collect::<Vec<_>>(), ["a", "b"]);
}

/// Ours keep what was written, alone and in types of the program.
#[test]
fn the_values_of_the_library_keep_what_was_written() {
    const WRITTEN: &str = r#"{"z":12345678901234567890123,"a":[1.50,1e5,-0],"m":{"y":null,"b":1E+2}}"#;
    let call = call(WRITTEN);
    assert_eq!(call.object().expect("an object").to_string(), WRITTEN);
    assert_eq!(call.parse::<Value>().expect("a value").to_string(), WRITTEN);
    let kept: BTreeMap<String, Value> = call.parse().expect("members");
    assert_eq!(kept["a"].to_string(), "[1.50,1e5,-0]");
    let details = call.object().expect("an object");
    let content = Content { arguments: call.parse().expect("a value"), details };
    let text = serde_json::to_string(&Envelope { id: 1, content }).expect("text");
    assert_eq!(text, format!(r#"{{"id":1,"arguments":{WRITTEN},"details":{WRITTEN}}}"#));
    // A type that buffers what it reads has seen numbers, not their text; the order stays.
    let read: Envelope = serde_json::from_str(&text).expect("an envelope");
    assert_eq!(
        read.content.arguments.to_string(),
        r#"{"z":1.2345678901234568e+22,"a":[1.5,100000.0,-0.0],"m":{"y":null,"b":100.0}}"#
    );
    assert_eq!(read.content.details, read.content.arguments.as_object().expect("an object").clone());
}

/// Returns the output of `cargo tree` for a manifest.
fn tree(manifest: &str, words: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--prefix", "none", "--manifest-path", manifest])
        .args(words)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn no_feature_that_changes_serde_json_is_on() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let tree = tree(own, &["--edges", "features", "--invert", "serde_json"]);
    assert!(tree.contains("serde_json feature \"raw_value\"") && tree.contains("jsonschema"), "{tree}");
    for feature in ["arbitrary_precision", "preserve_order", "unbounded_depth"] {
        assert!(!tree.contains(feature), "{feature} is on:\n{tree}");
    }
}

/// Only the feature `reqwest` brings crates that wait or speak to a network.
#[test]
fn the_library_does_no_io_unless_it_is_asked_to() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("the library's manifest");
    let features = text.split("\n[features]\n").nth(1).and_then(|rest| rest.split("\n[").next());
    let names =
        features.expect("features").lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
    let other: Vec<&str> = names.filter(|name| *name != "reqwest").collect();
    assert!(other.contains(&"exchange"), "{other:?}");
    let is_io = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        let (family, _) = name.split_once('-').unwrap_or((name, ""));
        matches!(family, "tokio" | "hyper" | "reqwest" | "tower" | "http" | "mio" | "socket2" | "bytes")
    };
    let without =
        tree(manifest, &["--edges", "normal", "--no-default-features", "--features", &other.join(",")]);
    assert_eq!(without.lines().find(is_io), None, "{without}");
    let with = tree(manifest, &["--edges", "normal", "--features", "reqwest"]);
    assert!(with.lines().any(|line| is_io(&line)), "{with}");
}
