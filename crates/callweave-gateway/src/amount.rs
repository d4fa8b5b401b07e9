//! How much stands in a request, or in the conversation that it continues, and how much may.

use std::ops::Add;

use callweave::json::{Kind, Node, Tape};
use callweave::request::RequestSize;
use callweave::{Error, error::ErrorKind};
use http::StatusCode;

use crate::config::Limits;
use crate::failure::Failure;

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: usize,
    /// Values, where they are added up: those of one request are limited by [`scanned`].
    pub(crate) values: usize,
    pub(crate) messages: usize,
    pub(crate) parts: usize,
    pub(crate) tools: usize,
}

impl Amount {
    /// The amount of a request, but for its values.
    pub(crate) fn of_request(body: Node<'_>, size: RequestSize) -> Self {
        let RequestSize { messages, parts, tools, .. } = size;
        Self { bytes: body.raw().len(), values: 0, messages, parts, tools }
    }

    /// The amount of a list of items, as the Responses protocol has them.
    pub(crate) fn of_items(items: Node<'_>) -> Self {
        let lists = |node: Node<'_>| {
            let lists = node.members().filter(|(_, value)| value.kind() == Kind::Array);
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

    /// Whether a client may ask that much.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Failure> {
        for (count, most, what, key) in [
            (self.bytes, limits.decompressed, "bytes", "decompressed"),
            (self.values, limits.values, "JSON values", "values"),
            (self.messages, limits.messages, "messages", "messages"),
            (self.parts, limits.parts, "parts of messages", "parts"),
            (self.tools, limits.tools, "tools", "tools"),
        ] {
            if count > most {
                return Err(beyond(most, what, key));
            }
        }
        Ok(())
    }
}

impl Add for Amount {
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

/// What a client is told whose request has more than may be.
pub(crate) fn beyond(most: usize, what: &str, key: &str) -> Failure {
    let what =
        format!("the request has more than {most} {what} (limits.{key} in the gateway's configuration)");
    Failure::invalid(what).with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

/// Scans the body of a request: it is JSON, and has no more values than may be.
pub(crate) fn scanned<'t>(tape: &'t mut Tape, bytes: &'t [u8], limits: &Limits) -> Result<Node<'t>, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid("the request is not UTF-8"))?;
    tape.parse_within(text, limits.values).map_err(|error: Error| match error.kind() {
        ErrorKind::Limit => beyond(limits.values, "JSON values", "values"),
        _ => Failure::invalid(format!("the request is not JSON: {error}")),
    })
}
