use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("inkling")
        .models(["inkling"])
        .reasoning("<|content_thinking|>", "<|end_message|>")
        .quotes_calls_in_reasoning()
        .form(
            CallForm::json()
                .between("<|content_invoke_tool_json|>", "<|end_message|>")
                .open("<|message_model|>{word}<|content_invoke_tool_json|>"),
        )
        .markup([
            "<|message_model|>",
            "<|message_user|>",
            "<|content_text|>",
            "<|content_audio_input|>",
            "<|audio_end|>",
            "<|end_message|>",
            "<|content_model_end_sampling|>",
        ])
        .example(
            "<|message_model|>get_weather<|content_invoke_tool_json|>\
             {\"name\": \"get_weather\", \"args\": {\"city\": \"Oslo\"}}<|end_message|>",
        )
}
