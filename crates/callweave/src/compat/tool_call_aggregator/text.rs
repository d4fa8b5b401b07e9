//! Calls written into text: `<use_tool>` blocks, and the patterns that a user registers.
//!
//! The [dialects](crate::dialect) read such text as it streams and repair it on the way. Here a handler has a buffer
//! and asks which *complete* blocks stand in it, where they end, and what is written in them, raw.

use std::collections::HashMap;
use std::ops::Range;

use serde::Serialize;

use crate::dialect::{CallMatcher, MatchedCall};
use crate::json::{Object, Value, escape_into};

/// A call found in a text. Positions count bytes, so `&buffer[block.index_start..block.index_end]` is the
/// block; [`ParsedTextBlock::utf16`] gives them in UTF-16 units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParsedTextBlock {
    /// Where the block begins.
    pub index_start: usize,
    /// Where the block is over.
    pub index_end: usize,
    /// The tool's name; empty if the block names none.
    pub name: String,
    /// The argument text as it is written, or (where the arguments are fields of their own) made from
    /// the fields.
    pub args_text: String,
    /// The fields of the block except the name, in the order written.
    pub fields: Vec<(String, String)>,
}

/// The blocks of a buffer. See [`use_tool_blocks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextBlocks {
    /// The blocks, in order.
    pub blocks: Vec<ParsedTextBlock>,
    /// Where to go on once the buffer has grown: after the last block.
    pub next: usize,
}

impl ParsedTextBlock {
    /// A block with a name and argument text, as a matcher makes it.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::ParsedTextBlock;
    ///
    /// let block = ParsedTextBlock::new(3..9, "look", "{}");
    /// assert_eq!((block.index_start, block.index_end), (3, 9));
    /// ```
    pub fn new(range: Range<usize>, name: impl Into<String>, args_text: impl Into<String>) -> Self {
        let (name, args_text) = (name.into(), args_text.into());
        Self { index_start: range.start, index_end: range.end, name, args_text, fields: Vec::new() }
    }

    /// The text that follows the block: the tail that a handler may suppress.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::extract_use_tool_blocks;
    ///
    /// let buffer = "Sure. <use_tool><name>look</name></use_tool> I will look.";
    /// let block = &extract_use_tool_blocks(buffer)[0];
    /// assert_eq!(block.tail(buffer), " I will look.");
    /// assert_eq!(&buffer[..block.index_start], "Sure. ");
    /// ```
    pub fn tail<'b>(&self, buffer: &'b str) -> &'b str {
        buffer.get(self.index_end..).unwrap_or("")
    }

    /// The block's positions in UTF-16 units, for clients that count in these.
    ///
    /// ```
    /// use callweave::compat::tool_call_aggregator::extract_use_tool_blocks;
    ///
    /// let buffer = "👍<use_tool><name>look</name></use_tool>";
    /// let block = &extract_use_tool_blocks(buffer)[0];
    /// assert_eq!((block.index_start, block.utf16(buffer).start), (4, 2));
    /// ```
    pub fn utf16(&self, buffer: &str) -> Range<usize> {
        let units = |text: &str| text.chars().map(char::len_utf16).sum::<usize>();
        let start = units(buffer.get(..self.index_start).unwrap_or(""));
        start..start + units(buffer.get(self.index_start..self.index_end).unwrap_or(""))
    }
}

/// The complete `<use_tool>` blocks in a buffer.
///
/// ```
/// use callweave::compat::tool_call_aggregator::extract_use_tool_blocks;
///
/// let buffer = r#"<use_tool><name>tide</name><args>{"day":1}</args></use_tool> So."#;
/// let blocks = extract_use_tool_blocks(buffer);
/// assert_eq!((blocks[0].name.as_str(), blocks[0].args_text.as_str()), ("tide", r#"{"day":1}"#));
/// assert!(extract_use_tool_blocks("<use_tool><name>not yet").is_empty());
/// ```
pub fn extract_use_tool_blocks(buffer: &str) -> Vec<ParsedTextBlock> {
    use_tool_blocks(buffer, 0).blocks
}

/// The complete `<use_tool>` blocks that begin at byte `from` or later.
///
/// ```
/// use callweave::compat::tool_call_aggregator::use_tool_blocks;
///
/// let mut buffer = String::from("<use_tool><name>a</name></use_tool>");
/// let first = use_tool_blocks(&buffer, 0);
/// buffer.push_str("<use_tool><name>b</name></use_tool>");
/// assert_eq!(use_tool_blocks(&buffer, first.next).blocks[0].name, "b");
/// ```
pub fn use_tool_blocks(buffer: &str, from: usize) -> TextBlocks {
    const OPEN: &str = "<use_tool";
    const CLOSE: &str = "</use_tool>";
    let mut found = TextBlocks { blocks: Vec::new(), next: from };
    let mut at = from;
    while let Some(rest) = buffer.get(at..)
        && let Some(start) = rest.find(OPEN).map(|found| at + found)
    {
        let inside = start + OPEN.len();
        let Some(end) = buffer[inside..].find(CLOSE).map(|found| inside + found) else { break };
        if !buffer[inside..].starts_with(['>', '<', '/'])
            && !buffer[inside..].starts_with(char::is_whitespace)
        {
            // The tag of something else, such as `<use_tools>`.
            at = inside;
            continue;
        }
        at = end + CLOSE.len();
        let mut block = read_block(&buffer[inside..end]);
        (block.index_start, block.index_end) = (start, at);
        found.blocks.push(block);
        found.next = at;
    }
    found
}

/// Reads the text between `<use_tool` and `</use_tool>`.
fn read_block(inside: &str) -> ParsedTextBlock {
    let mut block = ParsedTextBlock::default();
    let Some((header, body)) = inside.split_once('>') else { return block };
    block.name = attribute(header, "name").unwrap_or("").trim().to_owned();
    for (tag, value) in fields(body) {
        if tag.eq_ignore_ascii_case("name") {
            block.name = value.to_owned();
        } else {
            block.fields.push((tag.to_owned(), value.to_owned()));
        }
    }
    if block.fields.is_empty() {
        if let Ok(members) = body.parse::<Object>() {
            read_members(members, &mut block);
            block.args_text = body.trim().to_owned();
        }
        return block;
    }
    let given = block.fields.iter().find(|(key, value)| key == "args" && !value.is_empty());
    block.args_text = match given {
        Some((_, text)) => text.clone(),
        None => join_fields(&block.fields),
    };
    block
}

/// A body that is a JSON object: all of it is the arguments.
fn read_members(members: Object, block: &mut ParsedTextBlock) {
    for (key, value) in members {
        match value {
            Value::String(name) if key == "name" && block.name.is_empty() => block.name = name,
            Value::String(text) => block.fields.push((key, text)),
            value => block.fields.push((key, value.to_string())),
        }
    }
}

fn attribute<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let (before, rest) = header.split_at(header.find(key)?);
    if !before.ends_with(char::is_whitespace) {
        return None;
    }
    let rest = rest[key.len()..].trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

/// The elements `<tag>value</tag>` of a body, their values trimmed; an element nested in one is part of its value.
fn fields(body: &str) -> Vec<(&str, &str)> {
    // Where the closing tags of each name stand, so that tags without one cost nothing.
    let mut closers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, _) in body.rmatch_indices("</") {
        if let Some(tag) = tag_at(&body[at + 2..]) {
            closers.entry(tag).or_default().push(at);
        }
    }
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(open) = body[at..].find('<').map(|found| at + found) {
        at = open + 1;
        let Some(tag) = tag_at(&body[at..]) else { continue };
        let inside = at + tag.len() + 1;
        let Some(places) = closers.get_mut(tag) else { continue };
        while places.last().is_some_and(|&place| place < inside) {
            places.pop();
        }
        if let Some(&close) = places.last() {
            found.push((tag, body[inside..close].trim()));
            at = close + tag.len() + "</>".len();
        }
    }
    found
}

/// The name of a tag whose `<` (and `/`) stand right before `text`.
fn tag_at(text: &str) -> Option<&str> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_:-".contains(character);
    let (tag, _) = text.split_at(text.find(|character| !is_name(character))?);
    (!tag.is_empty() && text[tag.len()..].starts_with('>')).then_some(tag)
}

/// An object of the fields, its keys sorted: lists and objects stand as they are, all else is a string.
fn join_fields(fields: &[(String, String)]) -> String {
    let mut sorted: Vec<_> = fields.iter().filter(|(key, _)| key != "args").collect();
    // Of fields with the same name the last one counts.
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    sorted.reverse();
    sorted.dedup_by(|earlier, later| earlier.0 == later.0);
    sorted.reverse();
    let mut json = String::from("{");
    for (key, value) in sorted {
        if json.len() > 1 {
            json.push_str(", ");
        }
        json.push('"');
        escape_into(key, &mut json);
        json.push_str("\": ");
        let is_structure = value.starts_with(['{', '[']) && value.parse::<Value>().is_ok();
        if is_structure {
            json.push_str(value);
        } else {
            json.push('"');
            escape_into(value, &mut json);
            json.push('"');
        }
    }
    json.push('}');
    json
}

impl From<ParsedTextBlock> for MatchedCall {
    fn from(block: ParsedTextBlock) -> Self {
        let ParsedTextBlock { index_start: start, index_end: end, name, args_text: arguments, .. } = block;
        Self { start, end, name, arguments }
    }
}

/// The patterns that a user registered, beside the built-in one.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockPatterns(Vec<CallMatcher>);

impl BlockPatterns {
    pub(super) fn register(&mut self, matcher: CallMatcher) {
        self.unregister(matcher.name());
        self.0.push(matcher);
    }

    pub(super) fn unregister(&mut self, name: &str) -> bool {
        let count = self.0.len();
        self.0.retain(|known| known.name() != name);
        self.0.len() < count
    }

    /// The blocks of all patterns, by position. Where two overlap, the one that begins first counts, the
    /// built-in pattern's before others. A matcher that fails is left out.
    pub(super) fn blocks(&self, buffer: &str) -> Vec<ParsedTextBlock> {
        let mut blocks = extract_use_tool_blocks(buffer);
        for found in self.0.iter().filter_map(|matcher| matcher.find(buffer).ok()).flatten() {
            blocks.push(ParsedTextBlock::new(found.start..found.end, found.name, found.arguments));
        }
        blocks.sort_by_key(|block| block.index_start);
        let mut end = 0;
        blocks.retain(|block| {
            let is_free = block.index_start >= end;
            if is_free {
                end = block.index_end;
            }
            is_free
        });
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_an_object() {
        let text = "<use_tool name='a'><q>x \"y\"</q><n>[1, 2]</n><b>{bad</b></use_tool>";
        let block = &extract_use_tool_blocks(text)[0];
        assert_eq!(block.name, "a");
        assert_eq!(block.args_text, r#"{"b": "{bad", "n": [1, 2], "q": "x \"y\""}"#);
    }

    #[test]
    fn a_child_overrides_the_attribute_and_nested_tags_are_the_value() {
        let text = "<use_tool name=\"a\"><name> b </name><args><x>1</x></args></use_tool>";
        let block = &extract_use_tool_blocks(text)[0];
        assert_eq!((block.name.as_str(), block.args_text.as_str()), ("b", "<x>1</x>"));
    }

    #[test]
    fn damaged_blocks_are_empty_and_other_tags_are_none() {
        for (text, expected) in [
            ("<use_tool name=\"x\"</use_tool>", Some(("", ""))),
            ("<use_tool>{day: 1}</use_tool>", Some(("", ""))),
            ("<use_tool><name>a</name></use_tool>", Some(("a", ""))),
            ("<use_tools><name>a</name></use_tools></use_tool>", None),
        ] {
            let blocks = extract_use_tool_blocks(text);
            let found = blocks.first().map(|block| (block.name.as_str(), block.args_text.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_repeated_field_counts_once() {
        let text = "<use_tool><a>1</a><b>2</b><a>3</a></use_tool>";
        assert_eq!(extract_use_tool_blocks(text)[0].args_text, r#"{"a": "3", "b": "2"}"#);
    }

    #[test]
    fn any_cut_of_a_buffer_is_read_without_panic() {
        let text = "é<use_tool name='ü'><name>\u{1f44d}</name><args>{\"é\": </args></use_tool>é<use_tool>{}</use_tool>";
        for start in 0..text.len() {
            for end in start..=text.len() {
                if let Some(part) = text.get(start..end) {
                    extract_use_tool_blocks(part);
                    use_tool_blocks(text, end);
                }
            }
        }
    }
}
