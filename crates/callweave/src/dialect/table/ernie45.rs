use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("ernie45")
        .models(["ernie-4.5", "ernie-x1"])
        .reasoning("<think>", "</think>")
        .starts_in_reasoning()
        .form(CallForm::json().between("<tool_call>", "</tool_call>"))
        .markup(["<response>", "</response>"])
        .example("A city.\n</think>\n\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>\n")
}
