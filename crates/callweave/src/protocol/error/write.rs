//! The writer of errors: an [`UpstreamError`] → the body of a failed request, its status and its headers.

use std::time::Duration;

use super::words::by_status;
use super::{ErrorClassNames, is_class};
use crate::json::{JsonWriter, Value};
use crate::protocol::{Protocol, error_word};
use crate::upstream::{ErrorClass, UpstreamError};

/// The response to a failed request. See [`Protocol::write_error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenError {
    /// The HTTP status.
    pub status: u16,
    /// Headers that belong to the error: the content type of the body, the time to wait, the id of the request.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// The form of a protocol's responses to failed requests.
#[derive(Clone, Copy)]
pub(crate) struct ErrorCoding {
    /// Writes the body. Where the wire has no name for the class, the second argument is one to put beside its own.
    pub(crate) write: fn(&UpstreamError<'_>, Option<&str>, &mut JsonWriter<'_>),
    /// The header with the wire's name of the error, and the table of these names.
    pub(crate) word: Option<(&'static str, &'static ErrorClassNames)>,
    /// The header with the id of the request.
    pub(crate) request_id: &'static str,
    /// Statuses other than the usual ones.
    pub(crate) statuses: &'static [(ErrorClass, u16)],
    /// Returns the code by which clients recognize an error of that class.
    pub(crate) code: fn(ErrorClass) -> Option<&'static str>,
}

impl ErrorCoding {
    /// The form that most protocols have in common.
    pub(crate) const fn new(write: fn(&UpstreamError<'_>, Option<&str>, &mut JsonWriter<'_>)) -> Self {
        Self { write, word: None, request_id: "x-request-id", statuses: &[], code: |_| None }
    }

    fn body(&self, error: &UpstreamError<'_>, class: Option<&str>) -> Vec<u8> {
        let mut text = String::new();
        (self.write)(error, class, &mut JsonWriter(&mut text));
        text.into_bytes()
    }

    /// Returns the body of an error of the same protocol, with the code that clients look for; none if it has one, or
    /// no member for it. Compatible servers report a request that is too long in the message only, and agents that
    /// recognize it by its code would give up.
    fn with_code(&self, error: &UpstreamError<'_>, body: &[u8]) -> Option<Vec<u8>> {
        let code = (self.code)(error.class)?;
        let is_overflow = error.class == ErrorClass::ContextTooLong;
        // The body is plain words, or an object of another shape.
        let anew = || is_overflow.then(|| self.body(error, None));
        let Some(mut body) = std::str::from_utf8(body).ok().and_then(|text| text.parse::<Value>().ok())
        else {
            return anew();
        };
        let has_object = body.get("error").is_some_and(Value::is_object);
        let object = if has_object { body.get_mut("error") } else { Some(&mut body) };
        let Some(object) =
            object.and_then(Value::as_object_mut).filter(|object| object.contains_key("message"))
        else {
            return anew();
        };
        // Another code is the provider's own; but for this class clients look for only one.
        let said = object.get("code").and_then(Value::as_str);
        if said == Some(code) || said.is_some() && !is_overflow {
            return None;
        }
        object.insert("code", code);
        Some(body.to_string().into_bytes())
    }

    fn headers(&self, error: &UpstreamError<'_>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some((header, words)) = self.word {
            headers.extend(error_word(error, words).map(|word| (header, word.to_owned())));
        }
        if let Some(wait) = error.retry_after {
            // The header is in whole seconds. Clients that know `retry-after-ms` look there first.
            let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.push(("retry-after", whole.to_string()));
            if Duration::from_secs(whole) != wait {
                headers.push(("retry-after-ms", wait.as_millis().to_string()));
            }
        }
        headers.extend(error.request_id.as_ref().map(|id| (self.request_id, id.to_string())));
        headers
    }
}

impl Protocol {
    /// Writes an error as the response to a failed request; returns none if the protocol is only read.
    ///
    /// The status is the upstream's, or that of the class. An error that was [read](Protocol::read_error) in the same
    /// protocol is written as it came; in another one its class, status, message, wait and id stay the same. In a
    /// stream that has begun, an [`Encoder`](crate::encode::Encoder) writes errors.
    ///
    /// ```
    /// use callweave::protocol::{ANTHROPIC_MESSAGES, OPENAI_CHAT};
    /// use callweave::upstream::ErrorClass;
    ///
    /// let body = br#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
    /// let error = ANTHROPIC_MESSAGES.read_error(Some(529), [("retry-after", "2")], body);
    /// let written = OPENAI_CHAT.write_error(&error).expect("the protocol is written");
    /// assert_eq!(written.status, 529);
    /// assert!(written.headers.contains(&("retry-after", "2".to_owned())));
    /// assert_eq!(
    ///     String::from_utf8_lossy(&written.body),
    ///     r#"{"error":{"message":"Overloaded","type":"server_error","param":null,"code":"server_is_overloaded"}}"#,
    /// );
    /// let again = OPENAI_CHAT.read_error(Some(written.status), written.headers, &written.body);
    /// assert_eq!(again.class, ErrorClass::Overloaded);
    /// ```
    pub fn write_error(&self, error: &UpstreamError<'_>) -> Option<WrittenError> {
        let coding = self.failure.as_ref()?;
        let own = coding.statuses.iter().find(|(class, _)| *class == error.class);
        let status =
            error.status.unwrap_or_else(|| own.map_or(status_of(error.class), |(_, status)| *status));
        let mut headers = coding.headers(error);
        let as_it_came = error.body.as_ref().filter(|body| body.protocol == self.name);
        let (kind, body) = match as_it_came {
            Some(own) => {
                let body = coding.with_code(error, &own.bytes);
                (own.content_type.clone(), body.unwrap_or_else(|| own.bytes.clone()))
            }
            None => {
                let body = coding.body(error, None);
                let read = self
                    .read_error(Some(status), headers.iter().map(|(name, value)| (name, value)), &body)
                    .class;
                let is_told = read == error.class || error.class == ErrorClass::Other;
                let told = if is_told { body } else { coding.body(error, Some(error.class.name())) };
                (Some("application/json".to_owned()), told)
            }
        };
        headers.extend(kind.map(|kind| ("content-type", kind)));
        Some(WrittenError { status, headers, body })
    }
}

/// Returns the HTTP status of a class of errors.
pub(in crate::protocol) fn status_of(class: ErrorClass) -> u16 {
    match class {
        ErrorClass::Authentication => 401,
        ErrorClass::Permission => 403,
        ErrorClass::RateLimit => 429,
        ErrorClass::Overloaded => 503,
        ErrorClass::InvalidRequest | ErrorClass::ContextTooLong => 400,
        ErrorClass::NotFound => 404,
        ErrorClass::Transport => 504,
        ErrorClass::Server | ErrorClass::Other => 500,
    }
}

/// The code of a failed connection.
pub(in crate::protocol) const LOST_CONNECTION: &str = "connection_error";

/// Whether a connection failed, and did not time out: the status says so.
pub(in crate::protocol) fn is_lost_connection(error: &UpstreamError<'_>) -> bool {
    let is_timeout = |status| by_status(status) == Some(ErrorClass::Transport);
    error.class == ErrorClass::Transport && error.status.is_some_and(|status| !is_timeout(status))
}

/// Whether the status alone gives the class.
pub(in crate::protocol) fn is_told_by_status(error: &UpstreamError<'_>) -> bool {
    error.class == ErrorClass::Other || error.status.and_then(by_status) == Some(error.class)
}

/// Returns the class, where the name of the error is first of all one for another class.
pub(in crate::protocol) fn error_beside(
    error: &UpstreamError<'_>,
    words: &'static ErrorClassNames,
) -> Option<(&'static str, &'static str)> {
    let word = error_word(error, words)?;
    let (_, class) = words.iter().find(|(own, _)| *own == word)?;
    (*class != error.class && error.class != ErrorClass::Other).then(|| ("code", error.class.name()))
}

/// The types and codes of OpenAI's errors, which many providers have adopted.
const TYPES: &[(ErrorClass, &str, Option<&str>)] = &[
    (ErrorClass::Authentication, "authentication_error", Some("invalid_api_key")),
    (ErrorClass::Permission, "permission_error", None),
    (ErrorClass::RateLimit, "rate_limit_error", Some("rate_limit_exceeded")),
    (ErrorClass::Overloaded, "server_error", Some("server_is_overloaded")),
    (ErrorClass::InvalidRequest, "invalid_request_error", None),
    (ErrorClass::ContextTooLong, "invalid_request_error", Some("context_length_exceeded")),
    (ErrorClass::NotFound, "invalid_request_error", Some("model_not_found")),
    (ErrorClass::Server, "server_error", None),
    (ErrorClass::Transport, "server_error", Some("timeout")),
];

/// Returns the code of OpenAI's errors of that class.
pub(in crate::protocol) fn typed_code(class: ErrorClass) -> Option<&'static str> {
    TYPES.iter().find(|(own, ..)| *own == class).and_then(|(.., code)| *code)
}

/// Writes `{"message", "type", "param", "code"}`, with a code from this table.
pub(in crate::protocol) fn write_typed(
    error: &UpstreamError<'_>,
    words: &ErrorClassNames,
    class: Option<&str>,
    writer: &mut JsonWriter<'_>,
) {
    let row = TYPES.iter().find(|(class, ..)| *class == error.class);
    let (word, code) = row.map_or(("server_error", None), |(_, word, code)| (*word, *code));
    let code = if is_lost_connection(error) { Some(LOST_CONNECTION) } else { code };
    let said = error.code.as_deref().filter(|said| is_class(said, error.class, words) && *said != word);
    writer.in_object(|writer| {
        writer.text_member("message", &error.message);
        writer.text_member("type", word);
        writer.raw_member("param", "null");
        match said.or(code).or(class) {
            Some(code) => writer.text_member("code", code),
            None => writer.raw_member("code", "null"),
        }
    });
}

/// Writes `{"message"}`, with the class beside it where nothing else gives it.
pub(in crate::protocol) fn write_message(
    error: &UpstreamError<'_>,
    class: Option<(&str, &str)>,
    writer: &mut JsonWriter<'_>,
) {
    writer.in_object(|writer| {
        writer.text_member("message", &error.message);
        if let Some((key, class)) = class {
            writer.text_member(key, class);
        }
    });
}
