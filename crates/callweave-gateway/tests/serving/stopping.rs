//! Stopping after calls.

use serde_json::{Value, json};

use callweave_gateway::Gateway;
use callweave_gateway::config::{Config, Environment};

use crate::scripted_upstream::{Far, Then, answered, said, stream, whole};
use crate::support::{chat, gateway, messages, post, responses};

fn demo(rest: &str) -> String {
    format!("[upstreams.demo]\nbase_url = \"demo:\"\n{rest}")
}

fn calls(body: &Value) -> usize {
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
        let arguments: Value = serde_json::from_str(&got.arguments()).expect("a whole call");
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
    let gateway =
        Gateway::new(Config::read("demo = true").expect("valid"), &Environment::of(stop)).expect("a gateway");
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

const CALL: &str =
    "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}</tool_call>";

/// A gateway in front of an upstream, with what the environment says.
fn in_front(far: &Far, variables: &[(&str, &str)], keys: &str) -> std::sync::Arc<Gateway> {
    let protocol = if keys.contains("protocol") { "" } else { "protocol = \"openai-chat\"" };
    let config = format!(
        "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{}\"\n{protocol}\n{keys}",
        far.url
    );
    let variable =
        |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
    Gateway::new(Config::read(&config).expect("valid"), &Environment::of(variable)).expect("a gateway")
}

/// Two calls with text before, between and after them, and what a client sees of that: how many calls, and the text.
async fn seen(variables: &[(&str, &str)], keys: &str) -> (usize, String) {
    let frames = ["before ", CALL, " between ", CALL, " after"].map(said);
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let (text, _) = stream(&[&frames[..], &[end]].concat(), Then::Close);
    let far = Far::start(vec![(format!("{text}data: [DONE]\n\n"), Then::Close)]).await;
    let gateway = in_front(&far, variables, keys);
    let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
    assert!(got.text.contains("\"finish_reason\":\"tool_calls\""), "{variables:?} {keys}: {}", got.text);
    let text = got
        .frames()
        .iter()
        .filter_map(|frame| frame.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned))
        .collect();
    (got.text.matches("\"name\":").count(), text)
}

#[tokio::test]
async fn every_variable_has_a_key_of_the_same_meaning_and_the_key_counts() {
    let on = ("PROXY_STOP_AFTER_TOOLS", "true");
    let all = ("PROXY_STOP_AFTER_TOOLS_MODE", "all");
    let grace = ("PROXY_STOP_AFTER_TOOLS_GRACE_MS", "30");
    let keep = ("PROXY_SUPPRESS_TAIL_AFTER_TOOLS", "false");
    let drop = ("PROXY_SUPPRESS_TAIL_AFTER_TOOLS", "true");
    type Row<'r> = (&'r [(&'r str, &'r str)], &'r str, (usize, &'r str));
    let rows: [Row<'_>; 8] = [
        (&[on], "stop_after_tools = true", (1, "before ")),
        (
            &[("PROXY_STOP_AFTER_TOOLS", "1"), ("PROXY_STOP_AFTER_TOOLS_MODE", "first")],
            "stop_after_tools = true\nstop_after_tools_mode = \"first\"",
            (1, "before "),
        ),
        (
            &[on, all, grace],
            "stop_after_tools = true\nstop_after_tools_mode = \"all\"\nstop_after_tools_grace_ms = 30",
            (2, "before "),
        ),
        (
            &[on, all, grace, keep],
            "stop_after_tools = true\nstop_after_tools_mode = \"all\"\nstop_after_tools_grace_ms = 30\nsuppress_tail_after_tools = false",
            (2, "before  between  after"),
        ),
        // Nobody is stopped, but what is said behind calls is left out.
        (&[drop], "suppress_tail_after_tools = true", (2, "before ")),
        (&[], "", (2, "before  between  after")),
        (
            &[("PROXY_STOP_AFTER_TOOLS", "false"), all],
            "stop_after_tools = false\nstop_after_tools_mode = \"all\"",
            (2, "before  between  after"),
        ),
        (&[("PROXY_STOP_AFTER_TOOLS", "OFF")], "stop_after_tools = false", (2, "before  between  after")),
    ];
    for (variables, keys, expected) in rows {
        for (variables, keys) in [(variables, ""), (&[][..], keys)] {
            let (calls, text) = seen(variables, keys).await;
            assert_eq!((calls, text.as_str()), expected, "{variables:?} {keys}");
        }
    }
    // A key speaks against the environment.
    let (calls, _) = seen(&[on], "stop_after_tools = false").await;
    assert_eq!(calls, 2);
    let (calls, _) = seen(&[on, all, grace], "stop_after_tools_mode = \"first\"").await;
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn the_upstream_is_cancelled_when_the_answer_is_cut_and_only_then() {
    for (keys, is_truncated) in [
        ("stop_after_tools = true", true),
        ("stop_after_tools = true\nstop_after_tools_mode = \"all\"\nstop_after_tools_grace_ms = 50", true),
    ] {
        for (path, body) in [
            ("/v1/chat/completions", chat("x", true)),
            ("/v1/messages", messages("x", true)),
            ("/v1/responses", responses("x", true)),
            ("/v1/chat/completions", chat("x", false)),
        ] {
            // Streams are read as they come, even for clients that want a complete body.
            let (text, _) = stream(&[said(CALL), said("\n"), said(CALL), said(" TAIL")], Then::Hang);
            let far = Far::start(vec![(text, Then::Hang)]).await;
            let gateway = in_front(&far, &[], &format!("{keys}\n[timeouts]\nidle = 3"));
            let got = post(&gateway, path, &body).await;
            assert_eq!(got.status, 200, "{keys} {path}: {}", got.text);
            assert!(!got.text.contains("TAIL"), "{keys} {path}: {}", got.text);
            assert_eq!(far.is_left().await, is_truncated, "{keys} {path}");
        }
    }
}

#[tokio::test]
async fn a_first_call_is_never_cut_inside() {
    // In pieces, so that its first delta is long before its end.
    let pieces: Vec<Value> =
        CALL.as_bytes().chunks(7).map(|piece| said(&String::from_utf8_lossy(piece))).collect();
    let native = |index: usize, arguments: &str, name: Option<&str>| {
        let mut function = json!({"arguments": arguments});
        if let Some(name) = name {
            function["name"] = json!(name);
        }
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]}}]})
    };
    let natives = vec![
        native(0, "{\"city\": ", Some("get_weather")),
        native(0, "\"Oslo\", ", None),
        native(0, "\"days\": 1}", None),
        native(1, "{\"city\": \"Rome\"", Some("get_weather")),
    ];
    for frames in [pieces, natives] {
        let (text, _) = stream(&frames, Then::Hang);
        let far = Far::start(vec![(text, Then::Hang)]).await;
        let gateway = in_front(&far, &[], "stop_after_tools = true\n[timeouts]\nidle = 3");
        let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
        let arguments: Value = serde_json::from_str(&got.arguments()).expect("a whole call");
        assert_eq!(arguments, json!({"city": "Oslo", "days": 1}), "{}", got.text);
        assert!(got.text.ends_with("data: [DONE]\n\n") && !got.text.contains("Rome"), "{}", got.text);
        assert!(far.is_left().await);
    }
}

#[tokio::test]
async fn a_call_of_another_choice_is_never_cut_inside() {
    let call = |choice: usize, arguments: &str, name: Option<&str>| {
        let mut function = json!({"arguments": arguments});
        if let Some(name) = name {
            function["name"] = json!(name);
        }
        let delta = json!({"tool_calls": [{"index": 0, "id": format!("c{choice}"), "function": function}]});
        json!({"choices": [{"index": choice, "delta": delta}]})
    };
    let end =
        |choice: usize| json!({"choices": [{"index": choice, "delta": {}, "finish_reason": "tool_calls"}]});
    let frames = [
        call(0, "{\"city\": ", Some("get_weather")),
        call(1, "{\"city\": ", Some("get_weather")),
        call(0, "\"Oslo\", \"days\": 1}", None),
        end(0),
        call(1, "\"Rome\", \"days\": 2}", None),
        end(1),
    ];
    let (text, _) = stream(&frames, Then::Close);
    let far = Far::start(vec![(text + "data: [DONE]\n\n", Then::Close)]).await;
    let gateway = in_front(&far, &[], "stop_after_tools = true");
    let mut body = chat("x", true);
    body["n"] = json!(2);
    let got = post(&gateway, "/v1/chat/completions", &body).await;
    let of = |number: usize| {
        let frames = got.frames();
        let choices = frames.iter().filter_map(|frame| frame["choices"].as_array()).flatten();
        let own = choices.filter(|choice| choice["index"] == number);
        own.filter_map(|choice| {
            choice.pointer("/delta/tool_calls/0/function/arguments")?.as_str().map(str::to_owned)
        })
        .collect::<String>()
    };
    for (number, city) in [(0, "Oslo"), (1, "Rome")] {
        let arguments: Value =
            serde_json::from_str(&of(number)).unwrap_or_else(|error| panic!("{error}: {}", got.text));
        assert_eq!(arguments["city"], city, "{}", got.text);
    }
}

#[tokio::test]
async fn whole_answers_with_whole_calls_have_no_text_and_end_with_them() {
    let mut cut = answered(&format!("Let me see. {CALL}<tool_call>{{\"name\": \"get_weather\", \"argum"));
    cut["choices"][0]["finish_reason"] = json!("length");
    for (answer, content, finish) in [
        (answered(&format!("Let me see. {CALL} Done.")), json!(null), "tool_calls"),
        (answered("Nothing to call."), json!("Nothing to call."), "stop"),
    ] {
        let far = Far::start(vec![whole(200, &answer)]).await;
        let gateway = in_front(&far, &[("PROXY_STOP_AFTER_TOOLS", "true")], "");
        let body = post(&gateway, "/v1/chat/completions", &chat("x", false)).await.json();
        let choice = &body["choices"][0];
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&content, &json!(finish)),
            "{body}"
        );
    }
    let far = Far::start(vec![whole(200, &cut)]).await;
    let all = "stop_after_tools = true\nstop_after_tools_mode = \"all\"";
    let body = post(&in_front(&far, &[], all), "/v1/chat/completions", &chat("x", false)).await.json();
    assert_eq!(body["choices"][0]["finish_reason"], "length", "{body}");
}

#[tokio::test]
async fn parallel_calls_are_forbidden_by_variable_or_key_and_never_forced_on_a_client() {
    let variable = "PROXY_ENABLE_PARALLEL_TOOL_CALLS";
    for (value, keys, wish, sent) in [
        (Some("false"), "", None, Some(false)),
        (Some("false"), "", Some(true), Some(false)),
        (None, "parallel_tool_calls = false", None, Some(false)),
        (Some("true"), "parallel_tool_calls = false", None, Some(false)),
        (Some("true"), "", None, Some(true)),
        (Some("true"), "", Some(false), Some(false)),
        (None, "", Some(true), Some(true)),
        (None, "", None, None),
    ] {
        let variables: Vec<(&str, &str)> = value.map(|value| (variable, value)).into_iter().collect();
        for protocol in ["openai-chat", "openai-responses"] {
            let far = Far::start(vec![whole(200, &answered("hi"))]).await;
            let gateway =
                in_front(&far, &variables, &format!("protocol = \"{protocol}\"\nretries = 0\n{keys}"));
            let mut body = chat("x", false);
            if let Some(wish) = wish {
                body["parallel_tool_calls"] = json!(wish);
            }
            post(&gateway, "/v1/chat/completions", &body).await;
            let seen = far.seen().remove(0);
            let body: Value =
                serde_json::from_str(seen.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
            assert_eq!(
                body.get("parallel_tool_calls"),
                sent.map(Value::from).as_ref(),
                "{value:?} {keys} {wish:?} {protocol}"
            );
        }
    }
    // The setting has another name there.
    let far = Far::start(vec![whole(200, &answered("hi"))]).await;
    let gateway = in_front(&far, &[(variable, "false")], "protocol = \"anthropic-messages\"\nretries = 0");
    post(&gateway, "/v1/messages", &messages("x", false)).await;
    assert!(far.seen()[0].contains("\"disable_parallel_tool_use\":true"), "{}", far.seen()[0]);
    // Without tools the word would be refused.
    let far = Far::start(vec![whole(200, &answered("hi"))]).await;
    let gateway = in_front(&far, &[(variable, "false")], "");
    post(
        &gateway,
        "/v1/chat/completions",
        &json!({"model": "x", "messages": [{"role": "user", "content": "hi"}]}),
    )
    .await;
    assert!(!far.seen()[0].contains("parallel"), "{}", far.seen()[0]);
}

/// A native call of which nobody says that it is over, in every protocol of clients.
#[tokio::test]
async fn a_complete_native_call_before_silence_ends_after_the_grace_time() {
    let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\":\"Oslo\",\"days\":\"1\"}"}}]}}]});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}], "tools": [{"functionDeclarations":
        [{"name": "get_weather", "parameters": {"type": "object", "properties": {"days": {"type": "integer"}}}}]}]});
    let mut ollama = chat("x", true);
    ollama["stream"] = json!(true);
    for mode in ["first", "all", "burst"] {
        for (path, body, end) in [
            ("/v1/chat/completions", chat("x", true), "\"finish_reason\":\"tool_calls\""),
            ("/v1/messages", messages("x", true), "\"stop_reason\":\"tool_use\""),
            ("/v1/responses", responses("x", true), "response.completed"),
            ("/v1beta/models/x:streamGenerateContent?alt=sse", gemini.clone(), "\"finishReason\":\"STOP\""),
            ("/api/chat", ollama.clone(), "\"done\":true"),
        ] {
            let far = Far::start(vec![stream(std::slice::from_ref(&call), Then::Hang)]).await;
            let gateway = far.gateway(&format!(
                "stop_after_tools = true\nstop_after_tools_mode = \"{mode}\"\nstop_after_tools_grace_ms = 60\n[timeouts]\nidle = 20"
            ));
            let asked = post(&gateway, path, &body);
            let got =
                tokio::time::timeout(std::time::Duration::from_secs(8), asked).await.expect("an end in time");
            assert!(got.text.contains(end), "{mode} {path}: {}", got.text);
            assert!(
                got.text.contains("Oslo") && !got.text.contains("\"error\":{"),
                "{mode} {path}: {}",
                got.text
            );
            // Arguments held until the end of the call come, and are coerced.
            assert!(
                !got.text.contains("days\\\":\\\"1") && !got.text.contains("\"days\":\"1\""),
                "{mode} {path}: {}",
                got.text
            );
            assert!(far.is_left().await);
        }
    }
}

#[tokio::test]
async fn a_call_that_is_not_complete_is_waited_for() {
    let piece = |text: &str| {
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "function": {"name": "get_weather", "arguments": text}}]}}]})
    };
    let (head, _) = stream(&[piece("{\"city\":")], Then::Close);
    let rest = format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0,
        "function": {"arguments": "\"Oslo\",\"days\":1}"}}]}}]})
    );
    let far =
        Far::start(vec![(format!("{head}{}{rest}", crate::scripted_upstream::PAUSE), Then::Hang)]).await;
    let gateway =
        far.gateway("stop_after_tools = true\nstop_after_tools_grace_ms = 30\n[timeouts]\nidle = 20");
    let got = post(&gateway, "/v1/chat/completions", &chat("x", true)).await;
    assert_eq!(got.arguments(), "{\"city\":\"Oslo\",\"days\":1}", "{}", got.text);
}

#[tokio::test]
async fn no_more_calls_come_than_are_allowed() {
    let gateway = gateway(&demo(
        "stop_after_tools = true\nstop_after_tools_mode = \"all\"\nstop_after_tools_max_calls = 1",
    ));
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/parallel", true)).await;
    assert_eq!(got.text.matches("\"name\":").count(), 1, "{}", got.text);
    assert!(
        got.text.contains("\"finish_reason\":\"tool_calls\"") && got.text.ends_with("[DONE]\n\n"),
        "{}",
        got.text
    );
}
