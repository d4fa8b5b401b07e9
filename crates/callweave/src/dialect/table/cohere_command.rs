use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("cohere_command")
        .aliases(["cohere_command3", "cohere_command4", "cohere"])
        .models(["command-a", "command-r7b", "c4ai-command"])
        .reasoning("<|START_THINKING|>", "<|END_THINKING|>")
        .form(CallForm::json().between("<|START_ACTION|>", "<|END_ACTION|>"))
        .markup([
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
            "<|END_ACTION|>",
            "<|CHATBOT_TOKEN|>",
            "<|START_OF_TURN_TOKEN|>",
            "<|END_OF_TURN_TOKEN|>",
            // Citations: of which results, in the opener or in the closer.
            "<co>",
            "<co:{numbers}>",
            "</co>",
            "</co:{numbers}>",
        ])
        .example(
            "<|START_THINKING|>A city.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \
             \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}\n]<|END_ACTION|>",
        )
}
