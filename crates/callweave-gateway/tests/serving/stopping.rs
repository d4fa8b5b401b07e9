//! Stopping after calls.

use serde_json::json;

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};

use crate::support::{chat, gateway, post};

fn demo(rest: &str) -> String {
    format!("[upstreams.demo]\nurl = \"demo:\"\n{rest}")
}

fn calls(body: &serde_json::Value) -> usize {
    body["choices"][0]["message"]["tool_calls"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn nobody_is_stopped_unless_somebody_says_so() {
    let gateway = gateway("");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/parallel", false)).await;
    assert_eq!(calls(&got.json()), 2, "{}", got.text);
}

#[tokio::test]
async fn the_first_call_is_the_only_one_in_mode_first() {
    let gateway = gateway(&demo("stop_after_tools = true"));
    for model in ["demo/parallel", "demo/interleaved", "demo/hermes"] {
        let got = post(&gateway, "/v1/chat/completions", &chat(model, false)).await;
        let body = got.json();
        assert_eq!(
            (calls(&body), &body["choices"][0]["message"]["content"]),
            (1, &json!(null)),
            "{}",
            got.text
        );
        assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
        let got = post(&gateway, "/v1/chat/completions", &chat(model, true)).await;
        let arguments: serde_json::Value = serde_json::from_str(&got.arguments()).expect("a whole call");
        assert_eq!(arguments["city"], "Oslo", "{}", got.text);
        assert_eq!(got.text.matches("\"name\":").count(), 1, "{}", got.text);
        assert!(got.text.contains("\"finish_reason\":\"tool_calls\"") && got.text.ends_with("[DONE]\n\n"));
    }
}

#[tokio::test]
async fn all_calls_come_in_mode_all() {
    let gateway = gateway(&demo("stop_after_tools = true\nstop_after_tools_mode = \"all\""));
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/interleaved", true)).await;
    assert_eq!(got.text.matches("\"name\":").count(), 2, "{}", got.text);
    assert!(got.text.contains("\"finish_reason\":\"tool_calls\""));
}

#[tokio::test]
async fn the_environment_speaks_for_all() {
    let stop = |name: &str| (name == "PROXY_STOP_AFTER_TOOLS").then(|| "true".to_owned());
    let gateway = Gateway::new(Config::read("").expect("valid"), &Environment::of(stop)).expect("a gateway");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/parallel", false)).await;
    assert_eq!(calls(&got.json()), 1, "{}", got.text);
}

#[tokio::test]
async fn no_parallel_calls_are_asked_for_where_they_are_switched_off_and_those_that_come_are_told() {
    let folder = std::env::temp_dir().join(format!("callweave-parallel-{}", std::process::id()));
    let record = format!("record = {:?}\n", folder.display().to_string());
    let gateway = gateway(&format!("{record}{}", demo("parallel_tool_calls = false")));
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/parallel", false)).await;
    assert_eq!(calls(&got.json()), 2, "{}", got.text);
    let sent = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let sent = sent.filter(|path| path.extension().is_some_and(|own| own == "json"));
    let bodies: Vec<String> = sent.map(|path| std::fs::read_to_string(path).expect("readable")).collect();
    std::fs::remove_dir_all(&folder).expect("removable");
    assert!(matches!(&bodies[..], [body] if body.contains("\"parallel_tool_calls\":false")), "{bodies:?}");
}
