use super::super::spec::{CallBody, Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("pythonic")
        .aliases(["llama4_pythonic"])
        .models(["llama-4", "toolace"])
        .form(CallForm::new(CallBody::Python {}).between("<|python_start|>", "<|python_end|>"))
        .form(CallForm::new(CallBody::Python {}))
        .markup(["<|python_end|>", "<|eom|>", "<|eot|>"])
        .example("[get_weather(city='Oslo')]")
}
