use super::super::spec::{Body, Dialect, Form};
use super::gemma4::braces::Braces;

pub(super) fn dialect() -> Dialect {
    let body = Braces { before: vec!["call:".to_owned()], quote: "<escape>".to_owned() };
    Dialect::new("functiongemma")
        .models(["functiongemma"])
        .form(Form::new(Body::Braces(body)).between("<start_function_call>", "<end_function_call>"))
        .example("<start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>")
        .result("<start_function_response>response:{name}{value:<escape>{content}<escape>}<end_function_response>")
}
