use super::super::spec::{CallBody, Dialect, CallForm, HeaderBody};

pub(super) fn dialect() -> Dialect {
    let header = HeaderBody {
        id: Some("[CALL_ID]".to_owned()),
        ..HeaderBody::until(["[ARGS]"])
    };
    Dialect::new("mistral")
        .aliases(["mistral_v3", "mistral_v11", "mistral_v11_callid", "mistral_v13"])
        .models(["mistral", "mixtral", "magistral", "devstral", "ministral", "codestral"])
        .reasoning("[THINK]", "[/THINK]")
        .reasoning("<think>", "</think>")
        .quotes_calls_in_reasoning()
        .form(CallForm::json().between("[TOOL_CALLS]", "[/TOOL_CALLS]"))
        .form(CallForm::new(CallBody::Header(header)).open("[TOOL_CALLS]"))
        .markup(["</s>"])
        .example("[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}")
        .result("[TOOL_RESULTS]{content}[/TOOL_RESULTS]")
        .declaration("[AVAILABLE_TOOLS]{list}[/AVAILABLE_TOOLS]")
}
