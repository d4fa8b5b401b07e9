use super::super::spec::{CallBody, Dialect, CallForm, JsonBody};

pub(super) fn dialect() -> Dialect {
    let body = JsonBody { name: Vec::new(), ..JsonBody::default() };
    Dialect::new("apertus")
        .models(["apertus"])
        .reasoning("<|inner_prefix|>", "<|inner_suffix|>")
        .form(CallForm::new(CallBody::Json(body)).between("<|tools_prefix|>", "<|tools_suffix|>"))
        .markup(["<|assistant_end|>"])
        .example("<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\"}}]<|tools_suffix|>")
}
