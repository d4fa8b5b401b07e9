//! Responses that are single values: embeddings and images. They bypass the events.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{ApiType, Processed};
use crate::event::{JsonText, TokenCounts};
use crate::json::Value;
use crate::message::{Message, Usage};
use crate::{Error, ErrorKind, Result};

/// Returns the kind of value that the response is, if it is one: by its shape, or by the API that was asked where the
/// shape leaves it open.
pub(super) fn recognise(api: Option<ApiType>, response: &Value) -> Option<ApiType> {
    let data = response.get("data")?.as_array()?;
    match api {
        Some(api @ (ApiType::Embeddings | ApiType::Images)) => return Some(api),
        Some(ApiType::Chat | ApiType::Responses) | None => {}
    }
    let is_embedding = |item: &Value| item.get("embedding").is_some();
    if response.get("object").and_then(Value::as_str) == Some("list") || data.iter().any(is_embedding) {
        return Some(ApiType::Embeddings);
    }
    let is_image = |item: &Value| item.get("url").is_some() || item.get("b64_json").is_some();
    (data.is_empty() || data.iter().any(is_image)).then_some(ApiType::Images)
}

/// One vector, or the list of them.
pub(super) fn embeddings(response: &Value) -> Result<Processed> {
    let mut vectors = Vec::new();
    for (number, item) in items(response).iter().enumerate() {
        let vector = item.get("embedding").and_then(vector).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("item {number} of the response has no embedding"))
        })?;
        vectors.push(vector);
    }
    match vectors.len() {
        0 => Err(Error::new(ErrorKind::Invalid, "Empty embedding response")),
        1 => Ok(Processed::Vector(vectors.remove(0))),
        _ => Ok(Processed::Vectors(vectors)),
    }
}

/// One address (or base64 text), or the list of them.
pub(super) fn images(response: &Value) -> Result<Processed> {
    let items = items(response);
    if items.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "Empty image response"));
    }
    let text = |item: &Value, key| item.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut images: Vec<String> =
        items.iter().filter_map(|item| text(item, "url").or_else(|| text(item, "b64_json"))).collect();
    Ok(match images.len() {
        1 => Processed::Image(images.remove(0)),
        _ => Processed::Images(images),
    })
}

/// Returns the facts that the response states about itself, in the form of a chat's response.
pub(super) fn envelope(response: &Value) -> Message {
    let text = |key| response.get(key).and_then(Value::as_str).map(str::to_owned);
    let usage = response.get("usage").filter(|usage| usage.is_object()).map(|raw| {
        let count = |keys: [&str; 2]| keys.iter().find_map(|&key| raw.get(key)).and_then(Value::as_u64);
        let counters = TokenCounts {
            input_tokens: count(["prompt_tokens", "input_tokens"]),
            output_tokens: count(["completion_tokens", "output_tokens"]),
            total_tokens: raw.get("total_tokens").and_then(Value::as_u64),
            ..TokenCounts::default()
        };
        Usage { counters, raw: JsonText::from_value(raw) }
    });
    let mut message = Message::default();
    (message.id, message.model, message.usage) = (text("id"), text("model"), usage);
    message
}

fn items(response: &Value) -> &[Value] {
    response.get("data").and_then(Value::as_array).map_or(&[], |items| items.as_slice())
}

/// A list of numbers, or the base64 text of little-endian 32-bit floats.
fn vector(embedding: &Value) -> Option<Vec<f64>> {
    match embedding {
        Value::Array(numbers) => numbers.iter().map(Value::as_f64).collect(),
        Value::String(text) => {
            let bytes = BASE64_STANDARD.decode(text).ok()?;
            let (floats, rest) = bytes.as_chunks::<4>();
            rest.is_empty().then(|| floats.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect())
        }
        _ => None,
    }
}
