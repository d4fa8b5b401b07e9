// Of one family with V3.2, which has the notation.
pub(super) use super::deepseek_v32::deepseek_v4 as dialect;
