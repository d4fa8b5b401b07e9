//! `callweave teach`.

use crate::{file, path, run};

const TOOLS: &str = r#"{"tools": [{"type": "function", "function": {"name": "look", "description": "Look at it.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}]}"#;

#[test]
fn tools_are_listed_behind_an_explanation_of_the_dialect() {
    let full = run(&["teach", "--tools", "-"], TOOLS).good();
    assert!(full.stdout().contains("    ~~~tool_call\n"), "{}", full.stdout());
    assert!(
        full.stdout().contains("\n- `look` — Look at it.\n  Schema: {\"type\":\"object\""),
        "{}",
        full.stdout()
    );
    let compact = run(&["teach", "--tools", "-", "--compact", "--dialect", "qwen3_coder"], TOOLS).good();
    assert!(compact.stdout().contains("    <function=tool_name>\n"), "{}", compact.stdout());
    assert!(compact.stdout().ends_with("\n- look(at: string) — Look at it.\n"), "{}", compact.stdout());
}

#[test]
fn a_tool_without_a_description_has_no_dangling_dash() {
    for tools in [r#"[{"name": "look"}]"#, r#"[{"name": "look", "description": " "}]"#] {
        let full = run(&["teach", "--tools", "-"], tools).good();
        assert!(full.stdout().ends_with("\n- `look` — no description\n  Schema: {}\n"), "{}", full.stdout());
        let compact = run(&["teach", "--tools", "-", "--compact"], tools).good();
        assert!(compact.stdout().ends_with("\n- look()\n"), "{}", compact.stdout());
    }
}

#[test]
fn the_tools_may_be_named_like_any_file() {
    let named = file("prompt-tools.json", TOOLS);
    let expected = run(&["teach", "--tools", "-"], TOOLS).good();
    assert_eq!(run(&["teach", path(&named)], "").good().stdout(), expected.stdout());
    assert_eq!(run(&["teach", "-"], TOOLS).good().stdout(), expected.stdout());
    run(&["teach", path(&named), path(&named)], "").bad("--jsonl");
}

#[test]
fn what_cannot_be_taught_is_said() {
    run(&["teach", "--tools", "-", "--dialect", "klingon"], TOOLS).bad("no dialect is called \"klingon\"");
    run(&["teach", "--tools", "-"], "{}").bad("has no tools");
    run(&["teach", "--tools", "-"], r#"[{"foo": 1}]"#).bad("it should be a list of objects with a name");
    run(&["teach", "--tools", "-"], r#"[{"name": "a"}, {"foo": 1}]"#).bad("tool 2 of - has no name");
    run(&["teach", "--tools", "no-such-file.json"], "").bad("cannot read no-such-file.json");
}

#[test]
fn a_dialect_of_ones_own_is_taught() {
    let dialect = "name = 'at'\nexample = '@call get_weather -> {\"city\": \"Oslo\"}@'\n\
        [[forms]]\nopen = '@call'\nclose = '@'\nbody = { header = { after = ' -> ' } }\n";
    let named = file("at.toml", dialect);
    let taught = run(&["teach", "--tools", "-", "--dialect-file", path(&named)], TOOLS).good();
    assert!(taught.stdout().contains("    @call tool_name -> {"), "{}", taught.stdout());
    let both = ["teach", "--tools", "-", "--dialect", "fence", "--dialect-file", path(&named)];
    assert_eq!(run(&both, TOOLS).code(), 2);
}
