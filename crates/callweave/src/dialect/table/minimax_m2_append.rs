use super::super::spec::Dialect;
use super::minimax_m2;

/// The same model where its reasoning is to stay in the text, because it wants it back.
pub(super) fn dialect() -> Dialect {
    let mut base = minimax_m2::dialect();
    base.reasoning.clear();
    Dialect::new("minimax_m2_append").extending(base).continuing("<think>")
}
