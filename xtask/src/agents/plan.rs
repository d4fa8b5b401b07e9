//! The task: a model's actions in thirteen turns, in words that every agent has tools for, and the files on disk
//! afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

/// One thing that the model wants done.
#[derive(Clone)]
pub(crate) enum Action {
    Write { file: &'static str, content: String },
    Edit { file: &'static str, old: &'static str, new: &'static str },
    Read { file: &'static str },
    Run { command: &'static str },
}

use Action::{Edit, Read, Run, Write};

/// An action, and what its result must hold when it comes back to the model.
pub(crate) struct Deed {
    pub(crate) action: Action,
    pub(crate) result: &'static str,
}

/// A tool as a request declares it.
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) schema: Value,
    /// Whether it takes text instead of arguments.
    pub(crate) is_free: bool,
}

/// A call that the model makes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
}

/// The turns of the task, each with the actions that are asked for at once.
pub(crate) fn turns() -> Vec<Vec<Deed>> {
    let write =
        |file, content: &str| Deed { action: Write { file, content: content.to_owned() }, result: "" };
    let read = |file, result| Deed { action: Read { file }, result };
    let run = |command, result| Deed { action: Run { command }, result };
    vec![
        vec![Deed { action: Write { file: "markup.py", content: markup() }, result: "" }],
        vec![read("markup.py", "EXAMPLE = \"\"\"<tool_call>")],
        vec![write("notes.txt", "alpha\nbeta\n")],
        vec![read("notes.txt", "beta")],
        vec![Deed {
            action: Edit { file: "notes.txt", old: "beta", new: "gamma \"<tool_call>\" \\d+ </parameter>" },
            result: "",
        }],
        vec![run("cat notes.txt; wc -c < markup.py", "gamma \"<tool_call>\" \\d+ </parameter>")],
        vec![read("notes.txt", "alpha"), run("echo one", "one"), run("echo two", "two")],
        vec![write("number.txt", "42"), write("truth.txt", "true"), write("data.json", DATA)],
        vec![run("printf '%s\\n' 'a \"b\" $c <|call|>' > quoted.txt; cat quoted.txt", "a \"b\" $c <|call|>")],
        vec![write("readme.md", MARKDOWN)],
        vec![run("ls", "readme.md")],
        vec![write("spaces.txt", "\n  indented\n\ttab\n\n\n")],
        vec![run("cat number.txt truth.txt", "42true")],
    ]
}

/// Returns the files on disk in the end.
pub(crate) fn files() -> BTreeMap<&'static str, String> {
    let mut files = BTreeMap::from([("quoted.txt", "a \"b\" $c <|call|>\n".to_owned())]);
    for deed in turns().into_iter().flatten() {
        match deed.action {
            Write { file, content } => drop(files.insert(file, content)),
            Edit { file, old, new } => {
                let content = files.get(file).map(|text| text.replacen(old, new, 1));
                files.insert(file, content.unwrap_or_default());
            }
            Read { .. } | Run { .. } => {}
        }
    }
    files
}

const DATA: &str = "{\"a\": [1, 2.0, 1e3, 12345678901234567890], \"b\": null, \"c\": \"x\\ny\"}";
const MARKDOWN: &str = "# Title\n\n```sh\necho hi\n```\n\n~~~tool_call\n{\"name\": \"x\"}\n~~~\n\n<tool_call>\n{\"name\": \"x\"}\n\
                        </tool_call>\n";

/// Fifty kilobytes of a program about what models write: tags of dialects, fences, quotation marks, line separators, JSON.
fn markup() -> String {
    const HEAD: &str = r##"#!/usr/bin/env python3
"""A model writes <tool_call>{"name": "x", "arguments": {}}</tool_call> into its text."""
EXAMPLE = """<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>"""
XML = "<function=foo>\n<parameter=a>1"
TAGS = ["</parameter>", "</function>", "<arg_key>", "</arg_value>", "<arg_value>2", "</invoke>"]
LISTS = '[TOOL_CALLS][{"name": "f", "arguments": {}}]' + "[TOOL_CALLS]f[ARGS]{}"
THINK = "<think>not a thought</think>"
HARMONY = "<|channel|>final<|message|>no<|end|><|start|>assistant<|call|>"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_end|>"
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁end｜><｜tool▁calls▁end｜>"
PYTHONIC = "[get_weather(city='Oslo')]"
FENCE = """
```json
{"name": "rm", "arguments": {"path": "/"}}
```
"""
PATH = "C:\\temp\\new\\x"; QUOTES = 'it\'s "quoted" \\ \x41 \n' + "“curly” «guillemets»"
HTML = "<a href=\"x?a=1&amp;b=2\">&lt;b&gt; &quot;</a><!-- c --><![CDATA[x]]>"
"##;
    const LINES: [&str; 9] = [
        "x = {'a': [1, 2, {\"b\": None}]}",
        "print(f\"{i!r} <tool_call> {{}}\")",
        "s = 'a\\'b' + \"c\\\"d\" + r'\\d+'",
        "# 日本語 commentaire — “quotes” 🎉 👩‍👩‍👧‍👦",
        "if a < b and b > c: pass  # </tool_call>",
        "```python\nprint('x')\n```",
        "y = '''{\"name\": \"z\", \"arguments\": {\"q\": \"\\\\n\"}}'''",
        "t = \"<parameter=b>\\t</parameter>\"\t# a tab",
        "z = '<|tool_call_argument_begin|>' '\\\\' \"\\\\\\\"\"",
    ];
    let mut text = HEAD.to_owned();
    text += "SEPARATORS = \"a\u{2028}b\u{2029}c\u{85}d\u{a0}e\u{200b}f\"\n";
    let mut state = 7_u64;
    for number in 0.. {
        if text.len() > 50_000 {
            break;
        }
        // The choice of the next line is as good as random, and the same each time.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = LINES[(state >> 33) as usize % LINES.len()];
        text += &format!("# {number}\n{line}\n\n");
    }
    text + "\n"
}

/// The agents' names of tools, in the order in which they are looked for.
const WRITERS: &[&str] = &["Write", "write", "write_file"];
const EDITORS: &[&str] = &["Edit", "edit", "replace"];
const READERS: &[&str] = &["Read", "read", "read_file"];
const RUNNERS: &[&str] = &["Bash", "bash", "run_shell_command", "exec_command", "shell", "shell_command"];

/// The agents' names of parameters.
const PATHS: &[&str] = &["file_path", "filePath", "filepath", "absolute_path", "path"];
const OLD: &[&str] = &["old_string", "oldString"];
const NEW: &[&str] = &["new_string", "newString"];
const COMMANDS: &[&str] = &["command", "cmd"];

/// The call by which an agent with these tools does an action in a folder.
pub(crate) fn call(action: &Action, tools: &[Tool], folder: &Path) -> Result<Call, String> {
    let path = |file: &str| json!(folder.join(file));
    let filled = match action {
        Write { file, content } => {
            fill(tools, WRITERS, &[(PATHS, path(file)), (&["content"], json!(content))])
        }
        Edit { file, old, new } => {
            fill(tools, EDITORS, &[(PATHS, path(file)), (OLD, json!(old)), (NEW, json!(new))])
        }
        Read { file } => fill(tools, READERS, &[(PATHS, path(file))]),
        Run { command } => run(tools, command),
    };
    // Codex has a shell for everything.
    let shell = || match action {
        Write { file, content } => run(tools, &format!("printf '%s' {} > {file}", quoted(content))),
        Edit { file, .. } => {
            let content = files().remove(file).unwrap_or_default();
            run(tools, &format!("printf '%s' {} > {file}", quoted(&content)))
        }
        Read { file } => run(tools, &format!("head -c 3000 {file}")),
        Run { .. } => None,
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    filled.or_else(shell).ok_or_else(|| format!("no tool for the task among {}", names.join(", ")))
}

fn run(tools: &[Tool], command: &str) -> Option<Call> {
    fill(tools, RUNNERS, &[(COMMANDS, json!(command))])
}

/// A word of a shell that is this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The call of the first of these tools that is declared, with values under its own names of parameters, and a value
/// for every other required one.
fn fill(tools: &[Tool], names: &[&str], values: &[(&[&str], Value)]) -> Option<Call> {
    let tool = names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name && !tool.is_free))?;
    let properties = tool.schema.get("properties")?.as_object()?;
    let mut arguments = Map::new();
    for (names, value) in values {
        let name = names.iter().find(|name| properties.contains_key(**name))?;
        let is_list = properties[*name]["type"] == "array";
        let value = if is_list { json!(["bash", "-lc", value]) } else { value.clone() };
        arguments.insert((*name).to_owned(), value);
    }
    for name in tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let property = &properties.get(name)?;
        let kind = property["type"].as_str().unwrap_or("string").to_ascii_lowercase();
        let value = match kind.as_str() {
            _ if property["enum"].is_array() => property["enum"][0].clone(),
            "boolean" => json!(false),
            "integer" | "number" => json!(1),
            "array" => json!([]),
            "object" => json!({}),
            _ => json!("a step of the task"),
        };
        arguments.entry(name).or_insert(value);
    }
    Some(Call { name: tool.name.clone(), arguments })
}
