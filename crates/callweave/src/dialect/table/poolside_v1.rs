use super::super::spec::Dialect;
use super::glm47;

pub(super) fn dialect() -> Dialect {
    Dialect::new("poolside_v1")
        .aliases(["laguna"])
        .models(["laguna", "poolside"])
        .extending(glm47::dialect())
}
