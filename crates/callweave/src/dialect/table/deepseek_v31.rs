use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    let header = HeaderBody::until(["<｜tool▁sep｜>"]);
    Dialect::new("deepseek_v31")
        .models(["deepseek-v3.1", "deepseek-v3.2-exp"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Header(header)).between("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"))
        .markup([
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁end｜>",
            "<｜end▁of▁sentence｜>",
        ])
        .example(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\"}\
             <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        )
        .result("<｜tool▁output▁begin｜>{content}<｜tool▁output▁end｜>")
}
