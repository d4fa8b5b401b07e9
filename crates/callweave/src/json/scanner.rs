//! A resumable lexical scanner: is this growing text a complete JSON value yet?
//!
//! In goes text in any cut; out comes how much of it belongs to the value and whether the value is
//! complete. The scanner is a few words of state, allocates nothing and does not recurse. It reads
//! strict JSON with one leniency: raw control characters inside strings do not break it, they only
//! clear [`Scanner::is_strict`], because models write them and the end of the value is still certain.
//!
//! ```
//! use callweave::json::{Scanner, Status};
//!
//! let mut scanner = Scanner::new();
//! assert_eq!(scanner.push(r#"{"city": "Os"#), 12);
//! assert_eq!(scanner.status(), Status::Open);
//! assert_eq!(scanner.push(r#"lo"} and more"#), 4);
//! assert_eq!(scanner.status(), Status::Complete);
//! ```
//!
//! [`Scanner::push_to`] also tells a [`Visit`] where values begin and end and what stands in them; that
//! is how [`Partial`](super::partial::Partial) builds its value.

/// How far the value has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Nothing but white space so far.
    Empty,
    /// The value has begun and is not complete. A number at top level stays open until something
    /// that is no part of it follows, or [`Scanner::finish`] says that nothing will.
    Open,
    /// The value is complete.
    Complete,
    /// What came cannot be continued to a JSON value.
    Broken,
}

/// What can be open inside a JSON text besides containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// The key of a member.
    Key,
    /// A string that is a value.
    String,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Literal(Literal),
}

/// The words of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// The two kinds of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
}

/// Who is told what [`Scanner::push_to`] meets.
///
/// Offsets count in the text of the current push. Containers and tokens balance in a complete value,
/// and nothing but [`text`](Visit::text) and [`escape`](Visit::escape) comes inside a token. Deeper than
/// 128 containers the scanner no longer knows which strings are keys and calls them values.
pub trait Visit {
    /// A container opened with the byte at `at`.
    fn open(&mut self, container: Container, at: usize) {
        let _ = (container, at);
    }
    /// The innermost container closed before `at`.
    fn close(&mut self, container: Container, at: usize) {
        let _ = (container, at);
    }
    /// A token began with the byte at `at`.
    fn begin(&mut self, token: Token, at: usize) {
        let _ = (token, at);
    }
    /// More of the open key, string or number, as it stands in the text.
    fn text(&mut self, run: &str) {
        let _ = run;
    }
    /// An escape in the open key or string: the UTF-16 unit that it stands for.
    fn escape(&mut self, unit: u16) {
        let _ = unit;
    }
    /// The open token ended before `at`.
    fn end(&mut self, token: Token, at: usize) {
        let _ = (token, at);
    }
}

/// Nobody listens.
impl Visit for () {}

/// The state of a scan. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Scanner {
    state: State,
    /// Where in its token the text was cut.
    cut: Cut,
    /// One bit per open container, innermost lowest: 1 is an object. Containers deeper than the bits
    /// are taken for whatever their closer says.
    containers: u128,
    depth: u32,
    is_strict: bool,
}

/// What comes next. Without payload, so that going from state to state is a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    AfterValue,
    /// The rest of a token that the text cut.
    Rest,
    Done,
    Broken,
}

/// A place inside a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// In a key or string.
    String(Token),
    /// After the backslash.
    Escape(Token),
    /// Among the digits of `\uXXXX`.
    Unicode {
        token: Token,
        left: u8,
        unit: u16,
    },
    Number(Number),
    Literal {
        literal: Literal,
        seen: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
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

impl Number {
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Start, b'-') => Self::Minus,
            (Self::Start | Self::Minus, b'0') => Self::Zero,
            (Self::Start | Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => Self::ExponentDigits,
            _ => return None,
        })
    }

    /// Whether more digits change nothing.
    fn takes_digits(self) -> bool {
        matches!(self, Self::Integer | Self::Fraction | Self::ExponentDigits)
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }
}

impl Literal {
    fn word(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner before its value.
    pub fn new() -> Self {
        Self {
            state: State::Start,
            cut: Cut::Number(Number::Start),
            containers: 0,
            depth: 0,
            is_strict: true,
        }
    }

    /// Reads on and tells how many bytes of `text` it took: all of them, unless the value ended
    /// (white space after it is not taken) or broke at the byte that was not taken.
    pub fn push(&mut self, text: &str) -> usize {
        self.push_to(text, &mut ())
    }

    /// Reads on as [`push`](Scanner::push) does, and tells `visit` what it meets.
    pub fn push_to<V: Visit>(&mut self, text: &str, visit: &mut V) -> usize {
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut state = self.state;
        // Every arm takes its token whole, so the loop turns once per token, not once per byte; a token
        // that the text cuts leaves the state in which the next push goes on with it.
        loop {
            (at, state) = match state {
                State::Start | State::Value | State::FirstElement => match next_byte(bytes, &mut at) {
                    Some(b'"') => {
                        visit.begin(Token::String, at);
                        self.string(text, at + 1, Token::String, visit)
                    }
                    Some(b']') if state == State::FirstElement => self.close(bytes, at, visit),
                    Some(byte) => self.begin(text, at, byte, visit),
                    None => break,
                },
                State::FirstKey | State::Key => match next_byte(bytes, &mut at) {
                    Some(b'"') => {
                        visit.begin(Token::Key, at);
                        self.string(text, at + 1, Token::Key, visit)
                    }
                    Some(b'}') if state == State::FirstKey => self.close(bytes, at, visit),
                    Some(_) => (at, State::Broken),
                    None => break,
                },
                State::Colon => match next_byte(bytes, &mut at) {
                    Some(b':') => (at + 1, State::Value),
                    Some(_) => (at, State::Broken),
                    None => break,
                },
                State::AfterValue => match next_byte(bytes, &mut at) {
                    Some(b',') => (at + 1, self.after_comma()),
                    Some(b'}' | b']') => self.close(bytes, at, visit),
                    // Deeper than the bits a string is a value until a colon shows that it is a key.
                    Some(b':') if self.innermost().is_none() => (at + 1, State::Value),
                    Some(_) => (at, State::Broken),
                    None => break,
                },
                State::Done | State::Broken => break,
                State::Rest if at == bytes.len() => break,
                State::Rest => match self.cut {
                    Cut::String(token) => self.string(text, at, token, visit),
                    Cut::Escape(token) => self.escape(text, at, token, visit),
                    Cut::Unicode { token, left, unit } => self.unicode(text, at, token, left, unit, visit),
                    Cut::Number(number) => self.number(text, at, number, visit),
                    Cut::Literal { literal, seen } => self.literal(bytes, at, literal, seen, visit),
                },
            };
        }
        self.state = state;
        at
    }

    /// How far the value has come.
    pub fn status(&self) -> Status {
        match self.state {
            State::Start => Status::Empty,
            State::Done => Status::Complete,
            State::Broken => Status::Broken,
            _ => Status::Open,
        }
    }

    /// Says that no more text will come, which completes a number at top level.
    pub fn finish(&mut self) -> Status {
        self.finish_to(&mut ())
    }

    /// Says that no more text will come, as [`finish`](Scanner::finish) does, and tells `visit`.
    pub fn finish_to<V: Visit>(&mut self, visit: &mut V) -> Status {
        if self.depth == 0
            && self.state == State::Rest
            && let Cut::Number(number) = self.cut
            && number.may_end()
        {
            visit.end(Token::Number, 0);
            self.state = State::Done;
        }
        self.status()
    }

    /// How many containers are open.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the scan stands inside a string (or a key).
    pub fn is_in_string(&self) -> bool {
        self.state == State::Rest && matches!(self.cut, Cut::String(_) | Cut::Escape(_) | Cut::Unicode { .. })
    }

    /// Whether the scan stands inside an escape sequence of a string.
    pub fn is_in_escape(&self) -> bool {
        self.state == State::Rest && matches!(self.cut, Cut::Escape(_) | Cut::Unicode { .. })
    }

    /// Whether all text so far is strict JSON: no raw control characters inside strings.
    pub fn is_strict(&self) -> bool {
        self.is_strict && self.state != State::Broken
    }

    /// The text ended, or an escape began, inside a token.
    #[cold]
    fn cut(&mut self, at: usize, cut: Cut) -> (usize, State) {
        self.cut = cut;
        (at, State::Rest)
    }

    /// Takes a key or string up to its end, from anywhere inside it.
    #[inline]
    fn string<V: Visit>(&mut self, text: &str, from: usize, token: Token, visit: &mut V) -> (usize, State) {
        let bytes = text.as_bytes();
        let mut from = from;
        let mut at = from;
        loop {
            at = skip_plain(bytes, at);
            match bytes.get(at) {
                Some(b'"') => {
                    tell_text(text, from, at, visit);
                    visit.end(token, at + 1);
                    return if token != Token::Key {
                        self.after_value(bytes, at + 1)
                    } else if bytes.get(at + 1) == Some(&b':') {
                        (at + 2, State::Value)
                    } else {
                        (at + 1, State::Colon)
                    };
                }
                Some(b'\\') => {
                    tell_text(text, from, at, visit);
                    let Some(unit) = bytes.get(at + 1).copied().and_then(short_escape) else {
                        return self.cut(at + 1, Cut::Escape(token));
                    };
                    visit.escape(unit);
                    at += 2;
                    from = at;
                }
                Some(_) => {
                    self.is_strict = false;
                    at += 1;
                }
                None => {
                    tell_text(text, from, at, visit);
                    return self.cut(at, Cut::String(token));
                }
            }
        }
    }

    /// Takes the letter of an escape, after its backslash.
    fn escape<V: Visit>(&mut self, text: &str, at: usize, token: Token, visit: &mut V) -> (usize, State) {
        match text.as_bytes().get(at) {
            Some(b'u') => self.cut(at + 1, Cut::Unicode { token, left: 4, unit: 0 }),
            Some(&byte) => match short_escape(byte) {
                Some(unit) => {
                    visit.escape(unit);
                    self.cut(at + 1, Cut::String(token))
                }
                None => (at, State::Broken),
            },
            None => self.cut(at, Cut::Escape(token)),
        }
    }

    /// Takes the digits of an escape that `left` of are to come.
    fn unicode<V: Visit>(
        &mut self,
        text: &str,
        mut at: usize,
        token: Token,
        mut left: u8,
        mut unit: u16,
        visit: &mut V,
    ) -> (usize, State) {
        while left > 0 {
            let Some(&byte) = text.as_bytes().get(at) else {
                return self.cut(at, Cut::Unicode { token, left, unit });
            };
            let Some(digit) = char::from(byte).to_digit(16) else { return (at, State::Broken) };
            unit = (unit << 4) | digit as u16;
            left -= 1;
            at += 1;
        }
        visit.escape(unit);
        self.cut(at, Cut::String(token))
    }

    /// Takes a number up to its end, from anywhere inside it. The byte after it is not taken.
    #[inline]
    fn number<V: Visit>(
        &mut self,
        text: &str,
        from: usize,
        mut number: Number,
        visit: &mut V,
    ) -> (usize, State) {
        let bytes = text.as_bytes();
        let mut at = from;
        loop {
            if number.takes_digits() {
                while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
            }
            let Some(&byte) = bytes.get(at) else {
                tell_text(text, from, at, visit);
                return self.cut(at, Cut::Number(number));
            };
            match number.next(byte) {
                Some(next) => number = next,
                None if number.may_end() => {
                    tell_text(text, from, at, visit);
                    visit.end(Token::Number, at);
                    return self.after_value(bytes, at);
                }
                None => {
                    tell_text(text, from, at, visit);
                    return (at, State::Broken);
                }
            }
            at += 1;
        }
    }

    /// Takes a literal up to its end or its first wrong letter.
    #[inline]
    fn literal<V: Visit>(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        literal: Literal,
        mut seen: u8,
        visit: &mut V,
    ) -> (usize, State) {
        while let Some(letter) = literal.word().get(usize::from(seen)) {
            match bytes.get(at) {
                None => return self.cut(at, Cut::Literal { literal, seen }),
                Some(byte) if byte != letter => return (at, State::Broken),
                Some(_) => (at, seen) = (at + 1, seen + 1),
            }
        }
        visit.end(Token::Literal(literal), at);
        self.after_value(bytes, at)
    }

    /// Begins any value but a string.
    #[inline]
    fn begin<V: Visit>(&mut self, text: &str, at: usize, byte: u8, visit: &mut V) -> (usize, State) {
        let literal = match byte {
            b'{' => {
                visit.open(Container::Object, at);
                self.open(Container::Object);
                return (at + 1, State::FirstKey);
            }
            b'[' => {
                visit.open(Container::Array, at);
                self.open(Container::Array);
                return (at + 1, State::FirstElement);
            }
            b'-' | b'0'..=b'9' => {
                visit.begin(Token::Number, at);
                let Some(end) = whole_number(text.as_bytes(), at) else {
                    return self.number(text, at, Number::Start, visit);
                };
                tell_text(text, at, end, visit);
                visit.end(Token::Number, end);
                return self.after_value(text.as_bytes(), end);
            }
            b't' => Literal::True,
            b'f' => Literal::False,
            b'n' => Literal::Null,
            _ => return (at, State::Broken),
        };
        visit.begin(Token::Literal(literal), at);
        self.literal(text.as_bytes(), at, literal, 0, visit)
    }

    fn open(&mut self, container: Container) {
        // Only the outermost 128 containers are remembered; the shift must not push them out.
        if self.depth < u128::BITS {
            self.containers = (self.containers << 1) | u128::from(container == Container::Object);
        }
        self.depth = self.depth.saturating_add(1);
    }

    #[inline]
    fn close<V: Visit>(&mut self, bytes: &[u8], at: usize, visit: &mut V) -> (usize, State) {
        let container = if bytes[at] == b'}' { Container::Object } else { Container::Array };
        if self.innermost().is_some_and(|innermost| innermost != container) {
            return (at, State::Broken);
        }
        if self.depth <= u128::BITS {
            self.containers >>= 1;
        }
        self.depth -= 1;
        visit.close(container, at + 1);
        self.after_value(bytes, at + 1)
    }

    /// The innermost container, where it is known.
    fn innermost(&self) -> Option<Container> {
        let is_known = (1..=u128::BITS).contains(&self.depth);
        is_known.then_some(if self.containers & 1 == 1 { Container::Object } else { Container::Array })
    }

    fn after_comma(&self) -> State {
        match self.innermost() {
            Some(Container::Object) => State::Key,
            Some(Container::Array) | None => State::Value,
        }
    }

    /// The state behind a value that ended before `at`, and behind the comma that mostly follows.
    #[inline]
    fn after_value(&self, bytes: &[u8], at: usize) -> (usize, State) {
        if self.depth == 0 {
            (at, State::Done)
        } else if bytes.get(at) == Some(&b',') {
            (at + 1, self.after_comma())
        } else {
            (at, State::AfterValue)
        }
    }
}

fn tell_text<V: Visit>(text: &str, from: usize, to: usize, visit: &mut V) {
    if let Some(run) = text.get(from..to).filter(|run| !run.is_empty()) {
        visit.text(run);
    }
}

/// What the escapes of one letter stand for.
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

/// The end of a number that begins at `at`, if it is well formed and its end stands in the text.
#[inline]
fn whole_number(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let from = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut at = digits(from);
    if at == from || (bytes[from] == b'0' && at > from + 1) {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        let from = at + 1;
        at = digits(from);
        if at == from {
            return None;
        }
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let from = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits(from);
        if at == from {
            return None;
        }
    }
    (at < bytes.len()).then_some(at)
}

/// The next byte that is not white space; `at` is moved to it, or to the end.
#[inline]
fn next_byte(bytes: &[u8], at: &mut usize) -> Option<u8> {
    loop {
        match bytes.get(*at) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => *at += 1,
            found => return found.copied(),
        }
    }
}

/// The first quote, backslash or control character from `from` on, or the end.
#[inline]
fn skip_plain(bytes: &[u8], from: usize) -> usize {
    let Some(mut rest) = bytes.get(from..) else { return from };
    let at = |rest: &[u8]| bytes.len() - rest.len();
    while let Some((eight, after)) = rest.split_first_chunk::<8>() {
        // What is looked for is ASCII, so the high bit of each byte is free: subtracting sets it in those
        // bytes that are found, exactly so up to the first.
        const ONES: u64 = u64::MAX / 0xFF;
        const HIGHS: u64 = ONES << 7;
        let word = u64::from_le_bytes(*eight);
        let quotes = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
        let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
        let controls = word.wrapping_sub(ONES * b' ' as u64);
        let found = (quotes | backslashes | controls) & !word & HIGHS;
        if found != 0 {
            return at(rest) + (found.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    at(rest) + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pieces: &[&str]) -> (usize, Status) {
        let mut scanner = Scanner::new();
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
                let mut scanner = Scanner::new();
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
            let is_complete = status == Status::Complete && taken == text.len();
            assert_eq!(is_complete, serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn deeper_than_the_bits_still_ends() {
        let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(scan(&[&text]), (200_000, Status::Complete));
        let objects = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500));
        assert_eq!(scan(&[&objects]), (objects.len(), Status::Complete));
    }

    #[test]
    fn raw_control_characters_end_strictness_only() {
        let mut scanner = Scanner::new();
        scanner.push("{\"a\":\"x\ny\"}");
        assert_eq!(scanner.status(), Status::Complete);
        assert!(!scanner.is_strict());
    }
}
