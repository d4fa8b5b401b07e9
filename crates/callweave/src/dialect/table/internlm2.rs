use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("internlm2")
        .aliases(["internlm", "intern_s1"])
        .models(["internlm", "intern-s1"])
        .reasoning("<think>", "</think>")
        .form(
            CallForm::json()
                .between("<|action_start|><|plugin|>", "<|action_end|>")
                .open("<|action_start|> <|plugin|>")
                .open("<|action_start|>\n<|plugin|>"),
        )
        .markup(["<|im_end|>"])
        .example("<|action_start|><|plugin|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}<|action_end|>")
}
