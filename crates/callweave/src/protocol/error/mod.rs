//! The reader of errors: any form of an upstream's failure → an [`UpstreamError`].
//!
//! An error is an object, a text, a list of either, or one of these inside another, with the message in one of many
//! members; outside of JSON it is a page or a plain line. All of that is read here, for every protocol and for bodies
//! that belong to none. A protocol's further knowledge (its own names for a class, a number in another member) comes in
//! an [`ErrorContext`].
//!
//! The class follows from the closest evidence there is, in this order: the protocol's own names, then common names;
//! the HTTP status; at last the message. A [vague](ErrorClass::is_vague) finding yields to any more specific one.

mod page;
mod words;
mod write;

use std::borrow::Cow;
use std::time::Duration;

use crate::event::JsonText;
use crate::fragment::{Fragment, FragmentKind, FragmentSink};
use crate::json::{JsonKind, Str, Tape, TapeNode as Value};
use crate::protocol::Protocol;
use crate::upstream::{ErrorBody, ErrorClass, UpstreamError};

pub(crate) use write::ErrorCoding;
pub use write::WrittenError;
pub(super) use write::{
    LOST_CONNECTION, error_beside, is_lost_connection, is_told_by_status, status_of, typed_code,
    write_message, write_typed,
};

/// A protocol's own names for the classes of errors; of several names for a class the canonical one is first.
pub(super) type ErrorClassNames = [(&'static str, ErrorClass)];

/// The exceptions that Amazon's clients know in a stream; of any other they would not even show the message.
pub(super) const IN_AMAZON_STREAMS: &ErrorClassNames = &[
    ("throttlingException", ErrorClass::RateLimit),
    ("serviceUnavailableException", ErrorClass::Overloaded),
    ("validationException", ErrorClass::InvalidRequest),
    ("validationException", ErrorClass::Authentication),
    ("validationException", ErrorClass::Permission),
    ("validationException", ErrorClass::NotFound),
    ("validationException", ErrorClass::ContextTooLong),
    ("internalServerException", ErrorClass::Server),
    ("modelStreamErrorException", ErrorClass::Server),
    ("modelStreamErrorException", ErrorClass::Transport),
];

/// The exceptions in Amazon's responses to failed requests.
pub(super) const OF_AMAZON: &ErrorClassNames = &[
    ("UnrecognizedClientException", ErrorClass::Authentication),
    ("AccessDeniedException", ErrorClass::Permission),
    ("ThrottlingException", ErrorClass::RateLimit),
    ("ServiceQuotaExceededException", ErrorClass::RateLimit),
    ("ServiceUnavailableException", ErrorClass::Overloaded),
    ("ModelNotReadyException", ErrorClass::Overloaded),
    ("ValidationException", ErrorClass::InvalidRequest),
    ("ValidationException", ErrorClass::ContextTooLong),
    ("ResourceNotFoundException", ErrorClass::NotFound),
    ("InternalServerException", ErrorClass::Server),
    ("ModelErrorException", ErrorClass::Server),
    ("ModelTimeoutException", ErrorClass::Transport),
];

/// The error responses of Amazon's services.
pub(super) const AMAZON: ErrorCoding = ErrorCoding {
    word: Some(("x-amzn-errortype", OF_AMAZON)),
    request_id: "x-amzn-requestid",
    ..ErrorCoding::new(|error, class, writer| {
        write_message(error, class.map(|class| ("code", class)), writer)
    })
};

/// Whether `word` is a name for that class in this table.
fn is_class(word: &str, class: ErrorClass, words: &ErrorClassNames) -> bool {
    words.contains(&(word, class))
}

/// The context of an error besides the value that describes it.
#[derive(Clone, Copy, Default)]
pub(crate) struct ErrorContext<'a> {
    /// The protocol's own names of errors.
    pub(crate) words: &'static ErrorClassNames,
    /// The object that holds the error, where its other members may describe the error.
    pub(crate) beside: Option<Value<'a>>,
    /// The name of the error in the framing or the envelope.
    pub(crate) code: Option<Str<'a>>,
    /// The HTTP status.
    pub(crate) status: Option<u16>,
    /// The time to wait before a retry.
    pub(crate) retry_after: Option<Duration>,
}

/// No headers, for [`read_error`].
pub const NO_HEADERS: [(&str, &str); 0] = [];

/// Reads the body of a failed request: for gateways and clients that have it completely.
///
/// The status and the headers are used where they are given (else [`NO_HEADERS`]): `retry-after` (seconds, or a date next to that of the
/// header `date`, because there is no clock here), `retry-after-ms`, `x-amzn-errortype`, and the headers with the id of
/// the request. In any form of body, its words are the message, and all of it is kept. Where the protocol is known, see
/// [`Protocol::read_error`].
///
/// ```
/// use callweave::protocol::{NO_HEADERS, read_error};
/// use callweave::upstream::ErrorClass;
///
/// let body = br#"{"message": "Too many tokens, please wait before trying again."}"#;
/// let error = read_error(Some(429), [("Retry-After", "3"), ("x-amzn-errortype", "ThrottlingException")], body);
/// assert_eq!((error.class, error.status), (ErrorClass::RateLimit, Some(429)));
/// assert_eq!(error.retry_after.map(|wait| wait.as_secs()), Some(3));
/// assert_eq!(error.message, "Too many tokens, please wait before trying again.");
///
/// let page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
/// assert_eq!(read_error(None, NO_HEADERS, page).message, "502 Bad Gateway");
/// ```
pub fn read_error<N: AsRef<str>, V: AsRef<[u8]>>(
    status: Option<u16>,
    headers: impl IntoIterator<Item = (N, V)>,
    body: &[u8],
) -> UpstreamError<'static> {
    ErrorHead::of(status, headers).read(body, &[])
}

impl Protocol {
    /// Reads the body of a failed request in this protocol: as [`read_error`], with the protocol's own names first. It
    /// can be [written](Self::write_error) in the same protocol as it came, and in every other one.
    pub fn read_error<N: AsRef<str>, V: AsRef<[u8]>>(
        &self,
        status: Option<u16>,
        headers: impl IntoIterator<Item = (N, V)>,
        body: &[u8],
    ) -> UpstreamError<'static> {
        let head = ErrorHead::of(status, headers);
        let content_type = head.content_type.clone();
        let mut error = head.read(body, self.errors);
        error.body = Some(Box::new(ErrorBody { protocol: self.name, content_type, bytes: body.to_vec() }));
        error
    }
}

/// The information about an error outside the body.
#[derive(Default)]
struct ErrorHead {
    status: Option<u16>,
    wait: Option<Duration>,
    code: Option<String>,
    request_id: Option<String>,
    content_type: Option<String>,
}

impl ErrorHead {
    fn of<N: AsRef<str>, V: AsRef<[u8]>>(
        status: Option<u16>,
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut head = Self { status: status.filter(|status| *status >= 400), ..Self::default() };
        let (mut now, mut then) = (None, None);
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_ref());
            let value = value.trim();
            let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
            match name.as_ref().to_ascii_lowercase().as_str() {
                "retry-after" => {
                    head.wait = head.wait.or_else(|| value.parse().ok().and_then(header_seconds));
                    then = httpdate::parse_http_date(value).ok();
                }
                "retry-after-ms" | "x-ms-retry-after-ms" => {
                    let millis: Option<f64> = value.parse().ok();
                    head.wait = millis.map(|count| count / 1000.0).and_then(header_seconds).or(head.wait);
                }
                "date" => now = httpdate::parse_http_date(value).ok(),
                "x-amzn-errortype" => head.code = text(),
                "content-type" => head.content_type = text(),
                "request-id" | "x-request-id" | "x-amzn-requestid" | "apim-request-id" => {
                    head.request_id = text().or(head.request_id);
                }
                _ => {}
            }
        }
        // A date in the past asks for no wait.
        let until = now.zip(then).map(|(now, then)| then.duration_since(now).unwrap_or_default());
        head.wait = head.wait.or_else(|| until.map(|until| until.min(A_YEAR)));
        head
    }

    fn read(self, body: &[u8], words: &'static ErrorClassNames) -> UpstreamError<'static> {
        let Self { status, wait, code, request_id, .. } = self;
        let code = code.as_deref().map(Str::Plain);
        let context = ErrorContext { words, status, retry_after: wait, code, ..ErrorContext::default() };
        let mut error = read_text(String::from_utf8_lossy(body).trim_start_matches('\u{feff}'), context);
        error.request_id = request_id.map(Cow::Owned).or_else(|| request_id_in(&error.raw));
        error
    }
}

/// The id of the request, where the body has it.
fn request_id_in(body: &JsonText<'_>) -> Option<Cow<'static, str>> {
    let mut tape = Tape::new();
    let body = tape.parse(body.as_str()).ok()?;
    let id = ["request_id", "requestId"].iter().find_map(|key| body.get(key)).and_then(Value::filled)?;
    Some(Cow::Owned(id.to_cow().into_owned()))
}

/// Reports the upstream's error described by `value` (an object, a text, or a list). Null, `""`, `false` and `{}` are
/// no error.
pub(crate) fn report(value: Value<'_>, context: ErrorContext<'_>, sink: &mut FragmentSink<'_>) -> bool {
    let is_empty = match value.kind() {
        JsonKind::Null | JsonKind::Bool | JsonKind::Number => true,
        JsonKind::String => value.filled().is_none(),
        JsonKind::Object => value.members().next().is_none(),
        JsonKind::Array => value.elements().next().is_none(),
    };
    if !is_empty {
        sink.put(Fragment::new(FragmentKind::Error(&read(value, context))));
    }
    !is_empty
}

/// Reports the error in a body of no known protocol; returns false if it holds none.
pub(crate) fn report_body(body: Value<'_>, sink: &mut FragmentSink<'_>) -> bool {
    let context = ErrorContext { beside: Some(body), ..ErrorContext::default() };
    body.get("error").is_some_and(|error| report(error, context, sink))
        || is_error(body) && report(body, ErrorContext::default(), sink)
}

/// Whether the body marks itself as an error, beyond having a message.
fn is_error(body: Value<'_>) -> bool {
    let says = |key| body.get(key).and_then(Value::filled).is_some();
    let has_failed = || body.get("code").is_some_and(|code| !matches!(code.raw(), "0" | "200" | "null"));
    says("Message")
        || says("__type")
        || says("msg") && has_failed()
        || says("title") && body.get("status").and_then(status).is_some()
        || body.get("success").and_then(Value::bool) == Some(false)
        || body.get("errors").is_some_and(|errors| errors.elements().next().is_some())
}

/// Reports the upstream's error described by a text, which may be JSON, a page or plain words.
pub(crate) fn report_text(text: &str, context: ErrorContext<'_>, sink: &mut FragmentSink<'_>) {
    sink.put(Fragment::new(FragmentKind::Error(&read_text(text, context))));
}

fn read_text(text: &str, context: ErrorContext<'_>) -> UpstreamError<'static> {
    if let Ok(value) = Tape::new().parse(text) {
        return match value.with_plain_keys() {
            Some(plain) => read_text(&plain, context),
            None => read(value, context).into_owned(),
        };
    }
    let mut found = ClassFindings::of(context);
    let page = page::read(text);
    found.status = found.status.or(page.status);
    let code = found.codes.first().cloned();
    let class = found.class(context.words, &page.message, &page.name);
    let retry_after = found.retry_after.or_else(|| words::wait(&page.message));
    let message = match page.message {
        message if message.is_empty() => unsaid(found.status, code.as_deref()),
        message => message,
    };
    UpstreamError {
        status: found.status,
        code,
        retry_after,
        raw: JsonText::from_text(text),
        ..UpstreamError::new(class, message)
    }
    .into_owned()
}

fn unsaid(status: Option<u16>, code: Option<&str>) -> Cow<'static, str> {
    match (status, code) {
        (_, Some(code)) => Cow::Owned(code.to_owned()),
        (Some(status), None) => {
            Cow::Owned(format!("the upstream answered with status {status} and no words"))
        }
        (None, None) => Cow::Borrowed("the upstream reports an error"),
    }
}

/// Reads an error from JSON.
fn read<'a>(value: Value<'a>, context: ErrorContext<'a>) -> UpstreamError<'a> {
    let mut found = ClassFindings::of(context);
    let mut message = None;
    // A text may be only the name of the error, with the message in a member beside it.
    let levels = levels(context.beside.filter(|_| value.kind() == JsonKind::String).unwrap_or(value));
    for (at, level) in levels.iter().enumerate().rev() {
        found.add(*level);
        // The message of a list's first element is part of the list's message.
        let is_first = at > 0 && levels[at - 1].kind() == JsonKind::Array;
        message = message.or_else(|| words_of(*level).filter(|_| !is_first));
    }
    if let Some(beside) = context.beside {
        found.add(beside);
    }
    // The message itself is not the error's code.
    let code = found.codes.iter().find(|code| message.as_ref() != Some(code)).cloned();
    // Some providers wrap the page or the line of a proxy.
    if value.kind() == JsonKind::String
        && let Some(text) = &message
    {
        let page = page::read(text);
        found.status = found.status.or(page.status);
        if !page.message.is_empty() && page.message != text.trim() {
            message = Some(Cow::Owned(page.message.into_owned()));
        }
    }
    let message = match message {
        Some(message) => message,
        None if code.is_some() => unsaid(found.status, code.as_deref()),
        // The message cannot be located, so the complete value is the message.
        None => Cow::Borrowed(value.raw()),
    };
    let class = found.class(context.words, &message, &message);
    let retry_after = found.retry_after.or_else(|| words::wait(&message));
    let raw = JsonText::trusted(value.raw());
    UpstreamError { status: found.status, code, retry_after, raw, ..UpstreamError::new(class, message) }
}

/// Returns the error and its nested values, outermost first: `{"error": {…}}`, `{"message": {"detail": […]}}`.
fn levels(value: Value<'_>) -> Vec<Value<'_>> {
    const INSIDE: [&str; 7] = ["error", "errors", "detail", "message", "Error", "fault", "base_resp"];
    /// The maximum depth of nesting; known errors are not wrapped more often.
    const DEPTH: usize = 6;
    let mut levels = vec![value];
    while levels.len() < DEPTH {
        let last = levels[levels.len() - 1];
        let is_nest =
            |value: &Value<'_>| value.members().next().is_some() || value.elements().next().is_some();
        let first = last.elements().next();
        let inner = first.or_else(|| INSIDE.iter().find_map(|key| last.get(key).filter(is_nest)));
        match inner.filter(is_nest) {
            Some(inner) => levels.push(inner),
            None => break,
        }
    }
    levels
}

/// Returns the message of one level, from any of the known members.
fn words_of(value: Value<'_>) -> Option<Cow<'_, str>> {
    const WORDS: [&str; 14] = [
        "message",
        "Message",
        "msg",
        "error_description",
        "error_message",
        "errorMessage",
        "error_msg",
        "status_msg",
        "faultstring",
        "detail",
        "description",
        "error",
        "title",
        "reason",
    ];
    match value.kind() {
        JsonKind::String => value.filled().map(Str::to_cow),
        JsonKind::Array => {
            let said: Vec<_> = value.elements().filter_map(words_of_one).collect();
            match said.len() {
                0 => None,
                1 => said.into_iter().next(),
                _ => Some(Cow::Owned(said.join("; "))),
            }
        }
        JsonKind::Object => {
            let filled = |key: &str| value.get(key).and_then(Value::filled).map(Str::to_cow);
            let said = WORDS.iter().find_map(|key| filled(key))?;
            // A problem's title names its kind, its detail describes the occurrence.
            match filled("title").filter(|title| *title != said && value.get("detail").is_some()) {
                Some(title) => Some(Cow::Owned(format!("{title}: {said}"))),
                None => Some(said),
            }
        }
        JsonKind::Null | JsonKind::Bool | JsonKind::Number => None,
    }
}

/// Returns the message of one of several errors, after the location it refers to.
fn words_of_one(error: Value<'_>) -> Option<Cow<'_, str>> {
    if error.kind() == JsonKind::Array {
        return None;
    }
    let said = words_of(error)?;
    let place: Vec<_> = error
        .get("loc")
        .iter()
        .flat_map(|place| place.elements())
        .map(|step| step.str().map_or(Cow::Borrowed(step.raw()), Str::to_cow))
        .collect();
    if place.is_empty() { Some(said) } else { Some(Cow::Owned(format!("{}: {said}", place.join(".")))) }
}

/// The maximum number of details searched; more of them carry no further information.
const MAX_DETAILS: usize = 32;

/// The evidence for a class.
#[derive(Default)]
struct ClassFindings<'a> {
    /// The codes, the closest first.
    codes: Vec<Cow<'a, str>>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    /// Texts besides the message.
    texts: Vec<Cow<'a, str>>,
}

impl<'a> ClassFindings<'a> {
    fn of(context: ErrorContext<'a>) -> Self {
        let ErrorContext { status, retry_after, code, .. } = context;
        let mut findings = Self { status, retry_after, ..Self::default() };
        findings.name(code.map(Str::to_cow).unwrap_or_default());
        findings
    }

    /// Adds the evidence in the members of one level.
    fn add(&mut self, level: Value<'a>) {
        const CODES: [&str; 13] = [
            "code",
            "Code",
            "error_code",
            "errorCode",
            "__type",
            "type",
            "error_type",
            "errorType",
            "status",
            "reason",
            "error",
            "status_code",
            "title",
        ];
        const STATUSES: [&str; 7] = [
            "status",
            "status_code",
            "statusCode",
            "http_code",
            "http_status",
            "httpStatusCode",
            "raw_status_code",
        ];
        for key in STATUSES {
            self.status = self.status.or_else(|| level.get(key).and_then(status));
        }
        for code in CODES.iter().filter_map(|key| level.get(key)) {
            self.code(code);
        }
        for detail in level.get("details").iter().flat_map(|details| details.elements()).take(MAX_DETAILS) {
            if let Some(reason) = detail.get("reason") {
                self.code(reason);
            }
            let wait = detail.get("retryDelay").and_then(Value::str);
            self.retry_after = self.retry_after.or_else(|| words::duration(&wait?.to_cow()));
        }
        let number = |key: &str| level.get(key).and_then(|value| value.raw().parse().ok()).and_then(seconds);
        const WAITS: [&str; 4] = ["retry_after", "retryAfter", "retry_after_seconds", "estimated_time"];
        self.retry_after = self.retry_after.or_else(|| WAITS.iter().find_map(|key| number(key)));
        // A router keeps the body of its upstream as a text.
        let inner = level.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::filled);
        self.texts.extend(inner.map(Str::to_cow));
    }

    fn code(&mut self, value: Value<'a>) {
        if let Some(status) = status(value) {
            self.status = self.status.or(Some(status));
            return;
        }
        let code = match value.kind() {
            JsonKind::Number if value.raw() != "0" => Cow::Borrowed(value.raw()),
            JsonKind::String => value.str().map(Str::to_cow).unwrap_or_default(),
            _ => return,
        };
        self.name(code);
    }

    fn name(&mut self, code: Cow<'a, str>) {
        // These only say that it is an error.
        if !matches!(&*code, "" | "error" | "about:blank") {
            self.codes.push(code);
        }
    }

    /// Returns the class of the closest evidence. A short message may be nothing but a `name` of the error.
    fn class(&self, own: &ErrorClassNames, message: &str, name: &str) -> ErrorClass {
        let codes = self.codes.iter().map(AsRef::as_ref).chain([name]);
        // Some providers write words where others have a code.
        let texts = std::iter::once(message).chain(self.texts.iter().chain(&self.codes).map(AsRef::as_ref));
        let by_code = codes.filter_map(|code| words::by_code_and_status(own, code, self.status));
        let by_code: Vec<_> = by_code.collect();
        // Where one code says that a server failed, and another that a connection did, the second is more specific.
        let is_transport = by_code.contains(&ErrorClass::Transport);
        let by_code = by_code.into_iter().filter(|class| !is_transport || *class != ErrorClass::Server);
        let by_status = self.status.and_then(words::by_status);
        let by_text = texts.filter_map(words::by_text);
        let mut vague = ErrorClass::Other;
        for class in by_code.chain(by_status).chain(by_text) {
            if !class.is_vague() {
                return class;
            }
            if vague == ErrorClass::Other {
                vague = class;
            }
        }
        vague
    }
}

/// Returns the HTTP status of a failure, if the value is one; some providers write it as a text.
fn status(value: Value<'_>) -> Option<u16> {
    let number = match value.kind() {
        JsonKind::Number => value.raw().parse().ok(),
        JsonKind::String => value.str().and_then(|text| text.written().parse().ok()),
        _ => None,
    };
    number.filter(|status| words::is_status(*status))
}

fn seconds(count: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(count).ok()
}

/// The maximum wait; longer ones are reduced to it.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the wait of a header, of any length.
fn header_seconds(count: f64) -> Option<Duration> {
    if count > A_YEAR.as_secs_f64() { Some(A_YEAR) } else { seconds(count) }
}

#[cfg(test)]
mod tests;
