//! Sizes as people write them: `4096`, `64KiB`, `1.5MB`.

/// Reads a size. `KB` is a thousand bytes, `K` and `KiB` are 1024, in any case.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match &*unit.trim().to_ascii_lowercase() {
        "" | "b" => 1,
        "kb" => 1_000,
        "k" | "kib" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" => 1 << 30,
        _ => return Err("a size is a number of bytes, or one with a unit: 64KiB, 1MB".to_owned()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let not_a_number = |_| "a size begins with a number, as in 64KiB or 1.5MB".to_owned();
    let whole: u64 = whole.parse().map_err(not_a_number)?;
    let part: f64 = if part.is_empty() {
        0.0
    } else {
        format!("0.{part}").parse().map_err(|_| "a size has one decimal point".to_owned())?
    };
    let bytes = whole.checked_mul(unit).and_then(|bytes| bytes.checked_add((part * unit as f64) as u64));
    match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(0) => Err("a size of nothing reads nothing".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err("that is more than can be addressed".to_owned()),
    }
}

/// A number of bytes, short.
pub(crate) fn shown(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [
            ("4096", 4096),
            ("1MB", 1_000_000),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("2k", 2048),
            ("1.5M", 1_572_864),
            ("0.5GB", 500_000_000),
            ("7b", 7),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "1XB", "1.2.3K", "-1", "0", "99999999999999999999", "99999999999GiB", ".5K"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
