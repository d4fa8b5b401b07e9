use super::super::spec::Dialect;
use super::deepseek_v3;

pub(super) fn dialect() -> Dialect {
    let base = deepseek_v3::dialect();
    Dialect::new("deepseek_r1")
        .aliases(["deepseekr1"])
        .models(["deepseek-r1"])
        .extending(base)
        .starts_in_reasoning()
}
