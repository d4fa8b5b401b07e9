use super::super::spec::{Dialect, Form};

pub(super) fn dialect() -> Dialect {
    Dialect::new("json_bare")
        .aliases(["json", "json_array", "generic_json"])
        .form(Form::json())
        .example("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}")
}
