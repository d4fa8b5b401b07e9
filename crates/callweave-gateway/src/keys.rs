//! The keys of clients. Only their digests are known, and telling two apart takes as long as finding them equal.

use std::fmt;

use callweave::exchange::client_key;
use callweave::exchange::store::StoreScope;
use http::HeaderMap;
use ring::digest::{SHA256, digest};

const PREFIX: &str = "sha256:";

/// The SHA-256 digest of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest of a key.
    pub fn of(key: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
        Self(bytes)
    }

    /// The owner of what is kept for the client.
    pub(crate) fn scope(&self) -> StoreScope {
        StoreScope(self.0)
    }

    /// The client's name in the log: enough to tell a few keys apart, and no way back to one.
    pub(crate) fn short(&self) -> String {
        self.0[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(other.0).fold(0, |all, (own, other)| all | (own ^ other));
        std::hint::black_box(differing) == 0
    }
}

/// The form in a configuration.
impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Hides the digest: nobody needs to know its key's owner.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

/// The digest that a configuration names.
pub(crate) fn digest_of(text: &str) -> Option<KeyDigest> {
    let digits = text.strip_prefix(PREFIX)?.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(KeyDigest(bytes))
}

/// The keys of clients that are let in.
#[derive(Debug, Default)]
pub(crate) struct ClientKeys(Vec<KeyDigest>);

impl ClientKeys {
    pub(crate) fn new(digests: &[String]) -> Self {
        Self(digests.iter().filter_map(|text| digest_of(text)).collect())
    }

    /// Whether everybody is let in.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// The name in the log of a client with that key: the beginning of its digest, if it is one of these.
    pub(crate) fn name(&self, key: &KeyDigest) -> Option<String> {
        (!self.is_open() && self.admits(Some(key))).then(|| key.short())
    }

    /// Whether a key is one of these. All are looked at.
    pub(crate) fn admits(&self, key: Option<&KeyDigest>) -> bool {
        let is_known = key.is_some_and(|given| self.0.iter().fold(false, |found, own| found | own.is(given)));
        self.is_open() || is_known
    }
}

/// The key that a client shows.
pub(crate) fn shown<'r>(headers: &'r HeaderMap, query: Option<&'r str>) -> Option<&'r str> {
    client_key(|name| headers.get(name)?.to_str().ok(), query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_digest() {
        let keys = ClientKeys::new(&[KeyDigest::of("one").to_string(), KeyDigest::of("two").to_string()]);
        let admits = |key| keys.admits(Some(&KeyDigest::of(key)));
        assert!(admits("two") && admits("one"));
        assert!(!admits("three") && !admits("") && !keys.admits(None));
        assert!(ClientKeys::default().admits(None));
    }

    #[test]
    fn either_header_shows_the_key() {
        for (name, value) in [("authorization", "Bearer k"), ("x-api-key", "k"), ("x-goog-api-key", "k")] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            assert_eq!(shown(&headers, None), Some("k"), "{name}");
        }
        assert_eq!(shown(&HeaderMap::new(), Some("alt=sse&key=k")), Some("k"));
    }
}
