//! W3C trace context, and the ids that are made here.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderMap, HeaderValue};

use crate::hops::VIA;

/// Returns `N` random bytes in hexadecimal digits: never the same again, and nobody else's. They are no secrets.
pub(crate) fn made<const N: usize>() -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * N);
    let (mut bits, mut left) = (0, 0);
    for _ in 0..2 * N {
        if left == 0 {
            (bits, left) = (random(), 16);
        }
        text.push(char::from(DIGITS[(bits >> 60) as usize]));
        (bits, left) = (bits << 4, left - 1);
    }
    text
}

/// A random UUID (version 4): the one form of a request id that every server takes.
pub(crate) fn uuid() -> String {
    let digits = made::<16>();
    let variant = ["8", "9", "a", "b"][usize::from(digits.as_bytes()[16] % 4)];
    let [one, two, three] = [&digits[..8], &digits[8..12], &digits[13..16]];
    [one, "-", two, "-4", three, "-", variant, &digits[17..20], "-", &digits[20..]].concat()
}

/// Whether a request id is a UUID.
pub(crate) fn is_uuid(id: &str) -> bool {
    let is_joint = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match is_joint(at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

/// A random number: never used before, and no secret.
pub(crate) fn random() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one(NEXT.fetch_add(1, Relaxed))
}

/// The position of a request in a trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceContext {
    /// The trace.
    pub(crate) id: String,
    /// Our own span.
    pub(crate) span: String,
    flags: String,
    state: Option<HeaderValue>,
    /// The gateways of this kind that it came through.
    via: Option<HeaderValue>,
}

impl TraceContext {
    /// The trace that the client began, or a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let parent = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(parse);
        let state = headers.get("tracestate").filter(|_| parent.is_some()).cloned();
        let (id, flags) = parent.unwrap_or_else(|| (made::<16>(), "00".to_owned()));
        Self { id, span: made::<8>(), flags, state, via: headers.get(VIA).cloned() }
    }

    /// Adds the trace to the headers for the upstream.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let parent = ["00", &self.id, &self.span, &self.flags].join("-");
        if let Ok(parent) = HeaderValue::try_from(parent) {
            headers.insert("traceparent", parent);
        }
        if let Some(state) = &self.state {
            headers.insert("tracestate", state.clone());
        }
        if let Some(via) = &self.via {
            headers.insert(VIA, via.clone());
        }
    }
}

/// The trace and the flags of a `traceparent`.
fn parse(text: &str) -> Option<(String, String)> {
    let mut parts = text.split('-');
    let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let is_valid = is_hex(version, 2)
        && version != "ff"
        && is_hex(id, 32)
        && is_some(id)
        && is_hex(parent, 16)
        && is_some(parent)
        && is_hex(flags, 2);
    is_valid.then(|| (id.to_owned(), flags.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_continued_with_a_span_of_our_own() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let mut headers = HeaderMap::new();
        let parent = format!("00-{id}-00f067aa0ba902b7-01");
        headers.insert("traceparent", parent.parse().expect("a header"));
        let trace = TraceContext::of(&headers);
        let mut sent = HeaderMap::new();
        trace.put(&mut sent);
        assert_eq!(sent["traceparent"], format!("00-{id}-{}-01", trace.span).as_str());
        assert_ne!(trace.span, "00f067aa0ba902b7");
    }

    #[test]
    fn made_request_ids_are_uuids() {
        let id = uuid();
        let groups: Vec<_> = id.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
        assert!(id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{id}");
        assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        assert_ne!(id, uuid());
        assert!(is_uuid(&id) && is_uuid(&id.to_uppercase()));
        for other in ["", "own", &id[1..], &format!("{id}0"), &id.replace('-', "0"), &id.replace('4', "g")] {
            assert!(!is_uuid(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one() {
        for text in ["", "00-0-0-0", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_ne!(TraceContext::of(&HeaderMap::new()).id, TraceContext::of(&HeaderMap::new()).id);
    }
}
