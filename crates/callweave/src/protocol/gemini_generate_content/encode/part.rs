//! The parts of a content: texts, calls, results, data, and the attachments of each.

use crate::encode::objects::{self, is_object};
use crate::encode::{EncodeContext, WrittenDelta};
use crate::event::{BlockCompletion, JsonText};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Str, Tape, TapeNode, write_members};
use crate::message::{Block, BlockContent, ToolCall};
use crate::protocol::gemini_generate_content::words;

pub(super) fn write_text(
    piece: &mut WrittenDelta<'_>,
    is_reasoning: bool,
    writer: &mut JsonWriter<'_>,
    extra: impl FnOnce(&mut JsonWriter<'_>),
) {
    writer.in_object(|writer| {
        piece.write("text", writer);
        if is_reasoning {
            writer.raw_member("thought", "true");
        }
        extra(writer);
    });
}

/// Writes a part that holds a call, a result or something opaque.
pub(super) fn write_block(block: &Block, context: &EncodeContext, writer: &mut JsonWriter<'_>) {
    let is_normalized = context.is_normalized();
    let wire_type = block.wire_type.as_str();
    match &block.content {
        BlockContent::ToolCall(call) if !context.keeps() => writer.in_object(|writer| {
            writer.key(words::FUNCTION_CALL);
            write_call(call, "name", None, is_normalized, writer);
        }),
        _ if !context.keeps() => {}
        BlockContent::ToolCall(call) => match wire_type {
            words::EXECUTABLE_CODE => write_part(block, wire_type, writer, |writer| {
                match is_object(&call.raw_arguments) {
                    true => writer.raw(&call.raw_arguments),
                    // The frame was truncated in it.
                    false => writer.raw(&objects::under("code", &call.raw_arguments)),
                }
            }),
            words::TOOL_CALL => write_part(block, wire_type, writer, |writer| {
                write_call(call, "toolType", Some(block), is_normalized, writer);
            }),
            _ => write_part(block, words::FUNCTION_CALL, writer, |writer| {
                write_call(call, "name", Some(block), is_normalized, writer);
            }),
        },
        BlockContent::ToolResult(result) => {
            write_part(block, wire_type, writer, |writer| writer.raw(result.value.as_str()));
        }
        BlockContent::Opaque(value) if wire_type == words::PARTS => writer.raw(value.as_str()),
        BlockContent::Opaque(value) => {
            write_part(block, wire_type, writer, |writer| writer.raw(value.as_str()));
        }
        BlockContent::Text(_) | BlockContent::Refusal(_) | BlockContent::Reasoning { .. } => {}
    }
}

/// Writes a part: its content, attachments and extra fields.
pub(super) fn write_part(
    block: &Block,
    wire_type: &str,
    writer: &mut JsonWriter<'_>,
    content: impl FnOnce(&mut JsonWriter<'_>),
) {
    writer.in_object(|writer| {
        writer.key(wire_type);
        content(writer);
        write_belongings(block, |path| inner_path(wire_type, path).is_none(), writer);
    });
}

/// Writes the attachments and extra fields of a part.
pub(super) fn write_belongings(block: &Block, is_wanted: impl Fn(&str) -> bool, writer: &mut JsonWriter<'_>) {
    let attached = block.attachments.iter().map(|own| (own.wire_type.as_str(), own.value.as_str()));
    let all: Vec<_> = attached.chain(block.extra.paths()).filter(|(path, _)| is_wanted(path)).collect();
    write_members(&all, writer);
}

/// The path of a member inside the content of a part of that wire type.
fn inner_path<'p>(wire_type: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(wire_type)?.strip_prefix('.')
}

/// Writes the object of a complete call; `name` is the key of its name.
fn write_call(
    call: &ToolCall,
    name: &str,
    block: Option<&Block>,
    is_normalized: bool,
    writer: &mut JsonWriter<'_>,
) {
    writer.in_object(|writer| {
        write_call_names(call, name, is_normalized, writer);
        writer.key("args");
        match is_normalized {
            true => writer.raw(&objects::arguments(call)),
            false => write_arguments(call, writer),
        }
        if call.completion != BlockCompletion::Complete {
            writer.raw_member("willContinue", "true");
        }
        let wire_type = if name == "name" { words::FUNCTION_CALL } else { words::TOOL_CALL };
        for (path, value) in block.into_iter().flat_map(|block| block.extra.paths()) {
            match inner_path(wire_type, path) {
                // Clients cannot read a value that could not be read as a leaf.
                Some(words::PARTIAL_ARGS) if is_normalized => {}
                Some(words::PARTIAL_ARGS) => {
                    writer.list_member(words::PARTIAL_ARGS, |writer| writer.raw(value));
                }
                Some(path) => write_members(&[(path, value)], writer),
                None => {}
            }
        }
    });
}

pub(super) fn write_call_names(
    call: &ToolCall,
    name: &str,
    is_normalized: bool,
    writer: &mut JsonWriter<'_>,
) {
    if is_normalized || !call.has_made_id {
        writer.text_member("id", &call.id);
    }
    writer.text_member(name, &call.name);
}

/// Writes arguments as they came: arguments that are no object were a text.
fn write_arguments(call: &ToolCall, writer: &mut JsonWriter<'_>) {
    match call.arguments() {
        text if is_object(text) => writer.raw(text),
        text => writer.string(text),
    }
}

/// Writes the arguments of a call that was announced, leaf by leaf.
pub(super) fn write_leaves(block: &Block, writer: &mut JsonWriter<'_>) {
    let BlockContent::ToolCall(call) = &block.content else { return };
    let is_truncated = call.completion != BlockCompletion::Complete;
    let (mut tape, mut leaves) = (Tape::new(), String::new());
    let mut list = JsonWriter(&mut leaves);
    list.list();
    // A value that could not be read as a leaf.
    if let Some(odd) = block.extra.get("functionCall.partialArgs") {
        list.raw(odd.as_str());
    }
    let is_expressed = call.raw_arguments.is_empty()
        || tape
            .parse(&call.raw_arguments)
            .is_ok_and(|value| leaf_by_leaf(value, is_truncated, &mut list).is_some());
    write_part(block, words::FUNCTION_CALL, writer, |writer| {
        writer.in_object(|writer| {
            if !is_expressed {
                writer.key("args");
                write_arguments(call, writer);
            } else if leaves.len() > 1 {
                leaves.push(']');
                writer.raw_member(words::PARTIAL_ARGS, &leaves);
            }
            if is_truncated {
                writer.raw_member("willContinue", "true");
            }
        });
    });
}

/// Writes the leaves of an object, each with its path; returns none where leaves cannot express all of it. The last one
/// continues if the call was truncated in it.
fn leaf_by_leaf(object: TapeNode<'_>, is_truncated: bool, list: &mut JsonWriter<'_>) -> Option<()> {
    const DEEPEST: usize = 64;
    let mut path = String::from("$");
    // The remaining values of each open container, and the length of the path to it.
    let mut open = vec![(path.len(), children(object)?)];
    while let Some((length, values)) = open.last_mut() {
        path.truncate(*length);
        let Some((step, value)) = values.next() else {
            open.pop();
            continue;
        };
        path.push_str(&step?);
        let key = match value.kind() {
            JsonKind::Object | JsonKind::Array if open.len() < DEEPEST => {
                open.push((path.len(), children(value)?));
                continue;
            }
            JsonKind::Object | JsonKind::Array => return None,
            JsonKind::String => "stringValue",
            JsonKind::Number => "numberValue",
            JsonKind::Bool => "boolValue",
            JsonKind::Null => "nullValue",
        };
        list.in_object(|entry| {
            entry.text_member("jsonPath", &path);
            entry.raw_member(key, value.raw());
        });
    }
    if is_truncated && list.0.ends_with("\"}") {
        list.0.pop();
        list.raw_member("willContinue", "true");
        list.end_object();
    }
    Some(())
}

/// The values in a container, each with the step of a path that leads to it; none if there are none.
fn children<'t>(
    container: TapeNode<'t>,
) -> Option<Box<dyn Iterator<Item = (Option<String>, TapeNode<'t>)> + 't>> {
    match container.kind() {
        JsonKind::Object => {
            container.members().next()?;
            Some(Box::new(container.members().map(|(key, value)| (member_step(key), value))))
        }
        JsonKind::Array => {
            container.elements().next()?;
            let steps = container.elements().enumerate();
            Some(Box::new(steps.map(|(at, value)| (Some(format!("[{at}]")), value))))
        }
        _ => None,
    }
}

/// The step of a path that leads to a member.
fn member_step(key: &str) -> Option<String> {
    let key = Str::Escaped(key).to_cow();
    let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '$');
    if !key.is_empty() && key.chars().all(is_plain) {
        return Some(format!(".{key}"));
    }
    let quote = ['\'', '"'].into_iter().find(|quote| !key.contains(*quote))?;
    Some(format!("[{quote}{key}{quote}]"))
}

/// Sets log probabilities in Google's form: chosen tokens and their alternatives in separate lists.
pub(super) fn set_logprobs(entries: impl Iterator<Item = JsonText<'static>>, members: &mut MemberPaths) {
    let mut tape = Tape::new();
    for entry in entries {
        let Ok(entry) = tape.parse(entry.as_str()) else { continue };
        let (mut chosen, mut rivals) = (String::new(), None);
        JsonWriter(&mut chosen).in_object(|writer| {
            for (key, value) in entry.members() {
                match key {
                    "topCandidates" => rivals = Some(value.raw()),
                    _ => writer.raw_member(key, value.raw()),
                }
            }
        });
        if chosen.len() > 2 {
            members.extend("logprobsResult.chosenCandidates", &chosen);
        }
        if let Some(rivals) = rivals {
            members.extend("logprobsResult.topCandidates", &format!("{{\"candidates\":{rivals}}}"));
        }
    }
}
