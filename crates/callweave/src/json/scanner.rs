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
    Unicode { is_key: bool, left: u8 },
    Number(Number),
    Literal { rest: &'static str },
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

    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
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
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Done | State::Broken => break,
                State::String { is_key } => match memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                    None => {
                        self.note_controls(&bytes[at..]);
                        at = bytes.len();
                    }
                    Some(run) => {
                        self.note_controls(&bytes[at..at + run]);
                        at += run + 1;
                        if bytes[at - 1] == b'\\' {
                            self.state = State::Escape { is_key };
                        } else if is_key {
                            self.state = State::Colon;
                        } else {
                            self.end_value();
                        }
                    }
                },
                _ => {
                    if self.step(bytes[at]) {
                        at += 1;
                    }
                }
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
        if self.depth == 0
            && let State::Number(number) = self.state
            && number.may_end()
        {
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

    fn note_controls(&mut self, run: &[u8]) {
        if run.iter().any(|&byte| byte < 0x20) {
            self.is_strict = false;
        }
    }

    /// Takes one byte outside a string's plain run; `false` if the byte was not consumed.
    fn step(&mut self, byte: u8) -> bool {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.state {
            State::Start
            | State::Value
            | State::FirstElement
            | State::FirstKey
            | State::Key
            | State::Colon
            | State::AfterValue
                if is_space => {}
            State::FirstElement if byte == b']' => self.close(byte),
            State::Start | State::Value | State::FirstElement => self.begin_value(byte),
            State::FirstKey if byte == b'}' => self.close(byte),
            State::FirstKey | State::Key if byte == b'"' => self.state = State::String { is_key: true },
            State::Colon if byte == b':' => self.state = State::Value,
            State::AfterValue => match byte {
                b',' => {
                    self.state = match self.innermost() {
                        Some(false) => State::Value,
                        Some(true) => State::Key,
                        // Below the bits: what follows decides, so accept either.
                        None => State::Value,
                    }
                }
                b':' if self.innermost().is_none() => self.state = State::Value,
                b'}' | b']' => self.close(byte),
                _ => self.state = State::Broken,
            },
            State::Escape { is_key } => {
                self.state = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::String { is_key },
                    b'u' => State::Unicode { is_key, left: 4 },
                    _ => State::Broken,
                }
            }
            State::Unicode { is_key, left } => {
                self.state = match (byte.is_ascii_hexdigit(), left) {
                    (false, _) => State::Broken,
                    (true, 1) => State::String { is_key },
                    (true, _) => State::Unicode { is_key, left: left - 1 },
                }
            }
            State::Number(number) => match number.next(byte) {
                Some(number) => self.state = State::Number(number),
                None if number.may_end() => {
                    self.end_value();
                    return false;
                }
                None => self.state = State::Broken,
            },
            State::Literal { rest } => {
                let mut letters = rest.bytes();
                if letters.next() != Some(byte) {
                    self.state = State::Broken;
                } else if letters.len() == 0 {
                    self.end_value();
                } else {
                    self.state = State::Literal { rest: &rest[1..] };
                }
            }
            _ => self.state = State::Broken,
        }
        self.state != State::Broken
    }

    fn begin_value(&mut self, byte: u8) {
        self.state = match byte {
            b'{' => {
                self.open(true);
                State::FirstKey
            }
            b'[' => {
                self.open(false);
                State::FirstElement
            }
            b'"' => State::String { is_key: false },
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Integer),
            b't' => State::Literal { rest: "rue" },
            b'f' => State::Literal { rest: "alse" },
            b'n' => State::Literal { rest: "ull" },
            _ => State::Broken,
        };
    }

    fn open(&mut self, is_object: bool) {
        // Only the outermost 128 containers are remembered; the shift must not push them out.
        if self.depth < u128::BITS {
            self.containers = (self.containers << 1) | u128::from(is_object);
        }
        self.depth = self.depth.saturating_add(1);
    }

    /// Whether the innermost container is an object, where that is known.
    fn innermost(&self) -> Option<bool> {
        (1..=u128::BITS).contains(&self.depth).then_some(self.containers & 1 == 1)
    }

    fn close(&mut self, byte: u8) {
        let is_object = byte == b'}';
        if self.innermost().is_some_and(|innermost| innermost != is_object) {
            self.state = State::Broken;
            return;
        }
        if self.depth <= u128::BITS {
            self.containers >>= 1;
        }
        self.depth -= 1;
        self.end_value();
    }

    fn end_value(&mut self) {
        self.state = if self.depth == 0 { State::Done } else { State::AfterValue };
    }
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
