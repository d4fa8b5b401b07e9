use super::super::spec::{CallBody, Dialect, CallForm};
use super::gemma4::braces::BracesBody;

pub(super) fn dialect() -> Dialect {
    let body = BracesBody { before: vec!["call:".to_owned()], quote: "<escape>".to_owned() };
    Dialect::new("functiongemma")
        .models(["functiongemma"])
        .form(CallForm::new(CallBody::Braces(body)).between("<start_function_call>", "<end_function_call>"))
        .example("<start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>")
        .result("<start_function_response>response:{name}{value:<escape>{content}<escape>}<end_function_response>")
}
