//! The teaching prompt, and the law that calls which are written back are read as the same calls.

use callweave::dialect::{
    CallBody, CallForm, CallMatcher, Dialect, DialectRegistry, ExtractOptions as Reading, Extraction,
    TextStart, Tools,
};
use callweave::json::{AsValue, Value};
use callweave::message::ToolCall;
use callweave::teach::{CallWriter, PromptOptions, augment_system_prompt};
use serde_json::json;

fn call(name: &str, arguments: &impl AsValue) -> ToolCall {
    ToolCall::new("call_1", name, arguments.as_value().to_string())
}

fn writable() -> impl Iterator<Item = (&'static Dialect, CallWriter)> {
    DialectRegistry::builtin()
        .dialects()
        .iter()
        .filter_map(|dialect| Some((dialect, CallWriter::new(dialect).ok()?)))
}

/// Arguments that are easy to get wrong. All fit the schema of `tool`.
fn nasty() -> Vec<Value> {
    let spelled = r#"{"count": 3, "big": 123456789012345678901234567890, "ratio": -0.250e-7, "flag": false}"#;
    let nasty = [
        json!({}),
        json!({"text": "Oslo"}),
        json!({"text": ""}),
        json!({"text": "two\nlines\r\n\tand \"quotes\", 'others', \\ and {braces} [brackets]"}),
        json!({"text": " spaces around "}),
        json!({"text": "\nbreaks around\n"}),
        json!({"text": "naïve 日本語 😀 \u{1} \u{7f}"}),
        json!({"text": "</tool_call> </parameter> ~~~ ``` [/TOOL_CALLS] </arg_value> <|tool_call_end|> Observation:"}),
        json!({"text": "a &amp; b &lt; c <b>x</b> <![CDATA[y]]> <parameter=text>"}),
        json!({"text": "2"}),
        json!({"text": "null", "flag": true, "nothing": null}),
        json!({"text": "{\"looks\": \"like JSON\"}"}),
        json!({"text": "\"quoted\""}),
        json!({"list": [1, "two", null, [true], {"k": "v"}], "object": {"a": {"b": ["c", "d, e"]}, "x y": 1}}),
        json!({"list": [], "object": {}}),
        json!({"text": "for x in range(3):\n    print(f\"{x}\", '''long''')\n"}),
    ];
    nasty.map(Value::from).into_iter().chain([spelled.parse().expect("an object")]).collect()
}

fn tools() -> Tools {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string"}, "count": {"type": "integer"}, "big": {"type": "integer"},
        "ratio": {"type": "number"}, "flag": {"type": "boolean"}, "nothing": {"type": "null"},
        "list": {"type": "array"}, "object": {"type": "object"},
    }});
    let mut tools = Tools::default();
    tools.declare("tool", Some(&schema));
    tools
}

/// Reads a text in a dialect: names and values.
fn read(text: &str, dialect: &Dialect, tools: Tools) -> Vec<(String, Value)> {
    let options = Reading::with_dialects(vec![dialect.clone()]).tools(tools).starting_in(TextStart::Text);
    let calls = Extraction::of(text, &options).calls.into_iter();
    calls.map(|call| (call.name.clone(), call.arguments().parse().unwrap_or(Value::Null))).collect()
}

#[test]
fn what_is_written_is_read_as_the_same_call() {
    let mut refused = Vec::new();
    for (dialect, writer) in writable() {
        for (tools, writer) in [(tools(), writer.clone().tools(tools())), (Tools::default(), writer)] {
            for arguments in nasty() {
                match writer.render_call(&call("tool", &arguments)) {
                    Ok(text) => {
                        let found = read(&text, dialect, tools.clone());
                        assert_eq!(found, [("tool".to_owned(), arguments)], "{} {text:?}", dialect.name);
                    }
                    Err(_) => refused.push((dialect, !tools.is_empty(), arguments)),
                }
            }
        }
    }
    for (dialect, has_tools, arguments) in &refused {
        println!("{} cannot say {arguments}{}", dialect.name, if *has_tools { "" } else { " without tools" });
    }
    // JSON says everything; the others refuse only what has no place in their notation.
    let says_all =
        |dialect: &Dialect| matches!(dialect.forms[0].body, CallBody::Json(_) | CallBody::Header(_));
    let wrong: Vec<_> = refused.iter().filter(|(dialect, ..)| says_all(dialect)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn simple_calls_can_be_said_in_every_dialect_that_can_be_prompted() {
    let mut count = 0;
    for (dialect, writer) in writable() {
        count += 1;
        let simple = [
            call("one", &json!({"city": "Oslo", "days": 3})),
            call("two", &json!({})),
            call("one", &json!({"city": "Rome"})),
        ];
        let text = writer.render_calls(&simple).unwrap_or_else(|error| panic!("{}: {error}", dialect.name));
        println!("{}\n{text}\n", dialect.name);
        let found = read(&text, dialect, Tools::default());
        let expected =
            simple.each_ref().map(|call| (call.name.clone(), call.parse::<Value>().expect("an object")));
        assert_eq!(found, expected, "{} {text:?}", dialect.name);
    }
    assert_eq!(count, DialectRegistry::builtin().dialects().len(), "every dialect can be written");
}

#[test]
fn calls_keep_the_layout_of_their_models() {
    let calls = [call("one", &json!({"a": "x", "b": [1]})), call("two", &json!({}))];
    let written = |name: &str| {
        let dialect = DialectRegistry::builtin().find(name).expect("a built-in dialect");
        CallWriter::new(dialect).and_then(|writer| writer.render_calls(&calls)).expect("simple calls")
    };
    assert_eq!(
        written("hermes"),
        "<tool_call>\n{\"name\": \"one\", \"arguments\": {\"a\":\"x\",\"b\":[1]}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"two\", \"arguments\": {}}\n</tool_call>"
    );
    assert_eq!(
        written("anthropic"),
        "<function_calls>\n<invoke name=\"one\">\n<parameter name=\"a\">x</parameter>\n\
         <parameter name=\"b\">[1]</parameter>\n</invoke>\n<invoke name=\"two\">\n</invoke>\n</function_calls>"
    );
    assert_eq!(written("pythonic"), "[one(a=\"x\", b=[1]), two()]");
    assert_eq!(written("mistral"), "[TOOL_CALLS]one[ARGS]{\"a\":\"x\",\"b\":[1]}[TOOL_CALLS]two[ARGS]{}");
    assert_eq!(
        written("kimi_k2"),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.one:0<|tool_call_argument_begin|>\
         {\"a\":\"x\",\"b\":[1]}<|tool_call_end|><|tool_call_begin|>functions.two:1\
         <|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    );
    let counted = written("kimi_k3");
    assert!(
        counted.contains("call tool=\"one\" index=\"1\"") && counted.contains("tool=\"two\" index=\"2\""),
        "{counted}"
    );
    assert_eq!(
        written("cohere_command_r"),
        "Action:\n```json\n[{\"tool_name\": \"one\", \"parameters\": {\"a\":\"x\",\"b\":[1]}}, \
         {\"tool_name\": \"two\", \"parameters\": {}}]\n```"
    );
    assert_eq!(
        written("use_tool"),
        "<use_tool>\n  <name>one</name>\n  <args>{\"a\":\"x\",\"b\":[1]}</args>\n</use_tool>\n\
         <use_tool>\n  <name>two</name>\n  <args>{}</args>\n</use_tool>"
    );
}

#[test]
fn what_cannot_be_said_is_refused() {
    let writer =
        |name: &str| CallWriter::new(DialectRegistry::builtin().find(name).expect("a built-in dialect"));
    let found = Dialect::new("found").form(CallForm::matched(CallMatcher::new("none", |_| Vec::new())));
    assert!(CallWriter::new(&found).is_err(), "a function reads it, and nobody knows what");
    let pythonic = writer("pythonic").expect("it can be prompted");
    assert!(pythonic.render_call(&call("f", &json!({"not a keyword": 1}))).is_err());
    assert!(pythonic.render_call(&call("not a name", &json!({}))).is_err());
    let mut broken = call("f", &json!({}));
    broken.raw_arguments = "{oops".to_owned();
    assert!(writer("hermes").expect("it can be prompted").render_call(&broken).is_err());
    assert_eq!(pythonic.render_calls(&[]), Ok(String::new()));
}

#[test]
fn results_are_given_back_as_they_are() {
    let render = |name: &str| {
        let dialect = DialectRegistry::builtin().find(name).expect("a built-in dialect");
        let writer = CallWriter::new(dialect).expect("it can be prompted");
        writer.render_result(&call("look", &json!({})), "{name} is {id}\n<b>")
    };
    assert_eq!(render("fence"), "~~~tool_result\n{name} is {id}\n<b>\n~~~");
    assert_eq!(render("react"), "Observation: {name} is {id}\n<b>");
    assert_eq!(render("use_tool"), "<tool_result name=\"look\">\n{name} is {id}\n<b>\n</tool_result>");
}

#[test]
fn every_dialect_is_explained_by_a_call_of_its_own() {
    let tools = json!([{"name": "look", "parameters": {"type": "object"}}]);
    for (dialect, writer) in writable() {
        let options = PromptOptions::of(dialect).expect("it can be written");
        let prompt = augment_system_prompt(None, &tools, &options);
        // Where little else marks it as a call, one of a tool of that name is none.
        let mut sample = call("look_up", &json!({}));
        (sample.id, sample.raw_arguments) = ("0".to_owned(), r#"{"parameter": "value"}"#.to_owned());
        let sample = writer.render_call(&sample).expect("a simple call").replace("look_up", "tool_name");
        assert!(sample.lines().all(|line| prompt.contains(line)), "{}\n{prompt}", dialect.name);
        // Nothing in the explanation is a call of a real tool; the description of tools may look like one.
        let (explained, _) = prompt.split_once("## Tools").expect("a list of tools");
        let found = read(explained, dialect, Tools::default());
        assert!(found.iter().all(|(name, _)| name != "look"), "{}", dialect.name);
    }
}

#[test]
fn tools_of_all_shapes_are_listed_in_full_or_in_a_line() {
    let schema = json!({"type": "object", "required": ["z", "b"], "properties": {
        "z": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}},
        "a": {"type": "array", "items": {"type": "object"}}, "c": {"type": ["string", "null"]}, "d": {}, "e": {"enum": [1]},
        "f": {"type": "null"}, "g": {"type": "boolean"},
    }});
    let tools = json!([
        {"type": "function", "function": {"name": "open", "description": "Opens a door. Quietly.", "parameters": schema}},
        {"name": "shut", "description": "  Shuts\n it ", "input_schema": {}},
        {"name": "bare", "schema": {"type": "object"}},
        {"description": "x".repeat(100)},
    ]);
    let compact = augment_system_prompt(Some("  \n"), &tools, &PromptOptions::default().compact());
    assert!(compact.starts_with("## Calling tools"));
    let lines: Vec<_> = compact.lines().rev().take(4).collect();
    assert_eq!(
        lines[3],
        "- open(b: integer[], z: string, a?: array, c?: object, d?: object, e?: object, f?: null, g?: boolean) — Opens a door."
    );
    assert_eq!(lines[2], "- shut() — Shuts it");
    assert_eq!(lines[1], "- bare()");
    assert_eq!(lines[0], format!("- <unnamed>() — {}", "x".repeat(80)));
    let full = augment_system_prompt(Some("Be kind."), &tools, &PromptOptions::default());
    assert!(full.starts_with("Be kind.\n\n## Calling tools"));
    assert!(full.contains(&format!("- `open` — Opens a door. Quietly.\n  Schema: {schema}\n\n- `shut` — ")));
}

#[test]
fn a_dialect_of_ones_own_is_taught_without_further_data() {
    let own: Dialect = serde_json::from_value(json!({
        "name": "own", "forms": [{"open": "<<", "close": ">>", "body": {"header": {"after": " := "}}}],
        "example": "<<get_weather := {\"city\": \"Oslo\"}>>", "result": "{name} said {content}",
    }))
    .expect("a dialect");
    let writer = CallWriter::new(&own).expect("it can be written");
    assert_eq!(writer.render_call(&call("f", &json!({"a": 1}))), Ok("<<f := {\"a\":1}>>".to_owned()));
    assert_eq!(writer.render_result(&call("f", &json!({})), "yes"), "f said yes");
}

#[test]
fn without_tools_there_is_nothing_to_teach() {
    for tools in [json!([]), json!(null)] {
        let options = PromptOptions::default();
        assert_eq!(augment_system_prompt(Some("Be kind."), &tools, &options), "Be kind.");
        assert_eq!(augment_system_prompt(None, &tools, &options), "");
    }
}
