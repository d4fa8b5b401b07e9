use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};
use super::super::tools::Tools;
use crate::json::Tape;

pub(super) fn dialect() -> Dialect {
    let before = vec!["functions.".to_owned()];
    let header = HeaderBody { before, ..HeaderBody::until(["<|tool_call_argument_begin|>"]) };
    Dialect::new("kimi_k2")
        .aliases(["kimi"])
        .models(["kimi-k2", "kimi_k2"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Header(header)).between("<|tool_call_begin|>", "<|tool_call_end|>"))
        .markup([
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_section_begin|>",
            "<|tool_call_section_end|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ])
        .example(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0\
             <|tool_call_argument_begin|>{\"city\": \"Oslo\"}<|tool_call_end|><|tool_calls_section_end|>",
        )
        .result("## Return of {id}\n{content}")
}

/// The tool that is meant where the header has a counter only: the one that knows all these arguments.
pub(in crate::dialect) fn only_tool<'t>(arguments: &str, tools: &'t Tools) -> Option<&'t str> {
    let mut tape = Tape::new();
    let arguments = tape.parse(arguments).ok()?;
    let knows_all = |known: &[String]| arguments.members().all(|(key, _)| known.iter().any(|other| other == key));
    let mut matching = tools.known().filter(|(_, known)| knows_all(known));
    matching.next().filter(|_| matching.next().is_none()).map(|(name, _)| name)
}
