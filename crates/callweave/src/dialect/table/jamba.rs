use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("jamba")
        .aliases(["apriel_15"])
        .models(["jamba", "apriel-1.5"])
        .reasoning("<think>", "</think>")
        .form(CallForm::json().between("<tool_calls>", "</tool_calls>"))
        .example("<tool_calls>[\n  {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n]</tool_calls>")
        .declaration("<tool_definitions>\n{tools}\n</tool_definitions>")
}
