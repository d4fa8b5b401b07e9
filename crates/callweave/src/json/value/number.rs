//! A number as it was written.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::json::tape;

/// A JSON number: its text. Two numbers are equal if they are written the same.
///
/// ```
/// use callweave::json::Number;
///
/// let price: Number = "1.50".parse()?;
/// assert_eq!(price.as_str(), "1.50");
/// assert_eq!((price.as_f64(), price.as_i64()), (Some(1.5), None));
/// assert!("01".parse::<Number>().is_err());
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Clone)]
pub struct Number(NumberText);

/// Nearly all numbers are short, and a value may hold many: short ones need no memory of their own.
#[derive(Clone)]
enum NumberText {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

/// The number of bytes that makes a number no larger than a string.
const SHORT: usize = 22;

impl Number {
    /// Wraps a text that is known to be a JSON number.
    pub(in crate::json) fn trusted(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self(NumberText::Short { length: text.len() as u8, bytes })
            }
            None => Self(NumberText::Long(text.into())),
        }
    }

    /// The number, unless it is infinite or NaN. An integer ends in `.0`.
    pub fn from_f64(number: f64) -> Option<Self> {
        serde_json::Number::from_f64(number).map(|number| Self::trusted(&number.to_string()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            NumberText::Short { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).expect("a number is ASCII")
            }
            NumberText::Long(text) => text,
        }
    }

    /// The number, if it is written as an integer and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_str().parse().ok()
    }

    /// The number, if it is written as an integer and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_str().parse().ok()
    }

    /// The nearest float; none if the number is beyond the range.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_str().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// The nearest float, if this number is written just as a program would write that.
    pub(super) fn as_plain_f64(&self) -> Option<f64> {
        let number = self.as_f64()?;
        let mut rest = MatchingRest(self.as_str());
        write!(rest, "{}", serde_json::Number::from_f64(number)?).ok()?;
        rest.0.is_empty().then_some(number)
    }
}

/// Consumes written text from the start of a text, as long as both are the same.
struct MatchingRest<'t>(&'t str);

impl Write for MatchingRest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

impl FromStr for Number {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if tape::is_number(text) {
            Ok(Self::trusted(text))
        } else {
            Err(Error::new(ErrorKind::Json, "a JSON number is malformed"))
        }
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Number {
            fn from(number: $integer) -> Self {
                Self::trusted(&number.to_string())
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_stays() {
        for text in
            ["0", "-0", "1.50", "1e5", "1E+05", "1e400", "12345678901234567890123", "0.1234567890123456789"]
        {
            let number: Number = text.parse().expect("a number");
            assert_eq!(number.as_str(), text);
        }
        for text in ["", "-", "01", "1.", ".5", "+1", "1e", "1 ", "NaN", "0x1"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
        assert!(std::mem::size_of::<Number>() <= std::mem::size_of::<String>());
    }

    #[test]
    fn only_what_a_program_would_write_is_plain() {
        let plain = |text: &str| text.parse::<Number>().expect("a number").as_plain_f64();
        assert_eq!(plain("1.5"), Some(1.5));
        assert_eq!(plain("-0.0"), Some(-0.0));
        for text in ["1.50", "1e5", "-0", "1e400", "0.1234567890123456789"] {
            assert_eq!(plain(text), None, "{text}");
        }
    }
}
