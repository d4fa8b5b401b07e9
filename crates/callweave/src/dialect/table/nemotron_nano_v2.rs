use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("nemotron_nano_v2")
        .aliases(["nemotron_deci"])
        .models(["nemotron-nano-9b-v2", "nemotron-nano-12b-v2", "llama-3.1-nemotron", "llama-3.3-nemotron"])
        .reasoning("<think>", "</think>")
        .form(CallForm::json().between("<TOOLCALL>", "</TOOLCALL>"))
        .example("<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]</TOOLCALL>")
        .declaration("<AVAILABLE_TOOLS>{list}</AVAILABLE_TOOLS>")
}
