use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("phi4_mini")
        .aliases(["firefunction_v2"])
        .models(["phi-4-mini", "firefunction"])
        .form(CallForm::json().open("functools"))
        .example("functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]")
        .declaration("<|tool|>{list}<|/tool|>")
}
