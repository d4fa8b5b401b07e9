//! The built-in dialects: one small file each, and one line each here.
//!
//! To add one: a file with a function `dialect` (markers around a body of [`super::spec::CallBody`], model names, an
//! example that asks `get_weather` about the city Oslo), a line in the table below, and a folder under
//! `tests/data/dialect/` with a case or more (`input.txt`; `BLESS=1 cargo test --test dialects own_data` writes the
//! expected result, to be read before it is committed). The laws, the latency and the allocation tests then run over it
//! by themselves.

mod models;
mod notations;

use super::spec::Dialect;

/// The markers that open and close code blocks.
pub(super) const FENCES: [&str; 2] = ["```", "~~~"];

/// The marker that closes reasoning that the prompt opened, in any dialect.
pub(super) const UNTHINK: &str = "</think>";

/// Parameters under which models put all arguments of a tool that has no such parameter.
pub(super) const WRAPPERS: [&str; 3] = ["arguments", "input", "properties"];

/// Members that the declaration of a tool has beside its name, and a call has not.
pub(super) const DECLARING: [&str; 4] = ["description", "inputSchema", "input_schema", "parameters"];

/// Words that stand between or behind tags in sentences about them.
pub(super) const NO_NAMES: [&str; 19] = [
    "and", "are", "as", "block", "blocks", "content", "for", "in", "is", "json", "of", "or", "tag", "tags",
    "the", "then", "to", "tokens", "with",
];

/// Placeholders for a name where a notation is explained.
pub(super) const PLACEHOLDERS: [&str; 6] =
    ["example_function_name", "function-name", "function_name", "name", "tool-name", "tool_name"];

/// Tokens that end a response or a turn, in any dialect: right after a call they are never text.
pub(super) const ENDS: [&str; 18] = [
    "<tool_response>",
    "<|/tool_call|>",
    "<|im_end|>",
    "<|im_start|>",
    "</s>",
    "<s>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<|return|>",
    "<|user|>",
    "<|observation|>",
    "<｜end▁of▁sentence｜>",
];

/// A part of a marker that stands for an optional run of letters, digits and these bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MarkerHole {
    pub(super) written: &'static str,
    /// The first byte of the run, if it is not empty.
    pub(super) lead: Option<u8>,
    pub(super) others: &'static [u8],
}

/// Stands for an optional `:word` in a marker.
pub(super) const SUFFIX: &str = "{suffix}";
/// A tag of any name, which may be that of a tool, or stand around a call.
pub(super) const ELEMENT: &str = "<{word}>";

pub(super) static HOLES: [MarkerHole; 3] = [
    MarkerHole { written: SUFFIX, lead: Some(b':'), others: b"_-.:" },
    MarkerHole { written: "{word}", lead: None, others: b"_-.:" },
    MarkerHole { written: "{numbers}", lead: None, others: b" ,:[]" },
];

macro_rules! table {
    ($($name:ident),* $(,)?) => {
        $(pub(super) mod $name;)*

        /// All of them, in the order in which an undecided text tries them.
        pub(super) fn all() -> Vec<Dialect> {
            vec![$($name::dialect()),*]
        }
    };
}

// A dialect that others resemble comes before them: text that all of them would read is attributed to it.
table! {
    hermes,
    anthropic,
    apertus,
    apriel_16,
    cohere_command,
    cohere_command_r,
    cohere_cofl,
    deepseek_r1,
    deepseek_v3,
    deepseek_v31,
    deepseek_v32,
    deepseek_v4,
    dots,
    ernie45,
    fence,
    functionary_v2,
    functionary_v31,
    functionary_v32,
    gemma4,
    functiongemma,
    gigachat3,
    glm47,
    glm4_moe,
    granite3,
    granite_20b_fc,
    harmony,
    hunyuan_a13b,
    hy_v3,
    inkling,
    internlm2,
    jamba,
    json_bare,
    kimi_k2,
    kimi_k3,
    lfm2,
    llama3_json,
    longcat,
    minicpm5,
    minimax_m1,
    minimax_m2,
    minimax_m2_append,
    minimax_m3,
    mistral,
    muse_glimmer,
    qwen3_coder,
    nemotron_nano_v2,
    nemotron_v3,
    olmo3,
    phi4_mini,
    poolside_v1,
    pythonic,
    qwen3,
    react,
    reka_edge,
    sarashina,
    seed_oss,
    step3,
    step3p5,
    tool_call_brackets,
    use_tool,
    xlam,
}
