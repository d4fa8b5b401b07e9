//! A resumable lexical scanner: is this growing text a complete JSON value yet?
//!
//! Text is pushed in pieces of any size; the scanner returns how much of it belongs to the value and whether the value
//! is complete. The scanner is a few machine words of state, allocates nothing and does not recurse. It reads strict
//! JSON with one leniency: raw control characters inside strings do not break it, they only clear
//! [`JsonScanner::is_strict`], because models write them and the end of the value is still certain.
//!
//! ```
//! use callweave::json::{JsonScanner, ScanStatus};
//!
//! let mut scanner = JsonScanner::new();
//! assert_eq!(scanner.push(r#"{"city": "Os"#), 12);
//! assert_eq!(scanner.status(), ScanStatus::Open);
//! assert_eq!(scanner.push(r#"lo"} and more"#), 4);
//! assert_eq!(scanner.status(), ScanStatus::Complete);
//! ```
//!
//! [`JsonScanner::push_to`] also reports the starts, ends and contents of values to a [`ScanVisitor`]; that is how
//! [`PartialValue`](super::partial::PartialValue) builds its value.

use std::convert::Infallible;

use super::word::{digits_end, next_byte, plain_end, text_end};

/// The state of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanStatus {
    /// Nothing but white space so far.
    Empty,
    /// The value has begun and is not complete. A number at top level stays open until a byte follows that is no part
    /// of it, or until [`JsonScanner::finish`].
    Open,
    /// The value is complete.
    Complete,
    /// The text cannot be continued to a JSON value.
    Broken,
}

/// The tokens that can be open inside a JSON text, besides containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanToken {
    /// The key of a member.
    Key,
    /// A string that is a value.
    String,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Literal(JsonLiteral),
}

/// The literals of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonLiteral {
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// The two kinds of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonContainer {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
}

/// The visitor of everything that [`JsonScanner::push_to`] meets.
///
/// Offsets count in the text of the current push. Containers and tokens balance in a complete value,
/// and nothing but [`text`](ScanVisitor::text) and [`escape`](ScanVisitor::escape) comes inside a token. Deeper than
/// 128 containers the scanner no longer knows which strings are keys and calls them values.
pub trait ScanVisitor {
    /// A container opened with the byte at `at`.
    fn open(&mut self, container: JsonContainer, at: usize) {
        let _ = (container, at);
    }
    /// The innermost container closed before `at`.
    fn close(&mut self, container: JsonContainer, at: usize) {
        let _ = (container, at);
    }
    /// A token began with the byte at `at`.
    fn begin(&mut self, token: ScanToken, at: usize) {
        let _ = (token, at);
    }
    /// More of the open key, string or number, as written.
    fn text(&mut self, run: &str) {
        let _ = run;
    }
    /// An escape in the open key or string, which ended before `at`: the UTF-16 unit that it stands for.
    fn escape(&mut self, unit: u16, at: usize) {
        let _ = (unit, at);
    }
    /// The open token ended before `at`.
    fn end(&mut self, token: ScanToken, at: usize) {
        let _ = (token, at);
    }
}

/// A visitor that ignores everything.
impl ScanVisitor for () {}

/// The state of a scan.
#[derive(Clone, Copy, Debug)]
pub struct JsonScanner {
    state: ScanState,
    /// The position in its token at which the text was divided.
    cut: TokenCut,
    /// One bit per open container, innermost lowest: 1 is an object. The kind of a container deeper than the bits is
    /// taken from its closer.
    containers: u128,
    /// The innermost container, where it is known.
    innermost: Option<JsonContainer>,
    depth: u32,
    is_strict: bool,
}

/// The result of a step of the scan, or the place where the text stopped it and the state there.
type ScanResult<T> = Result<T, (usize, ScanState)>;

/// The state of the scanner: the token expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanState {
    Start,
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    AfterValue,
    /// The rest of a token that the end of a piece divided.
    Rest,
    Done,
    Broken,
}

/// A position inside a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenCut {
    /// In a key or string.
    String(ScanToken),
    /// After the backslash.
    Escape(ScanToken),
    /// Among the digits of `\uXXXX`.
    Unicode {
        token: ScanToken,
        left: u8,
        unit: u16,
    },
    Number(NumberState),
    Literal {
        literal: JsonLiteral,
        seen: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberState {
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl NumberState {
    #[inline]
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (byte, self) {
            (b'0', Self::Start | Self::Minus) => Self::Zero,
            (b'0'..=b'9', Self::Start | Self::Minus | Self::Integer) => Self::Integer,
            (b'0'..=b'9', Self::Point | Self::Fraction) => Self::Fraction,
            (b'0'..=b'9', Self::Exponent | Self::ExponentSign | Self::ExponentDigits) => Self::ExponentDigits,
            (b'.', Self::Zero | Self::Integer) => Self::Point,
            (b'e' | b'E', Self::Zero | Self::Integer | Self::Fraction) => Self::Exponent,
            (b'-', Self::Start) => Self::Minus,
            (b'+' | b'-', Self::Exponent) => Self::ExponentSign,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }
}

impl JsonLiteral {
    fn word(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

impl Default for JsonScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonScanner {
    /// A scanner before its value.
    pub fn new() -> Self {
        Self {
            state: ScanState::Start,
            cut: TokenCut::Number(NumberState::Start),
            containers: 0,
            innermost: None,
            depth: 0,
            is_strict: true,
        }
    }

    /// Reads on and returns how many bytes of `text` it took: all of them, unless the value ended (white space after it
    /// is not taken) or broke at the byte that was not taken.
    pub fn push(&mut self, text: &str) -> usize {
        self.push_to(text, &mut ())
    }

    /// Reads on as [`push`](JsonScanner::push) does, and reports all tokens to `visit`.
    #[inline]
    pub fn push_to<V: ScanVisitor>(&mut self, text: &str, visit: &mut V) -> usize {
        // Most deltas are a few letters more of a string.
        const SHORT: usize = 16;
        if self.state == ScanState::Rest
            && let TokenCut::String(_) = self.cut
            && (1..=SHORT).contains(&text.len())
            && plain_end(text.as_bytes(), 0) == text.len()
        {
            visit.text(text);
            return text.len();
        }
        self.push_any(text, visit)
    }

    #[inline(never)]
    fn push_any<V: ScanVisitor>(&mut self, text: &str, visit: &mut V) -> usize {
        let Err((at, state)) = self.read(text, visit);
        self.state = state;
        at
    }

    /// Reads value after value, each token completely, until the text stops it.
    #[inline(always)]
    fn read<V: ScanVisitor>(&mut self, text: &str, visit: &mut V) -> ScanResult<Infallible> {
        let (mut at, mut state) = self.resume(text, visit)?;
        loop {
            if state != ScanState::AfterValue {
                at = self.value(text, at, state, visit)?;
            }
            at = self.after_value(text, at, visit)?;
            state = ScanState::Value;
        }
    }

    /// Continues from the end of the last text to the point where a value, or the text behind one, is expected.
    #[inline(always)]
    fn resume<V: ScanVisitor>(&mut self, text: &str, visit: &mut V) -> ScanResult<(usize, ScanState)> {
        let bytes = text.as_bytes();
        let (at, token) = match self.state {
            ScanState::Start | ScanState::Value | ScanState::FirstElement | ScanState::AfterValue => {
                return Ok((0, self.state));
            }
            ScanState::Done | ScanState::Broken => return Err((0, self.state)),
            ScanState::FirstKey => return self.first_key(text, 0, visit),
            ScanState::Key => return Ok((self.key(text, 0, ScanState::Key, visit)?, ScanState::Value)),
            ScanState::Colon => return Ok((colon(bytes, 0)?, ScanState::Value)),
            ScanState::Rest => match self.cut {
                TokenCut::String(token) => (0, token),
                TokenCut::Escape(token) => (self.escape(bytes, 0, token, visit)?, token),
                TokenCut::Unicode { token, left, unit } => {
                    (self.unicode(bytes, 0, token, left, unit, visit)?, token)
                }
                TokenCut::Number(number) => {
                    return Ok((self.number(text, 0, number, visit)?, ScanState::AfterValue));
                }
                TokenCut::Literal { literal, seen } => {
                    return Ok((self.literal(bytes, 0, literal, seen, visit)?, ScanState::AfterValue));
                }
            },
        };
        let at = self.string(text, at, token, visit)?;
        Ok(if token == ScanToken::Key {
            (colon(bytes, at)?, ScanState::Value)
        } else {
            (at, ScanState::AfterValue)
        })
    }

    /// The state of the value.
    pub fn status(&self) -> ScanStatus {
        match self.state {
            ScanState::Start => ScanStatus::Empty,
            ScanState::Done => ScanStatus::Complete,
            ScanState::Broken => ScanStatus::Broken,
            _ => ScanStatus::Open,
        }
    }

    /// Ends the text, which completes a number at top level.
    pub fn finish(&mut self) -> ScanStatus {
        self.finish_to(&mut ())
    }

    /// Ends the text as [`finish`](JsonScanner::finish) does, and reports that to `visit`.
    pub fn finish_to<V: ScanVisitor>(&mut self, visit: &mut V) -> ScanStatus {
        if self.depth == 0
            && self.state == ScanState::Rest
            && let TokenCut::Number(number) = self.cut
            && number.may_end()
        {
            visit.end(ScanToken::Number, 0);
            self.state = ScanState::Done;
        }
        self.status()
    }

    /// The number of open containers.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the scan is inside a string (or a key).
    pub fn is_in_string(&self) -> bool {
        self.state == ScanState::Rest
            && matches!(self.cut, TokenCut::String(_) | TokenCut::Escape(_) | TokenCut::Unicode { .. })
    }

    /// Whether the scan is inside an escape sequence of a string.
    pub fn is_in_escape(&self) -> bool {
        self.state == ScanState::Rest && matches!(self.cut, TokenCut::Escape(_) | TokenCut::Unicode { .. })
    }

    /// Whether all text so far is strict JSON: no raw control characters inside strings.
    pub fn is_strict(&self) -> bool {
        self.is_strict && self.state != ScanState::Broken
    }

    /// Stops because the text ended inside a token.
    fn cut<T>(&mut self, at: usize, cut: TokenCut) -> ScanResult<T> {
        self.cut = cut;
        Err((at, ScanState::Rest))
    }

    /// Takes a value without containers, or the end of an empty one, with all openings before it.
    #[inline(always)]
    fn value<V: ScanVisitor>(
        &mut self,
        text: &str,
        from: usize,
        state: ScanState,
        visit: &mut V,
    ) -> ScanResult<usize> {
        let bytes = text.as_bytes();
        let (mut at, mut state) = (from, state);
        loop {
            let byte;
            (at, byte) = next_byte(bytes, at);
            let Some(byte) = byte else { return Err((at, state)) };
            match byte {
                b'"' => {
                    visit.begin(ScanToken::String, at);
                    return self.string(text, at + 1, ScanToken::String, visit);
                }
                b'{' => {
                    self.open(JsonContainer::Object, at, visit);
                    (at, state) = self.first_key(text, at + 1, visit)?;
                    if state == ScanState::AfterValue {
                        return Ok(at);
                    }
                }
                b'[' => {
                    self.open(JsonContainer::Array, at, visit);
                    (at, state) = (at + 1, ScanState::FirstElement);
                }
                b']' if state == ScanState::FirstElement => {
                    return self.close(JsonContainer::Array, at, visit);
                }
                b'-' => return self.whole_number(text, at, at + 1, visit),
                b'0'..=b'9' => return self.whole_number(text, at, at, visit),
                b't' => return self.whole_literal(bytes, at, JsonLiteral::True, visit),
                b'f' => return self.whole_literal(bytes, at, JsonLiteral::False, visit),
                b'n' => return self.whole_literal(bytes, at, JsonLiteral::Null, visit),
                _ => return Err((at, ScanState::Broken)),
            }
        }
    }

    /// Takes the bytes behind a value: closers, a comma, and in an object the next key.
    #[inline(always)]
    fn after_value<V: ScanVisitor>(&mut self, text: &str, from: usize, visit: &mut V) -> ScanResult<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        while self.depth > 0 {
            let byte;
            (at, byte) = next_byte(bytes, at);
            match byte {
                Some(b',') if self.innermost == Some(JsonContainer::Object) => {
                    return self.key(text, at + 1, ScanState::Key, visit);
                }
                Some(b',') => return Ok(at + 1),
                Some(b'}') => at = self.close(JsonContainer::Object, at, visit)?,
                Some(b']') => at = self.close(JsonContainer::Array, at, visit)?,
                // Deeper than the bits a string is a value until a colon shows that it is a key.
                Some(b':') if self.innermost.is_none() => return Ok(at + 1),
                Some(_) => return Err((at, ScanState::Broken)),
                None => return Err((at, ScanState::AfterValue)),
            }
        }
        Err((at, ScanState::Done))
    }

    /// Takes the first key of an object, or its end, and returns the next state.
    #[inline(always)]
    fn first_key<V: ScanVisitor>(
        &mut self,
        text: &str,
        from: usize,
        visit: &mut V,
    ) -> ScanResult<(usize, ScanState)> {
        let (at, byte) = next_byte(text.as_bytes(), from);
        match byte {
            Some(b'}') => Ok((self.close(JsonContainer::Object, at, visit)?, ScanState::AfterValue)),
            _ => Ok((self.key(text, at, ScanState::FirstKey, visit)?, ScanState::Value)),
        }
    }

    /// Takes a key and its colon.
    #[inline(always)]
    fn key<V: ScanVisitor>(
        &mut self,
        text: &str,
        from: usize,
        state: ScanState,
        visit: &mut V,
    ) -> ScanResult<usize> {
        let bytes = text.as_bytes();
        let (at, byte) = next_byte(bytes, from);
        match byte {
            Some(b'"') => {
                visit.begin(ScanToken::Key, at);
                let end = self.string(text, at + 1, ScanToken::Key, visit)?;
                colon(bytes, end)
            }
            Some(_) => Err((at, ScanState::Broken)),
            None => Err((at, state)),
        }
    }

    /// Takes a key or string up to its end, from anywhere inside it but an escape.
    #[inline(always)]
    fn string<V: ScanVisitor>(
        &mut self,
        text: &str,
        from: usize,
        token: ScanToken,
        visit: &mut V,
    ) -> ScanResult<usize> {
        let bytes = text.as_bytes();
        let mut from = from;
        let mut at = from;
        loop {
            at = text_end(bytes, at);
            match bytes.get(at) {
                Some(b'"') => {
                    emit_text(text, from, at, visit);
                    visit.end(token, at + 1);
                    return Ok(at + 1);
                }
                Some(b'\\') => {
                    emit_text(text, from, at, visit);
                    at = self.escape(bytes, at + 1, token, visit)?;
                    from = at;
                }
                Some(_) => {
                    self.is_strict = false;
                    at += 1;
                }
                None => {
                    emit_text(text, from, at, visit);
                    return self.cut(at, TokenCut::String(token));
                }
            }
        }
    }

    /// Takes an escape, after its backslash.
    #[inline]
    fn escape<V: ScanVisitor>(
        &mut self,
        bytes: &[u8],
        at: usize,
        token: ScanToken,
        visit: &mut V,
    ) -> ScanResult<usize> {
        let Some(&letter) = bytes.get(at) else { return self.cut(at, TokenCut::Escape(token)) };
        match short_escape(letter) {
            Some(unit) => {
                visit.escape(unit, at + 1);
                Ok(at + 1)
            }
            None if letter == b'u' => self.unicode(bytes, at + 1, token, 4, 0, visit),
            None => Err((at, ScanState::Broken)),
        }
    }

    /// Takes the digits of an escape of which `left` are to come.
    fn unicode<V: ScanVisitor>(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        token: ScanToken,
        mut left: u8,
        mut unit: u16,
        visit: &mut V,
    ) -> ScanResult<usize> {
        while left > 0 {
            let Some(&byte) = bytes.get(at) else {
                return self.cut(at, TokenCut::Unicode { token, left, unit });
            };
            let Some(digit) = char::from(byte).to_digit(16) else { return Err((at, ScanState::Broken)) };
            unit = (unit << 4) | digit as u16;
            left -= 1;
            at += 1;
        }
        visit.escape(unit, at);
        Ok(at)
    }

    /// Takes the number at `start`, whose digits begin at `digits`.
    #[inline(always)]
    fn whole_number<V: ScanVisitor>(
        &mut self,
        text: &str,
        start: usize,
        digits: usize,
        visit: &mut V,
    ) -> ScanResult<usize> {
        visit.begin(ScanToken::Number, start);
        let Some(end) = number_end(text.as_bytes(), digits) else {
            return self.number(text, start, NumberState::Start, visit);
        };
        emit_text(text, start, end, visit);
        visit.end(ScanToken::Number, end);
        Ok(end)
    }

    /// Takes a number up to its end, from anywhere inside it. The byte after it is not taken.
    #[inline(never)]
    fn number<V: ScanVisitor>(
        &mut self,
        text: &str,
        from: usize,
        mut number: NumberState,
        visit: &mut V,
    ) -> ScanResult<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        while let Some(next) = bytes.get(at).and_then(|&byte| number.next(byte)) {
            number = next;
            at += 1;
        }
        emit_text(text, from, at, visit);
        if at == bytes.len() {
            return self.cut(at, TokenCut::Number(number));
        }
        if !number.may_end() {
            return Err((at, ScanState::Broken));
        }
        visit.end(ScanToken::Number, at);
        Ok(at)
    }

    /// Takes the literal at `at`.
    #[inline]
    fn whole_literal<V: ScanVisitor>(
        &mut self,
        bytes: &[u8],
        at: usize,
        literal: JsonLiteral,
        visit: &mut V,
    ) -> ScanResult<usize> {
        visit.begin(ScanToken::Literal(literal), at);
        if !bytes[at..].starts_with(literal.word()) {
            return self.literal(bytes, at, literal, 0, visit);
        }
        let end = at + literal.word().len();
        visit.end(ScanToken::Literal(literal), end);
        Ok(end)
    }

    /// Takes a literal up to its end or its first wrong letter.
    #[inline(never)]
    fn literal<V: ScanVisitor>(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        literal: JsonLiteral,
        mut seen: u8,
        visit: &mut V,
    ) -> ScanResult<usize> {
        while let Some(letter) = literal.word().get(usize::from(seen)) {
            match bytes.get(at) {
                None => return self.cut(at, TokenCut::Literal { literal, seen }),
                Some(byte) if byte != letter => return Err((at, ScanState::Broken)),
                Some(_) => (at, seen) = (at + 1, seen + 1),
            }
        }
        visit.end(ScanToken::Literal(literal), at);
        Ok(at)
    }

    #[inline]
    fn open<V: ScanVisitor>(&mut self, container: JsonContainer, at: usize, visit: &mut V) {
        visit.open(container, at);
        // Only the outermost 128 containers are remembered; the shift must not push them out.
        let is_known = self.depth < u128::BITS;
        if is_known {
            self.containers = (self.containers << 1) | u128::from(container == JsonContainer::Object);
        }
        self.innermost = is_known.then_some(container);
        self.depth = self.depth.saturating_add(1);
    }

    #[inline]
    fn close<V: ScanVisitor>(
        &mut self,
        container: JsonContainer,
        at: usize,
        visit: &mut V,
    ) -> ScanResult<usize> {
        if self.innermost.is_some_and(|innermost| innermost != container) {
            return Err((at, ScanState::Broken));
        }
        if self.depth <= u128::BITS {
            self.containers >>= 1;
        }
        self.depth -= 1;
        let is_known = (1..=u128::BITS).contains(&self.depth);
        let innermost = if self.containers & 1 == 1 { JsonContainer::Object } else { JsonContainer::Array };
        self.innermost = is_known.then_some(innermost);
        visit.close(container, at + 1);
        Ok(at + 1)
    }
}

/// Takes the colon after a key.
#[inline]
fn colon(bytes: &[u8], from: usize) -> ScanResult<usize> {
    let (at, byte) = next_byte(bytes, from);
    match byte {
        Some(b':') => Ok(at + 1),
        Some(_) => Err((at, ScanState::Broken)),
        None => Err((at, ScanState::Colon)),
    }
}

fn emit_text<V: ScanVisitor>(text: &str, from: usize, to: usize, visit: &mut V) {
    if let Some(run) = text.get(from..to).filter(|run| !run.is_empty()) {
        visit.text(run);
    }
}

/// The character that a one-letter escape stands for.
#[inline]
fn short_escape(letter: u8) -> Option<u16> {
    const UNITS: [u8; 256] = {
        let mut units = [0; 256];
        units[b'"' as usize] = b'"';
        units[b'\\' as usize] = b'\\';
        units[b'/' as usize] = b'/';
        units[b'b' as usize] = 0x08;
        units[b'f' as usize] = 0x0C;
        units[b'n' as usize] = b'\n';
        units[b'r' as usize] = b'\r';
        units[b't' as usize] = b'\t';
        units
    };
    let unit = UNITS[usize::from(letter)];
    (unit != 0).then_some(u16::from(unit))
}

/// The end of the number whose digits begin at `from`, if it is well formed and its end is in the text.
#[inline(always)]
fn number_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = match bytes.get(from)? {
        b'0' if bytes.get(from + 1)?.is_ascii_digit() => return None,
        b'0' => from + 1,
        b'1'..=b'9' => digits_end(bytes, from + 1),
        _ => return None,
    };
    let mut after = *bytes.get(at)?;
    if after == b'.' {
        let fraction = at + 1;
        at = digits_end(bytes, fraction);
        after = *bytes.get(at)?;
        if at == fraction {
            return None;
        }
    }
    if let b'e' | b'E' = after {
        let exponent = at + if let b'+' | b'-' = *bytes.get(at + 1)? { 2 } else { 1 };
        at = digits_end(bytes, exponent);
        if at == exponent {
            return None;
        }
    }
    (at < bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pieces: &[&str]) -> (usize, ScanStatus) {
        let mut scanner = JsonScanner::new();
        let taken = pieces.iter().map(|piece| scanner.push(piece)).sum();
        (taken, scanner.finish())
    }

    #[test]
    fn every_cut_gives_the_same_answer() {
        for text in [
            r#" {"a": [1, -2.5e+3, true, null, "x\u00e9\"]}"], "b": {}} tail"#,
            "[[], {}, [{}], 0] ",
            "12 ",
            "\"\\\\\"x",
            "[1 2]",
            "{\"a\" 1}",
            "[1}",
            "tru e",
            "01",
        ] {
            let whole = scan(&[text]);
            for cut in 0..=text.len() {
                let mut scanner = JsonScanner::new();
                let mut taken = scanner.push(&text[..cut]);
                if taken == cut {
                    taken += scanner.push(&text[cut..]);
                }
                assert_eq!((taken, scanner.finish()), whole, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn agrees_with_serde_json_on_validity() {
        for text in [
            "{}",
            "[]",
            "0",
            "-0",
            "-",
            "1.",
            "1.5",
            "1e",
            "1e5",
            "01",
            "\"\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "[,]",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "nul",
            "null",
            "{\"a\":[{}]}",
            "{\"a\"}",
            "[",
            "{",
        ] {
            let (taken, status) = scan(&[text]);
            let is_complete = status == ScanStatus::Complete && taken == text.len();
            assert_eq!(is_complete, serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn deeper_than_the_bits_still_ends() {
        let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(scan(&[&text]), (200_000, ScanStatus::Complete));
        let objects = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500));
        assert_eq!(scan(&[&objects]), (objects.len(), ScanStatus::Complete));
    }

    #[test]
    fn raw_control_characters_end_strictness_only() {
        let mut scanner = JsonScanner::new();
        scanner.push("{\"a\":\"x\ny\"}");
        assert_eq!(scanner.status(), ScanStatus::Complete);
        assert!(!scanner.is_strict());
    }
}
