//! Errors for clients when there is no response: a neutral error, in the shape of their protocol.

use std::borrow::Cow;

use bytes::Bytes;
use callweave::protocol::{OPENAI_CHAT, Protocol};
use callweave::upstream::{ErrorClass, UpstreamError};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::body::ResponseBody;

/// The reason why there is no response, and further facts for the client.
#[derive(Clone, Debug)]
pub(crate) struct RequestFailure {
    /// The error.
    pub(crate) error: Box<UpstreamError<'static>>,
    /// Headers of the upstream's that concern the client.
    pub(crate) headers: HeaderMap,
    /// Whether an upstream has answered, but what it said cannot be used: to ask again is to pay again.
    pub(crate) is_answered: bool,
}

impl RequestFailure {
    /// A failure of that class.
    pub(crate) fn new(class: ErrorClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(UpstreamError::new(class, message))
    }

    /// The failure that this error reports.
    pub(crate) fn of(error: UpstreamError<'static>) -> Self {
        Self { error: Box::new(error), headers: HeaderMap::new(), is_answered: false }
    }

    /// The error for clients whose responses would keep the gateway from shutting down.
    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorClass::Overloaded, "the gateway shuts down")
    }

    /// Whether the same request may succeed if it is sent again.
    pub(crate) fn is_retryable(&self) -> bool {
        // A request that goes round does so each time.
        self.error.is_retryable() && self.error.status != Some(StatusCode::LOOP_DETECTED.as_u16())
    }

    /// The error for a client's mistake.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorClass::InvalidRequest, message)
    }

    /// The same with a status of its own.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.error.status = Some(status.as_u16());
        self
    }

    /// The same with the provider's own word for it.
    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.error.code = Some(code.into());
        self
    }

    /// The status that says the same.
    pub(crate) fn status(&self) -> StatusCode {
        let written = OPENAI_CHAT.write_error(&self.error).map_or(500, |written| written.status);
        StatusCode::from_u16(written).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The response to a client of that protocol.
    pub(crate) fn response(&self, protocol: &Protocol) -> Response<ResponseBody> {
        let written = protocol.write_error(&self.error).or_else(|| OPENAI_CHAT.write_error(&self.error));
        let mut response = Response::new(ResponseBody::complete(Bytes::new()));
        let Some(written) = written else { return response };
        *response.body_mut() = ResponseBody::complete(written.body);
        *response.status_mut() = StatusCode::from_u16(written.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let headers = response.headers_mut();
        headers.extend(self.headers.clone());
        for (name, value) in written.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

impl From<Box<UpstreamError<'static>>> for RequestFailure {
    fn from(error: Box<UpstreamError<'static>>) -> Self {
        Self { error, headers: HeaderMap::new(), is_answered: false }
    }
}

/// Headers as HTTP has them. Headers that it does not allow are left out.
pub(crate) fn header_map<N: AsRef<str>>(headers: &[(N, Vec<u8>)]) -> HeaderMap {
    let header = |(name, value): &(N, Vec<u8>)| {
        Some((HeaderName::try_from(name.as_ref()).ok()?, HeaderValue::from_bytes(value).ok()?))
    };
    headers.iter().filter_map(header).collect()
}

/// The type of most bodies.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
