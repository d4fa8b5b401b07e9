use super::super::spec::{Body, Dialect, Form, Json};

pub(super) fn dialect() -> Dialect {
    let body = Json { name: Vec::new(), ..Json::default() };
    Dialect::new("apertus")
        .models(["apertus"])
        .thoughts("<|inner_prefix|>", "<|inner_suffix|>")
        .form(Form::new(Body::Json(body)).between("<|tools_prefix|>", "<|tools_suffix|>"))
        .markup(["<|assistant_end|>"])
        .example("<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\"}}]<|tools_suffix|>")
}
