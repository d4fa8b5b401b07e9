use super::super::spec::Dialect;
use super::qwen3_coder;

pub(super) fn dialect() -> Dialect {
    Dialect::new("qwen3")
        .models(["qwen3.5"])
        .extending(qwen3_coder::dialect())
        .starts_in_reasoning()
}
