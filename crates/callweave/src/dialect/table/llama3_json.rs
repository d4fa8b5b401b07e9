use super::super::spec::{Body, Dialect, Form, Header, Json};

pub(super) fn dialect() -> Dialect {
    let bare = Json { arguments_optional: false, ..Json::default() };
    Dialect::new("llama3_json")
        .aliases(["llama4_json"])
        .models(["llama-3.1", "llama-3.2", "llama-3.3", "llama3"])
        .form(Form::json().open("<|python_tag|>"))
        .form(Form::new(Body::Python {}).open("<|python_tag|>"))
        .form(Form::new(Body::Header(Header::until([">"]))).between("<function=", "</function>"))
        .form(Form::new(Body::Json(bare)))
        .markup(["<|eom_id|>", "<|eot_id|>", "<|eom|>", "<|eot|>"])
        .example("{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}")
}
