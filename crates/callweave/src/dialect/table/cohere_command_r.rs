use super::super::spec::{Dialect, CallForm};

pub(super) fn dialect() -> Dialect {
    Dialect::new("cohere_command_r")
        .aliases(["command_r"])
        .models(["command-r-03", "command-r-08", "command-r-plus", "command-r-v01"])
        .form(CallForm::json().open("Action:"))
        .markup(["<|CHATBOT_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"])
        .example(
            "Action:\n```json\n[{\"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}]\n```",
        )
        .result("<results>\n{content}\n</results>")
}
