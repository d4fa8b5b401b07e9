use super::super::channel::{ChannelGrammar, ChannelRules, MessageNotation, MessageRoute};
use super::super::spec::{CallBody, Dialect, CallForm, TaggedBody};
use super::super::tools::Tools;
use super::harmony::recipient;

pub(super) fn dialect() -> Dialect {
    Dialect::new("muse_glimmer")
        .models(["muse-glimmer", "muse_glimmer"])
        .channels(ChannelGrammar::Muse)
        .form(
            CallForm::new(CallBody::Tagged(TaggedBody::invoke("atem:")))
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

pub(in crate::dialect) static GRAMMAR: ChannelRules = ChannelRules {
                starts: &["<|start|>"],
                header_end: "<|message|>",
                ends: &["<|eom|>", "<|eot|>"],
                begins_with: Some("to="),
                is_quoting: true,
                is_distinct: false,
                route,
                notation: MessageNotation {
                    begin: "<|start|>assistant",
                    text: (" to=user<|message|>", "<|eom|>"),
                    call: (" to={name}<|message|>", "<|eom|>"),
                },
            };

fn route(header: &str, _tools: &Tools) -> MessageRoute {
    match recipient(header).map(|(start, end)| &header[start..end]) {
        Some("self") => MessageRoute::Thought,
        Some("user") | None => MessageRoute::Text,
        Some(_) => MessageRoute::Calls,
    }
}
