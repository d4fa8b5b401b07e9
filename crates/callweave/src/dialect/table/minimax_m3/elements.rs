//! Calls with their arguments as nested elements: objects by name, lists by items.
//!
//! Every tag of the frame begins with the same token, so that raw markup in values is never mistaken
//! for it.

use serde::Deserialize;

use crate::dialect::check;
use crate::dialect::spec::{CallBody, NamedTag};
use crate::dialect::bodies::tags::attribute_of;
use crate::dialect::bodies::typed::{self, TypeProber, PossibleType};
use crate::dialect::bodies::{BodyContext, BodyToken, head, leading_space};
use crate::event::BlockCompletion;
use crate::json::schema::TypeSet;

/// See [`CallBody::Elements`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ElementsBody {
    /// The token before every tag of the frame.
    pub prefix: String,
    /// The tag that holds the name, without the prefix.
    pub call: NamedTag,
    /// The closing tag of a call, without the prefix.
    pub call_close: String,
    /// The name of the elements of a list.
    pub item: String,
}


impl ElementsBody {
    /// Whether a tag with that inside begins a call.
    fn opens_call(&self, name: &str) -> bool {
        name.starts_with(self.call.open.trim_start_matches('<'))
    }

    fn closes_call(&self, name: &str) -> bool {
        self.call_close.trim_start_matches("</").trim_end_matches('>') == name
    }

    pub(in crate::dialect) fn check(&self, of: &dyn Fn(&str) -> String) -> check::SpecResult {
        check::tag(&of("call"), &self.call)?;
        check::marker(&of("call.end"), &self.call.end)?;
        check::marker(&of("call_close"), &self.call_close)?;
        check::filled(&of("item"), &self.item)
    }
}

const LONGEST_TAG: usize = 512;
/// The maximum depth of elements, since the way down to one is walked again for its type and its end. An opener further
/// down is data; few readers of JSON would follow it.
const DEEPEST: usize = 128;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct ElementsReader {
    at: ElementsState,
    stack: Vec<ElementLevel>,
    /// Finds the types that the open value may still have.
    prober: TypeProber,
    /// How much of a held value is white space at its start, and how much holds no tag.
    seen: (usize, usize),
    was_odd: bool,
    /// How many bytes in front are known to be data of the value, and the findings behind a tag that may end it.
    clear: usize,
    looked: ElementLookahead,
    /// Whether a value ended where its closer does not fit, or without one.
    has_unfit_end: bool,
}

/// The findings behind a tag that may end a value: how many bytes from it on, and how many elements of the value's name
/// are open there.
#[derive(Clone, Copy, Debug, Default)]
struct ElementLookahead {
    far: usize,
    open: usize,
    /// Whether they are counted: those of a quoted call are.
    counts: bool,
}

/// The maximum distance looked behind such a tag.
const LONGEST_LOOK: usize = 1 << 18;
/// How often the rest of a text may be looked through.
const MAX_LOOKS: u32 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ElementsState {
    #[default]
    Start,
    Header,
    /// At a tag, or at white space between tags.
    Tags,
    /// Right after the opening tag of an element.
    Value,
    /// Inside a string.
    Text,
    Done,
}

#[derive(Clone, Debug)]
struct ElementLevel {
    name: String,
    kind: ElementKind,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    Object,
    List,
    Leaf,
}

/// A tag of the frame at the start of a text.
enum FoundElement<'t> {
    Open { name: &'t str, len: usize },
    Close { name: &'t str, len: usize },
    None,
    More,
}

impl ElementsReader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == ElementsState::Text
    }

    #[inline]
    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut BodyContext<'_>) -> BodyToken {
        let CallBody::Elements(body) = &context.form.form.body else { return BodyToken::Fail };
        match self.at {
            ElementsState::Text => self.text(text, body, context),
            ElementsState::Start => self.start(text, body, context),
            ElementsState::Header => self.header(text, body, context),
            ElementsState::Tags => self.tags(text, body, context),
            ElementsState::Value => self.value(text, body, context),
            ElementsState::Done => BodyToken::Done,
        }
    }

    fn start(&mut self, text: &str, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        let opener = format!("{}{}", body.prefix, body.call.open);
        if text.starts_with(&opener) {
            self.at = ElementsState::Header;
            return BodyToken::Markup(opener.len());
        }
        if !context.is_last && opener.starts_with(text) { BodyToken::More } else { BodyToken::Fail }
    }

    fn header(&mut self, text: &str, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(end) =
            head(text, LONGEST_TAG).find(body.call.end.as_str()).filter(|&end| end <= LONGEST_TAG)
        else {
            return if context.is_last || text.len() > LONGEST_TAG { BodyToken::Fail } else { BodyToken::More };
        };
        let attribute = body.call.attribute.as_deref().unwrap_or("name");
        let Some(name) = attribute_of(&text[..end], attribute) else { return BodyToken::Fail };
        if name.is_empty() {
            return BodyToken::Fail;
        }
        context.name.clear();
        context.name.push_str(name);
        self.stack.clear();
        self.stack.push(ElementLevel { name: String::new(), kind: ElementKind::Object, count: 0 });
        self.at = ElementsState::Tags;
        BodyToken::Name(end + body.call.end.len())
    }

    /// Between elements.
    fn tags(&mut self, text: &str, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let space = leading_space(text);
        if space > 0 {
            return BodyToken::Markup(space);
        }
        if text.is_empty() {
            return if context.is_last { self.finish(0, BlockCompletion::Truncated, context) } else { BodyToken::More };
        }
        match tag_at(text, &body.prefix, context.is_last) {
            FoundElement::More => BodyToken::More,
            FoundElement::Open { name, .. } if body.opens_call(name) => {
                // The next call, and this one was not closed.
                self.finish(0, BlockCompletion::Complete, context)
            }
            FoundElement::Open { name, len } => self.open(name, len, context),
            FoundElement::Close { name, len } => self.close(name, len, body, context),
            // Nothing says that the call goes on.
            FoundElement::None if self.has_unfit_end => self.finish(0, BlockCompletion::Truncated, context),
            FoundElement::None if !self.was_odd => {
                self.was_odd = true;
                BodyToken::Odd("text stands between the elements of a call")
            }
            FoundElement::None => {
                let first = text.chars().next().map_or(0, char::len_utf8);
                BodyToken::Markup(first + run_len(&text[first..], &body.prefix, context.is_last))
            }
        }
    }

    fn open(&mut self, name: &str, len: usize, context: &mut BodyContext<'_>) -> BodyToken {
        let Some(parent) = self.stack.last_mut() else { return BodyToken::Fail };
        context.scratch.clear();
        match parent.kind {
            ElementKind::List => context.scratch.push_str(if parent.count == 0 { "[" } else { ", " }),
            ElementKind::Object | ElementKind::Leaf => {
                context.key(len, parent.count == 0, name);
            }
        }
        parent.count += 1;
        self.stack.push(ElementLevel { name: name.to_owned(), kind: ElementKind::Leaf, count: 0 });
        self.at = ElementsState::Value;
        self.prober = TypeProber::default();
        self.seen = (0, 0);
        (self.clear, self.looked) = (0, ElementLookahead::default());
        BodyToken::Converted(len)
    }

    fn close(&mut self, name: &str, len: usize, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let is_call = body.closes_call(name);
        let depth = self.stack.iter().rposition(|level| level.name == name && !level.name.is_empty());
        match depth {
            Some(depth) => {
                context.scratch.clear();
                while self.stack.len() > depth {
                    self.close_level(context.scratch);
                }
                if context.scratch.is_empty() { BodyToken::Markup(len) } else { BodyToken::Converted(len) }
            }
            None if is_call => self.finish(len, BlockCompletion::Complete, context),
            // The closer of something around the call.
            None if context.form.form.close.iter().any(|close| close.contains(name)) => {
                self.finish(0, BlockCompletion::Complete, context)
            }
            None if !self.was_odd => {
                self.was_odd = true;
                BodyToken::Odd("an element is closed that is not open")
            }
            None => BodyToken::Markup(len),
        }
    }

    fn close_level(&mut self, out: &mut String) {
        let Some(level) = self.stack.pop() else { return };
        match (level.kind, level.count) {
            (ElementKind::Object, 0) => out.push_str("{}"),
            (ElementKind::Object, _) => out.push('}'),
            (ElementKind::List, 0) => out.push_str("[]"),
            (ElementKind::List, _) => out.push(']'),
            (ElementKind::Leaf, _) => {}
        }
    }

    fn finish(&mut self, len: usize, completion: BlockCompletion, context: &mut BodyContext<'_>) -> BodyToken {
        context.scratch.clear();
        while !self.stack.is_empty() {
            self.close_level(context.scratch);
        }
        self.at = ElementsState::Done;
        context.ended = Some(completion);
        BodyToken::Converted(len)
    }

    /// The types that the schema allows for the element that is open.
    fn types(&self, context: &BodyContext<'_>) -> TypeSet {
        let Some(schema) = context.tools.schema(context.name) else { return TypeSet::ANY };
        let mut place = Some(schema.root());
        for (at, level) in self.stack.iter().enumerate().skip(1) {
            let is_item = self.stack[at - 1].kind == ElementKind::List;
            place = place.and_then(|place| if is_item { place.items() } else { place.property(&level.name) });
        }
        place.map_or(TypeSet::ANY, |place| place.types())
    }

    /// After an opening tag: elements, or a value.
    fn value(&mut self, text: &str, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let types = self.types(context);
        let may_nest =
            (types.overlaps(TypeSet::OBJECT) || types.overlaps(TypeSet::ARRAY)) && self.stack.len() < DEEPEST;
        let space = self.seen.0 + leading_space(&text[self.seen.0..]);
        let rest = &text[space..];
        if rest.is_empty() && !context.is_last {
            self.seen.0 = space;
            return BodyToken::More;
        }
        match tag_at(rest, &body.prefix, context.is_last) {
            FoundElement::More => return BodyToken::More,
            FoundElement::Open { name, .. } if may_nest => {
                let is_list =
                    name == body.item && types.overlaps(TypeSet::ARRAY) || !types.overlaps(TypeSet::OBJECT);
                if let Some(level) = self.stack.last_mut() {
                    level.kind = if is_list { ElementKind::List } else { ElementKind::Object };
                }
                self.at = ElementsState::Tags;
                return BodyToken::Markup(space);
            }
            FoundElement::Close { .. } if !types.allows_string() && may_nest => {
                if let Some(level) = self.stack.last_mut() {
                    level.kind = if types.overlaps(TypeSet::OBJECT) { ElementKind::Object } else { ElementKind::List };
                }
                self.at = ElementsState::Tags;
                return BodyToken::Markup(space);
            }
            _ => {}
        }
        let (len, is_ended) = self.leaf_len(text, self.seen.1, body, context);
        self.seen.1 = len;
        let is_string = types.is_only_string() || types.is_none();
        let prospect = if is_string { PossibleType::String } else { self.prober.probe(&text[..len], types) };
        match prospect {
            PossibleType::String => {
                context.scratch.clear();
                context.scratch.push('"');
                self.at = ElementsState::Text;
                BodyToken::Converted(0)
            }
            PossibleType::Open | PossibleType::Literal if is_ended || context.is_last => {
                context.scratch.clear();
                typed::convert(&text[..len], types, context.scratch);
                self.at = ElementsState::Tags;
                BodyToken::Converted(len)
            }
            PossibleType::Open | PossibleType::Literal => BodyToken::More,
        }
    }

    /// A piece of a string.
    #[inline]
    fn text(&mut self, text: &str, body: &ElementsBody, context: &mut BodyContext<'_>) -> BodyToken {
        let (len, is_ended) = self.leaf_len(text, 0, body, context);
        self.clear = self.clear.saturating_sub(len);
        if len == 0 {
            if !is_ended && !context.is_last {
                return BodyToken::More;
            }
            context.scratch.clear();
            context.scratch.push('"');
            self.at = ElementsState::Tags;
            return BodyToken::Converted(0);
        }
        let data = &text[..len];
        context.string(data)
    }

    /// How much of `text` is the value of the open element, and whether its end was seen; the first `from`
    /// bytes are known to be. An element of the same name in it is quoted, if its tags balance.
    #[inline]
    fn leaf_len(
        &mut self,
        text: &str,
        from: usize,
        body: &ElementsBody,
        context: &mut BodyContext<'_>,
    ) -> (usize, bool) {
        let mut from = from.max(self.clear).min(text.len());
        loop {
            let at = from + run_len(&text[from..], &body.prefix, context.is_last);
            if at == text.len() {
                return (at, false);
            }
            let (is_close, is_own, len) = match tag_at(&text[at..], &body.prefix, context.is_last) {
                FoundElement::More => return (at, false),
                FoundElement::Close { name, len } => (true, self.is_leaf(name), len),
                FoundElement::Open { name, len } => (false, self.is_leaf(name), len),
                FoundElement::None => (false, false, 0),
            };
            if !is_close && !is_own {
                from = at + 1;
                continue;
            }
            if is_close && is_own {
                match self.fits(&text[at + len..], body, context) {
                    None => return (at, false),
                    Some(true) => return (at, true),
                    Some(false) => {}
                }
            }
            if self.looked.far == 0 {
                self.looked = ElementLookahead { far: len, open: usize::from(!is_close), counts: !is_close };
            }
            let Some(end) = self.look_on(text, at, body, context) else { return (at, false) };
            self.looked.far = 0;
            from = match end {
                Some(end) => end,
                None if is_close => {
                    *context.in_doubt = true;
                    self.has_unfit_end = true;
                    return (at, true);
                }
                // It is data; but it may have been more, and so may what follows.
                None => {
                    *context.in_doubt = true;
                    at + 1
                }
            };
            self.clear = self.clear.max(from);
        }
    }

    /// Whether that is the name of the open element.
    fn is_leaf(&self, name: &str) -> bool {
        self.stack.last().is_some_and(|level| level.name == name)
    }

    /// Whether the text behind the closer of the open element is what the grammar has there. `None`: more text is
    /// needed.
    fn fits(&self, rest: &str, body: &ElementsBody, context: &BodyContext<'_>) -> Option<bool> {
        let is_last = context.is_last;
        let rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return is_last.then_some(true);
        }
        let outer = self.stack.len().checked_sub(2).map_or("", |outer| self.stack[outer].name.as_str());
        let opens = |tag: &str| context.form.form.open.iter().any(|open| open.contains(&format!("<{tag}>")));
        let len = match tag_at(rest, &body.prefix, false) {
            FoundElement::More => return is_last.then_some(true),
            FoundElement::None => return Some(false),
            FoundElement::Open { name, .. } => return Some(!body.opens_call(name) && !opens(name)),
            FoundElement::Close { name, .. } if !outer.is_empty() => return Some(name == outer),
            FoundElement::Close { name, .. } if !body.closes_call(name) => return Some(false),
            FoundElement::Close { len, .. } => len,
        };
        let rest = rest[len..].trim_ascii_start();
        if rest.is_empty() {
            return is_last.then_some(true);
        }
        let is_outside = |name: &str| context.form.form.close.iter().any(|close| close.contains(name));
        let len = match tag_at(rest, &body.prefix, false) {
            FoundElement::More => return is_last.then_some(true),
            FoundElement::None => return Some(false),
            FoundElement::Open { name, .. } => return Some(body.opens_call(name)),
            FoundElement::Close { name, .. } if !is_outside(name) => return Some(false),
            FoundElement::Close { len, .. } => len,
        };
        let rest = rest[len..].trim_ascii_start();
        match tag_at(rest, &body.prefix, false) {
            _ if rest.is_empty() => is_last.then_some(true),
            FoundElement::More => is_last.then_some(true),
            FoundElement::Close { .. } => Some(false),
            FoundElement::Open { .. } | FoundElement::None => Some(true),
        }
    }

    /// Looks for a closer that fits behind the tag at `at`, after as many closers as openers of quoted elements before
    /// it. Returns its position, if there is one. The outer `None`: more text is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is not there differ")]
    fn look_on(
        &mut self,
        text: &str,
        at: usize,
        body: &ElementsBody,
        context: &mut BodyContext<'_>,
    ) -> Option<Option<usize>> {
        if *context.looks > MAX_LOOKS {
            return Some(None);
        }
        loop {
            let from = at + self.looked.far;
            let next = from + run_len(&text[from..], &body.prefix, context.is_last);
            self.looked.far = next - at;
            if self.looked.far > LONGEST_LOOK || next == text.len() && context.is_last {
                *context.looks += 1;
                return Some(None);
            }
            let len = match tag_at(&text[next..], &body.prefix, context.is_last) {
                FoundElement::More => return None,
                FoundElement::Close { name, len } if self.is_leaf(name) => {
                    if self.looked.open > 0 {
                        self.looked.open -= 1;
                    } else if self.fits(&text[next + len..], body, context)? {
                        return Some(Some(next));
                    }
                    len
                }
                FoundElement::Open { name, len } => {
                    self.looked.counts |= body.opens_call(name);
                    self.looked.open += usize::from(self.is_leaf(name) && self.looked.counts);
                    len
                }
                FoundElement::Close { name, len } => {
                    self.looked.counts &= !body.closes_call(name) || self.looked.open > 0;
                    len
                }
                FoundElement::None if next == text.len() => return None,
                FoundElement::None => 1,
            };
            self.looked.far += len;
        }
    }
}

/// Returns how many bytes come before the next prefix, or before the possible beginning of one.
#[inline]
fn run_len(text: &str, prefix: &str, is_last: bool) -> usize {
    let bytes = text.as_bytes();
    let first = prefix.as_bytes()[0];
    let mut from = 0;
    while let Some(at) = memchr::memchr(first, &bytes[from..]) {
        let at = from + at;
        let rest = &bytes[at..];
        if rest.starts_with(prefix.as_bytes()) || (!is_last && prefix.as_bytes().starts_with(rest)) {
            return at;
        }
        from = at + 1;
    }
    text.len()
}

fn tag_at<'t>(text: &'t str, prefix: &str, is_last: bool) -> FoundElement<'t> {
    let Some(tag) = text.strip_prefix(prefix) else {
        return if !is_last && prefix.starts_with(text) { FoundElement::More } else { FoundElement::None };
    };
    if tag.is_empty() {
        return if is_last { FoundElement::None } else { FoundElement::More };
    }
    let Some(inner) = tag.strip_prefix('<') else { return FoundElement::None };
    let Some(end) = head(inner, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
        return if is_last || inner.len() > LONGEST_TAG { FoundElement::None } else { FoundElement::More };
    };
    let len = prefix.len() + 1 + end + 1;
    match inner[..end].strip_prefix('/') {
        Some(name) => FoundElement::Close { name: name.trim(), len },
        None => FoundElement::Open { name: inner[..end].trim(), len },
    }
}
