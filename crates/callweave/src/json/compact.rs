//! JSON text without the white space between its tokens.

/// Appends `json`, which must be valid, to `out` without the white space between its tokens. Nothing
/// else changes: numbers, escapes, order and duplicates stay as written.
pub fn compact_into(json: &str, out: &mut String) {
    let bytes = json.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b' ' | b'\n' | b'\r' | b'\t' => {
                out.push_str(&json[from..at]);
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&json[from..]);
}

/// The byte after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(run) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += run;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_white_space_between_tokens_goes() {
        let mut out = String::new();
        super::compact_into(" { \"a b\" : [ 1 , \"x \\\" y\" ] ,\n\t\"c\":-0.10e5 }\r\n", &mut out);
        assert_eq!(out, r#"{"a b":[1,"x \" y"],"c":-0.10e5}"#);
    }
}
