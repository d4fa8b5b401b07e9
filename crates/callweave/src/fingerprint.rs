//! The fingerprint of a text, in two words: enough to decide whether a later text restates or extends it without
//! keeping a second copy of the message.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::LazyLock;

use crate::json::word_at;

/// The length of a text and a keyed hash of its bytes, independent of the pieces it came in: without the key nobody can
/// make another text with the same fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TextFingerprint {
    length: u64,
    /// The hash of the complete words.
    hash: u64,
    /// The bytes after them, the first lowest.
    rest: u64,
}

/// The bytes of a word.
const WORD: usize = 8;

/// The secret key of hashes: authors of texts do not know it.
static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(WORD));
/// The secret factor of fingerprints, which is odd. An addend alone would not do: some differences of two texts have the
/// same effect whatever is added.
static FACTOR: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(WORD) | 1);

impl TextFingerprint {
    pub(crate) fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() >= WORD {
            return self.push_long(bytes);
        }
        let held = (self.length % WORD as u64) as usize;
        self.length += bytes.len() as u64;
        let few = few(bytes);
        self.rest |= few << (8 * held);
        if held + bytes.len() >= WORD {
            self.mix(self.rest);
            self.rest = few >> (8 * (WORD - held));
        }
    }

    fn push_long(&mut self, bytes: &[u8]) {
        let held = (self.length % WORD as u64) as usize;
        self.length += bytes.len() as u64;
        self.mix(self.rest | word_at(bytes, 0) << (8 * held));
        let mut at = WORD - held;
        while at + WORD <= bytes.len() {
            self.mix(word_at(bytes, at));
            at += WORD;
        }
        self.rest = word_at(bytes, at);
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        // A word of zeros after zeros is distinguished by the length.
        self.hash = multiplied(self.hash ^ word, *FACTOR);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }

    pub(crate) fn length(self) -> u64 {
        self.length
    }

    /// The suffix of `text` after the fingerprinted text, if `text` begins with it.
    pub(crate) fn suffix_of(self, text: &str) -> Option<&str> {
        let length = usize::try_from(self.length).ok()?;
        let (prefix, suffix) = text.split_at_checked(length)?;
        (Self::of(prefix) == self).then_some(suffix)
    }
}

#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    multiplied(hash ^ word, 0x9E37_79B9_7F4A_7C15)
}

#[inline]
fn multiplied(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ ((product >> 64) as u64).rotate_left(29)
}

/// The keyed digest of a complete text, in one word: without the key nobody can make another text with the same digest.
pub(crate) fn keyed_digest(text: &str) -> u64 {
    digest(*KEY, text.as_bytes())
}

/// The digest of all bytes, under that key. It takes two words at a time, since it need not be continued over pieces;
/// the last words may overlap with the ones before.
#[inline]
fn digest(key: u64, bytes: &[u8]) -> u64 {
    let folded = |hash: u64, low: u64, high: u64| multiplied(hash ^ low, key.rotate_left(32) ^ high);
    let words = |pair: &[u8; 2 * WORD]| (word_at(pair, 0), word_at(pair, WORD));
    let (hash, (low, high)) = match (bytes.first_chunk(), bytes.last_chunk()) {
        _ if bytes.len() < WORD => (key, (few(bytes), 0)),
        (Some(first), Some(last)) if bytes.len() < 2 * WORD => {
            (key, (u64::from_le_bytes(*first), u64::from_le_bytes(*last)))
        }
        _ => {
            let pairs = bytes.as_chunks().0.iter().map(words);
            (
                pairs.fold(key, |hash, (low, high)| folded(hash, low, high)),
                bytes.last_chunk().map_or((0, 0), words),
            )
        }
    };
    mixed(folded(hash, low, high), bytes.len() as u64)
}

/// Several words in one, under the key.
#[inline]
pub(crate) fn keyed_mix<const COUNT: usize>(words: [u64; COUNT]) -> u64 {
    mixed(words.into_iter().fold(*KEY, mixed), COUNT as u64)
}

/// A hash under a key that authors of inputs do not know.
#[inline]
pub(crate) fn keyed_hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = FingerprintHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

struct FingerprintHasher(u64);

impl Default for FingerprintHasher {
    fn default() -> Self {
        Self(*KEY)
    }
}

impl Hasher for FingerprintHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = digest(self.0, bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0, number);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // Numbers, too, are mixed twice: of one multiplication alone, the low bits say little.
        mixed(self.0, *KEY)
    }
}

/// Fewer bytes than a word has, the first lowest: pieces that may overlap, since most deltas are that short.
#[inline]
fn few(bytes: &[u8]) -> u64 {
    let last = bytes.len().wrapping_sub(1);
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        return u64::from(low) | u64::from(high) << (8 * (last - 3));
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| u64::from(*byte) << (8 * at));
    byte(0) | byte(last / 2) | byte(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_do_not_matter_and_content_does() {
        let mut cut = TextFingerprint::default();
        cut.push("ab");
        cut.push("");
        cut.push("c");
        assert_eq!(cut, TextFingerprint::of("abc"));
        let long = "hello ".repeat(9);
        for first in 0..long.len() {
            for second in first..long.len() {
                let mut cut = TextFingerprint::default();
                for piece in [&long[..first], &long[first..second], &long[second..]] {
                    cut.push(piece);
                }
                assert_eq!(cut, TextFingerprint::of(&long));
            }
            let mut other = long.clone().into_bytes();
            other[first] ^= 1;
            assert_ne!(
                TextFingerprint::of(std::str::from_utf8(&other).expect("ASCII")),
                TextFingerprint::of(&long)
            );
        }
        assert_ne!(cut, TextFingerprint::of("acb"));
        // Two texts that were made to have the same fingerprint under a factor that is known.
        let [one, other] = ["call_abcdefghijk", "xP0AHtKcJgmJrkEp"];
        let unkeyed =
            |text: &str| text.as_bytes().chunks(WORD).fold(0, |hash, word| mixed(hash, word_at(word, 0)));
        assert_eq!(unkeyed(one), unkeyed(other));
        assert_ne!(TextFingerprint::of(one), TextFingerprint::of(other));
        assert_ne!(keyed_digest(one), keyed_digest(other));
        assert_ne!(TextFingerprint::of("\0"), TextFingerprint::of("\0\0"));
        let mut keyed: Vec<u64> = (0..=long.len()).map(|end| keyed_digest(&long[..end])).collect();
        keyed.extend(["\0", "\0\0", "b", "bbcdefgh", "abcdefgha", "hello hello hello_"].map(keyed_digest));
        assert_eq!(keyed_digest(&long), keyed[long.len()]);
        let count = keyed.len();
        keyed.sort_unstable();
        keyed.dedup();
        assert_eq!(keyed.len(), count);
        assert_eq!(cut.suffix_of("abcd"), Some("d"));
        assert_eq!(cut.suffix_of("abc"), Some(""));
        assert_eq!(cut.suffix_of("ab"), None);
        assert_eq!(cut.suffix_of("abxd"), None);
    }
}
