//! The one error of the library.
//!
//! An [`Error`] says what kind of thing went wrong, where in the input, and names the thing. Damage
//! that can be recovered from is not an error but a [`Notice`](crate::event::Notice) in the stream
//! of events.

use std::fmt;

/// What went wrong, where, and with which thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    offset: u64,
    detail: String,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A configured limit (line, frame, total size) was exceeded.
    Limit,
    /// The framing of the byte stream is damaged (a bad checksum, a cut binary frame).
    Framing,
    /// A text that had to be JSON is not.
    Json,
    /// The protocol, dialect or shape of the input cannot be told or is not known.
    Unknown,
    /// A value does not have the form that its place demands.
    Invalid,
    /// The upstream answered with an error of its own.
    Upstream,
    /// The model refused to answer.
    Refusal,
    /// Reading the input failed.
    Io,
}

impl Error {
    /// An error of `kind` at byte `offset` of the input; `detail` names the thing, in lower case.
    pub fn new(kind: ErrorKind, offset: u64, detail: impl Into<String>) -> Self {
        Self { kind, offset, detail: detail.into() }
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The byte of the input at which it was noticed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What exactly, in words.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the same stream may be pushed further after this error.
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.detail, self.offset)
    }
}

impl std::error::Error for Error {}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;
