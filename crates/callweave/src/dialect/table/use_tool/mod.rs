pub(in crate::dialect) mod fields;

use self::fields::FieldsBody;
use crate::dialect::spec::{CallBody, ChildrenBody, Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    let body = FieldsBody {
        name: "name".to_owned(),
        arguments: ["args", "arguments", "parameters", "input"].map(str::to_owned).to_vec(),
        close: "</use_tool>".to_owned(),
    };
    // The tool's own name as the tag, as Cline and Roo have it, alone or in the markers that other dialects have around
    // calls.
    let children = || CallForm::new(CallBody::Children(ChildrenBody::default()));
    Dialect::new("use_tool")
        .form(CallForm::new(CallBody::Fields(body)).between("<use_tool", "</use_tool>"))
        .form(children())
        .form(children().between("<tool_call>", "</tool_call>"))
        .form(children().between("<tool_use>", "</tool_use>"))
        .form(children().between("<function_calls>", "</function_calls>"))
        .example("<use_tool>\n  <name>get_weather</name>\n  <args>{\"city\": \"Oslo\"}</args>\n</use_tool>")
        .result("<tool_result name=\"{name}\">\n{content}\n</tool_result>")
}
