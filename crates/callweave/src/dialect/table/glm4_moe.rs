use super::super::spec::Dialect;
use super::glm47;

pub(super) fn dialect() -> Dialect {
    Dialect::new("glm4_moe")
        .extending(glm47::dialect())
        .starts_in_reasoning()
}
