//! Tools on wires that have functions alone.

use super::{RequestMembers, RequestTool, RequestWriting, RetainedFields, ToolKind, put};
use crate::json::{Object, Value};

pub(crate) fn read_plain_tools(body: &mut RequestMembers, protocol: &'static str) -> Vec<RequestTool> {
    let tools = body.objects("tools").unwrap_or_default().into_iter();
    tools.map(|tool| read_plain_tool(tool, protocol)).collect()
}

fn read_plain_tool(tool: Object, protocol: &'static str) -> RequestTool {
    let mut tool = RequestMembers::new(tool);
    let word = tool.peek_str("type").unwrap_or("function").to_owned();
    let Some(name) = (word == "function").then(|| tool.string("function.name")).flatten() else {
        let kept = RetainedFields::whole(protocol, tool.into_object().into());
        return RequestTool { retained: kept, ..RequestTool::new(word.clone(), ToolKind::Builtin(word)) };
    };
    tool.note_absence("type");
    tool.string("type");
    let kind = ToolKind::Function { schema: tool.object("function.parameters").map(Value::from) };
    let description = tool.string("function.description");
    RequestTool { description, retained: tool.rest(protocol), ..RequestTool::new(name, kind) }
}

pub(crate) fn write_plain_tool(
    mut tool: RequestTool,
    protocol: &str,
    writing: &mut RequestWriting<'_>,
) -> Option<Value> {
    match std::mem::replace(&mut tool.kind, ToolKind::Group(Vec::new())) {
        ToolKind::Function { schema } => {
            let mut object = Object::from_iter([("type", "function")]);
            put(&mut object, "function.name", Some(tool.name.clone()));
            put(&mut object, "function.description", tool.description.take());
            put(&mut object, "function.parameters", schema);
            tool.retained.restore(protocol, &mut object);
            writing.losses.tool(protocol, &tool);
            Some(object.into())
        }
        kind => {
            tool.kind = kind;
            writing.losses.tool(protocol, &tool);
            tool.retained.into_complete(protocol)
        }
    }
}
