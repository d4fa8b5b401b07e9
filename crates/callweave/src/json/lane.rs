//! Search in text, sixteen bytes at a time.
//!
//! A question to a [`ByteLane`] is answered by a mask with one bit for each byte, the first lowest: a vector unit of
//! the processor, if there is one, answers in a few instructions.

use wide::u8x16;

/// The number of bytes looked at together.
pub(crate) const WIDTH: usize = 16;

/// Sixteen bytes of a text.
#[derive(Clone, Copy)]
pub(crate) struct ByteLane(u8x16);

impl ByteLane {
    /// The bytes from `at` on, if there are as many.
    #[inline(always)]
    pub(crate) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let lane = bytes.get(at..at + WIDTH).and_then(<[u8]>::first_chunk)?;
        Some(Self(u8x16::new(*lane)))
    }

    /// The last bytes, if there are as many.
    #[inline(always)]
    pub(crate) fn last(bytes: &[u8]) -> Option<Self> {
        bytes.last_chunk().map(|lane| Self(u8x16::new(*lane)))
    }

    /// The first bytes, and the rest of the text, if there are as many.
    #[inline(always)]
    pub(crate) fn split_first(bytes: &[u8]) -> Option<(Self, &[u8])> {
        bytes.split_first_chunk::<WIDTH>().map(|(lane, rest)| (Self(u8x16::new(*lane)), rest))
    }

    /// Marks quotes, backslashes and control characters.
    #[inline(always)]
    pub(crate) fn specials(self) -> u32 {
        (self.quoting() | self.equal(b'\\')).to_bitmask()
    }

    /// Marks backslashes.
    #[inline(always)]
    pub(crate) fn backslashes(self) -> u32 {
        self.equal(b'\\').to_bitmask()
    }

    /// The number of bytes before the first that [`ByteLane::specials`] marks; all of them, if there is none.
    #[inline(always)]
    pub(crate) fn plain(self) -> u32 {
        (self.specials() | 1 << WIDTH).trailing_zeros()
    }

    /// Marks quotes and control characters.
    #[inline(always)]
    pub(crate) fn quotes(self) -> u32 {
        self.quoting().to_bitmask()
    }

    /// Marks quotes, control characters, and the brackets of the kind that `open` opens.
    #[inline(always)]
    pub(crate) fn brackets(self, open: u8) -> u32 {
        (self.quoting() | self.equal(open) | self.equal(open + 2)).to_bitmask()
    }

    /// Marks bytes that are not ASCII.
    #[inline(always)]
    pub(crate) fn wide(self) -> u32 {
        self.0.to_bitmask()
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u8x16 {
        self.0.simd_eq(u8x16::splat(byte))
    }

    #[inline(always)]
    fn quoting(self) -> u8x16 {
        self.equal(b'"') | self.0.simd_eq(self.0.min(u8x16::splat(b' ' - 1)))
    }
}

/// The position of the first marked byte.
#[inline(always)]
pub(crate) fn first(marks: u32) -> usize {
    marks.trailing_zeros() as usize
}

/// The bits below the first mark; all of them, if there is none.
#[inline(always)]
pub(crate) fn below(marks: u32) -> u32 {
    (marks & marks.wrapping_neg()).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every position: the mask agrees with a test of each byte.
    #[test]
    fn marks_are_those_of_each_byte() {
        type Asked = (fn(ByteLane) -> u32, fn(u8) -> bool);
        let asked: [Asked; 6] = [
            (ByteLane::specials, |byte| matches!(byte, b'"' | b'\\' | 0..b' ')),
            (ByteLane::backslashes, |byte| byte == b'\\'),
            (ByteLane::quotes, |byte| matches!(byte, b'"' | 0..b' ')),
            (|lane| lane.brackets(b'{'), |byte| matches!(byte, b'"' | b'{' | b'}' | 0..b' ')),
            (|lane| lane.brackets(b'['), |byte| matches!(byte, b'"' | b'[' | b']' | 0..b' ')),
            (ByteLane::wide, |byte| !byte.is_ascii()),
        ];
        for around in [b'a', b'"', 0x1F, 0x80, 0xFF] {
            for byte in 0..=255 {
                for place in 0..WIDTH {
                    let mut bytes = [around; WIDTH + 1];
                    bytes[place] = byte;
                    let lane = ByteLane::at(&bytes, 0).expect("enough bytes");
                    for (ask, is_such) in asked {
                        let expected =
                            (0..WIDTH).fold(0, |all, at| all | u32::from(is_such(bytes[at])) << at);
                        assert_eq!(ask(lane), expected, "{bytes:?}");
                    }
                    let plain =
                        bytes[..WIDTH].iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..b' '));
                    assert_eq!(lane.plain() as usize, plain.count(), "{bytes:?}");
                }
            }
        }
        assert_eq!((first(0b1010_0000), below(0b1010_0000), below(0)), (5, 0b1_1111, u32::MAX));
        assert!(ByteLane::at(&[0; WIDTH], 1).is_none() && ByteLane::at(&[0; WIDTH], 99).is_none());
    }
}
