use super::super::spec::Dialect;
use super::qwen3_coder;

pub(super) fn dialect() -> Dialect {
    Dialect::new("step3p5")
        .models(["step-3.5"])
        .extending(qwen3_coder::dialect())
}
