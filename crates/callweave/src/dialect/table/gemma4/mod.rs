pub(in crate::dialect) mod braces;

use self::braces::BracesBody;
use crate::dialect::spec::{CallBody, Dialect, CallForm, ReasoningMarkers};

pub(super) fn dialect() -> Dialect {
    let body = BracesBody { before: ["call:", "call :", ":"].map(str::to_owned).to_vec(), quote: "<|\"|>".to_owned() };
    let mut dialect = Dialect::new("gemma4")
        .models(["gemma-4", "gemma4"])
        .form(CallForm::new(CallBody::Braces(body)).between("<|tool_call>", "<tool_call|>"))
        .form(CallForm::new(CallBody::Python {}).between("```tool_code", "```"))
        .markup(["<turn|>"])
        .example("<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>}<tool_call|>")
        .result("<|tool_response>response:{name}{value:<|\"|>{content}<|\"|>}<tool_response|>");
    dialect.reasoning.push(ReasoningMarkers {
        open: ["<|channel>thought\n", "<|channel>thought", "<|channel>"].map(str::to_owned).to_vec(),
        close: vec!["<channel|>".to_owned()],
    });
    dialect
}
