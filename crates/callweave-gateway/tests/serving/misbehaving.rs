//! The gateway's behaviour when others misbehave.

use std::time::Duration;

use callweave_gateway::keys::KeyDigest;
use http::Method;
use serde_json::json;

use crate::scripted_upstream::{Far, PAUSE, Then, answered, broken, said, stream, whole};
use crate::support::{chat, gateway, get, listening, messages, metric, next, post, request, responses, send};

#[tokio::test]
async fn clients_need_a_key_where_keys_are_asked_for() {
    let gateway = gateway(&format!("client_keys = [\"{}\"]", KeyDigest::of("secret")));
    let body = messages("demo/hermes", false).to_string();
    for (name, value, status) in [
        ("x-api-key", "secret", 200),
        ("authorization", "Bearer secret", 200),
        ("x-goog-api-key", "secret", 200),
        ("x-api-key", "wrong", 401),
        ("x-other", "secret", 401),
    ] {
        let got = send(&gateway, request(Method::POST, "/v1/messages", &[(name, value)], &body)).await;
        assert_eq!(got.status, status, "{name}: {}", got.text);
        if status == 401 {
            assert_eq!(got.json()["error"]["type"], "authentication_error");
        }
    }
    assert_eq!(get(&gateway, "/healthz").await.status, 200);
    assert_eq!(get(&gateway, "/metrics").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn silence_is_bridged_in_each_clients_way() {
    let gateway = gateway("[timeouts]\nkeep_alive = 1");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/silence", true)).await;
    assert!(got.text.contains(": keep-alive\n\n"), "{}", got.text);
    let got = post(&gateway, "/v1/messages", &messages("demo/silence", true)).await;
    assert!(got.text.contains("event: ping\n"), "{}", got.text);
    assert!(got.text.contains("event: message_stop"), "{}", got.text);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_says_nothing_more_is_given_up() {
    let gateway = gateway("[timeouts]\nidle = 1");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/silence", true)).await;
    assert!(got.text.contains("\"error\":{") && !got.text.contains("[DONE]"), "{}", got.text);
    assert!(got.text.contains("within 1 s"), "{}", got.text);
}

#[tokio::test]
async fn what_breaks_off_ends_with_an_error_and_no_word_of_success() {
    let gateway = gateway("[upstreams.demo]\nbase_url = \"demo:\"\nretries = 0");
    for model in ["demo/abrupt-end", "demo/error-mid-stream", "demo/garbage"] {
        let got = post(&gateway, "/v1/chat/completions", &chat(model, true)).await;
        assert!(got.text.contains("\"error\":{"), "{model}: {}", got.text);
        assert!(
            !got.text.contains("[DONE]") && !got.text.contains("\"finish_reason\":\""),
            "{model}: {}",
            got.text
        );
        let got = post(&gateway, "/v1/messages", &messages(model, true)).await;
        assert!(got.text.contains("event: error"), "{model}: {}", got.text);
        assert!(
            !got.text.contains("message_stop") && !got.text.contains("end_turn"),
            "{model}: {}",
            got.text
        );
        let got = post(&gateway, "/v1/responses", &responses(model, true)).await;
        assert!(got.text.contains("response.failed"), "{model}: {}", got.text);
        assert!(!got.text.contains("response.completed"), "{model}: {}", got.text);
    }
}

#[tokio::test(start_paused = true)]
async fn others_answer_where_one_cannot() {
    let config = r#"
        [[models]]
        name = "best"
        upstream = "demo"
        model = "status-503"
        fallbacks = ["demo/status-401", "demo/hermes"]
    "#;
    let gateway = gateway(config);
    let got = post(&gateway, "/v1/chat/completions", &chat("best", true)).await;
    assert!(got.arguments().contains("Oslo"), "{}", got.text);
    assert!(metric(&gateway, "callweave_retries_total").await >= 2);
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_upstream_with_it() {
    let behind = gateway("listen = \"127.0.0.1:0\"");
    let far = listening(behind.clone()).await;
    let gateway = gateway(&format!("default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{far}\""));
    let body = chat("far/demo/slow", true).to_string();
    let response = gateway.handle(request(Method::POST, "/v1/chat/completions", &[], &body)).await;
    let mut body = response.into_body();
    assert!(next(&mut body).await.is_some());
    assert_eq!(metric(&behind, "callweave_streams_active").await, 1);
    drop(body);
    let gone = async {
        while metric(&behind, "callweave_streams_active").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the upstream was cancelled");
    assert_eq!(metric(&gateway, "callweave_streams_active").await, 0);
    assert_eq!(
        metric(
            &gateway,
            "callweave_requests_total{protocol=\"openai-chat\",upstream=\"far\",status=\"left\""
        )
        .await,
        1
    );
}

#[tokio::test]
async fn only_so_many_are_served_at_once() {
    let gateway = gateway("[limits]\nconcurrent = 1");
    let body = chat("demo/slow", true).to_string();
    let first = gateway.handle(request(Method::POST, "/v1/chat/completions", &[], &body)).await;
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/hermes", false)).await;
    assert_eq!((got.status, got.headers.contains_key("retry-after")), (503, true), "{}", got.text);
    drop(first);
    assert_eq!(post(&gateway, "/v1/chat/completions", &chat("demo/hermes", false)).await.status, 200);
}

#[tokio::test]
async fn arguments_have_a_limit() {
    let gateway = gateway("[limits]\narguments = 10");
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/openai-chat", true)).await;
    assert!(got.text.contains("more than 10 bytes of arguments"), "{}", got.text);
}

#[tokio::test]
async fn the_key_that_was_configured_is_sent_and_never_the_clients() {
    let behind =
        gateway(&format!("listen = \"127.0.0.1:0\"\nclient_keys = [\"{}\"]", KeyDigest::of("theirs")));
    let far = listening(behind).await;
    let config =
        |key: &str| format!("default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{far}\"\n{key}");
    let ask = |gateway, key: &'static str| async move {
        let body = chat("far/demo/hermes", false).to_string();
        send(&gateway, request(Method::POST, "/v1/chat/completions", &[("authorization", key)], &body))
            .await
            .status
    };
    let own = callweave_gateway::config::Config::read(&config("api_key_env = \"FAR\"")).expect("valid");
    let environment =
        callweave_gateway::config::Environment::of(|name| (name == "FAR").then(|| "theirs".to_owned()));
    let configured = callweave_gateway::Gateway::new(own, &environment).expect("a gateway");
    assert_eq!(ask(configured, "Bearer mine").await, 200);
    assert_eq!(ask(gateway(&config("api_key_env = \"FAR\"")), "Bearer theirs").await, 401);
    assert_eq!(ask(gateway(&config("")), "Bearer theirs").await, 200);
    assert_eq!(ask(gateway(&config("")), "Bearer mine").await, 401);
    // A key that lets a client in here is not sent to an upstream.
    let keyed = format!("client_keys = [\"{}\"]\n{}", KeyDigest::of("theirs"), config(""));
    assert_eq!(ask(gateway(&keyed), "Bearer theirs").await, 401);
}

#[tokio::test]
async fn what_upstreams_say_is_recorded_where_somebody_wants_it() {
    let folder = std::env::temp_dir().join(format!("callweave-record-{}", std::process::id()));
    let gateway = gateway(&format!("record = {:?}", folder.display().to_string()));
    post(&gateway, "/v1/messages", &messages("demo/hermes", true)).await;
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    let answer =
        names.iter().find(|name| name.extension().is_some_and(|own| own == "answer")).expect("an answer");
    let message = callweave::pipeline::decode(&std::fs::read(answer).expect("readable")).expect("an answer");
    assert!(message.text().contains("<tool_call>"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert!(mode(&folder) == 0o700 && names.iter().all(|name| mode(name) == 0o600), "{names:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[tokio::test]
async fn nothing_answers_where_nothing_is() {
    let gateway = gateway("");
    let got = post(&gateway, "/v1/nothing", &json!({})).await;
    assert_eq!((got.status, got.json()["error"]["message"].is_string()), (404, true));
    assert_eq!(get(&gateway, "/readyz").await.text, "ready\n");
}

#[tokio::test]
async fn thoughts_are_taken_out_of_text_unless_somebody_wants_them_there() {
    for (reasoning, is_apart) in [("", true), ("reasoning = false", false), ("dialect = \"none\"", false)] {
        let gateway = gateway(&format!("[upstreams.demo]\nbase_url = \"demo:\"\n{reasoning}"));
        for with_tools in [true, false] {
            let mut body = chat("demo/think-tags", false);
            if !with_tools {
                body.as_object_mut().expect("an object").remove("tools");
            }
            let got = post(&gateway, "/v1/chat/completions", &body).await;
            let message = &got.json()["choices"][0]["message"];
            let text = message["content"].as_str().unwrap_or_default();
            assert_eq!(!text.contains("<think>"), is_apart, "{reasoning} {with_tools}: {}", got.text);
            assert_eq!(message["reasoning_content"].is_string(), is_apart, "{reasoning}: {}", got.text);
        }
    }
}

#[tokio::test]
async fn answers_under_way_end_before_the_gateway_does() {
    let gateway = gateway("listen = \"127.0.0.1:0\"\n[timeouts]\nshutdown = 0.1");
    let server = callweave_gateway::Server::bind(gateway.clone()).await.expect("a port");
    let far = format!("http://{}", server.address().expect("an address"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let client = self::gateway(&format!(
        "[upstreams.far]\nbase_url = \"{far}\"\ndialect = \"none\"\nrepair = false\nschema = \"off\""
    ));
    let body = chat("far/demo/slow", true).to_string();
    let response = client.handle(request(Method::POST, "/v1/chat/completions", &[], &body)).await;
    let mut body = response.into_body();
    assert!(next(&mut body).await.is_some());
    stop.send(()).expect("a server");
    let mut rest = String::new();
    while let Some(piece) = next(&mut body).await {
        rest += &piece;
    }
    assert!(rest.contains("the gateway shuts down") && !rest.contains("[DONE]"), "{rest}");
    tokio::time::timeout(Duration::from_secs(5), run).await.expect("it ends").expect("it ends well");
    assert_eq!(get(&gateway, "/readyz").await.status, 503);
}

#[tokio::test]
async fn a_configuration_is_explained_and_tried() {
    let far = listening(gateway("listen = \"127.0.0.1:0\"")).await;
    let gateway = gateway(&format!(
        "[upstreams.far]\nbase_url = \"{far}\"\napi_key_env = \"NONE\"\nprovider = \"groq\"\n[upstreams.gone]\nbase_url = \"http://127.0.0.1:9\"\n[[models]]\nname = \"x\"\nupstream = \"far\"\nfallbacks = [\"gone/y\"]"
    ));
    let text = gateway.explain();
    assert!(
        text.contains("openai-chat or openai-responses or anthropic-messages at http://127.0.0.1:9")
            && text.contains("x: far"),
        "{text}"
    );
    assert!(text.contains("NONE is not set") && text.contains("by the rules of groq"), "{text}");
    let probes = gateway.probe().await;
    let of = |name: &str| probes.iter().find(|probe| probe.upstream == name).expect("a probe").found.clone();
    assert!(of("far").is_ok_and(|(count, _)| count > 10));
    assert!(of("gone").is_err_and(|what| what.contains("cannot be reached")));
}

#[tokio::test(start_paused = true)]
async fn another_try_waits_longer_each_time() {
    let gateway = gateway("[upstreams.demo]\nbase_url = \"demo:\"\nretries = 3");
    let began = tokio::time::Instant::now();
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/status-500", true)).await;
    // Chance shortens each wait by up to one half.
    let waited = began.elapsed().as_millis();
    assert!(got.status == 500 && (100 + 200 + 400..=200 + 400 + 800).contains(&waited), "{waited}");
    assert_eq!(metric(&gateway, "callweave_retries_total").await, 3);
    // A long wait is left to the client.
    let began = tokio::time::Instant::now();
    let got = post(&gateway, "/v1/chat/completions", &chat("demo/status-429", true)).await;
    assert_eq!((got.status, &got.headers["retry-after"]), (429, &"7".parse().expect("a header")));
    assert_eq!((began.elapsed().as_millis(), metric(&gateway, "callweave_retries_total").await), (0, 3));
}

#[tokio::test]
async fn fallbacks_are_asked_in_order_and_no_further_than_needed() {
    let ask = |status: u16| async move {
        let first = Far::start(vec![whole(status, &json!({"error": {"message": "no"}}))]).await;
        let second = Far::start(vec![broken()]).await;
        let third = Far::start(vec![whole(200, &answered("third"))]).await;
        let fourth = Far::start(vec![whole(200, &answered("fourth"))]).await;
        let mut config = String::new();
        for (name, far) in [("a", &first), ("b", &second), ("c", &third), ("d", &fourth)] {
            config += &format!(
                "[upstreams.{name}]\nbase_url = \"{}\"\nprotocol = \"openai-chat\"\nretries = 0\n",
                far.url
            );
        }
        config += "[[models]]\nname = \"best\"\nupstream = \"a\"\nfallbacks = [\"b/two\", \"c/three\", \"d/four\"]\n";
        let got = post(&gateway(&config), "/v1/messages", &messages("best", false)).await;
        let asked = [first, second, third, fourth].map(|far| far.seen().len());
        (got.status, got.text, asked)
    };
    for status in [500, 503, 429, 401, 404] {
        let (got, text, asked) = ask(status).await;
        assert!(got == 200 && text.contains("third"), "{status}: {text}");
        assert_eq!(asked, [1, 1, 1, 0], "{status}");
    }
    // An invalid request is invalid at every upstream.
    let (got, _, asked) = ask(400).await;
    assert_eq!((got, asked), (400, [1, 0, 0, 0]));
}

#[tokio::test]
async fn what_upstreams_say_of_waiting_and_of_the_request_is_forwarded() {
    let headers = "retry-after: 7\r\nretry-after-ms: 6500\r\nx-request-id: theirs\r\nrequest-id: req_1\r\nx-ratelimit-remaining-tokens: 5\r\nanthropic-ratelimit-requests-limit: 9\r\nset-cookie: a=b\r\nserver: own\r\n";
    let body = answered("hi").to_string();
    let answer = |status: &str, body: &str| {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        (head + body, Then::Close)
    };
    let refusal = "{\"error\": {\"message\": \"slow down\"}}";
    for (status, code, body) in
        [("200 OK", 200, body.as_str()), ("429 Slow", 429, refusal), ("529 Full", 529, refusal)]
    {
        for is_streamed in [false, true].into_iter().filter(|is_streamed| !is_streamed || code != 200) {
            let far = Far::start(vec![answer(status, body)]).await;
            let got = post(&far.gateway("retries = 0"), "/v1/messages", &messages("x", is_streamed)).await;
            assert_eq!(got.status, code, "{}", got.text);
            for (name, value) in [
                ("retry-after", "7"),
                ("x-request-id", "theirs"),
                ("request-id", "req_1"),
                ("x-ratelimit-remaining-tokens", "5"),
                ("anthropic-ratelimit-requests-limit", "9"),
            ] {
                assert_eq!(
                    got.headers.get(name).and_then(|own| own.to_str().ok()),
                    Some(value),
                    "{code} {name}"
                );
            }
            assert!(!got.headers.contains_key("set-cookie") && !got.headers.contains_key("server"));
        }
    }
}

#[tokio::test]
async fn an_answer_under_way_is_waited_for_when_the_gateway_stops() {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let (answer, then) = stream(&[said("first"), json!(PAUSE.to_string()), said("last"), end], Then::Close);
    let pause = format!("data: {}\n\n", json!(PAUSE.to_string()));
    let far = Far::start(vec![(answer.replace(&pause, &PAUSE.to_string()) + "data: [DONE]\n\n", then)]).await;
    let gateway = far.gateway("listen = \"127.0.0.1:0\"\n---[timeouts]\nshutdown = 20");
    let server = callweave_gateway::Server::bind(gateway.clone()).await.expect("a port");
    let address = server.address().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let body = messages("x", true).to_string();
    let mut client = crate::client::send(address, "POST", "/v1/messages", &[], body.as_bytes()).await;
    assert_eq!(crate::client::head(&mut client).await.status, 200);
    stop.send(()).expect("a server");
    let (text, is_complete) = crate::client::chunked(&mut client).await;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(is_complete && text.contains("last") && text.contains("message_stop"), "{text}");
    tokio::time::timeout(Duration::from_secs(5), run).await.expect("it ends").expect("it ends well");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
