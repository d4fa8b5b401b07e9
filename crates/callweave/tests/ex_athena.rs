//! Calls of finished replies: the choice of the cascade, and its treatment of damage.

use callweave::compat::ex_athena::{
    ParsedCall, ProviderCapabilities, TextParser, extract, markup, native, raw_json, text_tagged,
};
use callweave::dialect::{DialectRegistry, ExtractOptions, Extraction, Tools};
use callweave::event::{BlockCompletion, NoticeCode};
use callweave::message::InvalidReason;
use serde_json::{Value, json};

fn from(reply: &Value) -> Vec<ParsedCall> {
    extract(reply, &ProviderCapabilities::default()).expect("a reply of a possible shape")
}

fn without_native(text: &str) -> Vec<ParsedCall> {
    let capabilities =
        ProviderCapabilities { native_tool_calls: Some(false), ..ProviderCapabilities::default() };
    extract(&json!({"text": text}), &capabilities).expect("a reply of a possible shape")
}

/// `name(arguments)` of each call; `!` before those that are invalid.
fn shown(found: &[ParsedCall]) -> Vec<String> {
    let show = |ParsedCall { call, .. }: &ParsedCall| {
        let mark = if call.invalid().is_some() { "!" } else { "" };
        format!("{mark}{}({})", call.name, call.arguments())
    };
    found.iter().map(show).collect()
}

const FENCE: &str = "~~~tool_call\n{\"name\": \"fenced\", \"arguments\": {}}\n~~~";
const MARKUP: &str = "<tool_call>{\"name\": \"marked\", \"arguments\": {}}</tool_call>";
const BARE: &str = "{\"name\": \"bare\", \"arguments\": {}}";

#[test]
fn the_first_parser_with_something_to_say_wins() {
    let text = format!("{BARE}\n{MARKUP}\n{FENCE}\n");
    let structured = json!({"text": text, "tool_calls": [{"name": "native", "arguments": {}}]});
    assert_eq!(shown(&from(&structured)), ["native({})"]);
    assert_eq!(shown(&from(&json!({"text": text}))), ["fenced({})"]);
    assert_eq!(shown(&from(&json!({"text": format!("{BARE} {MARKUP}")}))), ["marked({})"]);
    assert_eq!(shown(&from(&json!({"text": format!("Well: {BARE}.")}))), ["bare({})"]);
    for nothing in [json!({}), json!({"text": null, "tool_calls": []}), json!({"text": "{\"name\": \"t\"}"})]
    {
        assert_eq!(shown(&from(&nothing)), [""; 0], "{nothing}");
    }
}

#[test]
fn half_a_fence_is_looked_through_only_where_nothing_else_can_be_meant() {
    let half = format!("~~~tool_call\n{BARE}");
    assert_eq!(shown(&from(&json!({"text": half}))), [""; 0]);
    assert_eq!(shown(&without_native(&half)), ["bare({})"]);
    assert_eq!(shown(&without_native(MARKUP)), ["marked({})"]);
}

#[test]
fn one_parser_can_be_forced() {
    let reply = json!({"text": format!("{BARE} {FENCE} {MARKUP}"), "tool_calls": [{"name": "native"}]});
    for (parser, expected) in [
        (TextParser::Native, vec!["native({})"]),
        (TextParser::TextTagged, vec!["fenced({})"]),
        (TextParser::Markup, vec!["marked({})"]),
        (TextParser::RawJson, vec!["bare({})", "fenced({})", "marked({})"]),
    ] {
        let capabilities = ProviderCapabilities { forced: Some(parser), ..ProviderCapabilities::default() };
        let found = extract(&reply, &capabilities).expect("a possible shape");
        assert_eq!(shown(&found), expected, "{parser:?}");
        assert!(found.iter().all(|found| found.parser == parser));
    }
}

#[test]
fn an_agent_that_runs_its_own_tools_calls_none() {
    let capabilities = ProviderCapabilities { self_contained_tools: true, ..ProviderCapabilities::default() };
    let reply = json!({"text": FENCE, "tool_calls": [{"name": "native"}]});
    assert_eq!(extract(&reply, &capabilities), Ok(vec![]));
}

#[test]
fn only_an_impossible_shape_is_an_error() {
    for reply in
        [json!([]), json!("text"), json!(null), json!({"text": 1}), json!({"tool_calls": {"name": "a"}})]
    {
        assert!(extract(&reply, &ProviderCapabilities::default()).is_err(), "{reply}");
    }
    let odd = json!({"tool_calls": [null, 7, "x", [], {}, {"function": 3}, {"name": "good"}]});
    let found = from(&odd);
    assert_eq!(shown(&found), ["!({})", "!(7)", "!(\"x\")", "!([])", "!({})", "!({})", "good({})"]);
}

#[test]
fn structured_calls_of_all_shapes() {
    let calls = [
        json!({"type": "function", "id": "a", "function": {"name": "f", "arguments": "{\"n\": 12345678901234567890123}"}}),
        json!({"id": "b", "function": {"name": "f", "arguments": {"n": 2}}}),
        json!({"type": "tool_use", "id": "c", "name": "f", "input": {"n": 3}}),
        json!({"name": "f", "arguments": {"n": 4}}),
        json!({"type": "tool_call", "name": "f", "arguments": {"n": 5}, "metadata": {"id": "e", "index": 0}}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "f", "name": "f", "arguments": "{\"n\":6}"}),
        json!({"functionCall": {"name": "f", "args": {"n": 7}}}),
        json!({"toolUse": {"toolUseId": "h", "name": "f", "input": {"n": 8}}}),
        json!({"type": "custom", "id": "i", "custom": {"name": "f", "input": "not, JSON"}}),
    ];
    let found = native::parse(&calls);
    let ids: Vec<_> = found.iter().map(|found| found.call.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "tool_0_3", "e", "f", "tool_0_6", "h", "i"]);
    assert_eq!(found[0].call.arguments(), "{\"n\": 12345678901234567890123}", "as the model wrote it");
    assert_eq!(found[8].call.arguments(), "not, JSON");
    assert!(found.iter().all(|found| found.call.invalid().is_none() && found.call.name == "f"));
    let content = json!({"content": [{"type": "text", "text": "So."}, calls[2]]});
    assert_eq!(shown(&from(&content)), ["f({\"n\":3})"]);
}

#[test]
fn arguments_are_decoded_or_the_call_is_invalid() {
    let one = |arguments: Value| {
        let found = native::parse(&[json!({"name": "f", "arguments": arguments})]).remove(0);
        found.call.invalid().map(|invalid| invalid.reason).ok_or(found.call.arguments().to_owned())
    };
    for empty in [json!(null), json!(""), json!(" \n"), json!("null"), json!({})] {
        assert_eq!(one(empty.clone()), Err("{}".to_owned()), "{empty}");
    }
    assert_eq!(one(json!("[1]")), Ok(InvalidReason::NotAnObject));
    assert_eq!(one(json!([1])), Ok(InvalidReason::NotAnObject));
    assert_eq!(one(json!(5)), Ok(InvalidReason::NotAnObject));
    assert_eq!(one(json!("{totally broken")), Ok(InvalidReason::NotJson));
}

#[test]
fn another_notation_is_repaired_and_told() {
    let texts = [
        "~~~tool_call\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2,],},}\n~~~".to_owned(),
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 2,],}}</tool_call>".to_owned(),
        "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2,],}}".to_owned(),
    ];
    for text in texts {
        let found = from(&json!({"text": text}));
        assert_eq!(shown(&found), ["f({\"a\": [1, 2]})"], "{text}");
        assert_eq!(found[0].repaired_from.as_deref(), Some("{\"a\": [1, 2,],}"), "{text}");
    }
    let cut = native::parse(&[json!({"name": "f", "arguments": "{\"a\": \"b"})]);
    assert_eq!(shown(&cut), ["!f({\"a\": \"b)"], "what was cut off is not completed");
    assert_eq!(cut[0].repaired_from, None);
}

#[test]
fn a_bad_call_never_loses_the_good_ones() {
    let text = "~~~tool_call\n{broken\n~~~\n~~~tool_call\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n~~~ and \
                ~~~tool_call  \r\n{\"name\": \"b\", \"arguments\": {oops}}\r\n~~~\n~~~tool_call\n{\"arguments\": {}}\n~~~";
    let found = without_native(text);
    assert_eq!(shown(&found), ["!({broken)", "a({\"x\": 1})", "!b({oops})", "!({\"arguments\": {}})"]);
    assert_eq!(found[0].call.invalid().map(|invalid| invalid.reason), Some(InvalidReason::NoName));
    assert!(found[2].call.error_result().is_some_and(|text| text.contains("the arguments of b")));
}

#[test]
fn a_fence_is_whole_only_by_its_lines() {
    let found = |text: &str| shown(&text_tagged::parse(text));
    assert_eq!(found("~~~tool_call {\"name\": \"a\"}\n~~~"), [""; 0], "a body on the line of the opener");
    assert_eq!(found("~~~tool_call\n{\"name\": \"a\"}\n ~~~"), [""; 0], "an indented end");
    assert_eq!(found("~~~tool_call\n{\"name\": \"a\"}"), [""; 0], "no end");
    assert_eq!(found("so ~~~tool_call \t\r\n{\"name\": \"a\"}\r\n~~~"), ["a({})"]);
    assert_eq!(
        found("~~~tool_call\n{\"name\": \"a\"}\n~~~tool_call\n{\"name\": \"b\"}\n~~~"),
        ["a({})", "b({})"],
        "an opener that stands where a closer is missing"
    );
    assert_eq!(
        found("~~~tool_call\n{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": \\\"~~~\\\"}\"}\n~~~"),
        ["a({\"x\": \"~~~\"})"]
    );
    assert_eq!(found("~~~tool_call\n[{\"name\": \"a\"}, {\"name\": \"b\"}]\n~~~"), ["a({})", "b({})"]);
}

#[test]
fn leaked_markup_is_read_with_either_body() {
    let mut tools = Tools::default();
    tools.declare("f", Some(&json!({"properties": {"n": {"type": "integer"}}})));
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": \"</tool_call>\"}}</tool_call> <tool_call>?</tool_call>\
                <tool_call>\n<function=f>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>";
    assert_eq!(shown(&markup::parse(text, &tools)), ["f({\"n\": \"</tool_call>\"})", "f({\"n\": 2})"]);
}

#[test]
fn raw_json_is_a_whole_object_with_both_members() {
    let found = |text: &str| shown(&raw_json::parse(text, &Tools::default()));
    assert_eq!(found("```json\n{\"name\": \"a\", \"arguments\": null}\n```"), ["a({})"]);
    assert_eq!(found("{\"calls\": [{\"name\": \"a\", \"arguments\": \"{\\\"x\\\":1}\"}]}"), ["a({\"x\":1})"]);
    assert_eq!(found("{ no {\"name\": \"a\", \"arguments\": {\"k\": \"}\"}}"), ["a({\"k\": \"}\"})"]);
    assert_eq!(
        found("<think>{\"name\": \"q\", \"arguments\": {}}</think>{\"name\": \"a\", \"arguments\": {}}"),
        ["a({})"]
    );
    for none in [
        "{\"name\": \"a\"}",
        "{\"name\": \"\", \"arguments\": {}}",
        "{\"name\": 1, \"arguments\": {}}",
        "{\"name\": \"a\", \"arguments\": \"text\"}",
        "{\"name\": \"a\", \"arguments\": [1]}",
        "{\"name\": \"a\", \"arguments\": {\"x\": 1}",
        "{\"name\": \"a\", \"arguments\": {\"x\": ",
    ] {
        assert_eq!(found(none), [""; 0], "{none}");
    }
}

#[test]
fn with_declared_tools_quoted_json_is_no_call() {
    let mut tools = Tools::default();
    tools.declare("bare", None);
    let capabilities = ProviderCapabilities { tools, ..ProviderCapabilities::default() };
    let from = |text: &str| shown(&extract(&json!({"text": text}), &capabilities).expect("a possible shape"));
    assert_eq!(from(&format!("I will use {BARE} now.")), ["bare({})"]);
    assert_eq!(from("A call looks like {\"name\": \"x\", \"arguments\": {}}."), [""; 0]);
    assert_eq!(from("{\"name\": \"x\", \"arguments\": {}}"), ["x({})"], "the whole reply is a call");
}

#[test]
fn calls_told_again_and_ids_used_again() {
    let found = native::parse(&[
        json!({"id": "x", "name": "f", "arguments": "{\"a\": 1, \"b\": 2}"}),
        json!({"id": "x", "name": "f", "arguments": {"b": 2, "a": 1}}),
        json!({"id": "x", "name": "f", "arguments": {"a": 2}}),
        json!({"id": "tool_0_2", "name": "g", "arguments": {}}),
        json!({"name": "h", "arguments": "{"}),
        json!({"name": "h", "arguments": "{"}),
    ]);
    let ids: Vec<_> = found.iter().map(|found| (found.call.id.as_str(), found.call.has_made_id)).collect();
    let expected =
        [("x", false), ("tool_0_1", true), ("tool_0_2", false), ("tool_0_3", true), ("tool_0_4", true)];
    assert_eq!(ids, expected, "what cannot be decoded is never the same");
}

#[test]
fn what_is_found_is_shown_as_json() {
    let found =
        text_tagged::parse("~~~tool_call\n{\"id\": \"own\", \"name\": \"f\", \"arguments\": {'a': 1,}}\n~~~");
    assert_eq!(
        json!(found),
        json!([{
            "id": "own", "name": "f", "arguments": "{\"a\": 1}", "kind": "function",
            "parser": "text_tagged", "repaired_from": "{'a': 1,}",
        }])
    );
}

#[test]
fn many_damaged_fences_cost_as_much_as_they_are_long() {
    let text = "~~~tool_call\n{\"a\": {\"b\": [\n~~~\n~~~tool_call {\n".repeat(2_000);
    assert_eq!(text_tagged::parse(&text).len(), 2_000);
}

#[test]
fn a_call_whose_markup_did_not_end_is_marked_and_tells_one_story() {
    for (text, arguments) in [
        ("<tool_call>{\"name\":\"rm\",\"arguments\":{\"path\":\"/a\"}", r#"{"path":"/a"}"#),
        ("<tool_call>{\"name\":\"rm\",\"arguments\":{\"path\":\"/a", r#"{"path":"/a"#),
        ("<tool_call><function=rm><parameter=path>/a</parameter>", r#"{"path": "/a"}"#),
    ] {
        let found = from(&json!({"text": text}));
        assert_eq!(found.len(), 1, "{text}");
        let ParsedCall { call, repaired_from, .. } = &found[0];
        assert_eq!((call.name.as_str(), call.raw_arguments.as_str()), ("rm", arguments), "{text}");
        assert_eq!(call.completion, BlockCompletion::Truncated, "{text}");
        assert_eq!(call.invalid().map(|invalid| invalid.reason), Some(InvalidReason::Incomplete), "{text}");
        assert_eq!(repaired_from, &None, "{text}");
    }
}

#[test]
fn a_call_that_was_cut_is_never_called_damaged() {
    for dialect in DialectRegistry::builtin().dialects() {
        let options = ExtractOptions::new(&dialect.name).expect("it is built in");
        for end in (0..dialect.example.len()).filter(|&end| dialect.example.is_char_boundary(end)) {
            let found = Extraction::of(&dialect.example[..end], &options);
            if found.calls.iter().any(|call| call.completion == BlockCompletion::Truncated) {
                let codes: Vec<_> = found.notices.iter().map(|notice| notice.code).collect();
                assert_eq!(codes, [NoticeCode::IncompleteArguments], "{} up to {end}", dialect.name);
            }
        }
    }
}

#[test]
fn equal_calls_with_ids_of_their_own_are_two() {
    let roll = |id: serde_json::Value| json!({"id": id, "name": "roll", "arguments": {}});
    let ids = |calls: &[serde_json::Value]| {
        native::parse(calls).into_iter().map(|found| found.call.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[roll(json!("a")), roll(json!("b"))]), ["a", "b"]);
    // Repeated, or without a sign that it was made twice, it is one.
    assert_eq!(ids(&[roll(json!("a")), roll(json!("b")), roll(json!("a"))]), ["a", "b"]);
    assert_eq!(ids(&[roll(json!("a")), roll(json!(null))]), ["a"]);
    assert_eq!(ids(&[roll(json!(null)), roll(json!("a"))]), ["tool_0_0"]);
}
