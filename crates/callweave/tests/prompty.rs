//! The processing entry point: every provider, every rule, streamed and complete.

#[path = "support/shared.rs"]
mod shared;

use callweave::compat::prompty::{
    ApiType, Processed, PromptAgent, StreamFailure, StreamItem, process, process_async, process_bytes,
    process_stream,
};
use callweave::event::BlockCompletion;
use callweave::upstream::ErrorClass;
use callweave::{Error, ErrorKind};
use serde_json::{Value, json};

fn result(agent: &PromptAgent, response: &Value) -> Result<Value, String> {
    let processed = process(agent, response);
    let waited = futures::executor::block_on(process_async(agent, response));
    assert_eq!(processed, waited, "the async twin gives the same");
    let processed = processed.map_err(|error| error.detail().to_owned())?;
    Ok(serde_json::to_value(processed).expect("a result is JSON"))
}

fn of(provider: &str, response: Value) -> Result<Value, String> {
    result(&PromptAgent::new(provider), &response)
}

fn chat(message: Value) -> Value {
    json!({"id": "c", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
}

fn anthropic(content: Value) -> Value {
    json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "content": content,
        "stop_reason": "end_turn"})
}

fn items(provider: &str, chunks: Vec<Value>) -> Result<Vec<StreamItem>, StreamFailure> {
    let chunks = chunks.into_iter().map(Ok::<_, Error>);
    process_stream(&PromptAgent::new(provider), chunks).expect("the provider is known").collect()
}

fn shown(provider: &str, chunks: Vec<Value>) -> Value {
    let items = items(provider, chunks).expect("the stream is whole");
    let short = |item: StreamItem| match item {
        StreamItem::Text(text) => json!(text),
        StreamItem::ToolCall(call) => json!([call.id, call.name, call.raw_arguments]),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(short).collect()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

mod whole {
    use super::*;

    #[test]
    fn a_call_that_was_cut_says_so() {
        let function = json!({"name": "rm", "arguments": "{\"path\": \"/a"});
        let mut body = chat(json!({"tool_calls": [{"id": "1", "function": function}]}));
        body["choices"][0]["finish_reason"] = json!("length");
        let calls = of("openai", body).expect("calls");
        assert_eq!(calls[0]["incomplete"], true);
        let whole = json!({"name": "rm", "arguments": "{}"});
        let calls = of("openai", chat(json!({"tool_calls": [{"id": "1", "function": whole}]})));
        assert_eq!(calls.expect("calls")[0].get("incomplete"), None);
    }

    #[test]
    fn every_provider_gives_its_text() {
        let text = Ok(json!("Hello"));
        let chat = chat(json!({"role": "assistant", "content": "Hello"}));
        for provider in
            ["openai", "azure", "foundry", "mistral", "groq", "deepseek", "openrouter", "vllm", "OpenAI"]
        {
            assert_eq!(of(provider, chat.clone()), text, "{provider}");
        }
        let responses = json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}]});
        assert_eq!(of("openai", responses.clone()), text);
        assert_eq!(of("azure", responses), text);
        let claude = anthropic(json!([{"type": "text", "text": "Hello"}]));
        assert_eq!(of("anthropic", claude.clone()), text);
        assert_eq!(of("bedrock", claude.clone()), text);
        assert_eq!(of("vertex", claude), text);
        let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}]});
        for provider in ["gemini", "google", "vertex"] {
            assert_eq!(of(provider, gemini.clone()), text, "{provider}");
        }
        let ollama =
            json!({"model": "m", "message": {"role": "assistant", "content": "Hello"}, "done": true});
        assert_eq!(of("ollama", ollama), text);
        let cohere = json!({"id": "1", "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}});
        assert_eq!(of("cohere", cohere), text);
        let converse = json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
            "stopReason": "end_turn"});
        assert_eq!(of("bedrock", converse.clone()), text);
        assert_eq!(of("converse", converse), text);
    }

    #[test]
    fn every_provider_gives_its_calls_before_its_text() {
        let spaced = |id: &str| Ok(json!([{"id": id, "name": "f", "arguments": "{\"a\": 1}"}]));
        let compact = |id: &str| Ok(json!([{"id": id, "name": "f", "arguments": "{\"a\":1}"}]));
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
        assert_eq!(of("openai", chat(json!({"content": "I call", "tool_calls": [call]}))), spaced("c1"));
        let responses = json!({"object": "response", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I call"}]},
            {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"}]});
        assert_eq!(of("openai", responses), spaced("c1"));
        let claude = json!([{"type": "text", "text": "I call"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]);
        assert_eq!(of("anthropic", anthropic(claude)), compact("c1"));
        let gemini = json!({"candidates": [{"content": {"parts": [{"text": "I call"},
            {"functionCall": {"name": "f", "args": {"a": 1}}}]}}]});
        assert_eq!(of("gemini", gemini), compact("tool_0_0"));
        let ollama = json!({"model": "m", "done": true, "message": {"content": "I call",
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}});
        assert_eq!(of("ollama", ollama), compact("tool_0_0"));
        let cohere = json!({"id": "1", "finish_reason": "TOOL_CALL", "message": {"tool_plan": "I call",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}});
        assert_eq!(of("cohere", cohere), spaced("c1"));
        let converse = json!({"stopReason": "tool_use", "output": {"message": {"content": [{"text": "I call"},
            {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}}]}}});
        assert_eq!(of("bedrock", converse), compact("c1"));
    }

    #[test]
    fn argument_text_is_passed_on_unchanged() {
        for text in ["", "{ \"n\": 12345678901234567890.5, \"a\":1,\"a\":2 }", "{\"cut\": ", "not JSON"] {
            let call = json!({"id": "c1", "function": {"name": "f", "arguments": text}});
            let calls = of("openai", chat(json!({"tool_calls": [call]}))).expect("calls");
            assert_eq!(calls[0]["arguments"], text);
        }
    }

    #[test]
    fn an_object_left_out_is_empty_where_the_wire_tells_objects() {
        let gemini = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]});
        assert_eq!(of("gemini", gemini).expect("calls")[0]["arguments"], "{}");
    }

    #[test]
    fn embeddings_are_known_by_their_items() {
        let response = json!({"data": [{"index": 0, "embedding": [0.5, 1]}], "model": "e"});
        assert_eq!(of("openai", response), Ok(json!([0.5, 1.0])));
        let mut several = json!({"data": [{"embedding": [1]}, {"embedding": [2]}]});
        assert_eq!(of("openai", several.clone()), Ok(json!([[1.0], [2.0]])));
        several["data"][1]["embedding"].take();
        assert!(of("openai", several).is_err());
    }

    #[test]
    fn a_cut_call_is_marked_and_cannot_be_parsed() {
        let call = json!({"id": "c1", "function": {"name": "f", "arguments": "{\"a\": 1"}});
        let response = chat(json!({"tool_calls": [call]}));
        let Ok(Processed::ToolCalls(calls)) = process(&PromptAgent::new("openai"), &response) else {
            panic!("calls")
        };
        assert_eq!(calls[0].completion, BlockCompletion::Truncated);
        let error = calls[0].parse::<Value>().expect_err("it was cut");
        assert_eq!(error.to_string(), "the call of f was cut off after 7 bytes");
    }

    #[test]
    fn calls_that_the_provider_runs_are_not_the_callers() {
        let claude = json!([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "text", "text": "Found"}]);
        assert_eq!(of("anthropic", anthropic(claude)), Ok(json!("Found")));
    }

    #[test]
    fn the_free_text_of_a_custom_tool_is_a_json_string() {
        let call =
            json!({"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "say \"hi\"\n"}});
        let calls = of("openai", chat(json!({"tool_calls": [call]}))).expect("calls");
        assert_eq!(calls[0]["arguments"], r#""say \"hi\"\n""#);
    }

    #[test]
    fn no_content_is_an_empty_text() {
        assert_eq!(of("openai", chat(json!({"content": null}))), Ok(json!("")));
        assert_eq!(of("openai", chat(json!({"content": null, "tool_calls": []}))), Ok(json!("")));
        assert_eq!(of("anthropic", anthropic(json!([]))), Ok(json!("")));
        assert_eq!(of("openai", json!({"object": "response", "output": []})), Ok(json!("")));
    }

    #[test]
    fn a_refusal_is_the_text_where_there_is_no_other() {
        let refused = json!({"content": null, "refusal": "I won't"});
        assert_eq!(of("openai", chat(refused)), Ok(json!("I won't")));
        assert_eq!(of("openai", chat(json!({"content": "Well", "refusal": "I won't"}))), Ok(json!("Well")));
        let responses = json!({"object": "response", "output": [{"type": "message", "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I won't"}]}]});
        assert_eq!(of("openai", responses), Ok(json!("I won't")));
    }

    #[test]
    fn only_the_first_choice_counts() {
        let choice = |text: &str| json!({"message": {"content": text}});
        let numbered = json!({"choices": [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]});
        assert_eq!(of("openai", numbered), Ok(json!("a")));
        assert_eq!(of("openai", json!({"choices": [choice("a"), choice("b")]})), Ok(json!("a")));
        let silent = json!({"choices": [{"index": 0, "message": {"content": null}, "finish_reason": "stop"},
            {"index": 1, "message": {"content": "b"}, "finish_reason": "stop"}]});
        assert_eq!(of("openai", silent), Ok(json!("")));
    }

    #[test]
    fn all_text_blocks_are_joined_and_thoughts_are_not() {
        let content = json!([{"type": "text", "text": "One. "}, {"type": "thinking", "thinking": "x", "signature": "s"},
            {"type": "text", "text": "Two."}]);
        assert_eq!(of("anthropic", anthropic(content)), Ok(json!("One. Two.")));
    }

    #[test]
    fn declared_outputs_are_parsed() {
        let agent = PromptAgent::new("openai").with_outputs();
        let parsed = |text: &str| result(&agent, &chat(json!({"content": text})));
        assert_eq!(parsed("{\"b\": 1, \"a\": [true]}"), Ok(json!({"b": 1, "a": [true]})));
        assert_eq!(parsed("7"), Ok(json!(7)));
        assert_eq!(parsed("{\"b\": "), Ok(json!("{\"b\": ")));
        assert_eq!(parsed(""), Ok(json!("")));
        assert_eq!(of("openai", chat(json!({"content": "{}"}))), Ok(json!("{}")));
        let call = json!({"id": "c1", "function": {"name": "f", "arguments": "{}"}});
        let calls = result(&agent, &chat(json!({"content": "{\"a\": 1}", "tool_calls": [call]})));
        assert_eq!(calls.expect("calls")[0]["id"], "c1");
    }

    #[test]
    fn a_structured_output_is_cast_from_the_raw_text() {
        let text = r#"{"n": 0.1000000000000000055511151231257827, "n2": 123456789012345678901234567890}"#;
        let response = chat(json!({"content": text}));
        let processed = process(&PromptAgent::new("openai").with_outputs(), &response).expect("it is whole");
        let Processed::Structured(found) = processed else { panic!("{processed:?}") };
        assert_eq!(found.raw, text);
        assert_eq!(found.value.to_string(), text.replace(": ", ":").replace(", ", ","));
        let raw: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
            found.cast().expect("an object");
        assert_eq!(raw["n2"].get(), "123456789012345678901234567890");
        assert_eq!(found.cast::<Vec<u8>>().map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    }

    #[test]
    fn the_joined_text_of_an_sdk_is_used_where_there_are_no_items() {
        let response = json!({"object": "response", "output": [], "output_text": "{\"a\": 1}"});
        assert_eq!(of("openai", response.clone()), Ok(json!("{\"a\": 1}")));
        assert_eq!(result(&PromptAgent::new("openai").with_outputs(), &response), Ok(json!({"a": 1})));
    }

    #[test]
    fn embeddings_are_vectors() {
        let list = |data: Value| json!({"object": "list", "model": "e", "data": data});
        assert_eq!(of("openai", list(json!([{"embedding": [0.5, -1.25]}]))), Ok(json!([0.5, -1.25])));
        let two = list(json!([{"embedding": [0.5]}, {"embedding": [1.5]}]));
        assert_eq!(of("azure", two), Ok(json!([[0.5], [1.5]])));
        assert_eq!(of("openai", list(json!([{"embedding": "AAAAPwAAoL8="}]))), Ok(json!([0.5, -1.25])));
        assert_eq!(of("openai", list(json!([]))), Err("Empty embedding response".into()));
        assert_eq!(
            of("openai", list(json!([{"id": "m"}]))),
            Err("item 0 of the response has no embedding".into())
        );
        let bare = json!({"data": []});
        assert_eq!(
            result(&PromptAgent::new("openai").api(ApiType::Embeddings), &bare),
            Err("Empty embedding response".into())
        );
    }

    #[test]
    fn images_are_addresses_or_data() {
        let images = |data: Value| json!({"created": 1, "data": data});
        let both = images(json!([{"b64_json": "AAA=", "url": "https://example.com/1"}]));
        assert_eq!(of("openai", both), Ok(json!("https://example.com/1")));
        assert_eq!(of("openai", images(json!([{"b64_json": "AAA="}]))), Ok(json!("AAA=")));
        let two = images(json!([{"b64_json": "AAA="}, {"url": null, "b64_json": "BBB="}]));
        assert_eq!(of("openai", two), Ok(json!(["AAA=", "BBB="])));
        assert_eq!(of("openai", images(json!([]))), Err("Empty image response".into()));
    }

    #[test]
    fn the_upstreams_error_is_the_error() {
        let failed = |provider: &str, response: Value| {
            let error = process(&PromptAgent::new(provider), &response).expect_err("it failed");
            assert_eq!(error.kind(), ErrorKind::Upstream, "{provider}: {error}");
            error.detail().to_owned()
        };
        let error = json!({"error": {"type": "overloaded_error", "message": "busy"}});
        for provider in ["openai", "anthropic", "gemini", "ollama", "cohere", "bedrock"] {
            assert_eq!(failed(provider, error.clone()), "busy", "{provider}");
        }
        let responses = json!({"object": "response", "status": "failed", "output": [], "error": {"code": "x", "message": "busy"}});
        assert_eq!(failed("openai", responses), "busy");
        assert_eq!(failed("ollama", json!({"error": "busy"})), "busy");
        assert_eq!(
            failed("anthropic", json!({"type": "error", "error": {"type": "x", "message": "busy"}})),
            "busy"
        );
    }

    #[test]
    fn unknown_providers_and_shapes_are_errors() {
        let unknown = of("acme", chat(json!({"content": "x"})));
        assert!(unknown.is_err_and(|error| error.contains("unknown provider") && error.contains("acme")));
        assert!(of("", json!({})).is_err_and(|error| error.contains("unknown provider")));
        for response in [json!({}), json!({"answer": 1}), json!("text"), json!([1]), json!(null)] {
            for provider in ["openai", "anthropic", "gemini", "ollama", "cohere", "bedrock"] {
                assert_eq!(
                    of(provider, response.clone()),
                    Err("Unexpected response format".into()),
                    "{provider}"
                );
            }
        }
        let chat = chat(json!({"content": "x"}));
        assert_eq!(of("anthropic", chat), Err("Unexpected response format".into()));
    }

    #[test]
    fn a_shape_is_known_by_its_content_where_its_labels_are_missing() {
        assert_eq!(of("anthropic", json!({"content": [{"type": "text", "text": "Hi"}]})), Ok(json!("Hi")));
        let items = json!([{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]);
        assert_eq!(of("openai", json!({ "output": items })), Ok(json!("Hi")));
    }
}

mod streamed {
    use super::*;

    #[test]
    fn text_comes_at_once_and_calls_at_the_end_by_number() {
        let call = |index: u8, id: &str| {
            delta(
                json!({"tool_calls": [{"index": index, "id": id, "function": {"name": "f", "arguments": "{}"}}]}),
            )
        };
        let chunks = vec![
            call(2, "c2"),
            delta(json!({"content": "a"})),
            call(0, "c0"),
            delta(json!({"content": ""})),
            call(1, "c1"),
            delta(json!({"content": "b"})),
        ];
        assert_eq!(
            shown("openai", chunks),
            json!(["a", "b", ["c0", "f", "{}"], ["c1", "f", "{}"], ["c2", "f", "{}"]])
        );
    }

    #[test]
    fn text_is_given_before_the_next_chunk_is_asked_for() {
        let asked = std::cell::Cell::new(0);
        let chunks = (0..3).map(|number| {
            asked.set(asked.get() + 1);
            Ok::<_, Error>(delta(json!({"content": number.to_string()})))
        });
        let mut items = process_stream(&PromptAgent::new("openai"), chunks).expect("known");
        assert_eq!(items.next(), Some(Ok(StreamItem::Text("0".into()))));
        assert_eq!(asked.get(), 1);
        assert_eq!(items.next(), Some(Ok(StreamItem::Text("1".into()))));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn complete_arguments_before_their_name_are_one_call_with_it() {
        for id in [json!("z"), Value::Null] {
            let arguments =
                json!({"tool_calls": [{"index": 0, "id": "z", "function": {"arguments": "{\"q\":1}"}}]});
            let name = json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "f"}}]});
            let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
            let chunks = vec![delta(arguments), delta(name), finish];
            assert_eq!(shown("openai", chunks), json!([["z", "f", "{\"q\":1}"]]));
        }
    }

    #[test]
    fn text_and_a_call_in_one_chunk_both_count() {
        let both = delta(
            json!({"content": "a", "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]}),
        );
        let rest =
            delta(json!({"content": "b", "tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}));
        assert_eq!(shown("openai", vec![both, rest]), json!(["a", "b", ["c", "f", "{}"]]));
    }

    #[test]
    fn ids_and_names_may_come_late_and_arguments_never() {
        let call = |call: Value| delta(json!({ "tool_calls": [call] }));
        let chunks = vec![
            call(json!({"index": 0, "function": {"arguments": "{"}})),
            call(json!({"index": 0, "id": "c9", "function": {"name": "late", "arguments": "}"}})),
            call(json!({"index": 1, "id": "c1", "function": {"name": "ping"}})),
        ];
        assert_eq!(shown("openai", chunks), json!([["c9", "late", "{}"], ["c1", "ping", ""]]));
    }

    #[test]
    fn a_call_without_a_name_is_left_out() {
        let nameless =
            delta(json!({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]}));
        assert_eq!(shown("openai", vec![nameless, delta(json!({"content": "t"}))]), json!(["t"]));
        let orphan = json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}});
        assert_eq!(shown("anthropic", vec![orphan]), json!([]));
    }

    #[test]
    fn chunks_without_choices_say_nothing() {
        let chunks = vec![
            json!({"id": "x", "choices": []}),
            delta(json!({"content": "a"})),
            json!({"choices": [], "usage": {"prompt_tokens": 1}}),
            json!({"ping": true}),
        ];
        assert_eq!(shown("openai", chunks), json!(["a"]));
        assert_eq!(shown("openai", vec![]), json!([]));
    }

    #[test]
    fn a_refusal_ends_it_at_once() {
        let asked = std::cell::Cell::new(0);
        let chunks = [
            delta(
                json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
            ),
            delta(json!({"content": "Well"})),
            delta(json!({"refusal": "I can't"})),
            delta(json!({"content": "more"})),
        ];
        let chunks = chunks.into_iter().map(|chunk| {
            asked.set(asked.get() + 1);
            Ok::<_, Error>(chunk)
        });
        let mut items = process_stream(&PromptAgent::new("openai"), chunks).expect("known");
        assert_eq!(items.next(), Some(Ok(StreamItem::Text("Well".into()))));
        let failure = items.next().expect("a refusal").expect_err("a refusal");
        assert_eq!(
            (failure.to_string().as_str(), failure.error.kind()),
            ("Model refused: I can't", ErrorKind::Refusal)
        );
        assert_eq!((failure.partial.as_str(), failure.is_determinate()), ("Well", true));
        assert_eq!((items.next(), asked.get()), (None, 3));
    }

    #[test]
    fn only_the_first_answer_counts() {
        let chunk = |id: &str, text: &str, end: Option<&str>| {
            Ok::<_, Error>(json!({"id": id, "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": end}]}))
        };
        let chunks = [chunk("a", "Hello", Some("stop")), chunk("b", "Bye", Some("stop"))];
        let mut items = process_stream(&PromptAgent::new("openai"), chunks).expect("known");
        let texts: Vec<_> = items.by_ref().map(|item| item.expect("no failure")).collect();
        assert_eq!(texts, [StreamItem::Text("Hello".to_owned())]);
        assert_eq!(items.message().id.as_deref(), Some("a"));
        assert_eq!(items.message().notices[0].detail, "another answer follows and was left out");
    }

    #[test]
    fn a_failing_source_is_no_refusal_and_keeps_the_text() {
        let chunks = [
            Ok(delta(json!({"content": "par"}))),
            Ok(delta(json!({"content": "tial"}))),
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
            Ok(delta(json!({"content": "never"}))),
        ];
        let mut items = process_stream(&PromptAgent::new("openai"), chunks).expect("known");
        assert!(items.by_ref().take(2).all(|item| item.is_ok()));
        let failure = items.next().expect("a failure").expect_err("a failure");
        assert_eq!((failure.error.kind(), failure.is_determinate()), (ErrorKind::Io, false));
        assert_eq!(
            (failure.partial.as_str(), failure.to_string().as_str()),
            ("partial", "the stream failed")
        );
        // The caller's own error is still there, and still what it was.
        let source = std::error::Error::source(&failure).expect("it has a source");
        let reset = source.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        assert_eq!(reset, Some(std::io::ErrorKind::ConnectionReset));
        assert_eq!(format!("{failure:#}"), format!("the stream failed: {source}"));
        assert_eq!(items.next(), None);
    }

    #[test]
    fn an_error_object_ends_it_with_the_upstreams_words() {
        let chat =
            vec![delta(json!({"content": "a"})), json!({"error": {"message": "overloaded", "code": 529}})];
        let anthropic = vec![
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}),
        ];
        let ollama = vec![
            json!({"model": "m", "message": {"content": "a"}, "done": false}),
            json!({"error": "overloaded"}),
        ];
        for (provider, chunks) in [("openai", chat), ("anthropic", anthropic), ("ollama", ollama)] {
            let failure = items(provider, chunks).expect_err("it failed");
            assert_eq!(
                (failure.error.kind(), failure.error.detail()),
                (ErrorKind::Upstream, "overloaded"),
                "{provider}"
            );
            let class = failure.error.upstream().map(|reported| reported.class);
            assert_eq!(
                (class, failure.error.is_retryable()),
                (Some(ErrorClass::Overloaded), true),
                "{provider}"
            );
            assert_eq!((failure.partial.as_str(), failure.is_determinate()), ("a", true), "{provider}");
        }
    }

    #[test]
    fn only_the_first_choice_counts() {
        let of = |index: u8, text: &str| json!({"choices": [{"index": index, "delta": {"content": text}}]});
        assert_eq!(shown("openai", vec![of(0, "a"), of(1, "x"), of(0, "b")]), json!(["a", "b"]));
    }

    #[test]
    fn responses_events() {
        let chunks = vec![
            json!({"type": "response.created", "response": {"id": "r", "object": "response", "output": []}}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "i", "call_id": "c1", "name": "f", "arguments": ""}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\""}),
            json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"a\": 1}"}),
            json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed"}}),
        ];
        assert_eq!(shown("openai", chunks), json!(["Hi", ["c1", "f", "{\"a\": 1}"]]));
        let refused = vec![
            json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No"}),
        ];
        assert_eq!(items("azure", refused).expect_err("refused").to_string(), "Model refused: No");
    }

    #[test]
    fn anthropic_events() {
        let chunks = vec![
            json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}}),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"a\": "}}),
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
            json!({"type": "message_stop"}),
        ];
        assert_eq!(shown("anthropic", chunks), json!(["Hi", ["t1", "f", "{\"a\": 1}"]]));
    }

    #[test]
    fn a_claude_call_without_parameters_is_an_empty_object_streamed_and_whole() {
        let chunks = vec![
            json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ];
        assert_eq!(shown("anthropic", chunks), json!([["t1", "f", "{}"]]));
        let whole = anthropic(json!([{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]));
        assert_eq!(of("anthropic", whole).expect("calls")[0]["arguments"], "{}");
    }

    #[test]
    fn an_error_of_this_library_stays_what_it_was() {
        let own = Error::new(ErrorKind::Limit, "a line is too long").at(7);
        let chunks = [Err::<Value, _>(own.clone())];
        let failure =
            process_stream(&PromptAgent::new("openai"), chunks).expect("known").next().expect("a failure");
        assert_eq!(failure.expect_err("a failure").error, own);
    }

    #[test]
    fn the_other_providers() {
        let gemini = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
        let call = gemini(json!({"functionCall": {"id": "g", "name": "f", "args": {"a": 1}}}));
        assert_eq!(
            shown("gemini", vec![gemini(json!({"text": "Hi"})), call]),
            json!(["Hi", ["g", "f", "{\"a\":1}"]])
        );
        let ollama = vec![
            json!({"model": "m", "done": false, "message": {"content": "Hi"}}),
            json!({"model": "m", "done": true, "message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}}),
        ];
        assert_eq!(shown("ollama", ollama), json!(["Hi", ["tool_0_0", "f", "{}"]]));
        let cohere = vec![
            json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
            json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}}),
            json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": {"id": "k", "type": "function", "function": {"name": "f", "arguments": ""}}}}}),
            json!({"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {"arguments": "{}"}}}}}),
            json!({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}}),
        ];
        assert_eq!(shown("cohere", cohere), json!(["Hi", ["k", "f", "{}"]]));
        let converse = vec![
            json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}}),
            json!({"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "b", "name": "f"}}}}),
            json!({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{}"}}}}),
            json!({"messageStop": {"stopReason": "tool_use"}}),
        ];
        assert_eq!(shown("bedrock", converse), json!(["Hi", ["b", "f", "{}"]]));
    }

    #[test]
    fn unknown_providers_and_shapes_are_errors() {
        let unknown = process_stream(&PromptAgent::new("acme"), Vec::<Result<Value, Error>>::new());
        assert_eq!(unknown.err().map(|error| error.kind()), Some(ErrorKind::Unknown));
        let failure = items("openai", vec![json!({"ping": 1})]).expect_err("no shape");
        assert_eq!(failure.to_string(), "Unexpected response format");
    }

    #[test]
    fn bytes_in_any_cut_give_what_values_give() {
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hé\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\ndata: [DONE]\n\n";
        for size in 1..body.len() {
            let pieces = body.as_bytes().chunks(size).map(Ok::<_, Error>);
            let items: Result<Vec<_>, _> =
                process_bytes(&PromptAgent::new("openai"), pieces).expect("known").collect();
            let shown = serde_json::to_value(items.expect("it is whole")).expect("items are JSON");
            let expected = json!([{"kind": "text", "value": "Hé"}, {"kind": "tool", "id": "c", "name": "f", "arguments": "{}"}]);
            assert_eq!(shown, expected, "pieces of {size} bytes");
        }
    }

    #[cfg(feature = "async")]
    #[test]
    fn a_stream_gives_what_an_iterator_gives() {
        use callweave::compat::prompty::{process_bytes_async, process_stream_async};
        use futures::{StreamExt, executor::block_on, stream};
        let chunks =
            || [Ok(delta(json!({"content": "a"}))), Ok(delta(json!({"content": "b"}))), Err("reset")];
        let agent = PromptAgent::new("openai");
        let waited: Vec<_> =
            block_on(process_stream_async(&agent, stream::iter(chunks())).expect("known").collect());
        assert_eq!(waited, process_stream(&agent, chunks()).expect("known").collect::<Vec<_>>());
        let line = "{\"model\":\"m\",\"message\":{\"content\":\"Hi\"},\"done\":true}\n";
        let pieces = line.as_bytes().chunks(5).map(Ok::<_, Error>);
        let items = process_bytes_async(&PromptAgent::new("ollama"), stream::iter(pieces)).expect("known");
        assert_eq!(block_on(items.collect::<Vec<_>>()), [Ok(StreamItem::Text("Hi".into()))]);
    }
}

/// Every case of every protocol, and recorded traffic where it is at hand: the items are what the message holds.
mod recorded {
    use std::collections::HashSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use callweave::event::{BlockKind, CallKind, Event, EventKind};
    use callweave::message::{BlockContent, Message};
    use callweave::pipeline::{Decoder, decode};

    use super::*;

    const PROVIDERS: &[(&str, &str)] = &[
        ("anthropic-messages", "anthropic"),
        ("bedrock-converse", "bedrock"),
        ("bedrock-invoke", "bedrock"),
        ("codex-appserver-v2", "codex"),
        ("cohere-v2", "cohere"),
        ("gemini-generatecontent", "gemini"),
        ("gemini-interactions", "gemini"),
        ("mistral-chat", "mistral"),
        ("ollama", "ollama"),
        ("openai-chat", "openai"),
        ("openai-responses", "openai"),
    ];

    /// Text, and the ids and names of the calls.
    type Told = (String, Vec<(String, String)>);

    fn held(message: &Message) -> Told {
        let mut blocks: Vec<_> = message.first().map_or(&[][..], |choice| &choice.blocks).iter().collect();
        blocks.sort_by_key(|block| block.index);
        let calls = blocks.into_iter().filter_map(|block| match &block.content {
            BlockContent::ToolCall(call) if call.kind != CallKind::Builtin && !call.name.is_empty() => {
                Some((call.id.clone(), call.name.clone()))
            }
            _ => None,
        });
        let calls = calls.collect();
        (message.text().into_owned(), calls)
    }

    /// The text as it came: later corrections of a provider cannot be taken back.
    fn written(bytes: &[u8]) -> String {
        let (mut text, mut blocks, mut is_over) = (String::new(), HashSet::new(), false);
        let mut sink = |event: Event<'_>| match event.body {
            // The following events belong to another response.
            _ if is_over => {}
            EventKind::End => is_over = true,
            EventKind::BlockStart { block, kind: BlockKind::Text, .. } => {
                blocks.insert(block);
            }
            EventKind::Delta { block, text: piece, .. } if blocks.contains(&block) => text.push_str(&piece),
            _ => {}
        };
        let mut decoder = Decoder::detect();
        decoder.push(bytes, &mut sink).and_then(|()| decoder.finish(&mut sink)).expect("it was decoded");
        text
    }

    fn streamed(agent: &PromptAgent, bytes: &[u8], size: usize) -> Result<Told, StreamFailure> {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for item in process_bytes(agent, bytes.chunks(size).map(Ok::<_, Error>)).expect("known") {
            match item? {
                StreamItem::Text(piece) => text.push_str(&piece),
                StreamItem::ToolCall(call) => calls.push((call.id, call.name)),
                other => panic!("{other:?}"),
            }
        }
        Ok((text, calls))
    }

    fn check(provider: &str, path: &Path) {
        let title = path.display();
        let bytes = fs::read(path).expect("a readable input");
        let agent = PromptAgent::new(provider);
        let streamed = streamed(&agent, &bytes, 64);
        let Ok(message) = decode(&bytes) else {
            assert!(streamed.is_err(), "{title}: {streamed:?}");
            return;
        };
        let is_refused = message.choices.iter().any(|choice| !choice.refusal().is_empty());
        match &streamed {
            Ok(told) => {
                assert!(message.errors.is_empty() && !is_refused, "{title}: {told:?}");
                let is_one = message.choices.len() == 1;
                let expected = (written(&bytes), held(&message).1);
                assert!(!is_one || *told == expected, "{title}: {told:?} of {expected:?}");
            }
            Err(failure) => {
                let expected = if is_refused { ErrorKind::Refusal } else { ErrorKind::Upstream };
                assert!(is_refused || !message.errors.is_empty(), "{title}: {failure:?}");
                assert_eq!(failure.error.kind(), expected, "{title}: {failure:?}");
            }
        }
        if path.extension().is_none_or(|extension| extension != "json") {
            return;
        }
        let Ok(response) = serde_json::from_slice::<Value>(&bytes) else { return };
        match (process(&agent, &response), message.errors.first()) {
            (Ok(processed), None) => {
                let (text, calls) = held(&message);
                let refusal = message.first().map(|choice| choice.refusal().into_owned()).unwrap_or_default();
                match processed {
                    Processed::ToolCalls(found) => assert_eq!(found.len(), calls.len(), "{title}"),
                    Processed::Text(found) if text.is_empty() => assert_eq!(found, refusal, "{title}"),
                    Processed::Text(found) => assert_eq!(found, text, "{title}"),
                    other => panic!("{title}: {other:?}"),
                }
            }
            (Err(error), Some(upstream)) => assert_eq!(error.detail(), upstream.message, "{title}"),
            (processed, error) => panic!("{title}: {processed:?} for {error:?}"),
        }
    }

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("a readable entry").path();
            match path.is_dir() {
                true => files(&path, found),
                false => found.push(path),
            }
        }
    }

    fn check_all(root: &Path, is_input: impl Fn(&Path) -> bool) -> usize {
        let mut count = 0;
        for (protocol, provider) in PROVIDERS {
            let mut found = Vec::new();
            files(&root.join(protocol), &mut found);
            for path in found.iter().filter(|path| is_input(path)) {
                check(provider, path);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn items_are_what_the_message_holds() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let is_input = |path: &Path| path.file_stem().is_some_and(|stem| stem == "input");
        let own = check_all(&here.join("tests/data/protocol"), is_input);
        assert!(own > 0, "no cases");
        if let Some(corpus) = super::shared::find("corpus") {
            assert!(check_all(&corpus, |_| true) > 0, "no recordings");
        }
    }
}

/// Any input from a provider: no panic, and a stream takes back nothing that it emitted.
mod anything {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const PROVIDERS: &[&str] =
        &["openai", "anthropic", "gemini", "vertex", "ollama", "cohere", "bedrock", "codex"];

    /// Words that mean something on some wire, so that chance goes deep.
    const WORDS: &[&str] = &[
        "args",
        "arguments",
        "b64_json",
        "candidates",
        "choices",
        "content",
        "content_block",
        "contentBlockDelta",
        "data",
        "delta",
        "done",
        "embedding",
        "error",
        "finish_reason",
        "function",
        "functionCall",
        "function_call",
        "id",
        "index",
        "input",
        "item",
        "list",
        "message",
        "model",
        "name",
        "object",
        "output",
        "output_index",
        "output_text",
        "parts",
        "refusal",
        "response",
        "role",
        "text",
        "tool_calls",
        "tool_use",
        "toolUse",
        "type",
        "url",
        "usage",
        "content_block_delta",
        "content_block_start",
        "content-delta",
        "input_json_delta",
        "text_delta",
        "partial_json",
        "response.output_text.delta",
        "response.output_item.added",
        "response.refusal.delta",
        "output_item",
    ];

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..4).prop_map(Value::from),
            select(WORDS).prop_map(Value::from),
            select(&["", "{", "{\"a\": 1}", "\u{1F600}"][..]).prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 6, |inner| {
            let members = vec((select(WORDS), inner.clone()), 0..6);
            prop_oneof![
                vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn is_processed(provider in select(PROVIDERS), response in value()) {
            for agent in [PromptAgent::new(provider), PromptAgent::new(provider).with_outputs().capturing_content()] {
                let _ = result(&agent, &response);
            }
        }

        #[test]
        fn is_streamed(provider in select(PROVIDERS), chunks in vec(value(), 0..5)) {
            let mut text = String::new();
            for item in process_stream(&PromptAgent::new(provider), chunks.into_iter().map(Ok::<_, Error>)).expect("known") {
                match item {
                    Ok(StreamItem::Text(piece)) => {
                        prop_assert!(!piece.is_empty());
                        text.push_str(&piece);
                    }
                    Ok(_) => {}
                    Err(failure) => prop_assert_eq!(&failure.partial, &text),
                }
            }
        }
    }
}

/// The label is missing where callers pass on a part of an SDK's object; the members identify the API.
#[test]
fn bodies_without_a_label_are_read_by_their_members() {
    let openai = PromptAgent::new("openai");
    for agent in [openai.clone(), openai.api(ApiType::Responses)] {
        let text = process(&agent, &json!({"output": [], "output_text": "hi"})).expect("a response");
        assert_eq!(text, Processed::Text("hi".into()));
        assert_eq!(
            process(&agent, &json!({"output": []})).expect("a response"),
            Processed::Text(String::new())
        );
    }
    let anthropic = PromptAgent::new("anthropic");
    assert_eq!(
        process(&anthropic, &json!({"content": []})).expect("a message"),
        Processed::Text(String::new())
    );
    // Nothing of that is anything to others, nor is what holds no content.
    for (provider, body) in [
        ("cohere", json!({"output": []})),
        ("openai", json!({"content": []})),
        ("anthropic", json!({"content": {}})),
        ("openai", json!({"output": {}})),
    ] {
        let error = process(&PromptAgent::new(provider), &body).expect_err("no known shape");
        assert_eq!(error.detail(), "Unexpected response format", "{provider} {body}");
    }
}
