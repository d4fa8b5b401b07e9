use super::super::channel::{Channels, Grammar, Notation, Route};
use super::super::spec::{Body, Dialect, Form, Header};
use super::super::tools::Tools;
use crate::event::CallKind;

pub(super) fn dialect() -> Dialect {
    Dialect::new("functionary_v32")
        .models(["functionary-small-v3.2", "functionary-medium-v3.2", "functionary-v3.2"])
        .channels(Channels::Functionary)
        .form(Form::new(Body::Header(Header::default())))
        .form(Form::new(Body::Header(Header::until(["\n"]))).open(">>>"))
        .markup(["<|eot_id|>"])
        .example("all\nLet me look.>>>get_weather\n{\"city\": \"Oslo\"}")
        .declaration("{namespace}")
}

pub(in crate::dialect) static GRAMMAR: Grammar = Grammar {
                starts: &[">>>"],
                header_end: "\n",
                ends: &[],
                begins_with: Some(""),
                is_quoting: false,
                is_distinct: false,
                route,
                notation: Notation { begin: ">>>", text: ("all\n", ""), call: ("{name}\n", "") },
            };

fn route(header: &str, _tools: &Tools) -> Route {
    let name = header.trim_start_matches(['>', ' ']).trim_end();
    if name.is_empty() || name == "all" {
        return Route::Text;
    }
    let start = header.len() - header.trim_start_matches(['>', ' ']).len();
    Route::Call { start, end: start + name.len(), kind: CallKind::Function }
}
