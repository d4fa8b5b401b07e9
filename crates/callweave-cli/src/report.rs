//! Messages of the program for people beside its output, on standard error.

use std::io::Write;

use anstyle::{AnsiColor, Style};

use crate::pretty::visible;

/// The maximum number of characters of a text from outside in a line.
const LINE: usize = 160;

/// Prints a message. A closed standard error is no reason to stop.
pub(crate) fn print(text: &str) {
    let text: String = text.chars().map(visible).collect();
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints an error.
pub(crate) fn print_error(text: &str) {
    labelled("error:", AnsiColor::Red, text);
}

/// Prints a warning.
pub(crate) fn print_warning(text: &str) {
    labelled("warning:", AnsiColor::Yellow, text);
}

fn labelled(label: &str, color: AnsiColor, text: &str) {
    let style = Style::new().bold().fg_color(Some(color.into()));
    let text: String = text.chars().map(visible).collect();
    let _ = writeln!(anstream::stderr(), "{style}{label}{style:#} {text}");
}

/// The beginning of a text, in one line.
pub(crate) fn line_of(text: &str) -> String {
    excerpt(text.trim(), LINE)
}

/// At most `max` characters of a text, in one line.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let end = text.char_indices().nth(max).map(|(end, _)| end);
    let line = text[..end.unwrap_or(text.len())].replace("\r\n", "⏎").replace(['\n', '\r'], "⏎");
    if end.is_some() { line + "…" } else { line }
}
