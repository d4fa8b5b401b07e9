//! Upstreams that speak one, two or three protocols: a client's own is preferred, what an upstream does not speak is found
//! out by requests that cost nothing, and everything works in either.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use callweave::event::Event;
use callweave::pipeline::Decoder;
use callweave::protocol::Protocol;
use callweave_gateway::Gateway;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Got, chat, gateway, get, messages, metric, post, responses};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

/// The protocols by their paths.
const PATHS: [(&str, &str); 3] =
    [(CHAT, "openai-chat"), (RESPONSES, "openai-responses"), (MESSAGES, "anthropic-messages")];

/// A request that came.
#[derive(Clone, Debug)]
struct Seen {
    path: String,
    head: String,
    body: Value,
}

/// An upstream's response to a request, instead of its usual one.
type Refuse = fn(&Seen) -> Option<(u16, String)>;

/// An upstream that knows some paths.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts one that gives the same response, written in Chat, at each of the paths that it knows.
    async fn start(known: &[&'static str], answer: &Value, refuse: Refuse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, known, answer) = (Arc::clone(&seen), known.to_vec(), answer.to_string());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), known.clone(), answer.clone(), refuse));
            }
        });
        Self { url, seen }
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("nobody panicked"))
    }

    fn paths(&self) -> Vec<String> {
        self.take().into_iter().map(|seen| seen.path).collect()
    }

    fn gateway(&self, rest: &str) -> Arc<Gateway> {
        gateway(&format!(
            "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{}\"\nretries = 0\n{rest}",
            self.url
        ))
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Seen>>>,
    known: Vec<&'static str>,
    answer: String,
    refuse: Refuse,
) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut piece).await else { return };
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let seen = Seen { path: path.clone(), head, body };
    let is_streamed = seen.body["stream"] == true;
    let (status, kind, reply) = match refuse(&seen) {
        Some((status, reply)) => (status, "application/json", reply),
        None if !known.contains(&path.as_str()) => {
            (404, "application/json", r#"{"detail":"Not Found"}"#.to_owned())
        }
        None => {
            let name = PATHS.iter().find(|(own, _)| *own == path).expect("a path").1;
            let kind = if is_streamed { "text/event-stream" } else { "application/json" };
            (200, kind, told(&answer, name, is_streamed))
        }
    };
    log.lock().expect("nobody panicked").push(seen);
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    let _ =
        stream.write_all(format!("{head}content-length: {}\r\n\r\n{reply}", reply.len()).as_bytes()).await;
}

/// A response in Chat, written in another protocol.
fn told(answer: &str, name: &str, is_streamed: bool) -> String {
    let protocol = Protocol::named(name).expect("a protocol");
    let chat = Protocol::named("openai-chat").expect("a protocol");
    let options = callweave::encode::EncodeOptions::normalized().id("theirs").model("m");
    let mut bytes = Vec::new();
    let mut decoder = Decoder::new(chat);
    if is_streamed {
        let mut encoder = protocol.encoder(&options).expect("an encoder");
        let mut sink = |event: Event<'_>| encoder.encode(&event, &mut bytes);
        decoder.push(answer.as_bytes(), &mut sink).expect("a response");
        decoder.finish(&mut sink).expect("a response");
    } else {
        let mut message = callweave::accumulator::Accumulator::new();
        decoder.push(answer.as_bytes(), &mut message).expect("a response");
        decoder.finish(&mut message).expect("a response");
        protocol.encode_body(message.message(), &options, &mut bytes);
    }
    String::from_utf8(bytes).expect("text")
}

fn none(_: &Seen) -> Option<(u16, String)> {
    None
}

fn native() -> Value {
    json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message":
        {"role": "assistant", "content": "Looking.", "tool_calls": [{"id": "call_7", "type": "function", "function":
            {"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"days\": 1}"}}]},
        "finish_reason": "tool_calls"}]})
}

fn in_text() -> Value {
    json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant",
        "content": "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"1\"}}</tool_call>"},
        "finish_reason": "stop"}]})
}

fn asked(path: &str, is_streamed: bool) -> Value {
    match path {
        CHAT => chat("m", is_streamed),
        RESPONSES => responses("m", is_streamed),
        _ => messages("m", is_streamed),
    }
}

/// The call that a client of that path got, with arguments.
fn has_call(path: &str, got: &Got) -> bool {
    let name = PATHS.iter().find(|(own, _)| *own == path).expect("a path").1;
    let mut decoder = Decoder::new(Protocol::named(name).expect("a protocol"));
    let mut message = callweave::accumulator::Accumulator::new();
    decoder.push(got.text.as_bytes(), &mut message).expect("a response");
    decoder.finish(&mut message).expect("a response");
    message.message().tool_calls().any(|call| {
        let arguments: Value = serde_json::from_str(&call.raw_arguments).unwrap_or_default();
        call.name == "get_weather" && arguments == json!({"city": "Oslo", "days": 1})
    })
}

#[tokio::test]
async fn a_clients_own_protocol_is_preferred_and_what_is_found_out_is_kept() {
    let all = [CHAT, RESPONSES, MESSAGES];
    for set in 1..8u8 {
        let known: Vec<&'static str> =
            all.into_iter().enumerate().filter(|(at, _)| set & 1 << at != 0).map(|(_, path)| path).collect();
        for own in all {
            for is_streamed in [false, true] {
                let title = format!("{own} at {known:?}, streamed: {is_streamed}");
                let server = Server::start(&known, &native(), none).await;
                let gateway = server.gateway("");
                let got = post(&gateway, own, &asked(own, is_streamed)).await;
                assert_eq!(got.status, 200, "{title}: {}", got.text);
                assert!(has_call(own, &got), "{title}: {}", got.text);
                let first = server.paths();
                assert_eq!(first[0], own, "{title}: the client's own is tried first");
                assert!(known.contains(&first[first.len() - 1].as_str()), "{title}");
                let apart: BTreeSet<&String> = first.iter().collect();
                assert_eq!(apart.len(), first.len(), "{title}: each is tried once: {first:?}");
                // From then on nothing is tried any more.
                let got = post(&gateway, own, &asked(own, is_streamed)).await;
                assert!(has_call(own, &got), "{title}: {}", got.text);
                let then = server.paths();
                assert_eq!(then, first[first.len() - 1..], "{title}");
            }
        }
    }
}

#[tokio::test]
async fn what_only_chat_can_say_reaches_an_upstream_that_speaks_chat() {
    let server = Server::start(&[CHAT, RESPONSES], &native(), none).await;
    let gateway = server.gateway("provider = \"openai\"");
    let mut body = chat("gpt-5.5", false);
    for (key, value) in
        [("stop", json!(["x"])), ("seed", json!(7)), ("n", json!(2)), ("logit_bias", json!({"1": 2}))]
    {
        body[key] = value;
    }
    let got = post(&gateway, CHAT, &body).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert!(got.headers.get("x-callweave-lost").is_none());
    let seen = server.take();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, CHAT));
    assert_eq!(seen[0].body, body);
    // Clients of other protocols get the usual one.
    post(&gateway, MESSAGES, &messages("gpt-5.5", false)).await;
    assert_eq!(server.paths(), [RESPONSES]);
}

#[tokio::test]
async fn dialects_and_taught_tools_work_in_every_protocol() {
    for config in ["", "tools = \"prompt\"\ndialect = \"hermes\""] {
        for known in [&[CHAT][..], &[RESPONSES], &[MESSAGES], &[CHAT, RESPONSES, MESSAGES]] {
            for own in [CHAT, RESPONSES, MESSAGES] {
                for is_streamed in [false, true] {
                    let server = Server::start(known, &in_text(), none).await;
                    let got = post(&server.gateway(config), own, &asked(own, is_streamed)).await;
                    assert_eq!(got.status, 200, "{config} {own} at {known:?}: {}", got.text);
                    assert!(has_call(own, &got), "{config} {own} at {known:?}: {}", got.text);
                    let seen = server.take().pop().expect("a request");
                    let is_taught = seen.body.to_string().contains("<tool_call>");
                    assert_eq!(is_taught, !config.is_empty(), "{own} at {known:?}: {}", seen.body);
                    assert_eq!(seen.body.get("tools").is_some(), config.is_empty(), "{}", seen.body);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_says_nothing_of_protocols() {
    let refuse: Refuse = |seen| {
        let is_gone = seen.body["model"] == "gone" && seen.path == MESSAGES;
        is_gone.then(|| {
            (
                404,
                json!({"type": "error", "error": {"type": "not_found_error", "message": "model: gone"}})
                    .to_string(),
            )
        })
    };
    let server = Server::start(&[CHAT, MESSAGES], &native(), refuse).await;
    let gateway = server.gateway("");
    let mut body = messages("gone", false);
    let got = post(&gateway, MESSAGES, &body).await;
    assert_eq!((got.status, server.paths()), (404, vec![MESSAGES.to_owned()]), "{}", got.text);
    body["model"] = "m".into();
    post(&gateway, MESSAGES, &body).await;
    assert_eq!(server.paths(), [MESSAGES]);
}

#[tokio::test]
async fn nothing_is_found_out_where_no_path_is_known() {
    let server = Server::start(&[], &native(), none).await;
    let gateway = server.gateway("");
    for _ in 0..2 {
        let got = post(&gateway, MESSAGES, &messages("m", false)).await;
        assert_eq!(got.status, 404, "{}", got.text);
        assert_eq!(server.paths(), [MESSAGES, CHAT, RESPONSES]);
    }
}

#[tokio::test]
async fn a_request_that_a_tried_protocol_refuses_is_asked_in_the_usual_one() {
    let refuse: Refuse = |seen| {
        let is_refused = seen.path == RESPONSES && seen.body.to_string().contains("odd");
        is_refused.then(|| {
            (
                400,
                json!({"error": {"message": "unsupported item", "type": "invalid_request_error"}})
                    .to_string(),
            )
        })
    };
    let server = Server::start(&[CHAT, RESPONSES], &native(), refuse).await;
    let gateway = server.gateway("");
    let mut odd = responses("m", false);
    odd["input"] = "odd".into();
    let got = post(&gateway, RESPONSES, &odd).await;
    assert_eq!(
        (got.status, server.paths()),
        (200, vec![RESPONSES.to_owned(), CHAT.to_owned()]),
        "{}",
        got.text
    );
    // That says nothing of other requests; and once the upstream has responded, its refusals are the client's.
    assert_eq!(post(&gateway, RESPONSES, &responses("m", false)).await.status, 200);
    assert_eq!(server.paths(), [RESPONSES]);
    assert_eq!(post(&gateway, RESPONSES, &odd).await.status, 400);
    assert_eq!(server.paths(), [RESPONSES]);
}

/// LM Studio did so before it knew Responses.
#[tokio::test]
async fn an_error_in_a_successful_response_of_a_tried_protocol_is_asked_in_the_usual_one() {
    let refuse: Refuse = |seen| {
        let said =
            json!({"error": "Unexpected endpoint or method. (POST /v1/responses). Returning 200 anyway"});
        (seen.path == RESPONSES).then(|| (200, said.to_string()))
    };
    for is_streamed in [false, true] {
        let server = Server::start(&[CHAT, RESPONSES], &native(), refuse).await;
        let got = post(&server.gateway(""), RESPONSES, &responses("m", is_streamed)).await;
        assert!(got.status == 200 && has_call(RESPONSES, &got), "{}", got.text);
        assert_eq!(server.paths(), [RESPONSES, CHAT]);
        // An error from the usual endpoint is final.
        let refuse: Refuse = |_| Some((200, json!({"error": {"message": "broken"}}).to_string()));
        let server = Server::start(&[CHAT], &native(), refuse).await;
        let got = post(&server.gateway(""), CHAT, &chat("m", is_streamed)).await;
        assert!(got.status >= 400 && server.paths() == [CHAT], "{}", got.text);
    }
}

#[tokio::test]
async fn an_upstream_that_is_busy_is_not_asked_twice() {
    for status in [429, 503] {
        let refuse: Refuse = match status {
            429 => |_| Some((429, json!({"error": {"message": "slow down"}}).to_string())),
            _ => |_| Some((503, json!({"error": {"message": "overloaded"}}).to_string())),
        };
        let server = Server::start(&[CHAT, RESPONSES], &native(), refuse).await;
        post(&server.gateway(""), RESPONSES, &responses("m", false)).await;
        assert_eq!(server.paths(), [RESPONSES], "{status}");
    }
}

#[tokio::test]
async fn protocols_can_be_configured() {
    for (config, own, asked_in) in [
        ("protocol = \"openai-chat\"", RESPONSES, CHAT),
        ("protocol = \"openai-chat\"", MESSAGES, CHAT),
        ("protocols = [\"openai-chat\", \"openai-responses\"]", RESPONSES, RESPONSES),
        ("protocols = [\"openai-chat\", \"openai-responses\"]", MESSAGES, CHAT),
        ("protocols = [\"responses\", \"openai-chat\"]", MESSAGES, RESPONSES),
        ("provider = \"mistral\"", RESPONSES, CHAT),
        ("provider = \"vllm\"", RESPONSES, RESPONSES),
        ("provider = \"vllm\"", MESSAGES, MESSAGES),
    ] {
        let server = Server::start(&[CHAT, RESPONSES, MESSAGES], &native(), none).await;
        let got = post(&server.gateway(config), own, &asked(own, false)).await;
        assert!(has_call(own, &got), "{config} {own}: {}", got.text);
        assert_eq!(server.paths(), [asked_in], "{config} {own}");
    }
}

#[tokio::test]
async fn tokens_are_estimated_where_the_upstream_cannot_count() {
    let server = Server::start(&[CHAT, MESSAGES], &native(), none).await;
    let gateway = server.gateway("");
    let counted = async || {
        let got = post(&gateway, "/v1/messages/count_tokens", &messages("m", false)).await;
        assert!(
            got.status == 200 && got.json()["input_tokens"].as_u64().is_some_and(|count| count > 0),
            "{}",
            got.text
        );
        server.paths()
    };
    // Before it has answered in the protocol it is not even asked.
    assert!(counted().await.is_empty());
    post(&gateway, MESSAGES, &messages("m", false)).await;
    assert_eq!(server.paths(), [MESSAGES]);
    assert_eq!(counted().await, ["/v1/messages/count_tokens"]);
}

#[tokio::test]
async fn a_key_is_sent_where_either_protocol_has_it() {
    let server = Server::start(&[CHAT, MESSAGES], &native(), none).await;
    let config = callweave_gateway::config::Config::read(&format!(
        "default_upstream = \"far\"\n[upstreams.far]\nbase_url = \"{}\"\napi_key_env = \"KEY\"",
        server.url
    ));
    let environment =
        callweave_gateway::config::Environment::of(|name| (name == "KEY").then(|| "secret-key".to_owned()));
    let gateway = Gateway::new(config.expect("a configuration"), &environment).expect("a gateway");
    post(&gateway, MESSAGES, &messages("m", false)).await;
    let head = server.take().remove(0).head.to_lowercase();
    assert!(
        head.contains("x-api-key: secret-key") && head.contains("authorization: bearer secret-key"),
        "{head}"
    );
}

/// Servers of Responses that are not OpenAI's keep nothing, so the gateway does.
#[tokio::test]
async fn a_response_is_gone_on_from_where_the_upstream_keeps_nothing() {
    let server = Server::start(&[CHAT, RESPONSES], &native(), none).await;
    let gateway = server.gateway("");
    let first = post(&gateway, RESPONSES, &responses("m", false)).await.json();
    let id = first["id"].as_str().expect("an id").to_owned();
    assert_eq!(get(&gateway, &format!("{RESPONSES}/{id}")).await.status, 200);
    let next = json!({"model": "m", "previous_response_id": id,
        "input": [{"type": "function_call_output", "call_id": "call_7", "output": "sunny"}]});
    let got = post(&gateway, RESPONSES, &next).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let sent = server.take().pop().expect("a request").body;
    assert!(sent.get("previous_response_id").is_none(), "{sent}");
    let sent = sent["input"].to_string();
    assert!(
        sent.contains("Weather in Oslo?") && sent.contains("get_weather") && sent.contains("sunny"),
        "{sent}"
    );
}

/// Fields that not every server takes are rewritten, and nothing else is.
#[tokio::test]
async fn servers_that_are_not_openais_get_what_every_server_takes() {
    let asked = json!({"model": "m", "top_k": 5, "store": false, "max_completion_tokens": 9, "odd": {"a": 1}, "messages": [
        {"role": "developer", "content": "Be brief."}, {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be quick."}],
        "tools": [{"type": "custom", "custom": {"name": "apply_patch", "description": "d"}}]});
    let server = Server::start(&[CHAT, RESPONSES], &native(), none).await;
    let got = post(&server.gateway(""), CHAT, &asked).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let sent = server.take().remove(0).body;
    let roles: Vec<&Value> =
        sent["messages"].as_array().expect("messages").iter().map(|own| &own["role"]).collect();
    assert_eq!(roles, ["system", "user"], "{sent}");
    assert_eq!(sent["messages"][0]["content"], "Be brief.\n\nBe kind.");
    assert!(sent["messages"][1].to_string().contains("Be quick."), "{sent}");
    assert_eq!(sent["tools"][0]["type"], "function", "{sent}");
    assert_eq!((&sent["max_tokens"], sent.get("max_completion_tokens")), (&json!(9), None), "{sent}");
    for key in ["top_k", "store", "odd"] {
        assert_eq!(sent[key], asked[key], "{key}: {sent}");
    }
    // A request that every server takes goes up byte for byte, and OpenAI gets what it knows.
    for (config, body) in [("", chat("m", false)), ("provider = \"openai\"", asked)] {
        post(&server.gateway(config), CHAT, &body).await;
        assert_eq!(server.take().remove(0).body, body, "{config}");
    }
    let asked = json!({"model": "gpt-5.5", "instructions": "Be brief.", "store": false, "prompt_cache_key": "k", "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}],
        "tools": [{"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "text"}}]});
    let got = post(&server.gateway(""), RESPONSES, &asked).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let seen = server.take().remove(0);
    let sent = seen.body;
    assert_eq!(seen.path, RESPONSES);
    assert_eq!(sent["instructions"], "Be brief.\n\nBe kind.", "{sent}");
    assert!(!sent.to_string().contains("developer") && !sent.to_string().contains("custom"), "{sent}");
    assert_eq!(sent["tools"][0]["type"], "function", "{sent}");
    let call = sent["input"].as_array().expect("items").iter().find(|item| item["type"] == "function_call");
    assert_eq!(call.expect("a call")["arguments"], "{\"input\":\"*** Begin\"}", "{sent}");
    assert_eq!((&sent["prompt_cache_key"], &sent["store"]), (&json!("k"), &json!(false)));
}

/// A name of OpenAI's at an address of this network says nothing of the server: Codex asks every one for such names.
#[tokio::test]
async fn names_of_openais_models_say_nothing_of_a_local_server() {
    let server = Server::start(&[CHAT], &native(), none).await;
    let mut asked = responses("gpt-5.5", false);
    asked["max_output_tokens"] = 50.into();
    asked["prompt_cache_key"] = "k".into();
    asked["tools"] = json!([{"type": "custom", "name": "apply_patch", "description": "d"}]);
    asked["input"] = json!([{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}]);
    let got = post(&server.gateway(""), RESPONSES, &asked).await;
    assert_eq!(got.status, 200, "{}", got.text);
    let sent = server.take().pop().expect("a request").body;
    assert_eq!(sent["max_tokens"], 50, "{sent}");
    assert!(
        !["developer", "custom", "max_completion_tokens", "prompt_cache_key"]
            .iter()
            .any(|word| sent.to_string().contains(word)),
        "{sent}"
    );
}

/// Some clients make ids of nine letters and digits.
#[tokio::test]
async fn made_ids_differ_in_their_first_letters() {
    let call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 1}}</tool_call>";
    let answer = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": call.repeat(20)}, "finish_reason": "stop"}]});
    let server = Server::start(&[CHAT], &answer, none).await;
    let gateway = server.gateway("");
    let mut history = chat("m", false);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let got = post(&gateway, CHAT, &history).await.json();
        let message = got["choices"][0]["message"].clone();
        for call in message["tool_calls"].as_array().expect("calls") {
            let id = call["id"].as_str().expect("an id");
            assert!(id.len() <= 40, "{id}");
            let plain = |id: &str| id.chars().filter(char::is_ascii_alphanumeric).take(9).collect::<String>();
            assert!(seen.insert(plain(id)), "{id}");
            assert!(seen.insert(plain(id.strip_prefix("call_").unwrap_or(id))), "{id}");
        }
        let list = history["messages"].as_array_mut().expect("messages");
        let calls = message["tool_calls"].clone();
        list.push(message);
        for call in calls.as_array().expect("calls") {
            list.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"}));
        }
    }
    assert_eq!(metric(&gateway, "callweave_retries_total").await, 0);
}

/// A conversation of a client that knows nothing but `functions`.
fn older_chat(is_streamed: bool) -> Value {
    let mut asked = chat("m", is_streamed);
    let function = asked["tools"][0]["function"].take();
    let members = asked.as_object_mut().expect("members");
    members.remove("tools");
    members.insert("functions".to_owned(), json!([function]));
    members.insert("function_call".to_owned(), json!({"name": "get_weather"}));
    members.insert("top_k".to_owned(), json!(5));
    let list = asked["messages"].as_array_mut().expect("messages");
    for _ in 0..2 {
        list.push(json!({"role": "assistant", "content": null,
            "function_call": {"name": "get_weather", "arguments": "{\"city\": \"Rome\", \"days\": 1}"}}));
        list.push(json!({"role": "function", "name": "get_weather", "content": "sunny"}));
    }
    asked
}

/// Many servers ignore `functions`: they get tools, and the client its own form.
#[tokio::test]
async fn functions_of_the_older_form_reach_servers_that_know_only_tools() {
    let server = Server::start(&[CHAT], &native(), none).await;
    for config in ["", "dialect = \"none\"\nrepair = false\nschema = \"off\"", "provider = \"groq\""] {
        let gateway = server.gateway(config);
        for is_streamed in [false, true] {
            let got = post(&gateway, CHAT, &older_chat(is_streamed)).await;
            let sent = server.take().pop().expect("a request").body;
            assert!(sent.get("functions").is_none() && sent.get("function_call").is_none(), "{sent}");
            assert_eq!(sent["tools"][0]["function"]["name"], "get_weather", "{sent}");
            assert_eq!(sent["tools"][0]["function"]["parameters"], crate::support::schema(), "{sent}");
            assert_eq!(sent["tool_choice"]["function"]["name"], "get_weather", "{sent}");
            let list = sent["messages"].as_array().expect("messages");
            let roles: Vec<&Value> = list.iter().map(|own| &own["role"]).collect();
            assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool"], "{sent}");
            let ids: Vec<&Value> = list.iter().filter_map(|own| own.pointer("/tool_calls/0/id")).collect();
            let results: Vec<&Value> = list.iter().filter_map(|own| own.get("tool_call_id")).collect();
            assert!(ids == results && ids.len() == 2 && ids[0] != ids[1], "{sent}");
            assert!(list.iter().all(|own| own.get("function_call").is_none()), "{sent}");
            assert!(got.text.contains("function_call") && !got.text.contains("tool_calls"), "{}", got.text);
            assert!(has_call(CHAT, &got), "{}", got.text);
        }
    }
    // OpenAI knows both forms.
    let asked = older_chat(false);
    post(&server.gateway("provider = \"openai\""), CHAT, &asked).await;
    assert_eq!(server.take().pop().expect("a request").body, asked);
}

/// llama-server and LM Studio know only words, and llama-cpp-python forces only a tool that is named.
#[tokio::test]
async fn a_forced_call_is_said_as_the_server_knows_it() {
    let server = Server::start(&[CHAT, RESPONSES], &native(), none).await;
    let forced = |path: &str, choice: &str, count: usize| {
        let mut body = asked(path, false);
        let tools = body["tools"].as_array_mut().expect("tools");
        for number in 1..count {
            let text = tools[0].to_string().replace("get_weather", &format!("other_{number}"));
            tools.push(serde_json::from_str(&text).expect("a tool"));
        }
        body["tool_choice"] = match (choice, path) {
            ("named", CHAT) => json!({"type": "function", "function": {"name": "get_weather"}}),
            ("named", _) => json!({"type": "function", "name": "get_weather"}),
            ("allowed", CHAT) => json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
                "tools": [{"type": "function", "function": {"name": "get_weather"}}]}}),
            ("allowed", _) => json!({"type": "allowed_tools", "mode": "required",
                "tools": [{"type": "function", "name": "get_weather"}]}),
            (word, _) => json!(word),
        };
        body
    };
    for path in [CHAT, RESPONSES] {
        let named = forced(path, "named", 1)["tool_choice"].clone();
        for (provider, choice, count, expected, left, lost) in [
            ("llamacpp", "named", 3, &json!("required"), 1, false),
            ("lmstudio", "named", 3, &json!("required"), 1, false),
            ("llamacpp", "required", 3, &json!("required"), 3, false),
            ("llamacpp", "allowed", 3, &json!("required"), 1, false),
            ("llama-cpp-python", "required", 1, &named, 1, false),
            ("llama-cpp-python", "allowed", 3, &named, 1, false),
            ("llama-cpp-python", "named", 3, &named, 3, false),
            ("llama-cpp-python", "required", 3, &json!("required"), 3, true),
            ("vllm", "named", 3, &named, 3, false),
            ("vllm", "required", 1, &json!("required"), 1, false),
            ("vllm", "allowed", 3, &json!("required"), 1, false),
            ("openai-compatible", "named", 3, &named, 3, false),
        ] {
            let what = format!("{provider} {choice} at {path}");
            let protocols = "protocols = [\"openai-chat\", \"openai-responses\"]";
            let gateway = server.gateway(&format!("provider = \"{provider}\"\n{protocols}"));
            let got = post(&gateway, path, &forced(path, choice, count)).await;
            let sent = server.take().pop().expect("a request").body;
            assert_eq!((&sent["tool_choice"], got.status), (expected, 200), "{what}: {sent}");
            assert_eq!(sent["tools"].as_array().map(Vec::len), Some(left), "{what}: {sent}");
            assert_eq!(got.headers.contains_key("x-callweave-lost"), lost, "{what}: {:?}", got.headers);
        }
        // The same from clients of another protocol.
        let mut body = messages("m", false);
        let tools = body["tools"].as_array_mut().expect("tools");
        tools.push(json!({"name": "other", "input_schema": {"type": "object"}}));
        body["tool_choice"] = json!({"type": "tool", "name": "get_weather"});
        post(&server.gateway("provider = \"llamacpp\"\nprotocol = \"openai-chat\""), MESSAGES, &body).await;
        let sent = server.take().pop().expect("a request").body;
        assert_eq!(
            (&sent["tool_choice"], sent["tools"].as_array().map(Vec::len)),
            (&json!("required"), Some(1))
        );
    }
}

/// The model list identifies the provider, without a request of its own for each client.
#[tokio::test]
async fn a_model_list_tells_how_a_server_is_asked() {
    let listed: [(Refuse, &str, Value); 3] = [
        (
            |seen| list_of(seen, r#"{"data": [{"id": "m", "owned_by": "me"}]}"#),
            CHAT,
            json!({"type": "function",
            "function": {"name": "get_weather"}}),
        ),
        (
            |seen| list_of(seen, r#"{"data": [{"id": "m", "owned_by": "vllm"}]}"#),
            RESPONSES,
            json!("required"),
        ),
        (
            |seen| list_of(seen, r#"{"data": [{"id": "m", "type": "model", "display_name": "M"}]}"#),
            MESSAGES,
            json!({"type": "any"}),
        ),
    ];
    for (list, path, choice) in listed {
        let server = Server::start(&[CHAT, RESPONSES, MESSAGES], &native(), list).await;
        let gateway = server.gateway("");
        let mut asked = responses("m", false);
        asked["tool_choice"] = json!("required");
        post(&gateway, RESPONSES, &asked).await;
        assert_eq!(server.paths(), [RESPONSES], "nothing is known yet");
        get(&gateway, "/v1/models").await;
        assert_eq!(server.paths(), ["/v1/models"]);
        let got = post(&gateway, RESPONSES, &asked).await;
        assert!(has_call(RESPONSES, &got), "{}", got.text);
        let seen = server.take();
        assert_eq!(seen.iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>(), [path]);
        assert_eq!(seen[0].body["tool_choice"], choice, "{}", seen[0].body);
        // A configured provider stays as configured.
        let gateway = server.gateway("provider = \"vllm\"");
        get(&gateway, "/v1/models").await;
        post(&gateway, RESPONSES, &asked).await;
        assert_eq!(server.paths(), ["/v1/models", RESPONSES]);
    }
    // Ollama is asked in its own protocol by its own clients alone.
    let list: Refuse = |seen| list_of(seen, r#"{"data": [{"id": "m", "owned_by": "library"}]}"#);
    let server = Server::start(&[CHAT, RESPONSES, MESSAGES], &native(), list).await;
    let gateway = server.gateway("");
    Arc::clone(&gateway).find_out_providers().await;
    let asked = json!({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]});
    post(&gateway, "/v1beta/models/m:generateContent", &asked).await;
    let asked =
        json!({"model": "m", "stream": false, "messages": [{"role": "user", "content": "Weather in Oslo?"}]});
    let got = post(&gateway, "/api/chat", &asked).await;
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(server.paths(), ["/v1/models", CHAT, "/v1/api/chat", CHAT]);
    // All that are unknown are asked at once, and nobody else.
    let list: Refuse = |seen| list_of(seen, r#"{"data": [{"id": "m", "owned_by": "me"}]}"#);
    let server = Server::start(&[CHAT, RESPONSES], &native(), list).await;
    for (config, paths) in [("", &["/v1/models", CHAT][..]), ("provider = \"vllm\"", &[RESPONSES])] {
        let gateway = server.gateway(config);
        Arc::clone(&gateway).find_out_providers().await;
        Arc::clone(&gateway).find_out_providers().await;
        post(&gateway, RESPONSES, &responses("m", false)).await;
        assert_eq!(server.paths(), paths);
    }
}

fn list_of(seen: &Seen, list: &str) -> Option<(u16, String)> {
    (seen.path == "/v1/models").then(|| (200, list.to_owned()))
}
