use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    let header = HeaderBody {
        before: vec!["function<｜tool▁sep｜>".to_owned()],
        ..HeaderBody::until(["\n", "```", "<｜tool▁sep｜>"])
    };
    Dialect::new("deepseek_v3")
        .models(["deepseek-v3-0324", "deepseek-v3"])
        .reasoning("<think>", "</think>")
        .form(CallForm::new(CallBody::Header(header)).between("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"))
        .markup([
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            "<｜tool▁call▁end｜>",
            "<｜end▁of▁sentence｜>",
        ])
        .example(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n\
             {\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        )
        .result("<｜tool▁output▁begin｜>{content}<｜tool▁output▁end｜>")
}
