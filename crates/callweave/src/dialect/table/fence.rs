use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("fence")
        .aliases(["tool_call_fence"])
        .form(CallForm::json().between("~~~tool_call", "~~~"))
        .form(CallForm::json().between("```tool_call", "```"))
        .example("~~~tool_call\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n~~~")
        .result("~~~tool_result\n{content}\n~~~")
}
