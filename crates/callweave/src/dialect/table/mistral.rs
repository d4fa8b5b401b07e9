use super::super::spec::{Body, Dialect, Form, Header};

pub(super) fn dialect() -> Dialect {
    let header = Header {
        id: Some("[CALL_ID]".to_owned()),
        ..Header::until(["[ARGS]"])
    };
    Dialect::new("mistral")
        .aliases(["mistral_v3", "mistral_v11", "mistral_v11_callid", "mistral_v13"])
        .models(["mistral", "mixtral", "magistral", "devstral", "ministral", "codestral"])
        .thoughts("[THINK]", "[/THINK]")
        .thoughts("<think>", "</think>")
        .quotes_calls_in_thoughts()
        .form(Form::json().between("[TOOL_CALLS]", "[/TOOL_CALLS]"))
        .form(Form::new(Body::Header(header)).open("[TOOL_CALLS]"))
        .markup(["</s>"])
        .example("[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}")
        .result("[TOOL_RESULTS]{content}[/TOOL_RESULTS]")
        .declaration("[AVAILABLE_TOOLS]{list}[/AVAILABLE_TOOLS]")
}
