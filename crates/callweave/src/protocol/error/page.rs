//! An error that is not JSON: a page for browsers, or a plain line.

use std::borrow::Cow;

pub(super) struct HtmlPage<'a> {
    /// The message: a page's title or heading, or a plain text itself.
    pub(super) message: Cow<'a, str>,
    /// The text to look up as a code: the message without the status.
    pub(super) name: Cow<'a, str>,
    /// The HTTP status at the beginning of the message, or in a page's title.
    pub(super) status: Option<u16>,
}

/// The maximum length of a line that holds no more than a code.
const LONGEST_CODE_LINE: usize = 32;

pub(super) fn read(text: &str) -> HtmlPage<'_> {
    let text = text.trim();
    if !text.starts_with('<') {
        let leading = text.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let begins = status(leading);
        let rest = if begins.is_some() { &text[leading.len()..] } else { text };
        // Some proxies send only `error code: 524`.
        let is_short = text.len() <= LONGEST_CODE_LINE;
        let named = || text.rsplit(' ').next().and_then(status).filter(|_| is_short && text.contains("code"));
        return HtmlPage { message: text.into(), name: rest.trim().into(), status: begins.or_else(named) };
    }
    // XML responses have the message in an element `message`.
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

/// Returns the text of the first element of that name, if there is any; tags inside it are left out.
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

/// Returns the position of `what` from byte `from` on, in any case.
fn find(page: &str, what: &str, from: usize) -> Option<usize> {
    let is_here = |window: &[u8]| window.eq_ignore_ascii_case(what.as_bytes());
    page.as_bytes().get(from..)?.windows(what.len()).position(is_here).map(|at| from + at)
}
