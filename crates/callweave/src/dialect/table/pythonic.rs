use super::super::spec::{Body, Dialect, Form};

pub(super) fn dialect() -> Dialect {
    Dialect::new("pythonic")
        .aliases(["llama4_pythonic"])
        .models(["llama-4", "toolace"])
        .form(Form::new(Body::Python {}).between("<|python_start|>", "<|python_end|>"))
        .form(Form::new(Body::Python {}))
        .markup(["<|python_end|>", "<|eom|>", "<|eot|>"])
        .example("[get_weather(city='Oslo')]")
}
