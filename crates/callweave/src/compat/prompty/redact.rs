//! Keeps secrets out of spans.

use crate::json::Value;

const REDACTED: &str = "[redacted]";

/// The strings one of which a key must contain, in any case, for its value to be a secret.
const SECRETS: [&str; 7] = ["secret", "password", "api_key", "apikey", "auth", "credential", "cookie"];

/// The part of a value that must be redacted.
#[derive(Clone, Copy, PartialEq)]
enum RedactionLevel {
    /// All of it.
    Whole,
    /// Its texts: numbers only count something.
    Texts,
    /// The values under its own secret keys.
    ByKey,
}

/// The maximum number of times that JSON texts are looked into inside JSON texts; one wrapped more often is redacted.
const MAX_WRAPPED: u8 = 4;

/// Replaces every secret in `value`: the values under a key that names one, at any depth, and also inside texts that
/// are JSON themselves, such as the arguments of a call.
pub(super) fn redact(value: &mut Value) {
    clean(value, RedactionLevel::ByKey, 0);
}

/// `wrapped` is how many texts are around the value.
fn clean(value: &mut Value, secrecy: RedactionLevel, wrapped: u8) {
    match value {
        Value::Null => {}
        _ if secrecy == RedactionLevel::Whole => *value = REDACTED.into(),
        Value::Bool(_) | Value::Number(_) => {}
        Value::String(_) if secrecy == RedactionLevel::Texts => *value = REDACTED.into(),
        Value::String(text) => clean_text(text, wrapped),
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, secrecy, wrapped)),
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                let secrecy = if secrecy == RedactionLevel::ByKey { secrecy_of(key) } else { secrecy };
                clean(value, secrecy, wrapped);
            }
        }
    }
}

fn clean_text(text: &mut String, wrapped: u8) {
    if !text.trim_ascii_start().starts_with(['{', '[']) {
        return;
    }
    let Ok(mut inner) = text.parse::<Value>() else { return };
    if wrapped == MAX_WRAPPED {
        REDACTED.clone_into(text);
        return;
    }
    let before = inner.clone();
    clean(&mut inner, RedactionLevel::ByKey, wrapped + 1);
    if inner != before {
        *text = inner.to_string();
    }
}

/// A `token` is a secret; `tokens` and a `token_count` are how much was said, which is what traces are for, so
/// numbers stay there. A list of access tokens has the same kind of name, but holds texts.
fn secrecy_of(key: &str) -> RedactionLevel {
    let key = key.to_ascii_lowercase().replace('-', "_");
    if SECRETS.iter().any(|secret| key.contains(secret)) {
        return RedactionLevel::Whole;
    }
    match key.contains("token") {
        false => RedactionLevel::ByKey,
        true if ["tokens", "token_count", "tokencount"].iter().any(|count| key.contains(count)) => {
            RedactionLevel::Texts
        }
        true => RedactionLevel::Whole,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(value: serde_json::Value) -> Value {
        let mut value = value.into();
        redact(&mut value);
        value
    }

    #[test]
    fn secrets_go_at_any_depth() {
        for key in [
            "secret",
            "clientSecret",
            "PASSWORD",
            "api_key",
            "x-api-key",
            "apiKey",
            "access_token",
            "Authorization",
            "credentials",
            "Set-Cookie",
        ] {
            let value = json!({"a": [{key: {"deep": "x", "n": 1}}], "b": {key: 5}});
            assert_eq!(redacted(value), json!({"a": [{key: REDACTED}], "b": {key: REDACTED}}), "{key}");
        }
    }

    #[test]
    fn a_key_alone_is_no_secret() {
        let value = json!({"key": "a", "keys": ["b"], "text": "password: x", "token": null});
        assert_eq!(redacted(value.clone()), value);
    }

    #[test]
    fn counts_of_tokens_stay_and_lists_of_tokens_go() {
        let usage = json!({"prompt_tokens": 3, "maxOutputTokens": 5, "promptTokenCount": 2, "tokens": {"input_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1, "note": null}});
        assert_eq!(redacted(usage.clone()), usage);
        assert_eq!(redacted(json!({"access_tokens": ["x", 1]})), json!({"access_tokens": [REDACTED, 1]}));
        assert_eq!(redacted(json!({"token": 12345})), json!({"token": REDACTED}));
    }

    #[test]
    fn texts_that_are_json_are_looked_into() {
        let arguments = json!({"arguments": "{\"api_key\": \"x\", \"city\": \"Oslo\"}"});
        assert_eq!(
            redacted(arguments),
            json!({"arguments": "{\"api_key\":\"[redacted]\",\"city\":\"Oslo\"}"})
        );
        let untouched = json!({"arguments": "{ \"city\": \"Oslo\" }", "cut": "{\"a\": "});
        assert_eq!(redacted(untouched.clone()), untouched);
    }
}
