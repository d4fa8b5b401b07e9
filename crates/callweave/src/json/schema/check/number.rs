//! Numbers as JSON Schema compares them: by value, however they are written.

use std::cmp::Ordering;

use crate::json::Number;

/// Compares two numbers. Integers are compared digit by digit, all others by the nearest float.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    let (one, other) = (one.as_str(), other.as_str());
    match (digits(one), digits(other)) {
        (Some(one), Some(other)) => compare_integers(one, other),
        _ => float(one).total_cmp(&float(other)),
    }
}

/// Whether a number is an integer multiple of another.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let exact = || {
        let (one, other) = (decimal(number.as_str())?, decimal(of.as_str())?);
        let exponent = one.1.min(other.1);
        let scaled = |(digits, own): (i128, i32)| {
            digits.checked_mul(10i128.checked_pow(u32::try_from(own.checked_sub(exponent)?).ok()?)?)
        };
        scaled(one)?.checked_rem(scaled(other)?).map(|rest| rest == 0)
    };
    exact().unwrap_or_else(|| {
        let (number, of) = (float(number.as_str()), float(of.as_str()));
        let quotient = number / of;
        if quotient.is_finite() { quotient.fract() == 0.0 } else { number % of == 0.0 }
    })
}

/// The number as a float that has one zero.
pub(super) fn float(number: &str) -> f64 {
    number.parse::<f64>().unwrap_or(f64::NAN) + 0.0
}

/// Whether an integer is negative, and its digits; none for a number that is not written as an integer.
fn digits(number: &str) -> Option<(bool, &str)> {
    let (is_negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (digits != "0", digits),
        None => (false, number),
    };
    digits.bytes().all(|digit| digit.is_ascii_digit()).then_some((is_negative, digits))
}

fn compare_integers(one: (bool, &str), other: (bool, &str)) -> Ordering {
    // JSON has no leading zeros, so the longer one is farther from zero.
    let size = one.1.len().cmp(&other.1.len()).then_with(|| one.1.cmp(other.1));
    match (one.0, other.0) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// The number as digits and a power of ten.
fn decimal(number: &str) -> Option<(i128, i32)> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
        None => (number, 0i32),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let decimals = decimals.trim_end_matches('0');
    let digits = format!("{whole}{decimals}").parse().ok()?;
    Some((digits, exponent.checked_sub(i32::try_from(decimals.len()).ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().expect("a number")
    }

    #[test]
    fn numbers_are_compared_by_value() {
        for (one, other, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("0", "-0", Ordering::Equal),
            ("-0.0", "0", Ordering::Equal),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("-12", "-9", Ordering::Less),
            ("123456789012345678901234567890", "123456789012345678901234567891", Ordering::Less),
            ("1e400", "5", Ordering::Greater),
        ] {
            assert_eq!(compare(&number(one), &number(other)), expected, "{one} {other}");
        }
    }

    #[test]
    fn multiples_are_exact_where_digits_are() {
        for (one, of) in [
            ("0.3", "0.1"),
            ("35", "1.5e1"), /* 35 is none */
            ("12391239123", "1e-8"),
            ("4.50", "1.5"),
            ("0", "7"),
        ] {
            assert_eq!(is_multiple(&number(one), &number(of)), one != "35", "{one} {of}");
        }
        assert!(!is_multiple(&number("1e308"), &number("0.123456789")));
        assert!(!is_multiple(&number("0.35"), &number("0.1")));
    }
}
