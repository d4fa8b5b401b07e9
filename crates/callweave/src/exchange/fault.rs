//! Faults of upstreams, in sentences that name them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::http::shown_url;
use super::policy::ExchangeTarget;
use crate::event::JsonText;
use crate::json::Tape;
use crate::protocol::{OPENAI_CHAT, Protocol};
use crate::upstream::{ErrorClass, UpstreamError};

/// A fault of an upstream as a sentence without its subject: `did not answer within 3 s`.
#[derive(Clone, Debug)]
pub struct UpstreamFault {
    class: ErrorClass,
    status: u16,
    what: Cow<'static, str>,
}

impl UpstreamFault {
    /// The connection failed.
    pub fn lost(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Transport, status: 502, what: what.into() }
    }

    /// Something did not come in time.
    pub fn late(what: &'static str, waited: Duration) -> Self {
        let what = format!("{what} within {} s", waited.as_secs_f64());
        Self { status: 504, ..Self::lost(what) }
    }

    /// There is a response, but it cannot be used.
    pub fn unusable(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Other, ..Self::lost(what) }
    }

    /// The upstream itself lacks the credentials that it needs.
    pub fn unauthorized(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Authentication, status: 401, what: what.into() }
    }

    /// There is no room for another request.
    pub fn overloaded(what: impl Into<Cow<'static, str>>) -> Self {
        Self { class: ErrorClass::Overloaded, status: 503, what: what.into() }
    }

    /// The fault as an error whose message begins with the name of the upstream.
    pub fn error(&self, upstream: &str) -> UpstreamError<'static> {
        let mut error = UpstreamError::new(self.class, format!("{upstream} {}", self.what));
        error.status = Some(self.status);
        error
    }
}

impl fmt::Display for UpstreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A response of an upstream with a status other than success, as far as it was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamRefusal {
    /// The status.
    pub status: u16,
    /// All headers, with names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; 64 KiB of it are enough.
    pub body: Vec<u8>,
    /// The fault that kept the rest of the body from coming.
    pub fault: Option<UpstreamFault>,
}

impl UpstreamRefusal {
    /// A refusal without a body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), fault: None }
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_slice())
    }

    /// The error that it reports. Words in another form than clients expect become an error in theirs.
    pub fn error(&self, target: &ExchangeTarget) -> UpstreamError<'static> {
        let Self { status, headers, body, fault } = self;
        let (protocol, shown) = (target.protocol.unwrap_or(&OPENAI_CHAT), target.shown());
        if let Some(to) = self.header("location").filter(|_| (300..400).contains(status)) {
            let to = shown_url(std::str::from_utf8(to).unwrap_or("an address that cannot be read"));
            let what = format!(
                "answered with a redirect ({status} to {to}), which is not followed: its url must be where it leads"
            );
            return UpstreamFault::unusable(what).error(&shown);
        }
        let own = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let mut error = protocol.read_error(Some(*status), own, body);
        error.status.get_or_insert(502);
        let words = match fault {
            Some(fault) => Some(format!("{shown} answered with status {status} and {fault}")),
            None if body.trim_ascii().is_empty() => {
                Some(format!("{shown} answered with status {status} and no words"))
            }
            None if !is_object(body) => {
                Some(format!("{shown} answered with status {status}: {}", error.message))
            }
            None => None,
        };
        if let Some(words) = words {
            error.raw = JsonText::from_text(&words).into_owned();
            error.message = words.into();
            error.body = None;
        } else if !is_written_as(protocol, body, &error) {
            error.body = None;
        }
        target.engine.mask(&mut error);
        error
    }
}

/// Whether a body is a JSON object.
fn is_object(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    let text = std::str::from_utf8(body).ok().filter(|text| text.starts_with('{'));
    text.is_some_and(|text| Tape::new().parse(text).is_ok())
}

/// Whether the body of an error has the members that clients of its protocol look for.
fn is_written_as(protocol: &Protocol, body: &[u8], error: &UpstreamError<'static>) -> bool {
    let mut plain = error.clone();
    (plain.body, plain.request_id) = (None, None);
    let usual = protocol.write_error(&plain).map(|written| written.body).unwrap_or_default();
    let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Map<_, _>>(bytes).unwrap_or_default();
    let (own, usual) = (read(body), read(&usual));
    let is_alike = |own: &serde_json::Value, usual: &serde_json::Value| match usual {
        serde_json::Value::Object(_) => own.get("message").is_some_and(serde_json::Value::is_string),
        _ => own.is_string() == usual.is_string(),
    };
    usual.iter().all(|(key, usual)| own.get(key).is_some_and(|own| is_alike(own, usual)))
}
