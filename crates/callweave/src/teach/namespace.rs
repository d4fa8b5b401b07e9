//! Tools as types in a namespace, which is how models of channels are shown them.

use std::fmt::Write as _;

use super::signature::ToolSignature;
use crate::json::Value;

/// The maximum depth; a deeper value is `any`.
const DEEPEST: usize = 16;

pub(super) fn write(tools: &[ToolSignature<'_>]) -> String {
    let mut out = "namespace functions {\n\n".to_owned();
    for tool in tools {
        comment(tool.description, &mut out);
        let has_parameters = tool.schema.and_then(|schema| schema.get("properties")).is_some_and(is_filled);
        let _ = match tool.schema.filter(|_| has_parameters) {
            Some(schema) => writeln!(out, "type {} = (_: {}) => any;\n", tool.name, type_of(schema, 0)),
            None => writeln!(out, "type {} = () => any;\n", tool.name),
        };
    }
    out.push_str("} // namespace functions");
    out
}

fn is_filled(properties: &Value) -> bool {
    properties.as_object().is_some_and(|properties| !properties.is_empty())
}

fn comment(text: &str, out: &mut String) {
    for line in text.trim().lines() {
        let _ = writeln!(out, "// {line}");
    }
}

fn type_of(schema: &Value, depth: usize) -> String {
    if depth > DEEPEST {
        return "any".to_owned();
    }
    let union = |types: Vec<String>| match types.is_empty() {
        true => "any".to_owned(),
        false => types.join(" | "),
    };
    if let Some(only) = schema.get("const") {
        return only.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return union(values.iter().map(Value::to_string).collect());
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema.get(key).and_then(Value::as_array) {
            return union(schemas.iter().map(|schema| type_of(schema, depth + 1)).collect());
        }
    }
    match schema.get("type") {
        Some(Value::Array(names)) => {
            union(names.iter().filter_map(Value::as_str).map(|name| named(name, schema, depth)).collect())
        }
        Some(Value::String(name)) => named(name, schema, depth),
        _ if schema.get("properties").is_some() => named("object", schema, depth),
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "string" | "boolean" | "null" | "number" => name.to_owned(),
        "integer" => "number".to_owned(),
        "array" => {
            let items = schema.get("items").map_or_else(|| "any".to_owned(), |it| type_of(it, depth + 1));
            if items.contains(" | ") { format!("({items})[]") } else { format!("{items}[]") }
        }
        "object" => object(schema, depth),
        _ => "any".to_owned(),
    }
}

fn object(schema: &Value, depth: usize) -> String {
    let Some(properties) = schema.get("properties").filter(|it| is_filled(it)).and_then(Value::as_object)
    else {
        return "object".to_owned();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let mut out = "{\n".to_owned();
    for (key, schema) in properties {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        comment(text("description"), &mut out);
        let is_required = required.is_some_and(|keys| keys.iter().any(|other| other == key));
        let is_word = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let key = if is_word { key.to_owned() } else { Value::from(key).to_string() };
        let _ = write!(out, "{key}{}: {},", if is_required { "" } else { "?" }, type_of(schema, depth + 1));
        if let Some(value) = schema.get("default") {
            let _ = write!(out, " // default: {value}");
        }
        out.push('\n');
    }
    out.push('}');
    out
}
