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
    /// One bit per open container, innermost lowest: 1 is an object. Containers deeper than the bits
    /// are taken for whatever their closer says.
    containers: u128,
    depth: u32,
    is_strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    AfterValue,
    String { is_key: bool },
    Escape { is_key: bool },
    Unicode { is_key: bool, left: u8, unit: u16 },
    Number(Number),
    Literal { literal: Literal, seen: u8 },
    Done,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
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
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
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
        Self { state: State::Start, containers: 0, depth: 0, is_strict: true }
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
        while at < bytes.len() {
            // Every arm takes as much as it can, so that the loop turns once per token, not per byte.
            let byte = bytes[at];
            match self.state {
                State::Start
                | State::Value
                | State::FirstElement
                | State::FirstKey
                | State::Key
                | State::Colon
                | State::AfterValue
                    if byte <= b' ' =>
                {
                    let length = bytes[at..].iter().position(|&byte| !is_space(byte));
                    match length {
                        Some(0) => self.state = State::Broken,
                        Some(length) => at += length,
                        None => at = bytes.len(),
                    }
                }
                State::String { is_key } => at = self.string(text, at, is_key, visit),
                State::AfterValue if byte == b',' => {
                    at += 1;
                    // Below the bits what follows decides: a value, which a colon may turn into a key.
                    self.state = match self.innermost() {
                        Some(Container::Object) => State::Key,
                        Some(Container::Array) | None => State::Value,
                    };
                }
                State::AfterValue => match byte {
                    b'}' | b']' => at = self.close(byte, at, visit),
                    b':' if self.innermost().is_none() => {
                        at += 1;
                        self.state = State::Value;
                    }
                    _ => self.state = State::Broken,
                },
                State::Colon if byte == b':' => {
                    at += 1;
                    self.state = State::Value;
                }
                State::FirstElement if byte == b']' => at = self.close(byte, at, visit),
                State::FirstKey if byte == b'}' => at = self.close(byte, at, visit),
                State::FirstKey | State::Key if byte == b'"' => {
                    visit.begin(Token::Key, at);
                    at += 1;
                    self.state = State::String { is_key: true };
                }
                State::Start | State::Value | State::FirstElement => {
                    self.begin_value(byte, at, visit);
                    at += usize::from(self.state != State::Broken);
                }
                State::Number(number) => at = self.number(text, at, number, visit),
                State::Literal { literal, seen } => at = self.literal(bytes, at, literal, seen, visit),
                State::Escape { is_key } => {
                    let unit = match byte {
                        b'"' | b'\\' | b'/' => byte,
                        b'b' => 0x08,
                        b'f' => 0x0C,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => {
                            at += 1;
                            self.state = State::Unicode { is_key, left: 4, unit: 0 };
                            continue;
                        }
                        _ => {
                            self.state = State::Broken;
                            continue;
                        }
                    };
                    at += 1;
                    visit.escape(u16::from(unit));
                    self.state = State::String { is_key };
                }
                State::Unicode { is_key, left, unit } => {
                    let Some(digit) = char::from(byte).to_digit(16) else {
                        self.state = State::Broken;
                        continue;
                    };
                    at += 1;
                    let unit = (unit << 4) | digit as u16;
                    self.state = if left > 1 {
                        State::Unicode { is_key, left: left - 1, unit }
                    } else {
                        visit.escape(unit);
                        State::String { is_key }
                    };
                }
                State::FirstKey | State::Key | State::Colon => self.state = State::Broken,
                State::Done | State::Broken => break,
            }
        }
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
            && let State::Number(number) = self.state
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
        matches!(self.state, State::String { .. } | State::Escape { .. } | State::Unicode { .. })
    }

    /// Whether the scan stands inside an escape sequence of a string.
    pub fn is_in_escape(&self) -> bool {
        matches!(self.state, State::Escape { .. } | State::Unicode { .. })
    }

    /// Whether all text so far is strict JSON: no raw control characters inside strings.
    pub fn is_strict(&self) -> bool {
        self.is_strict && self.state != State::Broken
    }

    /// Takes a string up to its end or its next escape.
    fn string<V: Visit>(&mut self, text: &str, from: usize, is_key: bool, visit: &mut V) -> usize {
        let bytes = text.as_bytes();
        let mut at = from;
        loop {
            at += plain_length(&bytes[at..]);
            match bytes.get(at) {
                Some(b'"' | b'\\') | None => break,
                Some(_) => {
                    self.is_strict = false;
                    at += 1;
                }
            }
        }
        if at > from {
            visit.text(&text[from..at]);
        }
        match bytes.get(at) {
            None => return at,
            Some(b'\\') => self.state = State::Escape { is_key },
            Some(_) if is_key => {
                visit.end(Token::Key, at + 1);
                self.state = State::Colon;
            }
            Some(_) => {
                visit.end(Token::String, at + 1);
                self.end_value();
            }
        }
        at + 1
    }

    /// Takes a number up to its end. The byte after it is not taken.
    fn number<V: Visit>(&mut self, text: &str, from: usize, mut number: Number, visit: &mut V) -> usize {
        let bytes = text.as_bytes();
        let mut at = from;
        let is_ended = loop {
            if number.takes_digits() {
                while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
            }
            let Some(&byte) = bytes.get(at) else { break false };
            let Some(next) = number.next(byte) else { break true };
            number = next;
            at += 1;
        };
        if at > from {
            visit.text(&text[from..at]);
        }
        if !is_ended {
            self.state = State::Number(number);
        } else if number.may_end() {
            visit.end(Token::Number, at);
            self.end_value();
        } else {
            self.state = State::Broken;
        }
        at
    }

    /// Takes a literal up to its end or its first wrong letter.
    fn literal<V: Visit>(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        literal: Literal,
        mut seen: u8,
        visit: &mut V,
    ) -> usize {
        while let Some(letter) = literal.word().get(usize::from(seen)) {
            match bytes.get(at) {
                None => {
                    self.state = State::Literal { literal, seen };
                    return at;
                }
                Some(byte) if byte != letter => {
                    self.state = State::Broken;
                    return at;
                }
                Some(_) => (at, seen) = (at + 1, seen + 1),
            }
        }
        visit.end(Token::Literal(literal), at);
        self.end_value();
        at
    }

    fn begin_value<V: Visit>(&mut self, byte: u8, at: usize, visit: &mut V) {
        let (token, state) = match byte {
            b'{' => {
                visit.open(Container::Object, at);
                return self.open(Container::Object);
            }
            b'[' => {
                visit.open(Container::Array, at);
                return self.open(Container::Array);
            }
            b'"' => (Token::String, State::String { is_key: false }),
            b'-' => (Token::Number, State::Number(Number::Minus)),
            b'0' => (Token::Number, State::Number(Number::Zero)),
            b'1'..=b'9' => (Token::Number, State::Number(Number::Integer)),
            b't' => literal_begin(Literal::True),
            b'f' => literal_begin(Literal::False),
            b'n' => literal_begin(Literal::Null),
            _ => {
                self.state = State::Broken;
                return;
            }
        };
        visit.begin(token, at);
        self.state = state;
    }

    fn open(&mut self, container: Container) {
        // Only the outermost 128 containers are remembered; the shift must not push them out.
        if self.depth < u128::BITS {
            self.containers = (self.containers << 1) | u128::from(container == Container::Object);
        }
        self.depth = self.depth.saturating_add(1);
        self.state = match container {
            Container::Object => State::FirstKey,
            Container::Array => State::FirstElement,
        };
    }

    /// The innermost container, where it is known.
    fn innermost(&self) -> Option<Container> {
        let is_known = (1..=u128::BITS).contains(&self.depth);
        is_known.then_some(if self.containers & 1 == 1 { Container::Object } else { Container::Array })
    }

    fn close<V: Visit>(&mut self, byte: u8, at: usize, visit: &mut V) -> usize {
        let container = if byte == b'}' { Container::Object } else { Container::Array };
        if self.innermost().is_some_and(|innermost| innermost != container) {
            self.state = State::Broken;
            return at;
        }
        if self.depth <= u128::BITS {
            self.containers >>= 1;
        }
        self.depth -= 1;
        self.end_value();
        visit.close(container, at + 1);
        at + 1
    }

    fn end_value(&mut self) {
        self.state = if self.depth == 0 { State::Done } else { State::AfterValue };
    }
}

fn literal_begin(literal: Literal) -> (Token, State) {
    (Token::Literal(literal), State::Literal { literal, seen: 1 })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// How many bytes stand before the first quote, backslash or control character.
fn plain_length(bytes: &[u8]) -> usize {
    const LANES: usize = 32;
    let is_special = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
    let mut length = 0;
    // Whole lanes at a time: without an early exit inside, the compiler makes vectors of this.
    for lane in bytes.chunks_exact(LANES) {
        if lane.iter().fold(false, |found, &byte| found | is_special(byte)) {
            break;
        }
        length += LANES;
    }
    let rest = &bytes[length..];
    length + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
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
