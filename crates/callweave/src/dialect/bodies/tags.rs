//! The headers of tags: how long they are, and what their attributes say.

use super::super::markers::{MarkerMatch, MarkerSet};
use super::head;

/// The maximum length of the header of a tag.
const LONGEST_HEADER: usize = 512;

/// How long the header of a tag is.
pub(in crate::dialect) enum TagLen {
    Known(usize),
    More,
    /// It has no end, or none near enough.
    Never,
}

/// The length of a tag's header: up to its end, which does not count inside quotes.
pub(in crate::dialect) fn tag_len<M: Copy>(
    text: &str,
    ends: &MarkerSet<M>,
    is_quoted: bool,
    is_last: bool,
) -> TagLen {
    let window = head(text, LONGEST_HEADER);
    let is_last = is_last && window.len() == text.len();
    let mut from = 0;
    loop {
        match ends.find(&window[from..], is_last) {
            MarkerMatch::Marker { at, .. } => {
                let at = from + at;
                let quotes = text[..at].bytes().filter(|&byte| byte == b'"').count();
                if is_quoted && quotes % 2 == 1 {
                    from = at + 1;
                    continue;
                }
                return if at <= LONGEST_HEADER { TagLen::Known(at) } else { TagLen::Never };
            }
            MarkerMatch::Perhaps(at) if from + at <= LONGEST_HEADER => return TagLen::More,
            MarkerMatch::Nothing if text.len() <= LONGEST_HEADER && !is_last => return TagLen::More,
            MarkerMatch::Perhaps(_) | MarkerMatch::Nothing => return TagLen::Never,
        }
    }
}

/// The value of an attribute in the header of a tag, quoted or not.
pub(in crate::dialect) fn attribute_of<'t>(header: &'t str, attribute: &str) -> Option<&'t str> {
    let mut rest = header;
    loop {
        let at = rest.find(attribute)?;
        let is_complete = at == 0 || rest[..at].ends_with(|before: char| before.is_whitespace());
        let after = rest[at + attribute.len()..].trim_start();
        if let (true, Some(value)) = (is_complete, after.strip_prefix('=')) {
            let value = value.trim_start();
            return Some(match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
                _ => value.split(|end: char| end.is_whitespace() || end == '/').next().unwrap_or_default(),
            });
        }
        rest = &rest[at + attribute.len()..];
    }
}
