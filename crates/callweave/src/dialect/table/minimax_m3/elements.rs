//! Calls with their arguments as nested elements: objects by name, lists by items.
//!
//! Every tag of the frame begins with the same token, so that raw markup in values is never mistaken
//! for it.

use serde::Deserialize;

use crate::dialect::check;
use crate::dialect::spec::{Body, Tag};
use crate::dialect::bodies::tags::attribute_of;
use crate::dialect::bodies::typed::{self, Prober, Prospect};
use crate::dialect::bodies::{Context, Token, head, leading_space};
use crate::event::Completion;
use crate::json::schema::Types;

/// See [`Body::Elements`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Elements {
    /// What stands before every tag of the frame.
    pub prefix: String,
    /// The tag that holds the name, without the prefix.
    pub call: Tag,
    /// What ends a call, without the prefix.
    pub call_close: String,
    /// The name of the elements of a list.
    pub item: String,
}


impl Elements {
    /// Whether a tag of that inside begins a call.
    fn opens_call(&self, name: &str) -> bool {
        name.starts_with(self.call.open.trim_start_matches('<'))
    }

    fn closes_call(&self, name: &str) -> bool {
        self.call_close.trim_start_matches("</").trim_end_matches('>') == name
    }

    pub(in crate::dialect) fn check(&self, of: &dyn Fn(&str) -> String) -> check::Checked {
        check::tag(&of("call"), &self.call)?;
        check::marker(&of("call.end"), &self.call.end)?;
        check::marker(&of("call_close"), &self.call_close)?;
        check::filled(&of("item"), &self.item)
    }
}

const LONGEST_TAG: usize = 512;
/// Elements lie in each other only so deep, since the way down to one is gone again for its type and its end.
/// An opener further down is data; few readers of JSON would follow it.
const DEEPEST: usize = 128;

/// Reads one call.
#[derive(Clone, Debug, Default)]
pub(in crate::dialect) struct Reader {
    at: At,
    stack: Vec<Level>,
    /// What the value that is open may still become.
    prober: Prober,
    /// How much of a held value is white space at its start, and how much holds no tag.
    seen: (usize, usize),
    was_odd: bool,
    /// How many bytes in front are known to be data of the value, and what was seen behind a tag that may end it.
    clear: usize,
    looked: Looked,
    /// Whether a value ended where its closer does not fit, or without one.
    has_unfit_end: bool,
}

/// What was seen behind a tag that may end a value: how many bytes from it on, and how many elements of the value's name
/// are open there.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    far: usize,
    open: usize,
    /// Whether they are counted: those of a quoted call are.
    counts: bool,
}

/// How far is looked behind such a tag.
const LONGEST_LOOK: usize = 1 << 18;
/// How often the rest of a text may be looked through.
const MOST_LOOKS: u32 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
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
struct Level {
    name: String,
    kind: Kind,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    List,
    Leaf,
}

/// A tag of the frame at the start of a text.
enum Found<'t> {
    Open { name: &'t str, len: usize },
    Close { name: &'t str, len: usize },
    None,
    More,
}

impl Reader {
    #[inline]
    pub(in crate::dialect) fn is_in_string(&self) -> bool {
        self.at == At::Text
    }

    #[inline]
    pub(in crate::dialect) fn next(&mut self, text: &str, context: &mut Context<'_>) -> Token {
        let Body::Elements(body) = &context.form.form.body else { return Token::Fail };
        match self.at {
            At::Text => self.text(text, body, context),
            At::Start => self.start(text, body, context),
            At::Header => self.header(text, body, context),
            At::Tags => self.tags(text, body, context),
            At::Value => self.value(text, body, context),
            At::Done => Token::Done,
        }
    }

    fn start(&mut self, text: &str, body: &Elements, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        let opener = format!("{}{}", body.prefix, body.call.open);
        if text.starts_with(&opener) {
            self.at = At::Header;
            return Token::Markup(opener.len());
        }
        if !context.is_last && opener.starts_with(text) { Token::More } else { Token::Fail }
    }

    fn header(&mut self, text: &str, body: &Elements, context: &mut Context<'_>) -> Token {
        let Some(end) =
            head(text, LONGEST_TAG).find(body.call.end.as_str()).filter(|&end| end <= LONGEST_TAG)
        else {
            return if context.is_last || text.len() > LONGEST_TAG { Token::Fail } else { Token::More };
        };
        let attribute = body.call.attribute.as_deref().unwrap_or("name");
        let Some(name) = attribute_of(&text[..end], attribute) else { return Token::Fail };
        if name.is_empty() {
            return Token::Fail;
        }
        context.name.clear();
        context.name.push_str(name);
        self.stack.clear();
        self.stack.push(Level { name: String::new(), kind: Kind::Object, count: 0 });
        self.at = At::Tags;
        Token::Name(end + body.call.end.len())
    }

    /// Between elements.
    fn tags(&mut self, text: &str, body: &Elements, context: &mut Context<'_>) -> Token {
        let space = leading_space(text);
        if space > 0 {
            return Token::Markup(space);
        }
        if text.is_empty() {
            return if context.is_last { self.finish(0, Completion::Cut, context) } else { Token::More };
        }
        match tag_at(text, &body.prefix, context.is_last) {
            Found::More => Token::More,
            Found::Open { name, .. } if body.opens_call(name) => {
                // The next call, and this one was not closed.
                self.finish(0, Completion::Whole, context)
            }
            Found::Open { name, len } => self.open(name, len, context),
            Found::Close { name, len } => self.close(name, len, body, context),
            // Nothing says that the call goes on.
            Found::None if self.has_unfit_end => self.finish(0, Completion::Cut, context),
            Found::None if !self.was_odd => {
                self.was_odd = true;
                Token::Odd("text stands between the elements of a call")
            }
            Found::None => {
                let first = text.chars().next().map_or(0, char::len_utf8);
                Token::Markup(first + run_len(&text[first..], &body.prefix, context.is_last))
            }
        }
    }

    fn open(&mut self, name: &str, len: usize, context: &mut Context<'_>) -> Token {
        let Some(parent) = self.stack.last_mut() else { return Token::Fail };
        context.scratch.clear();
        match parent.kind {
            Kind::List => context.scratch.push_str(if parent.count == 0 { "[" } else { ", " }),
            Kind::Object | Kind::Leaf => {
                context.key(len, parent.count == 0, name);
            }
        }
        parent.count += 1;
        self.stack.push(Level { name: name.to_owned(), kind: Kind::Leaf, count: 0 });
        self.at = At::Value;
        self.prober = Prober::default();
        self.seen = (0, 0);
        (self.clear, self.looked) = (0, Looked::default());
        Token::Converted(len)
    }

    fn close(&mut self, name: &str, len: usize, body: &Elements, context: &mut Context<'_>) -> Token {
        let is_call = body.closes_call(name);
        let depth = self.stack.iter().rposition(|level| level.name == name && !level.name.is_empty());
        match depth {
            Some(depth) => {
                context.scratch.clear();
                while self.stack.len() > depth {
                    self.close_level(context.scratch);
                }
                if context.scratch.is_empty() { Token::Markup(len) } else { Token::Converted(len) }
            }
            None if is_call => self.finish(len, Completion::Whole, context),
            // The closer of something around the call.
            None if context.form.form.close.iter().any(|close| close.contains(name)) => {
                self.finish(0, Completion::Whole, context)
            }
            None if !self.was_odd => {
                self.was_odd = true;
                Token::Odd("an element is closed that is not open")
            }
            None => Token::Markup(len),
        }
    }

    fn close_level(&mut self, out: &mut String) {
        let Some(level) = self.stack.pop() else { return };
        match (level.kind, level.count) {
            (Kind::Object, 0) => out.push_str("{}"),
            (Kind::Object, _) => out.push('}'),
            (Kind::List, 0) => out.push_str("[]"),
            (Kind::List, _) => out.push(']'),
            (Kind::Leaf, _) => {}
        }
    }

    fn finish(&mut self, len: usize, completion: Completion, context: &mut Context<'_>) -> Token {
        context.scratch.clear();
        while !self.stack.is_empty() {
            self.close_level(context.scratch);
        }
        self.at = At::Done;
        context.ended = Some(completion);
        Token::Converted(len)
    }

    /// The types that the schema allows for the element that is open.
    fn types(&self, context: &Context<'_>) -> Types {
        let Some(schema) = context.tools.schema(context.name) else { return Types::ANY };
        let mut place = Some(schema.root());
        for (at, level) in self.stack.iter().enumerate().skip(1) {
            let is_item = self.stack[at - 1].kind == Kind::List;
            place = place.and_then(|place| if is_item { place.items() } else { place.property(&level.name) });
        }
        place.map_or(Types::ANY, |place| place.types())
    }

    /// After an opening tag: elements, or a value.
    fn value(&mut self, text: &str, body: &Elements, context: &mut Context<'_>) -> Token {
        let types = self.types(context);
        let may_nest =
            (types.overlaps(Types::OBJECT) || types.overlaps(Types::ARRAY)) && self.stack.len() < DEEPEST;
        let space = self.seen.0 + leading_space(&text[self.seen.0..]);
        let rest = &text[space..];
        if rest.is_empty() && !context.is_last {
            self.seen.0 = space;
            return Token::More;
        }
        match tag_at(rest, &body.prefix, context.is_last) {
            Found::More => return Token::More,
            Found::Open { name, .. } if may_nest => {
                let is_list =
                    name == body.item && types.overlaps(Types::ARRAY) || !types.overlaps(Types::OBJECT);
                if let Some(level) = self.stack.last_mut() {
                    level.kind = if is_list { Kind::List } else { Kind::Object };
                }
                self.at = At::Tags;
                return Token::Markup(space);
            }
            Found::Close { .. } if !types.allows_string() && may_nest => {
                if let Some(level) = self.stack.last_mut() {
                    level.kind = if types.overlaps(Types::OBJECT) { Kind::Object } else { Kind::List };
                }
                self.at = At::Tags;
                return Token::Markup(space);
            }
            _ => {}
        }
        let (len, is_ended) = self.leaf_len(text, self.seen.1, body, context);
        self.seen.1 = len;
        let is_string = types.is_only_string() || types.is_none();
        let prospect = if is_string { Prospect::String } else { self.prober.probe(&text[..len], types) };
        match prospect {
            Prospect::String => {
                context.scratch.clear();
                context.scratch.push('"');
                self.at = At::Text;
                Token::Converted(0)
            }
            Prospect::Open | Prospect::Literal if is_ended || context.is_last => {
                context.scratch.clear();
                typed::convert(&text[..len], types, context.scratch);
                self.at = At::Tags;
                Token::Converted(len)
            }
            Prospect::Open | Prospect::Literal => Token::More,
        }
    }

    /// A piece of a string.
    #[inline]
    fn text(&mut self, text: &str, body: &Elements, context: &mut Context<'_>) -> Token {
        let (len, is_ended) = self.leaf_len(text, 0, body, context);
        self.clear = self.clear.saturating_sub(len);
        if len == 0 {
            if !is_ended && !context.is_last {
                return Token::More;
            }
            context.scratch.clear();
            context.scratch.push('"');
            self.at = At::Tags;
            return Token::Converted(0);
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
        body: &Elements,
        context: &mut Context<'_>,
    ) -> (usize, bool) {
        let mut from = from.max(self.clear).min(text.len());
        loop {
            let at = from + run_len(&text[from..], &body.prefix, context.is_last);
            if at == text.len() {
                return (at, false);
            }
            let (is_close, is_own, len) = match tag_at(&text[at..], &body.prefix, context.is_last) {
                Found::More => return (at, false),
                Found::Close { name, len } => (true, self.is_leaf(name), len),
                Found::Open { name, len } => (false, self.is_leaf(name), len),
                Found::None => (false, false, 0),
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
                self.looked = Looked { far: len, open: usize::from(!is_close), counts: !is_close };
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

    /// Whether what follows the closer of the open element is what the grammar has there. Nothing: more text is needed.
    fn fits(&self, rest: &str, body: &Elements, context: &Context<'_>) -> Option<bool> {
        let is_last = context.is_last;
        let rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return is_last.then_some(true);
        }
        let outer = self.stack.len().checked_sub(2).map_or("", |outer| self.stack[outer].name.as_str());
        let opens = |tag: &str| context.form.form.open.iter().any(|open| open.contains(&format!("<{tag}>")));
        let len = match tag_at(rest, &body.prefix, false) {
            Found::More => return is_last.then_some(true),
            Found::None => return Some(false),
            Found::Open { name, .. } => return Some(!body.opens_call(name) && !opens(name)),
            Found::Close { name, .. } if !outer.is_empty() => return Some(name == outer),
            Found::Close { name, .. } if !body.closes_call(name) => return Some(false),
            Found::Close { len, .. } => len,
        };
        let rest = rest[len..].trim_ascii_start();
        if rest.is_empty() {
            return is_last.then_some(true);
        }
        let is_outside = |name: &str| context.form.form.close.iter().any(|close| close.contains(name));
        let len = match tag_at(rest, &body.prefix, false) {
            Found::More => return is_last.then_some(true),
            Found::None => return Some(false),
            Found::Open { name, .. } => return Some(body.opens_call(name)),
            Found::Close { name, .. } if !is_outside(name) => return Some(false),
            Found::Close { len, .. } => len,
        };
        let rest = rest[len..].trim_ascii_start();
        match tag_at(rest, &body.prefix, false) {
            _ if rest.is_empty() => is_last.then_some(true),
            Found::More => is_last.then_some(true),
            Found::Close { .. } => Some(false),
            Found::Open { .. } | Found::None => Some(true),
        }
    }

    /// Looks for a closer that fits behind the tag at `at`, after as many closers as openers of what is quoted before it:
    /// where it stands, if there is one. The outer nothing: more text is needed.
    #[expect(clippy::option_option, reason = "what is not known yet and what is not there differ")]
    fn look_on(
        &mut self,
        text: &str,
        at: usize,
        body: &Elements,
        context: &mut Context<'_>,
    ) -> Option<Option<usize>> {
        if *context.looks > MOST_LOOKS {
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
                Found::More => return None,
                Found::Close { name, len } if self.is_leaf(name) => {
                    if self.looked.open > 0 {
                        self.looked.open -= 1;
                    } else if self.fits(&text[next + len..], body, context)? {
                        return Some(Some(next));
                    }
                    len
                }
                Found::Open { name, len } => {
                    self.looked.counts |= body.opens_call(name);
                    self.looked.open += usize::from(self.is_leaf(name) && self.looked.counts);
                    len
                }
                Found::Close { name, len } => {
                    self.looked.counts &= !body.closes_call(name) || self.looked.open > 0;
                    len
                }
                Found::None if next == text.len() => return None,
                Found::None => 1,
            };
            self.looked.far += len;
        }
    }
}

/// How many bytes come before the next prefix, or before what may become one.
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

fn tag_at<'t>(text: &'t str, prefix: &str, is_last: bool) -> Found<'t> {
    let Some(tag) = text.strip_prefix(prefix) else {
        return if !is_last && prefix.starts_with(text) { Found::More } else { Found::None };
    };
    if tag.is_empty() {
        return if is_last { Found::None } else { Found::More };
    }
    let Some(inner) = tag.strip_prefix('<') else { return Found::None };
    let Some(end) = head(inner, LONGEST_TAG).find('>').filter(|&end| end <= LONGEST_TAG) else {
        return if is_last || inner.len() > LONGEST_TAG { Found::None } else { Found::More };
    };
    let len = prefix.len() + 1 + end + 1;
    match inner[..end].strip_prefix('/') {
        Some(name) => Found::Close { name: name.trim(), len },
        None => Found::Open { name: inner[..end].trim(), len },
    }
}
