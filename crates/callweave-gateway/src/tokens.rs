//! An estimate of the tokens of a request: for clients that ask, where the upstream cannot count.
//!
//! A quarter of the bytes of all keys and texts, which is what tokenizers make of English and of code, give or take a
//! fifth; a long text without any white space is media, and counts as an image does.

use callweave::Value;

/// The token count of an image.
const MEDIA: usize = 1200;
/// From this length on a text without white space is media.
const LONG_WORD: usize = 2048;

/// The estimate for a body.
pub(crate) fn estimate(body: &Value) -> usize {
    let (mut bytes, mut media) = (0, 0);
    let mut rest = vec![body];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) if text.len() >= LONG_WORD && !text.contains(char::is_whitespace) => {
                media += 1
            }
            Value::String(text) => bytes += text.len(),
            Value::Array(values) => rest.extend(values.iter()),
            Value::Object(members) => {
                bytes += members.keys().map(str::len).sum::<usize>();
                rest.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => bytes += 1,
        }
    }
    of_text(bytes) + media * MEDIA
}

/// The estimate for `bytes` bytes of text.
pub(crate) fn of_text(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_count_by_their_length_and_media_once() {
        let body = |text: &str| Value::object([("text", text.into())]);
        assert_eq!(estimate(&body("12345678")), 3);
        assert_eq!(estimate(&body(&"x".repeat(100_000))), 1 + MEDIA);
    }
}
