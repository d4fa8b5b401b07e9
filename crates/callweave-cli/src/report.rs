//! Messages of the program for people beside its output, on standard error.

use std::io::Write;

use anstyle::{AnsiColor, Style};

use crate::pretty::visible;

/// The maximum number of characters of a text from outside in a line.
const LINE: usize = 160;

/// Prints a message. A closed standard error is no reason to stop.
pub(crate) fn tell(text: &str) {
    let text: String = text.chars().map(visible).collect();
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Says what went wrong.
pub(crate) fn tell_error(text: &str) {
    let label = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text: String = text.chars().map(visible).collect();
    let _ = writeln!(anstream::stderr(), "{label}error:{label:#} {text}");
}

/// The beginning of a text, in one line.
pub(crate) fn line_of(text: &str) -> String {
    excerpt(text.trim(), LINE)
}

/// At most `most` characters of a text, in one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most).map(|(end, _)| end);
    let line = text[..end.unwrap_or(text.len())].replace("\r\n", "⏎").replace(['\n', '\r'], "⏎");
    if end.is_some() { line + "…" } else { line }
}
