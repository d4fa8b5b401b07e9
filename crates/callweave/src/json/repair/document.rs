//! The outermost level: prose, fences, and several documents in one text.

use std::ops::Range;

use super::bare::{literal, number};
use super::parser::{ParseStep, ParseStop, RepairParser};
use super::string::StringContext;
use super::{HopelessReason, RepairChange, RepairChangeKind};

/// One document of the text.
struct DocumentItem {
    start: usize,
    end: usize,
    /// The changes that were noted for it.
    changes: Range<usize>,
    is_container: bool,
    is_empty: bool,
    /// Whether nothing at all separates it from the one before.
    is_glued: bool,
}

/// The reading of plain text outside of all containers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlainTextReading {
    /// Words separated by commas or lines.
    List,
    /// One line of text.
    Line,
}

impl RepairParser<'_> {
    /// Reads the complete text: the changes that repair it, and whether it was truncated.
    pub(super) fn document(mut self) -> ParseStep<(Vec<RepairChange>, bool)> {
        self.skip_wrapped_fence();
        let mut plain = None;
        let mut items: Vec<DocumentItem> = Vec::new();
        let mut is_separated = false;
        let mut has_no_fences = false;
        loop {
            is_separated |= self.skip_noise();
            let Some(byte) = self.peek() else { break };
            if self.source.is_fence(self.at) {
                self.skip_fence();
                is_separated = true;
                continue;
            }
            if items.is_empty() {
                self.first(byte, &mut plain, &mut items)?;
                is_separated = false;
                continue;
            }
            match byte {
                b',' => {
                    let comma = self.at;
                    self.at += 1;
                    if self.reopen_object(comma) {
                        self.run()?;
                        self.extend(&mut items);
                        continue;
                    }
                    self.change(comma, comma + 1, "", RepairChangeKind::Comma);
                    is_separated = true;
                }
                b'}' | b']' | b')' | b';' => {
                    let kind = if byte == b';' { RepairChangeKind::Comma } else { RepairChangeKind::Stray };
                    self.change(self.at, self.at + 1, "", kind);
                    self.at += 1;
                }
                b':' if self.last.is_string && items.len() == 1 => {
                    self.imply_object()?;
                    self.run()?;
                    self.extend(&mut items);
                }
                _ => {
                    if self.next(&mut plain, &mut items, is_separated, &mut has_no_fences)? {
                        is_separated = false;
                    } else {
                        break;
                    }
                }
            }
        }
        if items.is_empty() {
            let why = if self.source.text.trim().is_empty() {
                HopelessReason::Empty
            } else {
                HopelessReason::NoJson
            };
            return Err(ParseStop::Hopeless(why, 0));
        }
        self.gather(items);
        Ok((self.changes, self.is_truncated))
    }

    /// Removes a bracket right before a fence, which belongs to nothing.
    fn skip_wrapped_fence(&mut self) {
        self.skip_noise();
        if matches!(self.peek(), Some(b'[' | b'{')) && self.source.is_fence(self.at + 1) {
            self.change(self.at, self.at + 1, "", RepairChangeKind::Stray);
            self.at += 1;
        }
    }

    /// Removes the mark of a fence, with the name of its language.
    fn skip_fence(&mut self) {
        let start = self.at;
        self.at = self.fence_end(start);
        self.change(start, self.at, "", RepairChangeKind::Fence);
    }

    fn fence_end(&self, at: usize) -> usize {
        let marks = self.source.bytes[at..].iter().take_while(|&&byte| byte == b'`').count();
        let language = self.source.bytes[at + marks..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+'))
            .count();
        let end = at + marks + language;
        // A word after the fence is a language only if the block begins after it.
        match self.source.byte(self.source.gap(end).next) {
            Some(b'{' | b'[' | b'"' | b'(') => end,
            _ if self.source.line_end(end) == end => end,
            _ => at + marks,
        }
    }

    /// Reads a value and adds it to the documents.
    fn item(&mut self, items: &mut Vec<DocumentItem>, is_glued: bool) -> ParseStep {
        let (start, changes) = (self.at, self.changes.len());
        self.value()?;
        self.push_item(items, start, changes, is_glued);
        Ok(())
    }

    /// Adds the value that began at `start`, when there were that many `changes`, to the documents.
    fn push_item(&mut self, items: &mut Vec<DocumentItem>, start: usize, changes: usize, is_glued: bool) {
        items.push(DocumentItem {
            start,
            end: self.settled,
            changes: changes..self.changes.len(),
            is_container: self.last.is_container() || matches!(self.source.byte(start), Some(b'{' | b'[')),
            is_empty: self.last.is_empty_container(),
            is_glued,
        });
    }

    /// Extends the last document, which went on after its end.
    fn extend(&mut self, items: &mut [DocumentItem]) {
        if let Some(item) = items.last_mut() {
            item.end = self.settled;
            item.changes.end = self.changes.len();
            item.is_container = true;
            item.is_empty = false;
        }
    }

    /// Reads the first document, or removes one piece of text before it.
    fn first(
        &mut self,
        byte: u8,
        plain: &mut Option<PlainTextReading>,
        items: &mut Vec<DocumentItem>,
    ) -> ParseStep {
        match byte {
            b'}' | b']' | b')' | b',' | b':' | b';' => {
                self.change(self.at, self.at + 1, "", RepairChangeKind::Stray);
                self.at += 1;
                return Ok(());
            }
            b'[' if self.bracketed_token().is_some() => {
                let end = self.bracketed_token().unwrap_or(self.at);
                self.change(self.at, end, "", RepairChangeKind::Token);
                self.at = end;
                return Ok(());
            }
            b'`' if matches!(self.source.byte(self.at + 1), Some(b'{' | b'[')) => {
                self.change(self.at, self.at + 1, "", RepairChangeKind::Fence);
                self.at += 1;
                return Ok(());
            }
            b'{' | b'[' => return self.item(items, false),
            b'\\' => return self.item(items, false),
            _ if self.source.quote(self.at).is_some() => return self.item(items, false),
            b'/' if self.pattern_end(self.at).is_some() => return self.item(items, false),
            _ => {}
        }
        if self.call(self.at).is_some() {
            return self.item(items, false);
        }
        let place = match byte {
            b'(' => self.find_fenced(self.at),
            _ => self.find_fenced(self.at).or_else(|| self.find_json(self.at, true)),
        };
        if let Some(place) = place {
            self.remove(self.at, place, RepairChangeKind::Prose);
            self.at = place;
            return self.item(items, false);
        }
        if byte == b'(' && self.is_group(self.at) {
            return self.item(items, false);
        }
        self.plain_item(plain, items)
    }

    /// The end of a special token in square brackets (`[TOOL_CALLS]`) that stands here before JSON.
    fn bracketed_token(&self) -> Option<usize> {
        let name = self.at + 1;
        let is_part = |byte: &&u8| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'/');
        let length = self.source.bytes[name..].iter().take_while(is_part).count();
        let end = name + length;
        let is_token = length > 2
            && self.source.byte(end) == Some(b']')
            && literal(&self.source.text[name..end]).is_none()
            && memchr::memchr2(b'{', b'[', &self.source.bytes[end..]).is_some();
        is_token.then_some(end + 1)
    }

    /// Reads a further document, if there is one. `false` if the rest of the text was removed.
    fn next(
        &mut self,
        plain: &mut Option<PlainTextReading>,
        items: &mut Vec<DocumentItem>,
        is_separated: bool,
        has_no_fences: &mut bool,
    ) -> ParseStep<bool> {
        let is_after_container = items.last().is_some_and(|item| item.is_container);
        let byte = self.source.bytes[self.at];
        if matches!(byte, b'{' | b'[') && self.is_json(self.at, true) {
            self.item(items, !is_separated)?;
            return Ok(true);
        }
        if !is_after_container && is_separated {
            match self.source.quote(self.at) {
                Some(_) => self.item(items, false)?,
                None => self.plain_item(plain, items)?,
            }
            return Ok(true);
        }
        let fenced = if *has_no_fences { None } else { self.find_fenced(self.at) };
        *has_no_fences = fenced.is_none();
        if let Some(place) = fenced.or_else(|| self.find_json(self.at, false)) {
            self.remove(self.at, place, RepairChangeKind::Prose);
            self.at = place;
            self.item(items, false)?;
            return Ok(true);
        }
        let kind = if is_after_container { RepairChangeKind::Prose } else { RepairChangeKind::Junk };
        self.remove(self.at, self.source.len(), kind);
        self.at = self.source.len();
        Ok(false)
    }

    /// Reads plain text outside of all containers.
    fn plain_item(
        &mut self,
        plain: &mut Option<PlainTextReading>,
        items: &mut Vec<DocumentItem>,
    ) -> ParseStep {
        let (start, changes) = (self.at, self.changes.len());
        let kind = match *plain {
            Some(kind) => kind,
            None => *plain.insert(self.plain_kind(start)?),
        };
        let mut end = match kind {
            PlainTextReading::List => {
                let is_end = |&at: &usize| match self.source.bytes[at] {
                    b',' | b';' => true,
                    b'`' => self.source.is_fence(at),
                    byte => byte.is_ascii_whitespace(),
                };
                let first = self.source.char(start).map_or(1, char::len_utf8);
                (start + first..self.source.len()).find(is_end).unwrap_or(self.source.len())
            }
            PlainTextReading::Line => self.bare_end(StringContext::Root, start).0,
        };
        let text = &self.source.text[start..end];
        let close = end;
        if text.len() > 1 && text.find('"') == Some(text.len() - 1) {
            end -= 1;
        }
        self.write_bare(StringContext::Root, start, end);
        if close > end {
            self.change(end, close, "", RepairChangeKind::Quote);
        }
        self.at = close;
        self.end_value(start, false);
        self.push_item(items, start, changes, false);
        Ok(())
    }

    /// Whether the plain text from `start` on is a list of words or one line of text.
    fn plain_kind(&self, start: usize) -> ParseStep<PlainTextReading> {
        let text = &self.source.text[start..];
        let text = text.split("```").next().unwrap_or(text).trim_end();
        let is_value = |part: &str| literal(part).is_some() || number(part).is_some();
        if !text.contains(char::is_alphanumeric) && !is_value(text.trim_end_matches([',', ';', ' '])) {
            return Err(ParseStop::Hopeless(HopelessReason::NoJson, start));
        }
        let mut parts = text.split([',', '\n']).map(str::trim);
        let is_balanced = |part: &str| part.matches('(').count() == part.matches(')').count();
        if parts.all(|part| !part.contains(char::is_whitespace) && is_balanced(part)) {
            return Ok(PlainTextReading::List);
        }
        let line = &text[..text.find('\n').unwrap_or(text.len())];
        let rest = start + line.len();
        if self.source.gap(rest).next < start + text.len() {
            return Err(ParseStop::Hopeless(HopelessReason::NoJson, start));
        }
        Ok(PlainTextReading::Line)
    }

    /// Whether the parenthesis at `place` holds values, and is not a remark in prose.
    fn is_group(&self, place: usize) -> bool {
        let next = self.source.gap(place + 1).next;
        self.source.quote(next).is_some()
            || matches!(self.source.byte(next), Some(b'(' | b'{' | b'[' | b'-' | b')' | b'0'..=b'9'))
    }

    /// The first position from `at` on where a fenced block begins with JSON.
    fn find_fenced(&self, at: usize) -> Option<usize> {
        let rest = &self.source.bytes[at..];
        let mut covered = at;
        memchr::memmem::find_iter(rest, "```").map(|run| at + run).find_map(|fence| {
            if fence < covered {
                return None;
            }
            covered = self.fence_end(fence);
            let place = self.source.gap(covered).next;
            let is_document = match self.source.byte(place) {
                Some(b'{' | b'[') => self.is_json(place, true),
                Some(b'(') => self.is_group(place),
                _ => false,
            };
            is_document.then_some(place)
        })
    }

    /// The first position from `at` on where JSON seems to begin amid prose.
    fn find_json(&self, at: usize, is_first: bool) -> Option<usize> {
        memchr::memchr2_iter(b'{', b'[', &self.source.bytes[at..])
            .map(|run| at + run)
            .find(|&place| self.is_json(place, is_first))
    }

    /// Whether the bracket at `place` seems to begin a document. After a first document only brackets that are surely
    /// no remark in prose count.
    fn is_json(&self, place: usize, is_first: bool) -> bool {
        let next = self.source.gap(place + 1).next;
        let Some(byte) = self.source.byte(next) else { return is_first };
        let is_quote = self.source.quote(next).is_some_and(|_| byte != b'`');
        if self.source.bytes[place] == b'{' {
            return is_quote
                || self.is_named_member(next)
                || (is_first && matches!(byte, b'}' | b'{' | b'.' | b'0'..=b'9'));
        }
        match byte {
            b'{' | b'[' => true,
            _ if is_quote => true,
            b']' | b'-' | b',' | b'.' => is_first,
            b'0'..=b'9' => is_first && !self.is_citation(next),
            _ => {
                let end = self.words_end(next);
                is_first && literal(self.source.text[next..end].trim()).is_some()
            }
        }
    }

    /// Whether `at` stands in a `[1]` that refers to something, with text after it.
    fn is_citation(&self, at: usize) -> bool {
        let digits = self.source.bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let after = self.source.gap(at + digits + 1);
        self.source.byte(at + digits) == Some(b']')
            && !after.has_newline
            && self
                .source
                .char(after.next)
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | ',' | ';'))
    }

    /// Makes one document of all that were found.
    fn gather(&mut self, items: Vec<DocumentItem>) {
        if items.len() == 1 {
            return;
        }
        let has_filled = items.iter().any(|item| !item.is_empty);
        let is_placeholder = |at: usize, item: &DocumentItem| {
            let is_glued = item.is_glued || items.get(at + 1).is_some_and(|next| next.is_glued);
            item.is_empty && is_glued && (has_filled || at > 0)
        };
        let is_kept = |&(place, item): &(usize, &DocumentItem)| !is_placeholder(place, item);
        let mut kept = items.iter().enumerate().filter(is_kept).map(|(place, _)| place);
        let first = kept.next();
        let last = kept.clone().next_back();
        let kept = 1 + kept.count();
        let changes = std::mem::take(&mut self.changes);
        let mut done = 0;
        let list = |at, end, replacement| RepairChange { at, end, replacement, kind: RepairChangeKind::List };
        for (place, item) in items.iter().enumerate() {
            self.changes.extend_from_slice(&changes[done..item.changes.start]);
            done = item.changes.end;
            let inside = &changes[item.changes.clone()];
            if is_placeholder(place, item) {
                self.changes.push(list(item.start, item.end, ""));
                let end = inside.partition_point(|change| change.at < item.end);
                self.changes.extend_from_slice(&inside[end..]);
                continue;
            }
            if kept > 1 && Some(place) == first {
                self.changes.push(list(item.start, item.start, "["));
            }
            let end = inside.partition_point(|change| change.at <= item.end);
            self.changes.extend_from_slice(&inside[..end]);
            if kept > 1 {
                self.changes.push(list(item.end, item.end, if Some(place) == last { "]" } else { "," }));
            }
            self.changes.extend_from_slice(&inside[end..]);
        }
        self.changes.extend_from_slice(&changes[done..]);
    }
}
