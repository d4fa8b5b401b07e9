//! Errors that an upstream reports, in neutral form.
//!
//! Every provider has its own names for the same few failures. An [`UpstreamError`] keeps them as they were written,
//! and classifies them by an [`ErrorClass`]: how a client should react. It comes as an event in the stream, in
//! [`Message::error`](crate::message::Message::error), behind [`Error::upstream`](crate::Error::upstream), and from
//! [`protocol::read_error`](crate::protocol::read_error) for the body of a failed request.
//!
//! ```
//! use callweave::pipeline::decode;
//! use callweave::upstream::ErrorClass;
//!
//! let body = r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
//! let failed = decode(body.as_bytes())?.into_result().unwrap_err();
//! let reported = failed.upstream().expect("the upstream failed");
//! assert_eq!((reported.class, reported.is_retryable()), (ErrorClass::Overloaded, true));
//! # Ok::<(), callweave::Error>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::JsonText;

/// An error that an upstream reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UpstreamError<'a> {
    /// The class of the error.
    pub class: ErrorClass,
    /// The HTTP status, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own name (or number) of it, the most specific one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// The time to wait before another try, where the provider reports it; in JSON: seconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "seconds",
        deserialize_with = "from_seconds"
    )]
    pub retry_after: Option<Duration>,
    /// The description of the error.
    pub message: Cow<'a, str>,
    /// The provider's error object or text, as JSON.
    pub raw: JsonText<'a>,
    /// The provider's id of the request, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Cow<'a, str>>,
    /// The body of the failed request that it was read from, where all of it was.
    #[serde(skip)]
    pub body: Option<Box<ErrorBody>>,
}

/// The body of a failed request, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorBody {
    /// The name of the protocol it is written in.
    pub protocol: &'static str,
    /// The media type, where it is known.
    pub content_type: Option<String>,
    /// The body.
    pub bytes: Vec<u8>,
}

/// The classes of [`UpstreamError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// The caller is not authenticated: a key or token is missing, wrong or expired.
    Authentication,
    /// The caller may not do this: no right, no credit, a quota used up.
    Permission,
    /// Too many requests or tokens in too short a time.
    RateLimit,
    /// The provider or the model is busy, loading or down for now.
    Overloaded,
    /// The request itself is wrong, or not allowed by a content policy.
    InvalidRequest,
    /// The input is too long for the model or the provider.
    ContextTooLong,
    /// There is no such model, deployment, resource or address.
    NotFound,
    /// The provider failed.
    Server,
    /// The connection to the provider, or behind it, failed or timed out.
    Transport,
    /// The provider does not say.
    #[default]
    Other,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Authentication,
        Self::Permission,
        Self::RateLimit,
        Self::Overloaded,
        Self::InvalidRequest,
        Self::ContextTooLong,
        Self::NotFound,
        Self::Server,
        Self::Transport,
        Self::Other,
    ];

    /// Whether the same request may succeed if it is sent again. An error that could not be classified is not tried
    /// again.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Server | Self::Transport => true,
            Self::Authentication
            | Self::Permission
            | Self::InvalidRequest
            | Self::ContextTooLong
            | Self::NotFound
            | Self::Other => false,
        }
    }

    /// Whether the class says hardly more than on which side, or between which, the request failed. Providers put
    /// nearly everything under such names, so any closer name, wherever it stands, is the better one.
    pub(crate) fn is_vague(self) -> bool {
        matches!(self, Self::InvalidRequest | Self::Server | Self::Transport | Self::Other)
    }

    /// Its name, as it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::InvalidRequest => "invalid_request",
            Self::ContextTooLong => "context_too_long",
            Self::NotFound => "not_found",
            Self::Server => "server",
            Self::Transport => "transport",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'a> UpstreamError<'a> {
    /// An error of `class` of which only its message is known.
    pub fn new(class: ErrorClass, message: impl Into<Cow<'a, str>>) -> Self {
        let message = message.into();
        let raw = JsonText::from_text(&message);
        let (status, code, retry_after, request_id, body) = Default::default();
        Self { class, status, code, retry_after, message, raw, request_id, body }
    }

    /// Whether the same request may succeed if it is sent again.
    pub fn is_retryable(&self) -> bool {
        self.class.is_retryable()
    }

    /// Detaches the error from what it borrows.
    pub fn into_owned(self) -> UpstreamError<'static> {
        UpstreamError {
            class: self.class,
            status: self.status,
            code: self.code.map(|code| Cow::Owned(code.into_owned())),
            retry_after: self.retry_after,
            message: Cow::Owned(self.message.into_owned()),
            raw: self.raw.into_owned(),
            request_id: self.request_id.map(|id| Cow::Owned(id.into_owned())),
            body: self.body,
        }
    }
}

impl fmt::Display for UpstreamError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn seconds<S: Serializer>(wait: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    wait.map(|wait| wait.as_secs_f64()).serialize(serializer)
}

fn from_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = Option::<f64>::deserialize(deserializer)?;
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_as_it_is_written() {
        for class in ErrorClass::ALL {
            assert_eq!(serde_json::to_value(class).ok(), Some(class.name().into()));
        }
    }
}
