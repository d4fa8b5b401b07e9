use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    Dialect::new("react")
        .form(CallForm::new(CallBody::Header(HeaderBody::until(["\nAction Input:"]))).between("Action:", "Observation:"))
        .example("Thought: a city.\nAction: get_weather\nAction Input: {\"city\": \"Oslo\"}\n")
        .result("Observation: {content}")
}
