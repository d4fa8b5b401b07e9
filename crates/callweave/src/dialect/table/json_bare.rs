use super::super::spec::{Dialect, Form};
use super::ELEMENT;

pub(super) fn dialect() -> Dialect {
    Dialect::new("json_bare")
        .aliases(["json", "json_array", "generic_json"])
        .form(Form::json())
        // In a tag that nobody knows.
        .form(Form::json().open(ELEMENT))
        .example("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}")
}
