use super::super::channel::{ChannelGrammar, ChannelRules, MessageNotation, MessageRoute};
use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};
use super::super::tools::Tools;
use crate::event::CallKind;

pub(super) fn dialect() -> Dialect {
    Dialect::new("functionary_v32")
        .models(["functionary-small-v3.2", "functionary-medium-v3.2", "functionary-v3.2"])
        .channels(ChannelGrammar::Functionary)
        .form(CallForm::new(CallBody::Header(HeaderBody::default())))
        .form(CallForm::new(CallBody::Header(HeaderBody::until(["\n"]))).open(">>>"))
        .markup(["<|eot_id|>"])
        .example("all\nLet me look.>>>get_weather\n{\"city\": \"Oslo\"}")
        .declaration("{namespace}")
}

pub(in crate::dialect) static GRAMMAR: ChannelRules = ChannelRules {
                starts: &[">>>"],
                header_end: "\n",
                ends: &[],
                begins_with: Some(""),
                is_quoting: false,
                is_distinct: false,
                route,
                notation: MessageNotation { begin: ">>>", text: ("all\n", ""), call: ("{name}\n", "") },
            };

fn route(header: &str, _tools: &Tools) -> MessageRoute {
    let name = header.trim_start_matches(['>', ' ']).trim_end();
    if name.is_empty() || name == "all" {
        return MessageRoute::Text;
    }
    let start = header.len() - header.trim_start_matches(['>', ' ']).len();
    MessageRoute::Call { start, end: start + name.len(), kind: CallKind::Function }
}
