use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    let header = HeaderBody::until(["\n<|content|>", "<|content|>"]);
    Dialect::new("functionary_v2")
        .models(["functionary-small-v2", "functionary-medium-v2"])
        .form(CallForm::new(CallBody::Header(header)).between("<|recipient|>", "<|stop|>").close("<|from|>assistant\n"))
        .markup(["<|from|>assistant\n", "<|recipient|>all\n<|content|>", "<|recipient|> all\n<|content|>", "<|stop|>"])
        .example("<|from|>assistant\n<|recipient|>get_weather\n<|content|>{\"city\": \"Oslo\"}<|stop|>")
        .declaration("{namespace}")
}
