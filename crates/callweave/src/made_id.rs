//! Made ids: the same for the same seed on every machine, and different in their first letters.

/// Makes the ids of the calls of one response out of a seed: `call_`, and letters and digits.
///
/// Some clients shorten ids to nine letters and digits, `call` among them, so the five after that are another number
/// for each call of a response; the rest makes responses differ.
#[derive(Clone, Debug)]
pub(crate) struct MadeIds {
    first: u64,
    rest: String,
}

/// The number of different values of five letters and digits.
const SPAN: u64 = 62 * 62 * 62 * 62 * 62;
/// The distance of two neighbours: it has no divisor in common with the span, so every number comes up.
const STEP: u64 = 566_201_227;

impl MadeIds {
    pub(crate) fn new(seed: &str) -> Self {
        Self { first: mixed(hash(seed, 0)) % SPAN, rest: letters(mixed(hash(seed, 1)), 11) }
    }

    /// The id of a call by its choice and its ordinal in the choice.
    pub(crate) fn id(&self, choice: u32, ordinal: usize) -> String {
        let number = (u64::from(choice) * 4099 + ordinal as u64) % SPAN;
        let first = letters((self.first + number * STEP) % SPAN, 5);
        ["call_", &first, &self.rest].concat()
    }
}

/// The part of an id that is kept by clients that shorten ids.
#[cfg(feature = "exchange")]
pub(crate) fn beginning(id: &str) -> impl Iterator<Item = char> {
    id.chars().filter(char::is_ascii_alphanumeric).take(9)
}

/// FNV-1a: the same on every machine and in every release.
pub(crate) fn hash(word: &str, salt: u64) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads differences in a few bits over all of them.
fn mixed(mut number: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        number = (number ^ number >> 33).wrapping_mul(factor);
    }
    number ^ number >> 33
}

/// Letters and digits of a number, the last first.
pub(crate) fn letters(mut number: u64, count: usize) -> String {
    const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    (0..count)
        .map(|_| {
            let letter = LETTERS[(number % LETTERS.len() as u64) as usize];
            number /= LETTERS.len() as u64;
            char::from(letter)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_short_and_differ_in_their_first_letters() {
        let mut all = HashSet::new();
        for seed in ["a", "b", "2fd81660445db3f0", "2fd81660445db3f1"] {
            let ids = MadeIds::new(seed);
            for (choice, ordinal) in (0..4).flat_map(|choice| (0..500).map(move |ordinal| (choice, ordinal)))
            {
                let id = ids.id(choice, ordinal);
                assert!(id.len() <= 40 && id.starts_with("call_"), "{id}");
                let plain: String = id.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
                assert!(all.insert(plain), "{seed} {choice} {ordinal}: {id}");
            }
        }
        assert_eq!(MadeIds::new("a").id(0, 0), MadeIds::new("a").id(0, 0));
        let whole = |seed: &str| MadeIds::new(seed).id(0, 0)[10..].to_owned();
        assert_ne!(whole("a"), whole("b"));
    }
}
