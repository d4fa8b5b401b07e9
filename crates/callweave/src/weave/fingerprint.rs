//! What a text was, in two words: enough to tell whether a later text restates or extends it without
//! keeping a second copy of the message.

/// The length of a text and a rolling hash of its bytes, independent of how it was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint {
    length: u64,
    hash: u64,
}

/// A Mersenne prime: reduction is a shift and an add.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x1A2B_3C4D_5E6F_7081 % PRIME;

impl Fingerprint {
    pub(super) fn of(text: &str) -> Self {
        let mut print = Self::default();
        print.push(text);
        print
    }

    pub(super) fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            let product = u128::from(self.hash) * u128::from(BASE) + u128::from(byte) + 1;
            let folded = (product as u64 & PRIME) + (product >> 61) as u64;
            self.hash = if folded >= PRIME { folded - PRIME } else { folded };
        }
        self.length += text.len() as u64;
    }

    /// The fingerprint of this text with another one after it.
    pub(super) fn then(self, next: Self) -> Self {
        let (mut shift, mut power, mut exponent) = (1, BASE, next.length);
        while exponent > 0 {
            if exponent & 1 == 1 {
                shift = times(shift, power);
            }
            power = times(power, power);
            exponent >>= 1;
        }
        let hash = (times(self.hash, shift) + next.hash) % PRIME;
        Self { length: self.length + next.length, hash }
    }

    pub(super) fn is_empty(self) -> bool {
        self.length == 0
    }

    pub(super) fn length(self) -> u64 {
        self.length
    }

    /// What `text` adds to the fingerprinted text, if it begins with it.
    pub(super) fn suffix_of(self, text: &str) -> Option<&str> {
        let length = usize::try_from(self.length).ok()?;
        let (prefix, suffix) = text.split_at_checked(length)?;
        (Self::of(prefix) == self).then_some(suffix)
    }
}

fn times(one: u64, other: u64) -> u64 {
    (u128::from(one) * u128::from(other) % u128::from(PRIME)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_do_not_matter_and_content_does() {
        let mut cut = Fingerprint::default();
        cut.push("ab");
        cut.push("");
        cut.push("c");
        assert_eq!(cut, Fingerprint::of("abc"));
        let long = "hello ".repeat(99);
        assert_eq!(Fingerprint::of(&long).then(cut).then(cut), Fingerprint::of(&(long + "abcabc")));
        assert_eq!(Fingerprint::default().then(cut).then(Fingerprint::default()), cut);
        assert_ne!(cut, Fingerprint::of("acb"));
        assert_ne!(Fingerprint::of("\0"), Fingerprint::of("\0\0"));
        assert_eq!(cut.suffix_of("abcd"), Some("d"));
        assert_eq!(cut.suffix_of("abc"), Some(""));
        assert_eq!(cut.suffix_of("ab"), None);
        assert_eq!(cut.suffix_of("abxd"), None);
    }
}
