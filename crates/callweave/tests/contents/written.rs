//! Calls as a model writes them, and what may stand in their values.

use std::collections::BTreeSet;

use callweave::dialect::{CallBody, CallForm, Dialect, NamedTag};

/// A call of `get_weather` in a dialect, with a place for the city.
pub(crate) struct Template {
    pub(crate) name: String,
    before: String,
    after: String,
    /// The quote around the value, with escapes; none: it is raw.
    quote: Option<char>,
    /// Tags that a raw value may not hold in any order.
    tags: Tags,
}

/// The tags of a dialect with raw values; none are empty.
#[derive(Default)]
struct Tags {
    call: String,
    parameter: String,
    close: String,
    /// The end of the call, behind its last value: its closer, and that of the text around it.
    end: Vec<String>,
    /// The token on both sides of a string, which has no escape.
    quote: String,
}

impl Template {
    pub(crate) fn of(dialect: &Dialect) -> Self {
        let (before, after) = dialect.example.split_once("Oslo").expect("every example asks about Oslo");
        let quote = before.chars().next_back().filter(|last| matches!(last, '"' | '\''));
        let (name, before, after) = (dialect.name.clone(), before.to_owned(), after.to_owned());
        Self { name, before, after, quote, tags: Tags::of(dialect) }
    }

    pub(crate) fn write(&self, value: &str) -> String {
        let escaped = |quote: &str| {
            value.replace('\\', "\\\\").replace('\n', "\\n").replace(quote, &format!("\\{quote}"))
        };
        let value = match self.quote {
            Some(quote) => escaped(quote.encode_utf8(&mut [0; 4])),
            None => value.to_owned(),
        };
        format!("{}{value}{}", self.before, self.after)
    }
}

impl Tags {
    fn of(dialect: &Dialect) -> Self {
        let of_form = |form: &CallForm| match &form.body {
            CallBody::Tagged(body) => Some(Self {
                call: body.call.open.clone(),
                parameter: body.parameter.open.clone(),
                close: body.value_close.clone(),
                end: body.call_close.iter().take(1).chain(form.close.first()).cloned().collect(),
                quote: String::new(),
            }),
            CallBody::Elements(body) => Some(Self {
                call: format!("{}{}", body.prefix, body.call.open),
                parameter: format!("{}<city>", body.prefix),
                close: format!("{}</city>", body.prefix),
                end: [format!("{}{}", body.prefix, body.call_close)]
                    .into_iter()
                    .chain(form.close.clone())
                    .collect(),
                quote: String::new(),
            }),
            CallBody::Children(_) => Some(Self {
                call: "<get_weather>".into(),
                parameter: "<city>".into(),
                close: "</city>".into(),
                end: vec!["</get_weather>".into()],
                quote: String::new(),
            }),
            CallBody::Braces(body) => Some(Self { quote: body.quote.clone(), ..Self::default() }),
            _ => None,
        };
        let own = dialect.forms.first().and_then(of_form).unwrap_or_default();
        let Self { call, parameter, close, end, quote } = own;
        let end = end.into_iter().map(plain).collect();
        Self { call: plain(call), parameter: plain(parameter), close: plain(close), end, quote }
    }
}

impl Template {
    /// The reason why no reader can tell a raw value, if none can.
    pub(crate) fn untold(&self, value: &str) -> Option<Untold> {
        let Tags { call, parameter, close, end, quote } = &self.tags;
        if !quote.is_empty() {
            return value.contains(quote.as_str()).then_some(Untold::Quote);
        }
        if self.quote.is_some() || close.is_empty() {
            return None;
        }
        let behind =
            |(at, _): (usize, &str)| value[at + close.len()..].split_whitespace().collect::<String>();
        let closed: Vec<String> = value.match_indices(close.as_str()).map(behind).collect();
        let is_ended = |rest: &String| {
            // The next call may stand under the same opener.
            let goes_on =
                rest.strip_prefix(end[0].as_str()).is_some_and(|rest| rest.starts_with(call.as_str()));
            goes_on || rest.starts_with(&end.concat())
        };
        let is_begun = |(at, _): (usize, &str)| {
            let count = |tag: &String| value[at..].matches(tag.as_str()).count();
            let is_open = value.rfind(parameter.as_str()) > value.rfind(close.as_str());
            count(parameter) > count(close) || is_open && count(parameter) > 0
        };
        if closed.iter().any(is_ended) {
            return Some(Untold::End);
        }
        if closed.iter().any(|rest| rest.starts_with(parameter.as_str())) {
            return Some(Untold::Parameter);
        }
        value.match_indices(call.as_str()).any(is_begun).then_some(Untold::Begun)
    }
}

/// Content of a raw value that no reader can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Untold {
    /// The token on both sides of a string.
    Quote,
    /// Its own closer and the next parameter.
    Parameter,
    /// Its own closer and the end of the call: a call behind that is one.
    End,
    /// A call that is begun with a parameter, neither of which is closed.
    Begun,
}

/// All markers, closers, openers and complete examples of these dialects.
pub(crate) fn pieces(dialects: &[Dialect]) -> Vec<String> {
    let mut pieces = BTreeSet::new();
    for dialect in dialects {
        pieces.insert(dialect.example.clone());
        own_pieces(dialect).into_iter().for_each(|piece| {
            pieces.insert(piece);
        });
    }
    pieces.into_iter().collect()
}

/// The markers of a dialect, as they are written.
pub(crate) fn own_pieces(dialect: &Dialect) -> BTreeSet<String> {
    let mut pieces: BTreeSet<String> = dialect.markup.iter().cloned().collect();
    for pair in &dialect.reasoning {
        pieces.extend(pair.open.iter().chain(&pair.close).cloned());
    }
    for form in &dialect.forms {
        pieces.extend(form.open.iter().chain(&form.close).cloned());
        match &form.body {
            CallBody::Header(body) => {
                pieces.extend(body.before.iter().chain(&body.after).chain(&body.id).cloned())
            }
            CallBody::Tagged(body) => {
                pieces.insert(tag(&body.call, "get_weather"));
                pieces.insert(tag(&body.parameter, "city"));
                pieces.extend(body.call_close.iter().cloned());
                pieces.extend([body.value_open.clone(), body.value_close.clone()]);
            }
            CallBody::Braces(body) => pieces.extend(body.before.iter().cloned()),
            CallBody::Elements(body) => {
                let tags = [
                    tag(&body.call, "get_weather"),
                    body.call_close.clone(),
                    "<city>".into(),
                    "</city>".into(),
                ];
                pieces.extend(tags.map(|tag| format!("{}{tag}", body.prefix)));
            }
            CallBody::Children(body) => {
                let (open, close) = match body.call.open.is_empty() {
                    true => ("<get_weather>".to_owned(), "</get_weather>".to_owned()),
                    false => (tag(&body.call, "get_weather"), body.call_close.clone()),
                };
                pieces.extend([open, close, "<city>".into(), "</city>".into()]);
            }
            CallBody::Fields(body) => pieces.extend([body.close.clone(), format!("</{}>", body.name)]),
            CallBody::Json(_) | CallBody::Python {} | CallBody::Matched(_) => {}
            other => panic!("the pieces of {other:?} are not known"),
        }
    }
    pieces.into_iter().map(plain).filter(|piece| !piece.is_empty()).collect()
}

/// A marker without what stands for something else.
fn plain(marker: String) -> String {
    let holes = ["{suffix}", "{word}", "{numbers}"];
    holes.iter().fold(marker, |marker, hole| marker.replace(hole, ""))
}

fn tag(tag: &NamedTag, name: &str) -> String {
    match &tag.attribute {
        Some(attribute) => format!("{} {attribute}=\"{name}\"{}", tag.open, tag.end),
        None => format!("{}{name}{}", tag.open, tag.end),
    }
}
