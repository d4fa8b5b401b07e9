//! Search in text, eight bytes at a time.
//!
//! The bytes searched for are ASCII, and the high bit of each byte is free to mark a hit: subtracting sets the bit in
//! the bytes that are found. The marks are exact up to the first, which is the only one that is asked for.
//! Behind the end of the text stand zeros, which every search finds. Short texts are searched without a loop; the loop
//! for the rest stands apart, because loops in the middle of the scanners would cost them their registers.

use super::lane::{self, ByteLane, WIDTH};

const ONES: u64 = u64::MAX / 0xFF;
const HIGHS: u64 = ONES << 7;

/// The first quote, backslash or control character from `from` on, or the end.
#[inline]
pub(super) fn plain_end(bytes: &[u8], from: usize) -> usize {
    // An escape is often followed by the end, or by another escape.
    if let None | Some(b'"' | b'\\') = bytes.get(from) {
        return from;
    }
    // Deltas are short, and alone.
    let found = specials(word(bytes, from));
    if found != 0 { from + first(found) } else { long_plain_end(bytes, from + 8) }
}

/// The same where the result is seldom the first byte, and seldom the end.
#[inline]
pub(super) fn run_end(bytes: &[u8], from: usize) -> usize {
    let Some(lane) = ByteLane::at(bytes, from) else { return last_plain_end(bytes, from) };
    let found = lane.specials();
    if found != 0 { from + lane::first(found) } else { long_plain_end(bytes, from + WIDTH) }
}

/// The same where either may be.
#[inline]
pub(super) fn text_end(bytes: &[u8], from: usize) -> usize {
    let Some(lane) = ByteLane::at(bytes, from) else { return plain_end(bytes, from) };
    let found = lane.specials();
    if found != 0 { from + lane::first(found) } else { long_plain_end(bytes, from + WIDTH) }
}

/// The end of the string whose contents begin at `from`, and whether they have escapes; none if they are empty or
/// contain bytes other than ASCII or escapes of more than one letter.
#[inline]
pub(crate) fn ascii_end(bytes: &[u8], from: usize) -> Option<(usize, bool)> {
    let (found, wide) = specials_and_wide(bytes, from);
    let end = from + lane::first(found);
    let is_plain = found != 0 && wide & lane::below(found) == 0;
    if is_plain && end > from && bytes.get(end) == Some(&b'"') {
        return Some((end, false));
    }
    long_ascii_end(bytes, from)
}

/// The same for longer strings or ones with escapes. In a text that is shorter than a lane, a mark behind the first may
/// be wrong: then the result is none.
#[inline(never)]
fn long_ascii_end(bytes: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut has_escapes) = (from, false);
    while at < bytes.len() {
        let (mut found, wide) = specials_and_wide(bytes, at);
        let mut width = WIDTH;
        // From mark to mark: where there is one escape there are more.
        loop {
            if wide & lane::below(found) != 0 {
                return None;
            }
            if found == 0 {
                break;
            }
            let place = lane::first(found);
            match (bytes.get(at + place), bytes.get(at + place + 1)) {
                (Some(b'"'), _) => return (at + place > from).then_some((at + place, has_escapes)),
                (Some(b'\\'), Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                    // An escaped byte is no mark; it may stand in the next lane.
                    has_escapes = true;
                    width = width.max(place + 2);
                    found &= u32::MAX << (place + 2);
                }
                _ => return None,
            }
        }
        at += width;
    }
    None
}

/// Marks the quotes, backslashes, control characters and bytes other than ASCII among the sixteen bytes from `from` on,
/// or among the remaining ones.
#[inline(always)]
fn specials_and_wide(bytes: &[u8], from: usize) -> (u32, u32) {
    if let Some(lane) = ByteLane::at(bytes, from) {
        return (lane.specials(), lane.wide());
    }
    // The bytes before them are looked at, too, and left out.
    match (ByteLane::last(bytes), (from + WIDTH).checked_sub(bytes.len())) {
        (Some(lane), Some(before @ 0..WIDTH)) => (lane.specials() >> before, lane.wide() >> before),
        _ => {
            let marks = [word(bytes, from), word(bytes, from + 8)]
                .map(|word| (bits(specials(word)), bits(wide(word))));
            let [(found, wide), (next_found, next_wide)] = marks;
            (found | next_found << 8, wide | next_wide << 8)
        }
    }
}

/// Whether one of two ASCII bytes is in a short text: calling a search would cost more.
#[inline]
pub(crate) fn has_either(bytes: &[u8], one: u8, other: u8) -> bool {
    let mut at = 0;
    let mut found = 0;
    while at < bytes.len() {
        let word = word(bytes, at);
        found |= equal(word, one) | equal(word, other);
        at += 8;
    }
    found != 0
}

/// The first backslash from `from` on, or the end.
#[inline]
pub(super) fn backslash_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(lane) = ByteLane::at(bytes, at) {
        let found = lane.backslashes();
        if found != 0 {
            return at + lane::first(found);
        }
        at += WIDTH;
    }
    while at < bytes.len() {
        let word = word(bytes, at);
        let found = equal(word, b'\\');
        if found != 0 {
            return (at + first(found)).min(bytes.len());
        }
        at += 8;
    }
    bytes.len()
}

/// The end of an integer of less than 16 digits that begins at `from`; none if there is none, or if the number may have
/// another form.
#[inline]
pub(crate) fn digits_alone_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut found = no_digits(word(bytes, from));
    let mut end = from + first(found);
    if found == 0 {
        found = no_digits(word(bytes, from + 8));
        end += first(found);
    }
    let is_alone = found != 0 && end > from && !matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
    (is_alone && bytes.get(from) != Some(&b'0')).then_some(end)
}

/// The number of digits at the start, at most eight.
#[inline]
pub(super) fn digits(bytes: &[u8; 16]) -> usize {
    first(no_digits(word(bytes, 0)))
}

/// Marks bytes that are no digit.
#[inline]
fn no_digits(word: u64) -> u64 {
    let digits = word ^ (ONES * b'0' as u64);
    (digits.wrapping_add(ONES * 0x76) | digits) & HIGHS
}

/// The same where the result is known to be some way off.
#[inline(never)]
pub(super) fn long_plain_end(bytes: &[u8], mut at: usize) -> usize {
    for _ in 0..FEW_LANES {
        let Some(lane) = ByteLane::at(bytes, at) else { return last_plain_end(bytes, at) };
        let found = lane.specials();
        if found != 0 {
            return at + lane::first(found);
        }
        at += WIDTH;
    }
    very_long_plain_end(bytes, at)
}

/// The number of lanes after which it pays to call a search that looks at more bytes at once.
const FEW_LANES: usize = 8;

/// The same after a long plain text.
#[inline(never)]
fn very_long_plain_end(bytes: &[u8], mut at: usize) -> usize {
    // Where control characters are many, each costs no more than a window.
    const WINDOW: usize = 512;
    for window in bytes.get(at..).unwrap_or_default().chunks(WINDOW) {
        let end = memchr::memchr2(b'"', b'\\', window).unwrap_or(window.len());
        let least = window[..end].iter().fold(u8::MAX, |least, byte| least.min(*byte));
        if least < b' ' {
            return at + window.iter().position(|byte| *byte < b' ').unwrap_or(end);
        }
        at += end;
        if end < window.len() {
            break;
        }
    }
    at
}

/// The same with less than two words to go. It stands apart, so that callers that find it before need not make room for
/// calls.
#[cold]
#[inline(never)]
fn last_plain_end(bytes: &[u8], at: usize) -> usize {
    let found = specials(word(bytes, at));
    if found != 0 { at + first(found) } else { at + 8 + first(specials(word(bytes, at + 8))) }
}

/// The first double quote, `quote`, backslash, opening bracket or control character from `from` on, or
/// the end.
#[inline]
pub(super) fn odd_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let found = odd(word(bytes, from), quote);
    if found != 0 { from + first(found) } else { long_odd_end(bytes, from + 8, quote) }
}

#[inline(never)]
fn long_odd_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    loop {
        let found = odd(word(bytes, at), quote);
        if found != 0 {
            return at + first(found);
        }
        at += 8;
    }
}

/// The first byte from `from` on that is no digit, or the end.
#[inline]
pub(super) fn digits_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    // Not as machine words: numbers are short, and code that reads on would wait for the arithmetic.
    while let Some(eight) = bytes.get(at..at + 8).and_then(<[u8]>::first_chunk::<8>) {
        for byte in eight {
            if !byte.is_ascii_digit() {
                return at;
            }
            at += 1;
        }
    }
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The first byte from `from` on that is no white space of JSON, and its position, or the end.
#[inline]
pub(super) fn next_byte(bytes: &[u8], from: usize) -> (usize, Option<u8>) {
    // Mostly there is none, or one space.
    match bytes.get(from) {
        Some(&byte @ b'!'..) => (from, Some(byte)),
        Some(b' ') => match bytes.get(from + 1) {
            Some(&byte @ b'!'..) => (from + 1, Some(byte)),
            Some(_) => skip_space(bytes, from + 1),
            None => (from + 1, None),
        },
        Some(_) => skip_space(bytes, from),
        None => (from, None),
    }
}

#[inline(never)]
fn skip_space(bytes: &[u8], mut at: usize) -> (usize, Option<u8>) {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    (at, bytes.get(at).copied())
}

/// The position of the first byte from `at` on that is no space, or the end.
#[inline]
pub(crate) fn blank_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let others = word(bytes, at) ^ (ONES * b' ' as u64);
        if others != 0 {
            return at + first(others);
        }
        at += 8;
    }
}

/// The eight bytes from `at` on, the first lowest, with zeros for missing ones.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8).and_then(<[u8]>::first_chunk) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => short_word(bytes, at),
    }
}

/// The fewer than eight bytes from `at` on.
#[cold]
fn short_word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default();
    // Two halves, which may overlap.
    let join = |low: u64, high: u64, length: usize| low | high << (8 * (bytes.len() - length));
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        join(u32::from_le_bytes(*low).into(), u32::from_le_bytes(*high).into(), 4)
    } else if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        join(u16::from_le_bytes(*low).into(), u16::from_le_bytes(*high).into(), 2)
    } else {
        bytes.first().map_or(0, |&byte| byte.into())
    }
}

/// Marks quotes, backslashes and control characters.
#[inline]
fn specials(word: u64) -> u64 {
    // With its second bit flipped, the quote stands right after the control characters.
    let quotes_and_controls = (word ^ (ONES * 2)).wrapping_sub(ONES * 0x21);
    let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (quotes_and_controls | backslashes) & !word & HIGHS
}

/// Marks that ASCII byte, if it is not zero.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES) & !word & HIGHS
}

/// Marks bytes that are not ASCII.
#[inline]
fn wide(word: u64) -> u64 {
    word & HIGHS
}

/// The marked bytes of a word, a bit each.
#[inline]
fn bits(marks: u64) -> u32 {
    (marks.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32
}

/// Marks the bytes that [`odd_end`] searches for.
#[inline]
fn odd(word: u64, quote: u8) -> u64 {
    let quotes = (word ^ (ONES * u64::from(quote))).wrapping_sub(ONES);
    // The opening brackets differ in one bit only.
    let brackets = ((word | (ONES * 0x20)) ^ (ONES * b'{' as u64)).wrapping_sub(ONES);
    specials(word) | ((quotes | brackets) & !word & HIGHS)
}

/// The position of the first marked byte of a word.
#[inline]
fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every position, amid bytes next to the ones searched for.
    #[test]
    fn finds_what_a_look_at_each_byte_finds() {
        for length in (0..80).chain([150, 700]) {
            for around in [b'!', b'#', b' ', b'[', b']', b'0', b'9', 0x7F, 0x80, 0xA2, 0xDC, 0xFF] {
                for byte in 0..=255 {
                    let mut bytes = vec![around; length];
                    let place = usize::from(byte) % (length + 1);
                    if let Some(found) = bytes.get_mut(place) {
                        *found = byte;
                    }
                    let expected = |is_end: fn(&u8) -> bool, from: usize| {
                        bytes[from..].iter().position(is_end).map_or(length, |run| from + run)
                    };
                    for from in [0, length / 3] {
                        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
                        for end in [plain_end, run_end, text_end] {
                            assert_eq!(end(&bytes, from), expected(is_special, from), "{bytes:?}");
                        }
                        let is_odd = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\' | b'{' | b'[' | 0..b' ');
                        assert_eq!(odd_end(&bytes, from, b'\''), expected(is_odd, from), "{bytes:?}");
                        let end = expected(is_special, from);
                        let is_plain = end > from && bytes.get(end) == Some(&b'"');
                        let plain = Some(end).filter(|_| is_plain && bytes[from..end].is_ascii());
                        if bytes.get(end) != Some(&b'\\') {
                            assert_eq!(ascii_end(&bytes, from), plain.map(|end| (end, false)), "{bytes:?}");
                        }
                        let is_backslash = |byte: &u8| *byte == b'\\';
                        assert_eq!(backslash_end(&bytes, from), expected(is_backslash, from), "{bytes:?}");
                        let has_either_of = bytes[from..].iter().any(|byte| matches!(byte, b'.' | b'\\'));
                        assert_eq!(has_either(&bytes[from..], b'.', b'\\'), has_either_of, "{bytes:?}");
                        assert_eq!(digits_end(&bytes, from), expected(|byte| !byte.is_ascii_digit(), from));
                        assert_eq!(
                            blank_end(&bytes, from),
                            expected(|byte| *byte != b' ', from),
                            "{bytes:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn strings_of_ascii_may_have_escapes() {
        for (text, end) in [
            (r#"\n","#, Some((2, true))),
            (r#"a\"b\\"#, None),
            (r#"a\"b\\""#, Some((6, true))),
            (r#"seven .\t and more words\/ than a word""#, Some((38, true))),
            (r#"\u0041""#, None),
            (r#"\x""#, None),
            (r#"é\n""#, None),
            (r#"long enough é\n""#, None),
            (r#"\né""#, None),
            ("\\n\n\"", None),
            ("\\", None),
            ("\"", None),
            ("", None),
        ] {
            assert_eq!(ascii_end(text.as_bytes(), 0), end, "{text:?}");
            let end = end.map(|(end, has_escapes)| (end + 1, has_escapes));
            assert_eq!(ascii_end(format!("\"{text}").as_bytes(), 1), end, "{text:?}");
        }
    }

    #[test]
    fn digits_alone_are_a_number() {
        for (text, end) in [
            ("0,", None),
            ("7}", Some(1)),
            ("1234567 ", Some(7)),
            ("1234567", Some(7)),
            ("12345678,", Some(8)),
            ("123456789012345,", Some(15)),
            ("1234567890123456,", None),
            ("12.5,", None),
            ("1e5,", None),
            ("012,", None),
            ("-1,", None),
            (",", None),
            ("", None),
            ("19:", Some(2)),
            ("19/", Some(2)),
            ("1\u{e9}", Some(1)),
        ] {
            assert_eq!(digits_alone_end(text.as_bytes(), 0), end, "{text:?}");
            let end = end.map(|end| end + 1);
            assert_eq!(digits_alone_end(format!("x{text}").as_bytes(), 1), end, "{text:?}");
        }
    }
}
