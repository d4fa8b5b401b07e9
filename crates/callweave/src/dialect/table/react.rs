use super::super::spec::{Body, Dialect, Form, Header};

pub(super) fn dialect() -> Dialect {
    Dialect::new("react")
        .form(Form::new(Body::Header(Header::until(["\nAction Input:"]))).between("Action:", "Observation:"))
        .example("Thought: a city.\nAction: get_weather\nAction Input: {\"city\": \"Oslo\"}\n")
        .result("Observation: {content}")
}
