//! Notations that several dialects share.

use super::super::spec::{JsonBody, NamedTag, TaggedBody};

impl Default for JsonBody {
    fn default() -> Self {
        let own = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        Self {
            name: own(&["name", "tool_name", "tool", "function_name"]),
            arguments: own(&["arguments", "parameters", "args", "input", "params", "tool_input"]),
            id: own(&["id", "tool_call_id", "call_id"]),
            arguments_optional: true,
            single_quotes: false,
        }
    }
}

impl TaggedBody {
    /// `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`, every tag with this prefix.
    pub fn invoke(prefix: &str) -> Self {
        Self {
            call: NamedTag::with_attribute(&format!("<{prefix}invoke"), "name", ">"),
            call_close: vec![format!("</{prefix}invoke>")],
            parameter: NamedTag::with_attribute(&format!("<{prefix}parameter"), "name", ">"),
            value_close: format!("</{prefix}parameter>"),
            ..Self::default()
        }
    }

    /// `<function=NAME><parameter=KEY>VALUE</parameter></function>`, each on its own line.
    pub fn function() -> Self {
        Self {
            call: NamedTag::direct("<function=", ">"),
            call_close: vec!["</function>".to_owned()],
            parameter: NamedTag::direct("<parameter=", ">"),
            value_close: "</parameter>".to_owned(),
            is_on_lines: true,
            ..Self::default()
        }
    }
}
