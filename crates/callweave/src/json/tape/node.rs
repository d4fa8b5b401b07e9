//! The values on a tape, as their readers see them.

use super::super::value::{Number, ValueBuilder};
use super::super::word::next_byte;
use super::super::{Opaque, Str, escape_into};
use super::{InspectionMark, JsonKind, TapeEntry};
use crate::json::Value;

/// The part of a value that its reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inspected {
    /// Its kind and, if it is a string, whether it is empty.
    Kind,
    /// Also that it is the same string as the one whose note has that number.
    SameAs(u32),
    /// Also that it is a number that fits an `i64`, and was passed on as the number of a block key.
    Place,
    /// The value itself.
    All,
}

/// A string or number on a tape: see [`TapeNode::leaves`].
pub(crate) struct TapeLeaf {
    /// The number of its note.
    pub(crate) note: u32,
    pub(crate) kind: JsonKind,
    /// Its range in the text, without quotes.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) seen: Inspected,
}

/// The number of a [`TapeNode`] on its tape, or none: for a reader that keeps many of them until all are seen, since a
/// node is five times as large.
#[derive(Clone, Copy, Default)]
pub(crate) struct NodeMark(u32);

impl NodeMark {
    pub(crate) fn is_set(self) -> bool {
        // The outermost value is inside no value that could be asked for it.
        self.0 != 0
    }

    /// This one, or else the other.
    pub(crate) fn or(self, other: Self) -> Self {
        if self.is_set() { self } else { other }
    }
}

/// A value on a [`Tape`](super::Tape).
#[derive(Clone, Copy)]
pub struct TapeNode<'t> {
    text: &'t str,
    notes: &'t [TapeEntry],
    at: u32,
}

impl std::fmt::Debug for TapeNode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.raw())
    }
}

impl TapeEntry {
    /// The part of it that its reader knows, without regard to the containers around it.
    fn seen(&self) -> Inspected {
        match self.sight.get() {
            InspectionMark::UNSEEN => Inspected::Kind,
            InspectionMark::SEEN => Inspected::All,
            InspectionMark::PASSED => Inspected::Place,
            other => Inspected::SameAs(other.into()),
        }
    }

    /// Whether it is the key of that name, as written.
    #[inline]
    fn is_called(&self, key: &str, text: &str) -> bool {
        // Most names have another length, and most of equal length begin otherwise.
        let start = self.start as usize + 1;
        (self.end - self.start) as usize == key.len() + 2
            && text.as_bytes().get(start) == key.as_bytes().first()
            && text.as_bytes().get(start..self.end as usize - 1) == Some(key.as_bytes())
    }
}

impl<'t> TapeNode<'t> {
    /// The outermost value.
    #[inline]
    pub(super) fn root(text: &'t str, notes: &'t [TapeEntry]) -> Self {
        Self { text, notes, at: 0 }
    }

    #[inline]
    fn note(self) -> &'t TapeEntry {
        &self.notes[self.at as usize]
    }

    /// The mark that finds it again: see [`TapeNode::marked`].
    #[inline]
    pub(crate) fn mark(self) -> NodeMark {
        NodeMark(self.at)
    }

    /// The value inside this one that was marked, if there is one.
    #[inline]
    pub(crate) fn marked(self, mark: NodeMark) -> Option<Self> {
        mark.is_set().then_some(Self { at: mark.0, ..self })
    }

    /// The kind of the value.
    #[inline]
    pub fn kind(self) -> JsonKind {
        self.note().kind
    }

    /// The number of values and keys in it, with itself.
    #[inline]
    pub(crate) fn size(self) -> usize {
        (self.note().next - self.at) as usize
    }

    /// The number of values in it, with itself; keys do not count.
    pub fn value_count(self) -> usize {
        let notes = &self.notes[self.at as usize..self.note().next as usize];
        let is_key = |note: &&TapeEntry| {
            let behind = self.text.as_bytes()[note.end as usize..].iter();
            note.kind == JsonKind::String
                && behind.copied().find(|byte| !byte.is_ascii_whitespace()) == Some(b':')
        };
        notes.len() - notes.iter().filter(is_key).count()
    }

    /// Whether it is `null`.
    #[inline]
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Its text as written.
    #[inline]
    pub fn raw(self) -> &'t str {
        self.look();
        self.written()
    }

    /// Its text as written, for a reader that passes it on.
    #[inline]
    pub(crate) fn opaque_json(self) -> Opaque<'t> {
        self.written().into()
    }

    #[inline]
    fn written(self) -> &'t str {
        let note = self.note();
        &self.text[note.start as usize..note.end as usize]
    }

    /// Its position in the parsed text.
    pub fn start(self) -> usize {
        self.note().start as usize
    }

    /// The string, if it is one.
    #[inline]
    pub fn str(self) -> Option<Str<'t>> {
        self.look();
        self.contents()
    }

    /// The string, if it is one, for a reader that passes it on.
    #[inline]
    pub(crate) fn opaque(self) -> Option<Opaque<'t>> {
        self.contents().map(Opaque::from)
    }

    #[inline]
    fn contents(self) -> Option<Str<'t>> {
        let note = self.note();
        if note.kind != JsonKind::String {
            return None;
        }
        let inner = &self.text[note.start as usize + 1..note.end as usize - 1];
        Some(if note.has_escapes { Str::Escaped(inner) } else { Str::Plain(inner) })
    }

    /// The string, if it is one that is not empty: `""`, `null` and absent are the same.
    #[inline]
    pub fn filled(self) -> Option<Str<'t>> {
        self.str().filter(|text| !text.is_empty())
    }

    /// The string, if it is one that is not empty, for a reader that passes it on.
    #[inline]
    pub(crate) fn opaque_filled(self) -> Option<Opaque<'t>> {
        self.opaque().filter(|text| !text.is_empty())
    }

    /// Whether it is a string that is not empty. That is known of values that are passed on, too.
    #[inline]
    pub(crate) fn is_filled(self) -> bool {
        self.opaque_filled().is_some()
    }

    /// Whether both strings are the same, for a reader that passes on one of them.
    pub(crate) fn is_same(self, other: Self) -> bool {
        if self.at == other.at {
            return true;
        }
        let is_same = self.contents().is_some() && self.contents() == other.contents();
        if is_same {
            let (first, later) = if self.at < other.at { (self, other) } else { (other, self) };
            // A reader that looked at either has looked at both, and a third that is the same is so by the first.
            match (first.note().sight.get(), later.note().sight.get(), u16::try_from(first.at)) {
                (InspectionMark::UNSEEN, InspectionMark::UNSEEN, Ok(at)) if at < InspectionMark::PASSED => {
                    later.note().sight.set(at)
                }
                (_, known, Ok(at)) if known == at && at < InspectionMark::PASSED => {}
                _ => {
                    first.look();
                    later.look();
                }
            }
        } else {
            self.look();
            other.look();
        }
        is_same
    }

    /// Calls `read` with it as with a text of its own: a reader that passes its text on, with the result of `read`, has
    /// not looked at it. Parts that were looked at before stay so.
    pub(crate) fn read_apart<T>(self, read: impl FnOnce(Self) -> T) -> T {
        let notes = &self.notes[self.at as usize..self.note().next as usize];
        let is_unseen = notes.iter().all(|note| note.sight.get() == InspectionMark::UNSEEN);
        let result = read(self);
        if is_unseen {
            notes.iter().for_each(|note| note.sight.set(InspectionMark::UNSEEN));
        }
        result
    }

    /// Notes that the reader knows the value, and with it the value of the one that is the same.
    #[inline]
    fn look(self) {
        let sight = &self.note().sight;
        let known = sight.get();
        if known < InspectionMark::PASSED {
            self.notes[usize::from(known)].sight.set(InspectionMark::SEEN);
        }
        sight.set(InspectionMark::SEEN);
    }

    /// The strings and numbers inside this outermost value that are no keys, with the part of each that its reader
    /// knows.
    pub(crate) fn leaves(self) -> impl Iterator<Item = TapeLeaf> {
        let bytes = self.text.as_bytes();
        let mut seen_until = 0;
        (0..self.notes.len() as u32).zip(self.notes).filter_map(move |(at, note)| {
            let own = note.sight.get();
            if own == InspectionMark::SEEN {
                // A reader that looks at a list or an object looks at all that is in it.
                seen_until = seen_until.max(note.next);
            }
            let (start, end) = (note.start as usize, note.end as usize);
            let (start, end) = match note.kind {
                JsonKind::String if next_byte(bytes, end).1 == Some(b':') => return None,
                JsonKind::String => (start + 1, end - 1),
                JsonKind::Number => (start, end),
                JsonKind::Object | JsonKind::Array | JsonKind::Bool | JsonKind::Null => return None,
            };
            let seen = if at < seen_until { Inspected::All } else { note.seen() };
            Some(TapeLeaf { note: at, kind: note.kind, start, end, seen })
        })
    }

    /// The start of the contents of the string or number inside this outermost value that contains that position of the
    /// text, or ends right before it, if it is no key and not empty.
    pub(crate) fn leaf_at(self, at: usize) -> Option<usize> {
        let after = self.notes.partition_point(|note| note.start as usize <= at);
        let note = after.checked_sub(1).and_then(|last| self.notes.get(last))?;
        let (start, end) = (note.start as usize, note.end as usize);
        let is_key = || next_byte(self.text.as_bytes(), end).1 == Some(b':');
        match note.kind {
            JsonKind::String => (start < at && at < end && end - start > 2 && !is_key()).then_some(start + 1),
            JsonKind::Number => (at <= end).then_some(start),
            JsonKind::Object | JsonKind::Array | JsonKind::Bool | JsonKind::Null => None,
        }
    }

    /// The string or number inside this outermost value that contains that range of the text, if it is no key.
    pub(crate) fn leaf_around(self, from: usize, to: usize) -> Option<TapeLeaf> {
        let mut is_seen = false;
        let mut at = 0;
        loop {
            let note = self.notes.get(at)?;
            let (start, end) = (note.start as usize, note.end as usize);
            if end < to || start > from {
                at = note.next as usize;
                continue;
            }
            is_seen |= note.sight.get() == InspectionMark::SEEN;
            let (start, end) = match note.kind {
                JsonKind::Object | JsonKind::Array => {
                    at += 1;
                    continue;
                }
                JsonKind::String if next_byte(self.text.as_bytes(), end).1 == Some(b':') => return None,
                JsonKind::String => (start + 1, end - 1),
                JsonKind::Number => (start, end),
                JsonKind::Bool | JsonKind::Null => return None,
            };
            let seen = if is_seen { Inspected::All } else { note.seen() };
            let is_inside = start <= from && to <= end;
            return is_inside.then_some(TapeLeaf { note: at as u32, kind: note.kind, start, end, seen });
        }
    }

    /// Whether some string inside this outermost value is known to be the same as the one whose note has that number.
    pub(crate) fn has_same(self, note: u32) -> bool {
        self.notes.iter().any(|other| other.seen() == Inspected::SameAs(note))
    }

    /// The boolean, if it is one.
    pub fn bool(self) -> Option<bool> {
        (self.kind() == JsonKind::Bool).then(|| self.raw() == "true")
    }

    /// The number, if it is an integer of a few digits, as most are.
    #[inline]
    fn short(self) -> Option<u32> {
        let TapeEntry { kind: JsonKind::Number, start, end, .. } = *self.note() else { return None };
        let digits = self.text.as_bytes().get(start as usize..end as usize)?;
        if let [digit] = digits {
            return Some(u32::from(digit.wrapping_sub(b'0')));
        }
        let mut number = 0;
        for digit in digits {
            if !digit.is_ascii_digit() || digits.len() > 9 {
                return None;
            }
            number = number * 10 + u32::from(digit - b'0');
        }
        Some(number)
    }

    /// The number as a count: an integer that is not negative.
    #[inline]
    pub fn count(self) -> Option<u64> {
        if self.kind() != JsonKind::Number {
            return None;
        }
        self.look();
        self.short().map(u64::from).or_else(|| self.long_count())
    }

    fn long_count(self) -> Option<u64> {
        let raw = self.written();
        raw.parse().ok().or_else(|| {
            let float: f64 = raw.parse().ok()?;
            (float >= 0.0 && float < u64::MAX as f64 && float.fract() == 0.0).then_some(float as u64)
        })
    }

    /// The number (or numeric string) as a number of a block key: any number has one, equal numbers have the same, and
    /// other values have none.
    #[inline]
    pub fn index(self) -> Option<i64> {
        match self.kind() {
            JsonKind::Number | JsonKind::String => self.look(),
            _ => return None,
        }
        self.short().map(i64::from).or_else(|| self.long_index())
    }

    fn long_index(self) -> Option<i64> {
        let raw = match self.kind() {
            JsonKind::Number => self.raw(),
            JsonKind::String => {
                return match self.str() {
                    Some(Str::Plain(text)) => text.parse().ok(),
                    _ => None,
                };
            }
            _ => return None,
        };
        raw.parse().ok().or_else(|| {
            let float: f64 = raw.parse().ok()?;
            let whole = float as i64;
            Some(if whole as f64 == float && whole != i64::MAX { whole } else { float.to_bits() as i64 })
        })
    }

    /// The number as [`TapeNode::index`] gives it, for a [block key](crate::fragment::BlockKey::of); none if the reader
    /// has inspected it, or has to.
    #[inline]
    pub(crate) fn opaque_index(self) -> Option<i64> {
        let sight = &self.note().sight;
        if self.kind() != JsonKind::Number
            || !matches!(sight.get(), InspectionMark::UNSEEN | InspectionMark::PASSED)
        {
            return None;
        }
        let index = self.short().map(i64::from).or_else(|| self.written().parse().ok())?;
        sight.set(InspectionMark::PASSED);
        Some(index)
    }

    /// The members, if it is an object; else none.
    #[inline]
    pub fn members(self) -> NodeMembers<'t> {
        NodeMembers { text: self.text, notes: self.inside(JsonKind::Object), at: self.at + 1 }
    }

    /// The elements, if it is an array; else none.
    #[inline]
    pub fn elements(self) -> NodeElements<'t> {
        NodeElements { text: self.text, notes: self.inside(JsonKind::Array), at: self.at + 1 }
    }

    /// The notes up to the end of this value if it is of that kind, else none.
    #[inline]
    fn inside(self, kind: JsonKind) -> &'t [TapeEntry] {
        let note = self.note();
        if note.kind == kind { self.notes.get(..note.next as usize).unwrap_or_default() } else { &[] }
    }

    /// Whether it nests more containers than [`Value::MAX_DEPTH`].
    pub(in crate::json) fn is_too_deep(self) -> bool {
        let mut open: Vec<u32> = Vec::new();
        let notes = &self.notes[..self.note().next as usize];
        notes.iter().enumerate().skip(self.at as usize).any(|(at, note)| {
            while open.pop_if(|end| *end as usize == at).is_some() {}
            if let JsonKind::Object | JsonKind::Array = note.kind {
                open.push(note.next);
            }
            open.len() > Value::MAX_DEPTH
        })
    }

    /// The value in memory, made in one pass over the notes. Parts that a value cannot hold are not lost: half a
    /// surrogate pair becomes U+FFFD, and a value nested more deeply than [`Value::TOLD_DEPTH`] is a string of its JSON
    /// text.
    pub fn to_value(self) -> Value {
        self.to_value_within(Value::TOLD_DEPTH)
    }

    /// The number of its members or elements, each of which begins with that number of notes: a key, and its value.
    fn child_count(self, notes: u32) -> usize {
        let (mut at, end) = (self.at + 1, self.note().next);
        let mut count = 0;
        while at < end {
            at = self.notes[(at + notes - 1) as usize].next;
            count += 1;
        }
        count
    }

    /// Twice a lane, and a few bytes. No position in the first lane is beyond it, so none needs a bounds check.
    pub(in crate::json) fn to_value_within(self, depth: usize) -> Value {
        let mut builder = ValueBuilder::default();
        // For every open container the note after it, and whether it has keys.
        let mut open: Vec<(u32, bool)> = Vec::new();
        let mut node = self;
        loop {
            match node.kind() {
                JsonKind::Object | JsonKind::Array if open.len() == depth => {
                    builder.put(node.raw().into());
                    // On to the last note inside it.
                    node.at = node.note().next - 1;
                }
                JsonKind::Object => {
                    builder.begin_object_of(node.child_count(2));
                    open.push((node.note().next, true));
                }
                JsonKind::Array => {
                    builder.begin_array_of(node.child_count(1));
                    open.push((node.note().next, false));
                }
                JsonKind::String => builder.put(node.str().map(Str::to_cow).unwrap_or_default().into()),
                JsonKind::Number => builder.put(Number::trusted(node.raw()).into()),
                JsonKind::Bool => builder.put((node.raw() == "true").into()),
                JsonKind::Null => builder.put(Value::Null),
            }
            node.at += 1;
            while open.pop_if(|(end, _)| *end == node.at).is_some() {
                builder.end();
            }
            match open.last() {
                None => return builder.finish(),
                Some((_, false)) => {}
                Some((_, true)) => {
                    builder.key(node.str().map(Str::to_cow).unwrap_or_default().into_owned());
                    node.at += 1;
                }
            }
        }
    }

    /// The text of this outermost value with its keys written without needless escapes; none if they
    /// already are.
    #[inline]
    pub(crate) fn with_plain_keys(self) -> Option<String> {
        let has_odd_keys = self.at == 0 && self.kind() != JsonKind::String && self.note().has_escapes;
        if has_odd_keys { self.write_plain_keys() } else { None }
    }

    #[inline(never)]
    fn write_plain_keys(self) -> Option<String> {
        let bytes = self.text.as_bytes();
        let mut plain = String::with_capacity(self.text.len());
        let mut from = 0;
        for note in self.notes.iter().filter(|note| note.kind == JsonKind::String && note.has_escapes) {
            let (start, end) = (note.start as usize + 1, note.end as usize - 1);
            if next_byte(bytes, end + 1).1 == Some(b':') {
                plain.push_str(&self.text[from..start]);
                escape_into(&Str::Escaped(&self.text[start..end]).to_cow(), &mut plain);
                from = end;
            }
        }
        plain.push_str(&self.text[from..]);
        (plain != self.text).then_some(plain)
    }

    /// Whether it is an object that has a member of one of these names.
    #[inline]
    pub(crate) fn has_any<const COUNT: usize>(self, keys: [&str; COUNT]) -> bool {
        // Most keys are of another length than any of them.
        let lengths = keys.iter().fold(0_u64, |lengths, key| lengths | 1 << (key.len() + 2));
        let mut members = self.members();
        while let Some((name, ..)) = members.next_notes() {
            let is_apt = lengths.checked_shr(name.end - name.start).is_some_and(|rest| rest & 1 == 1);
            if is_apt && keys.iter().any(|key| name.is_called(key, self.text)) {
                return true;
            }
        }
        false
    }

    /// The last member of that name, if it is an object that has one.
    pub fn get(self, key: &str) -> Option<TapeNode<'t>> {
        let [found] = self.find_all([key]);
        self.marked(found)
    }

    /// The last member of each of these names, found in one pass.
    #[inline]
    pub(crate) fn find_all<const COUNT: usize>(self, keys: [&str; COUNT]) -> [NodeMark; COUNT] {
        let mut found = [NodeMark::default(); COUNT];
        let mut members = self.members();
        while let Some((name, _, at)) = members.next_notes() {
            for (key, found) in keys.iter().zip(&mut found) {
                if name.is_called(key, self.text) {
                    *found = NodeMark(at);
                }
            }
        }
        found
    }
}

/// The members of an object, in order. A key with escapes comes as written.
#[derive(Clone)]
pub struct NodeMembers<'t> {
    text: &'t str,
    /// All up to the end of the object: a reader inside it asks for none behind it.
    notes: &'t [TapeEntry],
    at: u32,
}

impl<'t> NodeMembers<'t> {
    /// The notes of the next key and value, and the number of the latter.
    #[inline(always)]
    fn next_notes(&mut self) -> Option<(&'t TapeEntry, &'t TapeEntry, u32)> {
        let at = self.at as usize;
        let [key, value] = self.notes.get(at..at + 2).and_then(<[TapeEntry]>::first_chunk)?;
        self.at = value.next;
        Some((key, value, at as u32 + 1))
    }
}

impl<'t> Iterator for NodeMembers<'t> {
    type Item = (&'t str, TapeNode<'t>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, _, at) = self.next_notes()?;
        let node = TapeNode { text: self.text, notes: self.notes, at };
        Some((&self.text[key.start as usize + 1..key.end as usize - 1], node))
    }
}

/// The elements of an array, in order.
#[derive(Clone)]
pub struct NodeElements<'t> {
    text: &'t str,
    /// As for [`NodeMembers`].
    notes: &'t [TapeEntry],
    at: u32,
}

impl<'t> Iterator for NodeElements<'t> {
    type Item = TapeNode<'t>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        self.at = self.notes.get(at as usize)?.next;
        Some(TapeNode { text: self.text, notes: self.notes, at })
    }
}
