use super::super::channel::{Channels, Grammar, Notation, Route};
use super::super::spec::{Body, Dialect, Form, Tagged};
use super::super::tools::Tools;
use super::harmony::recipient;

pub(super) fn dialect() -> Dialect {
    Dialect::new("muse_glimmer")
        .models(["muse-glimmer", "muse_glimmer"])
        .channels(Channels::Muse)
        .form(
            Form::new(Body::Tagged(Tagged::invoke("atem:")))
                .shared()
                .between("<atem:function_calls>", "</atem:function_calls>")
                .close("<|eom|>")
                .close("<|eot|>"),
        )
        .example(
            "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n\
             <atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Oslo</atem:parameter>\n\
             </atem:invoke>\n</atem:function_calls><|eom|>",
        )
}

pub(in crate::dialect) static GRAMMAR: Grammar = Grammar {
                starts: &["<|start|>"],
                header_end: "<|message|>",
                ends: &["<|eom|>", "<|eot|>"],
                begins_with: Some("to="),
                is_quoting: true,
                is_distinct: false,
                route,
                notation: Notation {
                    begin: "<|start|>assistant",
                    text: (" to=user<|message|>", "<|eom|>"),
                    call: (" to={name}<|message|>", "<|eom|>"),
                },
            };

fn route(header: &str, _tools: &Tools) -> Route {
    match recipient(header).map(|(start, end)| &header[start..end]) {
        Some("self") => Route::Thought,
        Some("user") | None => Route::Text,
        Some(_) => Route::Calls,
    }
}
