use super::super::spec::Dialect;
use super::qwen3_coder;

pub(super) fn dialect() -> Dialect {
    Dialect::new("nemotron_v3")
        .aliases(["nano_v3"])
        .models(["nemotron-3", "nemotron-nano-3"])
        .extending(qwen3_coder::dialect())
        .starts_in_reasoning()
}
