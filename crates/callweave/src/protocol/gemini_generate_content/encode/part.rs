//! The parts of a content: texts, calls, results, data, and the attachments of each.

use crate::encode::objects::{self, is_object};
use crate::encode::{EncodeMode, WrittenDelta};
use crate::event::{BlockCompletion, JsonText};
use crate::json::{JsonKind, JsonWriter, MemberPaths, Str, Tape, TapeNode, write_members};
use crate::message::{Block, BlockContent, ToolCall};
use crate::protocol::gemini_generate_content::words;

pub(super) fn write_text(
    piece: &mut WrittenDelta<'_>,
    is_reasoning: bool,
    writer: &mut JsonWriter<'_>,
    members: impl FnOnce(&mut JsonWriter<'_>),
) {
    writer.object();
    piece.write("text", writer);
    if is_reasoning {
        writer.raw_member("thought", "true");
    }
    members(writer);
    writer.end_object();
}

/// Writes a part that holds a call, a result or something opaque.
pub(super) fn write_block(block: &Block, mode: EncodeMode, keeps: bool, writer: &mut JsonWriter<'_>) {
    if !keeps {
        let BlockContent::ToolCall(call) = &block.content else { return };
        writer.object();
        writer.key(words::FUNCTION_CALL);
        write_call(call, "name", None, mode, writer);
        return writer.end_object();
    }
    match &block.content {
        BlockContent::ToolCall(call) => match block.wire_type.as_str() {
            words::EXECUTABLE_CODE => write_part(block, words::EXECUTABLE_CODE, writer, |writer| {
                match is_object(&call.raw_arguments) {
                    true => writer.raw(&call.raw_arguments),
                    // The frame was truncated in it.
                    false => writer.raw(&objects::under("code", &call.raw_arguments)),
                }
            }),
            words::TOOL_CALL => write_part(block, words::TOOL_CALL, writer, |writer| {
                write_call(call, "toolType", Some(block), mode, writer);
            }),
            _ => write_part(block, words::FUNCTION_CALL, writer, |writer| {
                write_call(call, "name", Some(block), mode, writer);
            }),
        },
        BlockContent::ToolResult(result) => {
            write_part(block, &block.wire_type, writer, |writer| writer.raw(result.value.as_str()));
        }
        BlockContent::Opaque(value) if block.wire_type == words::PARTS => writer.raw(value.as_str()),
        BlockContent::Opaque(value) => {
            write_part(block, &block.wire_type, writer, |writer| writer.raw(value.as_str()));
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
    writer.object();
    writer.key(wire_type);
    content(writer);
    let is_inside = |path: &str| inner_path(wire_type, path).is_some();
    write_belongings(block, |path| !is_inside(path), writer);
    writer.end_object();
}

/// Writes the attachments and extra fields of a part.
pub(super) fn write_belongings(block: &Block, is_wanted: impl Fn(&str) -> bool, writer: &mut JsonWriter<'_>) {
    let hung = block.attachments.iter().map(|hung| (hung.wire_type.as_str(), hung.value.as_str()));
    let members = block.extra.iter().map(|(path, value)| (path, value.as_str()));
    let all: Vec<_> = hung.chain(members).filter(|(path, _)| is_wanted(path)).collect();
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
    mode: EncodeMode,
    writer: &mut JsonWriter<'_>,
) {
    writer.object();
    write_call_names(call, name, mode, writer);
    writer.key("args");
    match mode {
        EncodeMode::Normalized => writer.raw(&objects::arguments(call)),
        EncodeMode::Lossless => write_arguments(call, writer),
    }
    if call.completion != BlockCompletion::Complete {
        writer.raw_member("willContinue", "true");
    }
    let wire_type = if name == "name" { words::FUNCTION_CALL } else { words::TOOL_CALL };
    for (path, value) in block.into_iter().flat_map(|block| block.extra.iter()) {
        match inner_path(wire_type, path) {
            // Clients cannot read a value that could not be read as a leaf.
            Some(words::PARTIAL_ARGS) if mode == EncodeMode::Normalized => {}
            Some(words::PARTIAL_ARGS) => {
                writer.key(words::PARTIAL_ARGS);
                writer.list();
                writer.raw(value.as_str());
                writer.end_list();
            }
            Some(path) => write_members(&[(path, value.as_str())], writer),
            None => {}
        }
    }
    writer.end_object();
}

pub(super) fn write_call_names(call: &ToolCall, name: &str, mode: EncodeMode, writer: &mut JsonWriter<'_>) {
    if mode == EncodeMode::Normalized || !call.has_made_id {
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
    let is_told = call.raw_arguments.is_empty()
        || tape
            .parse(&call.raw_arguments)
            .is_ok_and(|value| leaf_by_leaf(value, is_truncated, &mut list).is_some());
    write_part(block, words::FUNCTION_CALL, writer, |writer| {
        writer.object();
        if !is_told {
            writer.key("args");
            write_arguments(call, writer);
        } else if leaves.len() > 1 {
            leaves.push(']');
            writer.raw_member(words::PARTIAL_ARGS, &leaves);
        }
        if is_truncated {
            writer.raw_member("willContinue", "true");
        }
        writer.end_object();
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
        list.object();
        list.text_member("jsonPath", &path);
        list.raw_member(key, value.raw());
        list.end_object();
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
pub(super) fn set_logprobs<'j>(
    entries: impl Iterator<Item = &'j JsonText<'static>>,
    members: &mut MemberPaths,
) {
    let mut tape = Tape::new();
    for entry in entries {
        let Ok(entry) = tape.parse(entry.as_str()) else { continue };
        let (mut chosen, mut rivals) = (String::new(), None);
        let mut writer = JsonWriter(&mut chosen);
        writer.object();
        for (key, value) in entry.members() {
            match key {
                "topCandidates" => rivals = Some(value.raw()),
                _ => writer.raw_member(key, value.raw()),
            }
        }
        writer.end_object();
        if chosen.len() > 2 {
            members.extend("logprobsResult.chosenCandidates", &chosen);
        }
        if let Some(rivals) = rivals {
            members.extend("logprobsResult.topCandidates", &format!("{{\"candidates\":{rivals}}}"));
        }
    }
}
