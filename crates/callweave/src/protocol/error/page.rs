//! An error that is not JSON: a page for browsers, or a plain line.

use std::borrow::Cow;

pub(super) struct HtmlPage<'a> {
    /// The words: a page's title or heading, a plain text itself.
    pub(super) message: Cow<'a, str>,
    /// What a code would be, if this was one: the words without the status.
    pub(super) name: Cow<'a, str>,
    /// The HTTP status that the words begin with, or that a page's title names.
    pub(super) status: Option<u16>,
}

/// A line that says no more than a code is not longer than this.
const LONGEST_CODE_LINE: usize = 32;

pub(super) fn read(text: &str) -> HtmlPage<'_> {
    let text = text.trim();
    if !text.starts_with('<') {
        let leading = text.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let begins = status(leading);
        let rest = if begins.is_some() { &text[leading.len()..] } else { text };
        // `error code: 524` is all that some proxies say.
        let is_short = text.len() <= LONGEST_CODE_LINE;
        let named = || text.rsplit(' ').next().and_then(status).filter(|_| is_short && text.contains("code"));
        return HtmlPage { message: text.into(), name: rest.trim().into(), status: begins.or_else(named) };
    }
    // Answers in XML have the words in a message.
    let words = ["title", "h1", "message"].iter().find_map(|tag| element(text, tag));
    let Some(words) = words else { return HtmlPage { message: text.into(), name: "".into(), status: None } };
    let numbered =
        words.split(|letter: char| !letter.is_ascii_alphanumeric()).find(|word| status(word).is_some());
    let name = numbered.map_or(words.as_str(), |number| {
        words.split_once(number).map_or("", |(_, rest)| rest.trim_start_matches([':', ' ', '-']))
    });
    let (name, status) = (name.to_owned(), numbered.and_then(status));
    HtmlPage { message: words.into(), name: name.into(), status }
}

fn status(word: &str) -> Option<u16> {
    word.parse().ok().filter(|status| super::words::is_status(*status))
}

/// The text of the first element of that name, if there is any; tags inside it are left out.
fn element(page: &str, tag: &str) -> Option<String> {
    let open = find(page, &format!("<{tag}"), 0)?;
    let start = open + page[open..].find('>')? + 1;
    let end = find(page, &format!("</{tag}"), start)?;
    let mut text = String::new();
    for (number, piece) in page[start..end].split('<').enumerate() {
        let shown = if number == 0 { piece } else { piece.split_once('>').map_or("", |(_, shown)| shown) };
        text.push_str(shown);
        text.push(' ');
    }
    for (entity, letter) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
        text = text.replace(entity, letter);
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// Where `what` stands from byte `from` on, in any case.
fn find(page: &str, what: &str, from: usize) -> Option<usize> {
    let is_here = |window: &[u8]| window.eq_ignore_ascii_case(what.as_bytes());
    page.as_bytes().get(from..)?.windows(what.len()).position(is_here).map(|at| from + at)
}
