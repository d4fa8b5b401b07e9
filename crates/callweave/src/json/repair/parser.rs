//! The tolerant parser: containers, and the tokens between their items.
//!
//! The parser never writes text. It walks over the input with an explicit stack and notes changes; the rest of the
//! input stays as it was written.

use super::noise::{NoisySource, may_be_noise};
use super::{HopelessReason, RepairChange, RepairChangeKind, RepairOptions, encoded, strict};

/// The maximum depth that is repaired: as deep as `serde_json` reads by default.
const MAX_DEPTH: usize = 127;

/// The maximum number of braces around the first that are taken for doubled ones.
const MAX_EXTRA_BRACES: usize = 8;

/// The reason why the parser gave up.
pub(super) enum ParseStop {
    Hopeless(HopelessReason, usize),
    /// The document has one level of escaping too many.
    Encoded,
}

pub(super) type ParseStep<T = ()> = Result<T, ParseStop>;

pub(super) struct RepairParser<'t> {
    pub(super) source: NoisySource<'t>,
    /// The comma up to which the text is JSON beyond doubt; 0 if there is none.
    sound: usize,
    pub(super) at: usize,
    pub(super) options: RepairOptions,
    pub(super) changes: Vec<RepairChange>,
    pub(super) stack: Vec<ParserFrame>,
    /// The end of the last token that stays: missing tokens are added there.
    pub(super) settled: usize,
    pub(super) last: LastValue,
    /// Whether the text ended before the document did.
    pub(super) is_truncated: bool,
    /// The number of times that an open string may still be followed to the end of the text.
    pub(super) searches_left: u8,
    level: u8,
    expect: Expectation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    Value,
    AfterValue,
    Key,
    Colon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerKind {
    Object,
    Array,
    /// Parentheses: a tuple, or nothing but brackets around one value.
    Group {
        is_call: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ParserFrame {
    pub(super) container: ContainerKind,
    /// The position of its opening bracket.
    start: usize,
    /// The change that opened it, if any.
    opener: usize,
    /// The comma that waits for an item.
    comma: Option<CommaState>,
    /// The number of items it has begun.
    items: usize,
    /// The start of the current item, the comma before it, and the number of changes at that time.
    item_start: usize,
    item_comma: Option<CommaState>,
    item_changes: usize,
    /// The number of further braces that were opened around it, to be closed with it.
    extra_braces: usize,
    /// Whether its braces were added by the repair.
    is_implied: bool,
    /// Whether one of its items was a member with a colon.
    has_members: bool,
    /// Whether the last of them had an equals sign for a colon.
    pub(super) is_assigning: bool,
}

/// A comma between two items.
#[derive(Clone, Copy, Debug)]
enum CommaState {
    /// It is at this position of the text.
    Written(usize),
    /// It was added by the change of this number.
    Added(usize),
}

/// The value that was read last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastValue {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_string: bool,
    /// The frame, if it was a container that ended with a bracket of its own.
    closed: Option<ParserFrame>,
}

impl LastValue {
    pub(super) fn is_container(&self) -> bool {
        self.closed.is_some()
    }

    pub(super) fn is_empty_container(&self) -> bool {
        self.closed.is_some_and(|frame| frame.items == 0)
    }

    /// The frame, if it was a `container` that ended with a bracket of its own.
    fn closed(&self, container: ContainerKind) -> Option<&ParserFrame> {
        self.closed.as_ref().filter(|frame| frame.container == container)
    }
}

impl<'t> RepairParser<'t> {
    pub(super) fn new(text: &'t str, options: RepairOptions, sound: usize, level: u8) -> Self {
        Self {
            source: NoisySource::new(text),
            sound,
            at: 0,
            options,
            changes: Vec::with_capacity(text.len() / 8),
            stack: Vec::new(),
            settled: 0,
            last: LastValue { start: 0, end: 0, is_string: false, closed: None },
            is_truncated: false,
            searches_left: 8,
            level,
            expect: Expectation::Value,
        }
    }

    /// Notes a change at the current position.
    #[inline]
    pub(super) fn change(
        &mut self,
        at: usize,
        end: usize,
        replacement: &'static str,
        kind: RepairChangeKind,
    ) {
        let change = RepairChange { at, end, replacement, kind };
        if self.changes.last().is_none_or(|last| last.at <= at) {
            self.changes.push(change);
        } else {
            let place = self.changes.partition_point(|earlier| earlier.at <= at);
            self.changes.insert(place, change);
        }
    }

    /// Forgets the changes from `place` of the text on.
    pub(super) fn forget_from(&mut self, place: usize) {
        while self.changes.last().is_some_and(|change| change.at >= place) {
            self.changes.pop();
        }
    }

    /// Removes a range with everything that was noted inside it. Text that was added right before it belongs to the
    /// token there.
    pub(super) fn remove(&mut self, start: usize, end: usize, kind: RepairChangeKind) {
        if end > start {
            let is_inside =
                |change: &RepairChange| change.at > start || (change.at == start && change.end > start);
            while self.changes.last().is_some_and(is_inside) {
                self.changes.pop();
            }
            self.change(start, end, "", kind);
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.source.byte(self.at)
    }

    /// Skips white space, comments and special tokens. Returns whether a line ended there.
    #[inline]
    pub(super) fn skip_noise(&mut self) -> bool {
        match self.source.short_gap(self.at) {
            Some(next) => {
                self.at = next;
                false
            }
            None => self.skip_long_noise(),
        }
    }

    #[inline(never)]
    fn skip_long_noise(&mut self) -> bool {
        let mut has_newline = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => {
                    has_newline = true;
                    self.at += 1;
                }
                _ if may_be_noise(byte) && self.skip_odd_noise() => {}
                _ => break,
            }
        }
        has_newline
    }

    /// Skips one comment, special token, or white space that JSON does not know.
    fn skip_odd_noise(&mut self) -> bool {
        let Some((end, kind)) = self.source.noise(self.at) else { return false };
        let replacement = match kind {
            Some(RepairChangeKind::Space) if self.source.char(self.at).is_some_and(char::is_whitespace) => {
                " "
            }
            _ => "",
        };
        if let Some(kind) = kind {
            self.change(self.at, end, replacement, kind);
        }
        self.at = end;
        true
    }

    /// Reads one value from here to its end, or to the end of the text.
    pub(super) fn value(&mut self) -> ParseStep {
        self.expect = Expectation::Value;
        if self.at < self.sound {
            self.skip_sound()?;
        }
        self.run()
    }

    /// Goes to the comma up to which the text is JSON beyond doubt, with the containers open there.
    fn skip_sound(&mut self) -> ParseStep {
        let comma = self.sound;
        for start in strict::open_containers(self.source.bytes, comma) {
            let is_object = self.source.bytes[start] == b'{';
            self.push_frame(if is_object { ContainerKind::Object } else { ContainerKind::Array }, start)?;
            let frame = self.frame();
            // The number of items does not matter, only that there are some.
            frame.items = 1;
            frame.has_members = is_object;
        }
        self.at = comma;
        self.end_value(comma, false);
        Ok(())
    }

    /// Reads on until no container is open.
    pub(super) fn run(&mut self) -> ParseStep {
        loop {
            let has_newline = self.skip_noise();
            if self.at >= self.source.len() || self.source.is_fence(self.at) {
                // Braces that were never there are not missing at the end.
                let is_complete =
                    self.expect == Expectation::AfterValue && self.stack.iter().all(|frame| frame.is_implied);
                self.is_truncated |= self.at >= self.source.len() && !is_complete;
                self.close_all();
                return Ok(());
            }
            match self.expect {
                Expectation::Value => self.step_value()?,
                Expectation::AfterValue => self.step_after_value(has_newline)?,
                Expectation::Key => self.step_key()?,
                Expectation::Colon => self.step_colon(),
            }
            if self.expect == Expectation::AfterValue && self.stack.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn innermost(&self) -> Option<ContainerKind> {
        self.stack.last().map(|frame| frame.container)
    }

    fn frame(&mut self) -> &mut ParserFrame {
        self.stack.last_mut().expect("only called with a container open")
    }

    /// Notes that an item begins here.
    #[inline]
    pub(super) fn begin_item(&mut self) {
        let (at, changes) = (self.at, self.changes.len());
        if let Some(frame) = self.stack.last_mut() {
            frame.item_comma = frame.comma.take();
            frame.items += 1;
            frame.item_start = at;
            frame.item_changes = changes;
        }
    }

    /// Notes that a value without a bracket of its own ended here.
    #[inline]
    pub(super) fn end_value(&mut self, start: usize, is_string: bool) {
        self.last = LastValue { start, end: self.at, is_string, closed: None };
        self.settled = self.at;
        self.expect = Expectation::AfterValue;
    }

    fn step_value(&mut self) -> ParseStep {
        let byte = self.source.bytes[self.at];
        let is_member = self.innermost() == Some(ContainerKind::Object);
        let is_plain = match self.innermost() {
            Some(ContainerKind::Object) => self.plain_member_value(),
            Some(ContainerKind::Array | ContainerKind::Group { .. }) => self.plain_elements(),
            None => false,
        };
        if is_plain {
            return Ok(());
        }
        match byte {
            b',' | b'}' | b']' | b')' if is_member => {
                self.change(self.settled, self.settled, "null", RepairChangeKind::Missing);
                self.expect = Expectation::AfterValue;
                self.last.closed = None;
            }
            b',' if !self.stack.is_empty() => self.drop_byte(RepairChangeKind::Comma),
            b'}' | b']' | b')' if !self.stack.is_empty() => return self.close(byte),
            b':' if is_member => self.drop_byte(RepairChangeKind::Colon),
            b':' | b'=' if !self.stack.is_empty() => self.drop_byte(RepairChangeKind::Junk),
            b'.' if self.source.starts_with(self.at, "...") && !self.stack.is_empty() => self.ellipsis(),
            b'\\' if self.level < encoded::MAX_LEVELS => return Err(ParseStop::Encoded),
            _ => {
                if !is_member {
                    self.begin_item();
                }
                return match byte {
                    b'{' => self.open_object(),
                    b'[' => self.open(ContainerKind::Array, self.at, self.at + 1),
                    b'(' => self.open_group(self.at, self.at + 1, false),
                    _ if self.source.quote(self.at).is_some() => self.string_value(),
                    b'/' => self.pattern(),
                    _ => self.bare_value(),
                };
            }
        }
        Ok(())
    }

    fn step_after_value(&mut self, has_newline: bool) -> ParseStep {
        let byte = self.source.bytes[self.at];
        let Some(container) = self.innermost() else { return Ok(()) };
        match byte {
            b',' | b';' => {
                let at = self.at;
                self.at += 1;
                if byte == b';' {
                    self.change(at, at + 1, ",", RepairChangeKind::Comma);
                }
                if container != ContainerKind::Object && self.reopen_object(at) {
                    return Ok(());
                }
                self.take_comma(at);
                Ok(())
            }
            b'}' | b']' | b')' => self.close(byte),
            _ if container == ContainerKind::Object => {
                self.after_member(byte, has_newline);
                Ok(())
            }
            b':' if self.last.is_string => self.imply_object(),
            b':' => {
                self.drop_byte(RepairChangeKind::Junk);
                Ok(())
            }
            _ if self.last.is_container() && !has_newline && self.is_word(byte) => {
                self.drop_words();
                Ok(())
            }
            _ => {
                self.add_comma();
                self.expect = Expectation::Value;
                Ok(())
            }
        }
    }

    /// Continues behind the comma at `at`.
    #[inline]
    pub(super) fn take_comma(&mut self, at: usize) {
        self.at = at + 1;
        let frame = self.frame();
        frame.comma = Some(CommaState::Written(at));
        let is_object = frame.container == ContainerKind::Object;
        self.expect = if is_object { Expectation::Key } else { Expectation::Value };
    }

    /// Adds a comma after the last item.
    fn add_comma(&mut self) {
        let settled = self.settled;
        self.change(settled, settled, ",", RepairChangeKind::Comma);
        let place = self.changes.partition_point(|change| change.at <= settled) - 1;
        self.frame().comma = Some(CommaState::Added(place));
    }

    /// Whether a word begins here, and neither a value in brackets or quotes nor a number.
    fn is_word(&self, byte: u8) -> bool {
        let is_value = matches!(byte, b'{' | b'[' | b'(' | b'-' | b'0'..=b'9');
        !is_value && self.source.quote(self.at).is_none()
    }

    /// Removes the words here, which belong to no value.
    fn drop_words(&mut self) {
        let start = self.at;
        self.at = self.words_end(start + self.source.char(start).map_or(1, char::len_utf8));
        self.remove(start, self.at, RepairChangeKind::Junk);
    }

    /// Handles the text after a member that is followed by neither a comma nor a bracket.
    fn after_member(&mut self, byte: u8, has_newline: bool) {
        if byte == b'{' {
            self.close_implicitly();
            return;
        }
        let is_key = self.source.quote(self.at).is_some() || has_newline || self.is_member(self.at);
        if is_key && !matches!(byte, b'[' | b'(' | b':') {
            self.add_comma();
            self.expect = Expectation::Key;
            return;
        }
        self.drop_words();
    }

    fn step_key(&mut self) -> ParseStep {
        if !self.frame().is_implied && self.plain_members() {
            return Ok(());
        }
        let byte = self.source.bytes[self.at];
        match byte {
            b'}' | b']' | b')' => return self.close(byte),
            b',' => self.drop_byte(RepairChangeKind::Comma),
            b':' => return Err(ParseStop::Hopeless(HopelessReason::NoKey, self.at)),
            b'.' if self.source.starts_with(self.at, "...") => self.ellipsis(),
            b'\\' if self.level < encoded::MAX_LEVELS => return Err(ParseStop::Encoded),
            b'{' => self.close_implicitly(),
            b'[' if self.merge_array() => {}
            b'[' | b'(' if self.frame().items == 0 => self.turn_into_set(),
            b'[' | b'(' => self.drop_byte(RepairChangeKind::Junk),
            _ if self.frame().is_implied && !self.is_member(self.at) => self.close_implicitly(),
            _ => {
                self.begin_item();
                let start = self.at;
                if self.source.quote(self.at).is_some() {
                    if self.string(super::string::StringContext::Key)? {
                        self.end_key(start, self.at);
                    }
                } else {
                    self.bare_key();
                }
            }
        }
        Ok(())
    }

    /// Notes the key from `start` to `end`.
    #[inline]
    pub(super) fn end_key(&mut self, start: usize, end: usize) {
        self.last = LastValue { start, end, is_string: true, closed: None };
        self.settled = end;
        self.expect = Expectation::Colon;
    }

    fn step_colon(&mut self) {
        let byte = self.source.bytes[self.at];
        match byte {
            b':' => return self.end_colon(self.at + 1),
            b'=' => {
                let end = self.at + if self.source.byte(self.at + 1) == Some(b'>') { 2 } else { 1 };
                self.change(self.at, end, ":", RepairChangeKind::Colon);
                self.at = end;
            }
            b',' | b'}' if !self.frame().has_members => {
                // Only a string so far, and a comma or the end after it: a set.
                self.turn_into_set();
                self.expect = Expectation::AfterValue;
                return;
            }
            _ => self.change(self.settled, self.settled, ":", RepairChangeKind::Colon),
        }
        let is_assigning = byte == b'=';
        if is_assigning {
            self.settled = self.at;
        }
        self.frame().has_members = true;
        self.frame().is_assigning = is_assigning;
        self.expect = Expectation::Value;
    }

    /// Notes that the colon of a member ended before `end`.
    #[inline]
    pub(super) fn end_colon(&mut self, end: usize) {
        self.at = end;
        self.settled = end;
        let frame = self.frame();
        frame.has_members = true;
        frame.is_assigning = false;
        self.expect = Expectation::Value;
    }

    fn drop_byte(&mut self, kind: RepairChangeKind) {
        self.change(self.at, self.at + 1, "", kind);
        self.at += 1;
    }

    fn ellipsis(&mut self) {
        let start = self.at;
        while self.peek() == Some(b'.') {
            self.at += 1;
        }
        self.change(start, self.at, "", RepairChangeKind::Ellipsis);
    }

    fn push_frame(&mut self, container: ContainerKind, start: usize) -> ParseStep {
        if self.stack.len() >= MAX_DEPTH {
            return Err(ParseStop::Hopeless(HopelessReason::TooDeep, start));
        }
        self.stack.push(ParserFrame {
            container,
            start,
            opener: self.changes.len(),
            comma: None,
            items: 0,
            item_start: self.at,
            item_comma: None,
            item_changes: self.changes.len(),
            extra_braces: 0,
            is_implied: false,
            has_members: false,
            is_assigning: false,
        });
        Ok(())
    }

    fn open(&mut self, container: ContainerKind, start: usize, end: usize) -> ParseStep {
        self.push_frame(container, start)?;
        self.at = end;
        self.settled = end;
        self.expect = if container == ContainerKind::Object { Expectation::Key } else { Expectation::Value };
        Ok(())
    }

    /// Opens an object. Braces that a template doubled (`{{"a": 1}}`) are one brace.
    fn open_object(&mut self) -> ParseStep {
        let start = self.at;
        let mut extra = 0;
        let mut inner = start;
        loop {
            let next = self.source.gap(inner + 1).next;
            if self.source.byte(next) != Some(b'{') || extra == MAX_EXTRA_BRACES {
                break;
            }
            extra += 1;
            inner = next;
        }
        if extra > 0 {
            let next = self.source.gap(inner + 1).next;
            let is_doubled = self.source.byte(next).is_some_and(|byte| byte != b']');
            if is_doubled {
                self.remove(start, inner, RepairChangeKind::Braces);
            } else {
                extra = 0;
                inner = start;
            }
        }
        self.open(ContainerKind::Object, inner, inner + 1)?;
        self.frame().extra_braces = extra;
        Ok(())
    }

    /// Opens parentheses, with the name of a called function if they have one.
    pub(super) fn open_group(&mut self, start: usize, end: usize, is_call: bool) -> ParseStep {
        let opener = self.changes.len();
        let kind = if is_call { RepairChangeKind::Call } else { RepairChangeKind::Sequence };
        self.change(start, end, "[", kind);
        self.open(ContainerKind::Group { is_call }, start, end)?;
        self.frame().opener = opener;
        Ok(())
    }

    fn turn_into_set(&mut self) {
        let start = self.frame().start;
        self.change(start, start + 1, "[", RepairChangeKind::Sequence);
        self.frame().container = ContainerKind::Array;
        self.expect = Expectation::Value;
    }

    /// If the object that has begun may be a set, makes it one, to read its first item as a value.
    pub(super) fn begin_set(&mut self) -> bool {
        if self.frame().has_members {
            return false;
        }
        self.undo_item();
        self.turn_into_set();
        true
    }

    /// Takes back that an item began.
    pub(super) fn undo_item(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.items -= 1;
            frame.comma = frame.item_comma;
        }
    }

    /// Puts braces around the members that begin where a string in an array is followed by a colon.
    pub(super) fn imply_object(&mut self) -> ParseStep {
        let start = self.last.start;
        // A prefix of the string may have been removed since the item began.
        let item = self.stack.last().map_or(0, |frame| frame.item_changes);
        let place = item + self.changes[item..].partition_point(|change| change.at < start);
        let brace = RepairChange { at: start, end: start, replacement: "{", kind: RepairChangeKind::Object };
        self.changes.insert(place, brace);
        let at = self.at;
        self.push_frame(ContainerKind::Object, start)?;
        let frame = self.frame();
        frame.is_implied = true;
        frame.items = 1;
        frame.item_start = start;
        frame.item_changes = place + 1;
        frame.has_members = true;
        self.at = at + 1;
        self.settled = self.at;
        self.expect = Expectation::Value;
        Ok(())
    }

    /// Reopens an object that had ended too early: after it and a comma a member follows.
    pub(super) fn reopen_object(&mut self, comma: usize) -> bool {
        let Some(frame) = self.last.closed(ContainerKind::Object) else { return false };
        let next = self.source.gap(self.at).next;
        let is_member = self.source.byte(next).is_some_and(|byte| !matches!(byte, b'{' | b'[' | b'}' | b']'))
            && (self.is_named_member(next) || self.is_pair(next));
        if !is_member || self.stack.len() >= MAX_DEPTH {
            return false;
        }
        let frame = *frame;
        self.remove_byte(self.last.end - 1, RepairChangeKind::Reopened);
        self.stack
            .push(ParserFrame { comma: (frame.items > 0).then_some(CommaState::Written(comma)), ..frame });
        if frame.items == 0 {
            self.remove_byte(comma, RepairChangeKind::Comma);
        }
        self.expect = Expectation::Key;
        true
    }

    /// Merges another array into the first: after a member that was an array, and a comma.
    fn merge_array(&mut self) -> bool {
        let Some(&closed) = self.last.closed(ContainerKind::Array) else { return false };
        let Some(CommaState::Written(comma)) = self.frame().comma else { return false };
        if self.stack.len() >= MAX_DEPTH {
            return false;
        }
        self.remove_byte(self.last.end - 1, RepairChangeKind::Reopened);
        self.change(self.at, self.at + 1, "", RepairChangeKind::Reopened);
        self.at += 1;
        self.frame().comma = None;
        self.stack
            .push(ParserFrame { comma: (closed.items > 0).then_some(CommaState::Written(comma)), ..closed });
        if closed.items == 0 {
            self.remove_byte(comma, RepairChangeKind::Comma);
        }
        self.expect = Expectation::Value;
        true
    }

    /// Handles a closing bracket.
    fn close(&mut self, bracket: u8) -> ParseStep {
        let wanted = |container: ContainerKind| match bracket {
            b'}' => container == ContainerKind::Object,
            b']' => container == ContainerKind::Array,
            _ => matches!(container, ContainerKind::Group { .. }),
        };
        let innermost = self.innermost().expect("only called with a container open");
        if wanted(innermost) && !self.frame().is_implied {
            self.close_frame(bracket);
            return Ok(());
        }
        let after = self.source.gap(self.at + 1).next;
        let follows = self.source.byte(after);
        let is_doubled = bracket == b'}'
            && innermost == ContainerKind::Array
            && self.last.closed(ContainerKind::Object).is_some()
            && self.frame().comma.is_none();
        if is_doubled && (follows == Some(b']') || self.is_element_after_comma(after)) {
            self.drop_byte(RepairChangeKind::Stray);
            return Ok(());
        }
        if self.stack.iter().any(|frame| wanted(frame.container) && !frame.is_implied) {
            self.close_implicitly();
            return Ok(());
        }
        let is_before_member = innermost == ContainerKind::Array
            && follows == Some(b',')
            && self.stack.iter().rev().nth(1).is_some_and(|frame| frame.container == ContainerKind::Object)
            && self.is_quoted_member(after + 1);
        let is_stray = matches!(innermost, ContainerKind::Group { .. })
            || matches!(follows, Some(b',' | b'"'))
            || (bracket == b')' && follows.is_some());
        if is_stray && !is_before_member {
            self.drop_byte(RepairChangeKind::Stray);
            return Ok(());
        }
        // It can close nothing: it stands for the bracket that is due.
        self.close_frame(bracket);
        Ok(())
    }

    /// Whether a comma stands at `at` and an object or array after it.
    fn is_element_after_comma(&self, at: usize) -> bool {
        self.source.byte(at) == Some(b',')
            && matches!(self.source.byte(self.source.gap(at + 1).next), Some(b'{' | b'['))
    }

    /// Ends the innermost container with the bracket at this place.
    fn close_frame(&mut self, bracket: u8) {
        let frame = self.stack.pop().expect("only called with a container open");
        self.end_items(&frame);
        let at = self.at;
        self.at += 1;
        match frame.container {
            ContainerKind::Group { is_call } => self.close_group(&frame, is_call, at, at + 1),
            ContainerKind::Object if bracket != b'}' => self.change(at, at + 1, "}", RepairChangeKind::Stray),
            ContainerKind::Array if bracket != b']' => {
                let kind = if self.source.byte(frame.start) == Some(b'{') {
                    RepairChangeKind::Sequence
                } else {
                    RepairChangeKind::Stray
                };
                self.change(at, at + 1, "]", kind);
            }
            ContainerKind::Object | ContainerKind::Array => {}
        }
        self.end_container(frame);
        for _ in 0..frame.extra_braces {
            let next = self.source.gap(self.at).next;
            if self.source.byte(next) != Some(b'}') {
                break;
            }
            self.skip_noise();
            self.drop_byte(RepairChangeKind::Braces);
        }
    }

    /// Ends the innermost container where its bracket is missing.
    fn close_implicitly(&mut self) {
        let frame = self.stack.pop().expect("only called with a container open");
        self.end_items(&frame);
        match frame.container {
            ContainerKind::Object => {
                let kind = if frame.is_implied { RepairChangeKind::Object } else { RepairChangeKind::Closer };
                self.change(self.settled, self.settled, "}", kind);
            }
            ContainerKind::Array => self.change(self.settled, self.settled, "]", RepairChangeKind::Closer),
            ContainerKind::Group { is_call } => self.close_group(&frame, is_call, self.settled, self.settled),
        }
        let settled = self.settled;
        self.last = LastValue { start: frame.start, end: settled, is_string: false, closed: None };
        self.expect = Expectation::AfterValue;
    }

    fn close_group(&mut self, frame: &ParserFrame, is_call: bool, at: usize, end: usize) {
        let kind = self.changes[frame.opener].kind;
        if frame.items == 0 && is_call {
            self.changes[frame.opener].replacement = "null";
            self.change(at, end, "", kind);
        } else if frame.items == 1 && frame.comma.is_none() {
            self.changes[frame.opener].replacement = "";
            self.change(at, end, "", kind);
        } else {
            self.change(at, end, "]", kind);
        }
    }

    /// Removes the comma that waited for an item.
    fn end_items(&mut self, frame: &ParserFrame) {
        match frame.comma {
            None => {}
            Some(CommaState::Added(change)) => _ = self.changes.remove(change),
            Some(CommaState::Written(comma)) => self.remove_byte(comma, RepairChangeKind::Comma),
        }
    }

    /// Removes the byte at `place`, which may have been replaced before.
    fn remove_byte(&mut self, place: usize, kind: RepairChangeKind) {
        // It was read a moment ago, so its change is among the last.
        let mut recent = self.changes.iter_mut().rev().skip_while(|change| change.at > place);
        match recent.by_ref().take_while(|change| change.at == place).find(|change| change.end > place) {
            Some(change) => change.replacement = "",
            None => self.change(place, place + 1, "", kind),
        }
    }

    fn end_container(&mut self, frame: ParserFrame) {
        self.last = LastValue { start: frame.start, end: self.at, is_string: false, closed: Some(frame) };
        self.settled = self.at;
        self.expect = Expectation::AfterValue;
    }

    /// Closes everything: the text has ended, or a fence ends the document.
    fn close_all(&mut self) {
        if self.innermost() == Some(ContainerKind::Object) {
            self.end_last_member();
        }
        while !self.stack.is_empty() {
            self.close_implicitly();
        }
    }

    /// Completes or leaves out the member that has no value yet.
    fn end_last_member(&mut self) {
        match self.expect {
            Expectation::Colon | Expectation::Value if self.options.is_prefix => self.drop_item(),
            Expectation::Colon => self.change(self.settled, self.settled, ":null", RepairChangeKind::Missing),
            Expectation::Value => self.change(self.settled, self.settled, "null", RepairChangeKind::Missing),
            Expectation::Key | Expectation::AfterValue => {}
        }
    }

    /// Leaves out the item that has begun, with the comma before it.
    pub(super) fn drop_item(&mut self) {
        let frame = *self.frame();
        self.changes.truncate(frame.item_changes);
        let start = match frame.item_comma {
            Some(CommaState::Written(comma)) => comma,
            Some(CommaState::Added(_)) | None => frame.item_start,
        };
        self.remove(start, self.at, RepairChangeKind::Cut);
        if let Some(CommaState::Added(change)) = frame.item_comma {
            self.changes.remove(change);
        }
        self.frame().items -= 1;
        self.settled = start;
        self.expect = Expectation::AfterValue;
    }
}
