use super::super::spec::{Dialect, CallForm};
use super::ELEMENT;

pub(super) fn dialect() -> Dialect {
    Dialect::new("json_bare")
        .aliases(["json", "json_array", "generic_json"])
        .form(CallForm::json())
        // In an unknown tag.
        .form(CallForm::json().open(ELEMENT))
        .example("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}")
}
