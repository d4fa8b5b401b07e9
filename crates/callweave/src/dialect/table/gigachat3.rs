use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("gigachat3")
        .aliases(["gigachat31", "gigachat"])
        .models(["gigachat"])
        .form(
            CallForm::json()
                .open("<|message_sep|>\n\nfunction call<|role_sep|>\n")
                .open("function call<|role_sep|>\n")
                .open("<|function_call|>"),
        )
        .markup(["</s>", "<|message_sep|>", "<|role_sep|>"])
        .example("<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}")
}
