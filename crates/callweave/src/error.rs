//! The one error of the library.
//!
//! An [`Error`] has the kind of failure, its position in the input (if a byte is to blame), and the name of the thing.
//! It keeps the error that caused it as its source, and the upstream's report in neutral form. Damage that can be
//! recovered from is not an error but a [`Notice`](crate::event::Notice) in the stream of events.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::upstream::UpstreamError;

/// A failure: its kind, its position and the thing that failed.
///
/// `{error}` says that in one line, `{error:#}` adds the errors that caused it.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    offset: Option<u64>,
    detail: String,
    cause: Option<ErrorSource>,
}

/// The source of an error. It is shared, so errors can be cloned.
#[derive(Clone, Debug)]
enum ErrorSource {
    Source(Arc<dyn StdError + Send + Sync>),
    Upstream(Arc<UpstreamError<'static>>),
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A configured limit (line, frame, total size) was exceeded.
    Limit,
    /// The framing of the byte stream is damaged (a bad checksum, a truncated binary frame).
    Framing,
    /// A text that had to be JSON is not.
    Json,
    /// The protocol, dialect or shape of the input cannot be determined or is not known.
    Unknown,
    /// A value does not have the form that its place demands.
    Invalid,
    /// The upstream answered with an error of its own: see [`Error::upstream`].
    Upstream,
    /// The model refused to answer.
    Refusal,
    /// Reading the input failed. The reader's own error is the [source](StdError::source).
    Io,
}

/// The kind in one word, such as `limit`.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "limit",
            Self::Framing => "framing",
            Self::Json => "json",
            Self::Unknown => "unknown",
            Self::Invalid => "invalid",
            Self::Upstream => "upstream",
            Self::Refusal => "refusal",
            Self::Io => "io",
        })
    }
}

impl Error {
    /// An error of `kind`; `detail` names the thing, in lower case.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, offset: None, detail: detail.into(), cause: None }
    }

    /// The same, noticed at byte `offset` of the input.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// The same, caused by another error, which is kept as its source. Its text is not repeated in the detail: printing
    /// the chain of sources prints it.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: Some(ErrorSource::Source(Arc::from(source.into()))), ..self }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The byte of the input at which it was noticed; none where no byte is to blame.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The description of the failure.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The error that the upstream reported, if that is the failure.
    pub fn upstream(&self) -> Option<&UpstreamError<'static>> {
        match &self.cause {
            Some(ErrorSource::Upstream(reported)) => Some(reported),
            Some(ErrorSource::Source(_)) | None => None,
        }
    }

    /// Whether the same stream may be pushed further after this error. Whether the same *request* may be sent
    /// again is another question: see [`Error::is_retryable`].
    pub fn is_recoverable(&self) -> bool {
        match self.kind {
            ErrorKind::Json | ErrorKind::Invalid | ErrorKind::Refusal => true,
            ErrorKind::Limit
            | ErrorKind::Framing
            | ErrorKind::Unknown
            | ErrorKind::Upstream
            | ErrorKind::Io => false,
        }
    }

    /// Whether the same request may succeed if it is sent again: the transport failed, or the upstream
    /// reported something that [passes](crate::upstream::ErrorClass::is_retryable).
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ErrorKind::Io | ErrorKind::Framing => true,
            ErrorKind::Upstream => self.upstream().is_some_and(UpstreamError::is_retryable),
            ErrorKind::Limit
            | ErrorKind::Json
            | ErrorKind::Unknown
            | ErrorKind::Invalid
            | ErrorKind::Refusal => false,
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<UpstreamError<'_>> for Error {
    fn from(reported: UpstreamError<'_>) -> Self {
        let reported = reported.into_owned();
        let cause = Some(ErrorSource::Upstream(Arc::new(reported.clone())));
        Self { cause, ..Self::new(ErrorKind::Upstream, reported.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        if let Some(offset) = self.offset {
            write!(f, " (at byte {offset})")?;
        }
        let mut source = self.source().filter(|_| f.alternate());
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.cause {
            Some(ErrorSource::Source(source)) => Some(source.as_ref()),
            // Its text is this error's text already.
            Some(ErrorSource::Upstream(_)) | None => None,
        }
    }
}

/// Errors are equal if they say the same; other libraries' errors behind them cannot be compared.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.offset, &self.detail, self.upstream())
            == (other.kind, other.offset, &other.detail, other.upstream())
    }
}

impl Eq for Error {}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_named_only_where_one_is_meant() {
        let error = Error::new(ErrorKind::Unknown, "no dialect is called \"x\"");
        assert_eq!(error.to_string(), "no dialect is called \"x\"");
        assert_eq!(error.at(0).to_string(), "no dialect is called \"x\" (at byte 0)");
    }

    #[test]
    fn the_source_is_kept_and_can_be_told_apart() {
        let error = Error::new(ErrorKind::Io, "reading failed").caused_by(std::io::Error::other("dead line"));
        let source = error.clone().source().map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("dead line"));
        assert!(error.source().is_some_and(|source| source.is::<std::io::Error>()));
        assert_eq!(format!("{error} / {error:#}"), "reading failed / reading failed: dead line");
        assert!(error.is_retryable());
    }

    #[test]
    fn errors_travel() {
        fn travels<T: Send + Sync + Clone + 'static>() {}
        travels::<Error>();
    }
}
