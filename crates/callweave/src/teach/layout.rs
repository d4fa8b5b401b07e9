//! The layout of a dialect's calls, taken from its example: markers, white space, the text between.

use crate::dialect::{CallBody, CallForm, Dialect, ExtractOptions, Extractor};
use crate::event::{self, BlockKind, ByteSpan, Event};

/// The layout of calls in a dialect.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLayout {
    /// Special tokens before all calls, and after them.
    pub(super) before: String,
    pub(super) after: String,
    /// The form's markers, with the white space inside them.
    pub(super) open: String,
    pub(super) close: String,
    /// The text between the markers of the example.
    pub(super) body: String,
    /// Where in the body the name stands, and where the arguments.
    pub(super) name: Option<(usize, usize)>,
    pub(super) arguments: Option<(usize, usize)>,
}

impl CallLayout {
    /// The form in which a dialect's example is written, and its layout.
    pub(super) fn of(dialect: &Dialect) -> Option<(CallForm, Self)> {
        let shown = dialect.forms.iter().find_map(|form| Some((form.clone(), Self::read(dialect, form)?)));
        shown.or_else(|| {
            let form = dialect.forms.first()?;
            Some((form.clone(), Self::plain(form)))
        })
    }

    /// The layout of a form of which there is no example.
    pub(super) fn plain(form: &CallForm) -> Self {
        let first = |markers: &[String]| markers.first().map(|marker| plain(marker)).unwrap_or_default();
        Self { open: first(&form.open), close: first(&form.close), ..Self::default() }
    }

    /// The layout of the example; none if it is not written in this form.
    fn read(dialect: &Dialect, form: &CallForm) -> Option<Self> {
        let example = dialect.example.as_str();
        let (name, arguments) = places(dialect, form)?;
        let lead = &example[..name.0.min(arguments.0)];
        let found = |marker: &String| {
            let marker = plain(marker);
            lead.rfind(&marker).map(|at| (at, at + marker.len()))
        };
        // Without a marker the call begins with its own tag, or the example begins with it.
        let own = || own_tag(form).and_then(|tag| lead.rfind(&tag)).unwrap_or(0);
        let (start, opened) = match form.open.is_empty() {
            true => (own(), own()),
            false => form.open.iter().find_map(found)?,
        };
        let last = arguments.1.max(name.1);
        let closer =
            form.close.iter().map(|close| plain(close)).find_map(|close| {
                example[last..].find(&close).map(|at| (last + at, last + at + close.len()))
            });
        let tail = tokens_before(example, &dialect.markup);
        let (closed, end) = closer.unwrap_or((tail, tail));
        let (body_start, body_end) = body_range(example, opened, closed, form);
        let within = |(from, to): (usize, usize)| {
            (from >= body_start && to <= body_end).then(|| (from - body_start, to - body_start))
        };
        let before = tokens_before(&example[..start], &dialect.markup);
        Some(Self {
            before: example[before..start].to_owned(),
            after: if tail <= end { example[end..].to_owned() } else { String::new() },
            open: example[start..body_start].to_owned(),
            close: example[body_end..end].to_owned(),
            body: example[body_start..body_end].to_owned(),
            name: within(name),
            arguments: within(arguments),
        })
    }

    /// The name in the example, with the counter of the calls there.
    pub(super) fn name_as_written(&self) -> &str {
        self.name.map_or("", |(from, to)| &self.body[from..to])
    }

    /// The white space that stands after `marker` in the body.
    pub(super) fn space_after(&self, marker: &str) -> &str {
        let Some(at) = self.body.find(marker).filter(|_| !marker.is_empty()) else { return "" };
        let rest = &self.body[at + marker.len()..];
        &rest[..rest.len() - rest.trim_start().len()]
    }
}

/// A marker as it is written: without the parts that are optional.
pub(super) fn plain(marker: &str) -> String {
    marker.replace("{suffix}", "").replace("{wire_type}", "")
}

/// The tag of a call, where a form has no other marker.
fn own_tag(form: &CallForm) -> Option<String> {
    match &form.body {
        CallBody::Tagged(body) => Some(plain(&body.call.open)),
        _ => None,
    }
    .filter(|tag| !tag.is_empty())
}

/// Where the body stands between its markers: without white space, and JSON without a fence around it.
fn body_range(example: &str, opened: usize, closed: usize, form: &CallForm) -> (usize, usize) {
    let inner = &example[opened..closed];
    let (start, end) = match &form.body {
        CallBody::Json(_) => (inner.find(['{', '[']), inner.rfind(['}', ']']).map(|at| at + 1)),
        _ => (None, None),
    };
    let start = start.unwrap_or(inner.len() - inner.trim_start().len());
    let end = end.unwrap_or(inner.trim_end().len()).max(start);
    (opened + start, opened + end)
}

/// Where the special tokens at the end of `text` begin.
fn tokens_before(text: &str, tokens: &[String]) -> usize {
    let mut start = text.len();
    loop {
        let rest = text[..start].trim_end();
        let token = tokens.iter().find(|token| !token.is_empty() && rest.ends_with(token.as_str()));
        match token {
            Some(token) => start = rest.len() - token.len(),
            None => return start,
        }
    }
}

/// Where the name and the arguments of the first call stand in the example, if it is written in this form.
fn places(dialect: &Dialect, form: &CallForm) -> Option<((usize, usize), (usize, usize))> {
    let mut events: Vec<Event<'static>> = Vec::new();
    let only = Dialect { forms: vec![form.clone()], ..dialect.clone() };
    let mut extractor = Extractor::new(&ExtractOptions::with_dialects(vec![only]));
    extractor.push(&dialect.example, &mut events);
    extractor.finish(&mut events);
    let place = |span: ByteSpan| Some((usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?));
    let (call, name) = events.iter().find_map(|event| match &event.body {
        event::EventKind::BlockStart { block, kind: BlockKind::ToolCall { .. }, .. } => {
            Some((*block, event.source))
        }
        _ => None,
    })?;
    let mut arguments: Option<ByteSpan> = None;
    for event in &events {
        if let event::EventKind::Delta { block, .. } = &event.body
            && *block == call
            && !event.source.is_empty()
        {
            let start = arguments.map_or(event.source.start, |span| span.start.min(event.source.start));
            let end = arguments.map_or(event.source.end, |span| span.end.max(event.source.end));
            arguments = Some(ByteSpan { start, end });
        }
    }
    Some((place(name)?, place(arguments?)?))
}
