//! The built-in dialects: one small file each, and one line each here.

use super::spec::Dialect;

macro_rules! table {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// All of them, in the order in which an undecided text tries them.
        pub(super) fn all() -> Vec<Dialect> {
            vec![$($name::dialect()),*]
        }
    };
}

table! {
    apertus,
    apriel_16,
    cohere_command,
    cohere_command_r,
    deepseek_r1,
    deepseek_v3,
    deepseek_v31,
    ernie45,
    fence,
    functionary_v31,
    gigachat3,
    granite3,
    granite_20b_fc,
    hermes,
    hunyuan_a13b,
    internlm2,
    jamba,
    json_bare,
    kimi_k2,
    llama3_json,
    longcat,
    minimax_m1,
    mistral,
    nemotron_nano_v2,
    phi4_mini,
    react,
    reka_edge,
    tool_call_brackets,
    xlam,
}
