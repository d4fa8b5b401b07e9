pub(in crate::dialect) mod fields;

use self::fields::Fields;
use crate::dialect::spec::{Body, Dialect, Form};

pub(super) fn dialect() -> Dialect {
    let body = Fields {
        name: "name".to_owned(),
        arguments: ["args", "arguments", "parameters", "input"].map(str::to_owned).to_vec(),
        close: "</use_tool>".to_owned(),
    };
    Dialect::new("use_tool")
        .form(Form::new(Body::Fields(body)).between("<use_tool", "</use_tool>"))
        .example("<use_tool>\n  <name>get_weather</name>\n  <args>{\"city\": \"Oslo\"}</args>\n</use_tool>")
        .result("<tool_result name=\"{name}\">\n{content}\n</tool_result>")
}
