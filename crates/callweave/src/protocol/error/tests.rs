//! One row per shape of error bodies: its origin, its context, and the error read from it.

use super::*;
use ErrorClass::{
    Authentication, ContextTooLong, InvalidRequest, NotFound, Other, Overloaded, Permission, RateLimit,
    Server, Transport,
};

struct ErrorRow {
    who: &'static str,
    status: Option<u16>,
    body: &'static str,
    class: ErrorClass,
    code: Option<&'static str>,
    message: &'static str,
}

const fn row(
    who: &'static str,
    status: Option<u16>,
    body: &'static str,
    class: ErrorClass,
    code: Option<&'static str>,
    message: &'static str,
) -> ErrorRow {
    ErrorRow { who, status, body, class, code, message }
}

#[rustfmt::skip]
const ROWS: &[ErrorRow] = &[
    row("OpenAI, a wrong key", Some(401),
        r#"{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        Authentication, Some("invalid_api_key"), "Incorrect API key provided: sk-x."),
    row("OpenAI, no key: the code is null and the type says nothing", Some(401),
        r#"{"error":{"message":"You didn't provide a key.","type":"invalid_request_error","param":null,"code":null}}"#,
        Authentication, Some("invalid_request_error"), "You didn't provide a key."),
    row("OpenAI, no money: the status alone would say that waiting helps", Some(429),
        r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        Permission, Some("insufficient_quota"), "You exceeded your current quota."),
    row("OpenAI, too long", Some(400),
        r#"{"error":{"message":"Your input exceeds the window.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        ContextTooLong, Some("context_length_exceeded"), "Your input exceeds the window."),
    row("OpenAI, without a status", None,
        r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
        NotFound, Some("model_not_found"), "The model `x` does not exist"),
    row("vLLM: a number for a code", None,
        r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}"#,
        ContextTooLong, Some("BadRequestError"), "This model's maximum context length is 4096 tokens."),
    row("DeepSeek: the type is closer than the code", None,
        r#"{"error":{"message":"Your api key is invalid","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#,
        Authentication, Some("invalid_request_error"), "Your api key is invalid"),
    row("xAI: the code beside the words", Some(400),
        r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x***y."}"#,
        Authentication, Some("Client specified an invalid argument"), "Incorrect API key provided: x***y."),
    row("Mistral: flat, with the status beside", None,
        r#"{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#,
        RateLimit, Some("1300"), "Requests rate limit exceeded"),
    row("Mistral: the words in a list in an object", Some(422),
        r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required","input":{}}]},"type":"invalid_request_error"}"#,
        InvalidRequest, Some("missing"), "body.model: Field required"),
    row("OpenRouter: what the provider said is a text inside", None,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}","provider_name":"X"}},"user_id":"u"}"#,
        ContextTooLong, None, "Provider returned error"),
    row("Azure: the status as a text", None,
        r#"{"error":{"code":"429","message":"Rate limit is exceeded. Try again in 12 seconds."}}"#,
        RateLimit, None, "Rate limit is exceeded. Try again in 12 seconds."),
    row("Azure, the gateway before it", Some(401),
        r#"{ "statusCode": 401, "message": "Access denied due to invalid subscription key." }"#,
        Authentication, None, "Access denied due to invalid subscription key."),
    row("Azure, a deployment", Some(404),
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        NotFound, Some("DeploymentNotFound"), "The API deployment for this resource does not exist."),
    row("Anthropic, busy", Some(529),
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
        Overloaded, Some("overloaded_error"), "Overloaded"),
    row("Anthropic, too long: only the words say so", Some(400),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
        ContextTooLong, Some("invalid_request_error"), "prompt is too long: 208310 tokens > 200000 maximum"),
    row("Anthropic, no money: only the words say so", Some(400),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
        Permission, Some("invalid_request_error"), "Your credit balance is too low to access the API."),
    row("Anthropic, any other mistake", Some(400),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages: at least one message is required"}}"#,
        InvalidRequest, Some("invalid_request_error"), "messages: at least one message is required"),
    row("Google, a wrong key: only the reason in the details says so", Some(400),
        r#"{"error":{"code":400,"message":"API key expired.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
        Authentication, Some("INVALID_ARGUMENT"), "API key expired."),
    row("Google, in a list", None,
        r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
        Overloaded, Some("UNAVAILABLE"), "The model is overloaded."),
    row("AWS, a capital letter", Some(403),
        r#"{"Message":"User is not authorized to perform: bedrock:InvokeModel"}"#,
        Permission, None, "User is not authorized to perform: bedrock:InvokeModel"),
    row("AWS, the type in a namespace", None,
        r##"{"__type":"com.amazon.coral.service#ThrottlingException","message":"Rate exceeded"}"##,
        RateLimit, Some("com.amazon.coral.service#ThrottlingException"), "Rate exceeded"),
    row("AWS, nothing but a type", None,
        r#"{"__type":"UnrecognizedClientException"}"#,
        Authentication, Some("UnrecognizedClientException"), "UnrecognizedClientException"),
    row("Cohere", Some(400),
        r#"{"id":"i","message":"too many tokens: size limit exceeded","error_type":"TOO_MANY_TOKENS"}"#,
        ContextTooLong, Some("TOO_MANY_TOKENS"), "too many tokens: size limit exceeded"),
    row("Cohere, a token that is not valid", Some(498),
        r#"{"id":"i","message":"invalid token"}"#,
        Authentication, None, "invalid token"),
    row("Ollama, a model that is not there", None,
        r#"{"error":"model \"x\" not found, try pulling it first"}"#,
        NotFound, None, "model \"x\" not found, try pulling it first"),
    row("Cloudflare", Some(403),
        r#"{"result":null,"success":false,"errors":[{"code":10000,"message":"Authentication error"},{"code":7003,"message":"No route"}],"messages":[]}"#,
        Permission, Some("10000"), "Authentication error; No route"),
    row("a list of texts", Some(400),
        r#"{"errors":["model is required","messages is required"]}"#,
        InvalidRequest, None, "model is required; messages is required"),
    row("Hugging Face, a list of texts", Some(422),
        r#"{"error":["Input validation error: `inputs` must be given"],"warnings":["w"]}"#,
        InvalidRequest, None, "Input validation error: `inputs` must be given"),
    row("Hugging Face, a type", None,
        r#"{"error":"Model is overloaded","error_type":"overloaded"}"#,
        Overloaded, Some("overloaded"), "Model is overloaded"),
    row("a model that is being started", None,
        r#"{"message":"The model is not ready for requests."}"#,
        Overloaded, None, "The model is not ready for requests."),
    row("what a model cannot do", None,
        r#"{"message":"Batches aren't, and streaming isn’t supported by this model."}"#,
        InvalidRequest, None, "Batches aren't, and streaming isn’t supported by this model."),
    row("a filter's own code", None,
        r#"{"error":{"message":"The input has inappropriate content.","code":"inspection_failed"}}"#,
        InvalidRequest, Some("inspection_failed"), "The input has inappropriate content."),
    row("a problem", Some(429),
        r#"{"type":"https://example.com/probs/rate-limit","title":"Too Many Requests","status":429,"detail":"Wait a little.","instance":"/v1"}"#,
        RateLimit, Some("https://example.com/probs/rate-limit"), "Too Many Requests: Wait a little."),
    row("a problem without a type", None,
        r#"{"type":"about:blank","title":"Forbidden","status":403}"#,
        Permission, None, "Forbidden"),
    row("a code and a message", None,
        r#"{"code":50603,"msg":"System is too busy now.","data":null}"#,
        Overloaded, Some("50603"), "System is too busy now."),
    row("FastAPI, two places", Some(422),
        r#"{"detail":[{"loc":["body","messages",0,"role"],"msg":"field required","type":"value_error.missing"},{"loc":["body","n"],"msg":"not a number","type":"type_error"}]}"#,
        InvalidRequest, Some("value_error.missing"), "body.messages.0.role: field required; body.n: not a number"),
    row("FastAPI, a text", Some(404), r#"{"detail":"Not Found"}"#, NotFound, None, "Not Found"),
    row("Nest: the status has a name, too", Some(400),
        r#"{"statusCode":400,"message":["a must be a string","b should not exist"],"error":"Bad Request"}"#,
        InvalidRequest, Some("Bad Request"), "a must be a string; b should not exist"),
    row("OAuth", Some(401),
        r#"{"error":"invalid_token","error_description":"The access token expired"}"#,
        Authentication, Some("invalid_token"), "The access token expired"),
    row("JSON that is only a text", Some(500), r#""Internal Server Error""#, Server, None, "Internal Server Error"),
    row("keys with escapes", Some(500), r#"{"mess\u0061ge":"no"}"#, Server, None, "no"),
    row("words in a place that nobody knows", Some(500), r#"{"oops":{"why":"no"}}"#, Server, None, r#"{"oops":{"why":"no"}}"#),
    row("a page", None,
        "<!DOCTYPE html>\n<html>\n<head><title>502 Bad Gateway</title></head>\n<body><center><h1>502 Bad Gateway</h1></center></body></html>",
        Server, None, "502 Bad Gateway"),
    row("a page of Cloudflare's", None,
        "<html><head><title>api.example.com | 524: A timeout occurred</title></head><body></body></html>",
        Transport, None, "api.example.com | 524: A timeout occurred"),
    row("a page without a title", Some(403),
        "<HTML><BODY><H1>Access\n  <b>Denied</b> &amp; logged</H1></BODY></HTML>",
        Permission, None, "Access Denied & logged"),
    row("XML", Some(403),
        "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
        Permission, None, "Access Denied"),
    row("a page that says nothing", Some(500), "<p>no</p>", Server, None, "<p>no</p>"),
    row("a plain line", None, "upstream connect error or disconnect/reset before headers\n",
        Transport, None, "upstream connect error or disconnect/reset before headers"),
    row("a plain line that is a name", None, "Too Many Requests", RateLimit, None, "Too Many Requests"),
    row("a plain line with its status", None, "503 Service Unavailable", Overloaded, None, "503 Service Unavailable"),
    row("a number that is no status", None, "512 tokens are too few", Other, None, "512 tokens are too few"),
    row("nothing", Some(504), "", Transport, None, "the upstream answered with status 504 and no words"),
    row("nothing at all", None, " \n", Other, None, "the upstream reports an error"),
];

#[test]
fn every_shape_of_a_body_is_read() {
    for ErrorRow { who, status, body, class, code, message } in ROWS {
        let read = read_error(*status, [("content-type", "text/plain")], body.as_bytes());
        assert_eq!((read.class, read.code.as_deref(), &*read.message), (*class, *code, *message), "{who}");
        assert!(read.status >= *status, "{who}: {:?}", read.status);
        // All of it is kept, as it was written.
        let given = serde_json::from_str(body).unwrap_or_else(|_| serde_json::Value::from(*body));
        assert_eq!(read.raw.to_value(), given, "{who}");
    }
}

/// A body alone gives the same error in a decoder.
#[test]
fn a_decoder_reads_the_same() {
    let mut unknown = Vec::new();
    for ErrorRow { who, body, .. } in ROWS {
        let alone = read_error(None, [("server", "")], body.as_bytes());
        match crate::pipeline::decode(body.as_bytes()) {
            Ok(message) => {
                let error = message.error().unwrap_or_else(|| panic!("{who}: no error"));
                let told = (error.class, error.status, &error.code, error.retry_after, &error.message);
                let known = (alone.class, alone.status, &alone.code, alone.retry_after, &alone.message);
                assert_eq!(told, known, "{who}");
            }
            Err(_) => unknown.push(*who),
        }
    }
    // Only the status marks these as errors, and a decoder does not have it.
    let silent =
        ["JSON that is only a text", "words in a place that nobody knows", "nothing at all", "nothing"];
    assert!(unknown.iter().all(|who| silent.contains(who)), "{unknown:?}");
}

#[test]
fn a_wait_is_found_wherever_it_stands() {
    let google = r#"{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}"#;
    let loading = r#"{"error":"Model m is currently loading","estimated_time":20.0}"#;
    let said = r#"{"error":{"message":"Rate limit reached. Please try again in 1m30s."}}"#;
    for (headers, body, millis) in [
        (("retry-after", "2"), "", Some(2000)),
        (("Retry-After", " 0.5 "), said, Some(500)),
        (("Retry-After-Ms", "750"), "", Some(750)),
        (("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), "", None),
        (("retry-after", "-1"), "", None),
        (("retry-after", "NaN"), "", None),
        (("retry-after", "0"), "", Some(0)),
        // A wait of any length is a wait.
        (("retry-after", "1e300"), "", Some(31_536_000_000)),
        (("retry-after", "1e400"), "", Some(31_536_000_000)),
        (("retry-after", "99999999999999999999"), "", Some(31_536_000_000)),
        (("server", "x"), google, Some(17_500)),
        (("server", "x"), loading, Some(20_000)),
        (("server", "x"), said, Some(90_000)),
    ] {
        let read = read_error(Some(429), [headers], body.as_bytes());
        assert_eq!(read.retry_after.map(|wait| wait.as_millis()), millis, "{headers:?} {body}");
    }
}

#[test]
fn a_header_names_what_a_body_of_aws_does_not() {
    let body = br#"{"message":"The provided model identifier is invalid."}"#;
    let name = "ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/";
    let read = read_error(Some(400), [("x-amzn-ErrorType", name)], body);
    assert_eq!((read.class, read.code.as_deref()), (InvalidRequest, Some(name)));
    let read = read_error(None, [("x-amzn-errortype", "ServiceQuotaExceededException")], b"{}");
    assert_eq!((read.class, &*read.message), (RateLimit, "ServiceQuotaExceededException"));
}

#[test]
fn a_status_of_success_says_nothing_about_an_error() {
    let read = read_error(Some(200), [("retry-after", "1")], br#"{"error":"odd"}"#);
    assert_eq!((read.class, read.status), (Other, None));
}

#[test]
fn what_is_nested_without_end_is_read_in_little_stack() {
    let body = format!("{}1{}", "{\"error\":[".repeat(50_000), "]}".repeat(50_000));
    assert_eq!(read_error(Some(500), [("a", "b")], body.as_bytes()).class, Server);
}

#[test]
fn bytes_that_are_not_text_are_read_all_the_same() {
    assert_eq!(read_error(Some(500), [("a", b"\xff")], b"no\xff").message, "no\u{fffd}");
}
