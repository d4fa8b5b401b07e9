//! The accumulators of Nous and ReqLLM, where their systems or we had been wrong.

use callweave::compat::nous::ToolCallAccumulator;
use callweave::compat::req_llm::{ChunkAccumulator, LostReason};
use serde_json::{Value, json};

mod nous {
    use super::*;

    fn fed(fragments: &[Value]) -> ToolCallAccumulator {
        let mut accumulator = ToolCallAccumulator::new();
        for fragment in fragments {
            accumulator.feed(fragment);
        }
        accumulator
    }

    fn calls(fragments: &[Value]) -> Value {
        json!(fed(fragments).finalize())
    }

    #[test]
    fn an_index_of_null_beside_a_call_that_has_begun_is_that_call() {
        let piece = |index: Value, name: Value, text: &str| json!([{"index": index, "function": {"name": name, "arguments": text}}]);
        let whole = json!([{"id": null, "name": "f", "arguments": {"a": 1}}]);
        for name in [json!("f"), json!(null)] {
            let fragments = [piece(json!(0), json!("f"), "{\"a\":"), piece(json!(null), name, "1}")];
            assert_eq!(calls(&fragments), whole);
        }
        let fragments = [piece(json!(null), json!("f"), "{\"a\":"), piece(json!(null), json!("f"), "1}")];
        assert_eq!(calls(&fragments), whole);
        // Two complete calls stay two.
        let fragments = [piece(json!(null), json!("f"), "{\"a\":1}"), piece(json!(null), json!("g"), "{}")];
        assert_eq!(fed(&fragments).finalize().len(), 2);
    }

    #[test]
    fn an_index_of_null_beside_a_known_id_is_the_call_of_that_id() {
        let fragments = [
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"a\":"}}]),
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"b\":"}}]),
            json!([{"index": null, "id": "a", "function": {"name": "f", "arguments": "1}"}}]),
            json!([{"index": 1, "function": {"arguments": "2}"}}]),
        ];
        let expected = json!([{"id": "a", "name": "f", "arguments": {"a": 1}}, {"id": "b", "name": "g", "arguments": {"b": 2}}]);
        assert_eq!(calls(&fragments), expected);
    }

    #[test]
    fn complete_arguments_before_their_name_are_one_call_with_it() {
        for id in [json!("z"), json!(null)] {
            let fragments = [
                json!([{"index": 0, "id": "z", "function": {"arguments": "{\"q\":1}"}}]),
                json!([{"index": 0, "id": id, "function": {"name": "f"}}]),
            ];
            assert_eq!(calls(&fragments), json!([{"id": "z", "name": "f", "arguments": {"q": 1}}]));
        }
    }

    #[test]
    fn a_complete_call_keeps_id_and_metadata() {
        let expected =
            json!([{"id": "c", "name": "f", "arguments": {"a": 1}, "metadata": {"thought_signature": "s"}}]);
        let call =
            json!({"id": "c", "name": "f", "arguments": {"a": 1}, "metadata": {"thought_signature": "s"}});
        assert_eq!(calls(std::slice::from_ref(&call)), expected, "alone");
        assert_eq!(calls(&[json!([call])]), expected, "in a list");
        let mut typed = call;
        for kind in ["function", "tool_call", "function_call"] {
            typed["type"] = json!(kind);
            assert_eq!(calls(&[typed.clone()]), expected, "{kind}");
        }
    }

    #[test]
    fn calls_are_parsed_or_answered() {
        let fragments = [
            json!([{"index": 0, "function": {"name": "good", "arguments": "{\"a\":1.5}"}}]),
            json!([{"index": 1, "function": {"name": "bad", "arguments": "{oops"}}]),
        ];
        let found = fed(&fragments).finalize();
        assert_eq!(
            found[0].call.parse::<std::collections::HashMap<String, f64>>().expect("an object")["a"],
            1.5
        );
        assert_eq!(found[0].call.error_result(), None);
        assert!(found[1].call.parse::<Value>().is_err());
        assert!(found[1].call.error_result().is_some_and(|answer| answer.contains("bad")));
    }

    #[test]
    fn the_message_is_reachable() {
        let fragments = [
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]),
            json!([{"index": 0, "function": {"name": "f", "arguments": "{}"}}]),
            json!({"_phase": "start", "_index": 0, "id": "p", "name": "h"}),
        ];
        let message = fed(&fragments).message();
        let names: Vec<_> = message.tool_calls().map(|call| (call.name.as_str(), call.has_made_id)).collect();
        assert_eq!(names, [("g", false), ("f", true), ("h", false)]);
    }

    #[test]
    fn a_call_whose_pieces_never_came_is_no_empty_object() {
        let chunk = json!({"type": "tool_call", "name": "f", "metadata": {"id": "c", "start": true}});
        let expected = json!([{"id": "c", "name": "f", "arguments": {}, "_invalid_arguments": ""}]);
        assert_eq!(calls(&[chunk]), expected);
    }
}

mod reqllm {
    use super::*;

    #[test]
    fn unparsable_arguments_without_fragments_are_not_missing_fragments() {
        for text in ["{oops", "not JSON", "{\"a\":"] {
            let mut accumulator = ChunkAccumulator::new();
            accumulator
                .push(&json!({"type": "tool_call", "name": "f", "arguments": text, "metadata": {"id": "c"}}));
            let call = &accumulator.finalize_tool_calls_for_response()[0];
            assert_eq!(*call.arguments(), json!(text));
            assert_ne!(call.lost, Some(LostReason::MissingFragments), "{text}");
        }
        let mut accumulator = ChunkAccumulator::new();
        accumulator.push(&json!({"type": "tool_call", "name": "f", "metadata": {"id": "c", "start": true}}));
        let lost = accumulator.arguments_lost();
        assert_eq!(lost.iter().map(|lost| lost.reason).collect::<Vec<_>>(), [LostReason::MissingFragments]);
    }

    #[test]
    fn a_total_does_not_outlive_its_counters() {
        let total = |objects: &[Value]| {
            let mut accumulator = ChunkAccumulator::new();
            for usage in objects {
                accumulator.push(&json!({"type": "meta", "metadata": {"usage": usage}}));
            }
            accumulator.finalize_usage().expect("usage was seen")["total_tokens"].as_u64()
        };
        let first = json!({"input_tokens": 5, "output_tokens": 1, "total_tokens": 6});
        assert_eq!(total(&[first.clone(), json!({"output_tokens": 9})]), Some(14));
        assert_eq!(
            total(&[first.clone(), json!({"input_tokens": 5, "output_tokens": 9, "total_tokens": 15})]),
            Some(15)
        );
        assert_eq!(
            total(&[first.clone(), json!({"input_tokens": 5, "output_tokens": 9, "total_tokens": 4})]),
            Some(4)
        );
        assert_eq!(
            total(&[first.clone(), json!({"input_tokens": 3, "output_tokens": 9, "total_tokens": 12})]),
            Some(14)
        );
        assert_eq!(total(&[first]), Some(6));
    }
}

/// Numbers beyond floats come out of every door in text, and in `serde_json`'s values as far as those can hold them.
#[test]
fn numbers_that_do_not_fit_are_not_lost() {
    let mut accumulator = ToolCallAccumulator::new();
    let text = r#"{"far":1e400,"near":-1e400,"big":123456789012345678901234567890,"small":1}"#;
    accumulator.feed(&json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}]));
    let calls = accumulator.finalize();
    let expected = format!(r#"[{{"id":"a","name":"f","arguments":{text}}}]"#);
    assert_eq!(serde_json::to_string(&calls).expect("calls serialise"), expected);
    let value = serde_json::to_value(&calls).expect("calls serialise");
    let arguments = &value[0]["arguments"];
    assert_eq!((&arguments["far"], &arguments["near"]), (&json!("1e400"), &json!("-1e400")));
    assert_eq!(
        (&arguments["big"], &arguments["small"]),
        (&json!(123456789012345678901234567890.0), &json!(1))
    );
}
