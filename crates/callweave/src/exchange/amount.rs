//! The size of a request, or of the conversation that it continues, and its limits.

use std::ops::Add;

use super::ExchangeResult;
use crate::error::{Error, ErrorKind};
use crate::json::schema::StepBudget;
use crate::json::{JsonKind, Tape, TapeNode, Value};
use crate::request::RequestSize;
use crate::upstream::{ErrorClass, UpstreamError};

/// Limits of a request, and of the conversation that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestLimits {
    /// Bytes.
    pub bytes: usize,
    /// JSON values.
    pub values: usize,
    /// Messages.
    pub messages: usize,
    /// Parts of messages.
    pub parts: usize,
    /// Declared tools.
    pub tools: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, values: 200_000, messages: 10_000, parts: 20_000, tools: 2_000 }
    }
}

impl RequestLimits {
    /// Fails if the body of a request is not JSON, or has more values than these limits allow.
    ///
    /// ```
    /// use callweave::exchange::RequestLimits;
    ///
    /// let mut limits = RequestLimits::default();
    /// assert!(limits.check(b"[1, 2]").is_ok() && limits.check(b"[1, 2").is_err());
    /// limits.values = 2;
    /// assert_eq!(limits.check(b"[1, 2]").unwrap_err().status, Some(413));
    /// ```
    pub fn check(&self, body: &[u8]) -> ExchangeResult<()> {
        scan(&mut Tape::new(), body, self).map(drop)
    }

    /// Parses the body of a request, with no more values than these limits allow.
    pub fn read(&self, body: &[u8]) -> ExchangeResult<Value> {
        let mut tape = Tape::new();
        let body = scan(&mut tape, body, self)?;
        Value::try_from(body).map_err(|error| invalid(format!("the request is not JSON: {error}")))
    }
}

/// Limits of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseLimits {
    /// Bytes that are read of an upstream's response.
    pub bytes: u64,
    /// Bytes of the arguments of one call.
    pub argument_bytes: usize,
    /// Steps that the schema of a tool may take for one call. A call that would take more is passed on unchecked.
    pub schema_steps: u64,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, argument_bytes: 8 << 20, schema_steps: StepBudget::STEPS }
    }
}

/// The size of a request or of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestAmount {
    pub(super) bytes: usize,
    /// Values, where they are added up: those of one request are limited by [`scan`].
    pub(super) values: usize,
    pub(super) messages: usize,
    parts: usize,
    tools: usize,
}

impl RequestAmount {
    /// The size of a request, but for its values.
    pub(super) fn of_request(body: TapeNode<'_>, size: RequestSize) -> Self {
        let RequestSize { messages, parts, tools, .. } = size;
        Self { bytes: body.raw().len(), values: 0, messages, parts, tools }
    }

    /// The size of a list of Responses items.
    pub(super) fn of_items(items: TapeNode<'_>) -> Self {
        let lists = |node: TapeNode<'_>| {
            let lists = node.members().filter(|(_, value)| value.kind() == JsonKind::Array);
            lists.map(|(_, list)| list.elements().count()).sum::<usize>()
        };
        Self {
            bytes: items.raw().len(),
            values: items.value_count(),
            messages: items.elements().count(),
            parts: items.elements().map(lists).sum(),
            tools: 0,
        }
    }

    /// Refuses a size beyond the limits.
    pub(super) fn check(&self, limits: &RequestLimits) -> ExchangeResult<()> {
        for (count, max, what, key) in [
            (self.bytes, limits.bytes, "bytes", "decompressed"),
            (self.values, limits.values, "JSON values", "values"),
            (self.messages, limits.messages, "messages", "messages"),
            (self.parts, limits.parts, "parts of messages", "parts"),
            (self.tools, limits.tools, "tools", "tools"),
        ] {
            if count > max {
                return Err(too_large(max, what, key));
            }
        }
        Ok(())
    }
}

impl Add for RequestAmount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            values: self.values + other.values,
            messages: self.messages + other.messages,
            parts: self.parts + other.parts,
            tools: self.tools + other.tools,
        }
    }
}

/// The error for a request beyond a limit.
pub fn too_large(max: usize, what: &str, key: &str) -> Box<UpstreamError<'static>> {
    let what =
        format!("the request has more than {max} {what} (limits.{key} in the gateway's configuration)");
    let mut error = UpstreamError::new(ErrorClass::InvalidRequest, what);
    error.status = Some(413);
    Box::new(error)
}

/// Parses the body of a request, with no more values than the limits allow.
pub(super) fn scan<'t>(
    tape: &'t mut Tape,
    bytes: &'t [u8],
    limits: &RequestLimits,
) -> ExchangeResult<TapeNode<'t>> {
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("the request is not UTF-8"))?;
    tape.parse_within(text, limits.values).map_err(|error: Error| match error.kind() {
        ErrorKind::Limit => too_large(limits.values, "JSON values", "values"),
        _ => invalid(format!("the request is not JSON: {error}")),
    })
}

/// The error for a request that cannot be understood.
pub(super) fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> Box<UpstreamError<'static>> {
    Box::new(UpstreamError::new(ErrorClass::InvalidRequest, what))
}
