//! A request as a coding agent sends it, translated; and the same parsed and written by `serde_json`, to compare.

use std::fmt::Write as _;

use callweave::Value;
use callweave::protocol::Protocol;
use callweave::request::RequestOptions;

/// Turns that make about 200 kB.
pub(super) const TURNS: usize = 60;
/// The maximum cost of translating, as a multiple of parsing and writing by `serde_json`.
pub(super) const MAX: f64 = 3.0;

/// A request of Claude Code's shape: long instructions, tools with schemas, calls and results in turns.
pub(crate) fn body(turns: usize) -> String {
    let prose =
        "You are an agent that edits \\\"files\\\".\\nRead before you write; say what you do.\\n".repeat(30);
    let mut text = format!(
        r#"{{"model": "claude-sonnet-4-5", "max_tokens": 32000, "stream": true, "thinking": {{"type": "enabled", "budget_tokens": 31999}}, "metadata": {{"user_id": "{{\"device_id\":\"d\",\"session_id\":\"s\"}}"}}, "system": [{{"type": "text", "text": "{prose}", "cache_control": {{"type": "ephemeral"}}}}], "tools": ["#
    );
    for number in 0..20 {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"name": "Tool_{number}", "description": "{prose}", "input_schema": {{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {{"file_path": {{"description": "The path of the file", "type": "string"}}, "limit": {{"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}}, "mode": {{"type": "string", "enum": ["content", "count"]}}, "edits": {{"type": "array", "items": {{"type": "object", "properties": {{"old": {{"type": "string"}}, "new": {{"type": "string"}}}}, "required": ["old", "new"], "additionalProperties": false}}}}}}, "required": ["file_path"], "additionalProperties": false}}}}"#
        );
    }
    text.push_str(r#"], "messages": [{"role": "user", "content": [{"type": "text", "text": "go on"}]}"#);
    let result = "     1\\tfn main() {\\n     2\\t    println!(\\\"{}\\\", 7);\\n     3\\t}\\n".repeat(30);
    for turn in 0..turns {
        let _ = write!(
            text,
            r#", {{"role": "assistant", "content": [{{"type": "thinking", "thinking": "The file is next.", "signature": "c2lnbmF0dXJl"}}, {{"type": "text", "text": "I read the file."}}, {{"type": "tool_use", "id": "toolu_{turn}", "name": "Tool_1", "input": {{"file_path": "/src/{turn}.rs", "limit": 200}}}}]}}, {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "toolu_{turn}", "content": "{result}"}}]}}"#
        );
    }
    text.push_str("]}");
    text
}

/// Makes a request, and does nothing with it.
pub(super) fn build(turns: usize) -> Result<(), String> {
    if body(turns).is_empty() { Err("nothing was made".into()) } else { Ok(()) }
}

/// Translates a request of that many turns, if any, from bytes to bytes.
pub(super) fn translate(target: &str, turns: usize) -> Result<(), String> {
    let text = body(turns);
    if turns == 0 {
        return Ok(());
    }
    let target = Protocol::named(target).ok_or("no such protocol")?;
    let source = Protocol::named("anthropic-messages").ok_or("no such protocol")?;
    let parsed: Value = text.parse().map_err(|error| format!("{error}"))?;
    let written = source
        .translate_request(parsed, target, &RequestOptions::default())
        .map_err(|error| error.to_string())?;
    let out = written.body.to_string();
    if out.len() * 2 > text.len() { Ok(()) } else { Err("most of it is gone".into()) }
}

/// Parses and writes the same request by `serde_json`.
pub(super) fn compare(turns: usize) -> Result<(), String> {
    let text = body(turns);
    if turns == 0 {
        return Ok(());
    }
    let parsed: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let out = parsed.to_string();
    if out.len() * 2 > text.len() { Ok(()) } else { Err("most of it is gone".into()) }
}
