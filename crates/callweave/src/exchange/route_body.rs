//! Bodies of requests whose path has settings that other requests have in the body: they become bodies for the
//! protocol's own path.

use super::ExchangeResult;
use super::amount::invalid;
use super::http::{ClientEndpoint, HttpWire};
use super::incoming::SharedBytes;
use crate::json::{Object, TapeNode, Value};
use crate::protocol::{ANTHROPIC_MESSAGES, chat_of_prompt};

/// A member that names the API for Vertex AI and Bedrock. Anthropic's own has a header for it.
const VERSION: &str = "anthropic_version";

/// The body for the protocol's own path; none if it is one already.
pub(super) fn rewritten(
    route: &ClientEndpoint,
    wire: &HttpWire,
    body: TapeNode<'_>,
    original: &SharedBytes,
) -> ExchangeResult<Option<SharedBytes>> {
    let model = route.model.as_deref().filter(|_| !wire.names_model());
    let has_version = *route.protocol == ANTHROPIC_MESSAGES && body.get(VERSION).is_some();
    if model.is_none() && !has_version && !route.is_prompt {
        return Ok(None);
    }
    let members: Object = match Value::try_from(body) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(invalid("the body of a request is not an object")),
        Err(error) => return Err(invalid(error.to_string())),
    };
    let mut members = match route.is_prompt {
        true => chat_of_prompt(members).map_err(|error| invalid(error.to_string()))?,
        false => members,
    };
    if has_version {
        members.remove(VERSION);
    }
    if let Some(model) = model {
        members.insert("model", model);
        if let Some(is_streamed) = route.is_streamed {
            members.insert("stream", is_streamed);
        }
    }
    let bytes = Value::from(members).to_string().into_bytes();
    Ok(Some(SharedBytes::from_owner(RewrittenBody { bytes, _original: original.clone() })))
}

/// A rewritten body, with the owner of the original, which may count the held bytes.
struct RewrittenBody {
    bytes: Vec<u8>,
    _original: SharedBytes,
}

impl AsRef<[u8]> for RewrittenBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
