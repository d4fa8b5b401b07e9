//! Documents that went through one escaping too many: `{\"a\": \"b\"}`.

use super::{RepairChange, RepairChangeKind};

/// The maximum number of levels of escaping that are taken off.
pub(super) const MAX_LEVELS: u8 = 4;

/// A text with one level of escaping taken off, and the changes that did it.
pub(super) struct UnescapedText<'t> {
    source: &'t str,
    /// The position up to which the source was decoded.
    done: usize,
    pub(super) text: String,
    changes: Vec<RepairChange>,
    /// For each change, the position in the decoded text after it.
    places: Vec<usize>,
}

/// Takes one level of escaping off. Escapes of characters (`\u…`) stay: they mean the same one
/// level further in.
pub(super) fn decode(text: &str) -> UnescapedText<'_> {
    let bytes = text.as_bytes();
    let mut decoded = UnescapedText::new(text);
    let mut from = 0;
    while let Some(run) = memchr::memchr(b'\\', &bytes[from..]) {
        let at = from + run;
        let (end, replacement) = match bytes.get(at + 1) {
            Some(b'n') => (at + 2, "\n"),
            Some(b'r') => (at + 2, "\r"),
            Some(b't') => (at + 2, "\t"),
            Some(b'\\') => (at + 2, "\\"),
            Some(b'"' | b'\'' | b'/') | None => (at + 1, ""),
            Some(_) => {
                from = at + 1;
                continue;
            }
        };
        decoded.push(at, end, replacement, RepairChangeKind::Encoding);
        from = end;
    }
    decoded.text.push_str(&text[decoded.done..]);
    decoded
}

impl<'t> UnescapedText<'t> {
    pub(super) fn new(source: &'t str) -> Self {
        Self { source, done: 0, text: String::new(), changes: Vec::new(), places: Vec::new() }
    }

    /// Puts `replacement` for the source from `at` to `end`.
    pub(super) fn push(&mut self, at: usize, end: usize, replacement: &'static str, kind: RepairChangeKind) {
        if self.changes.is_empty() {
            self.text.reserve(self.source.len());
        }
        self.text.push_str(&self.source[self.done..at]);
        self.text.push_str(replacement);
        self.changes.push(RepairChange { at, end, replacement, kind });
        self.places.push(self.text.len());
        self.done = end;
    }

    /// Copies the rest of the source. `None` if nothing was replaced.
    pub(super) fn finish(mut self) -> Option<Self> {
        self.text.push_str(&self.source[self.done..]);
        (!self.changes.is_empty()).then_some(self)
    }

    /// The position in the source of a position in the decoded text.
    pub(super) fn place(&self, place: usize) -> usize {
        let after = self.places.partition_point(|&end| end <= place);
        match after.checked_sub(1) {
            Some(last) => self.changes[last].end + (place - self.places[last]),
            None => place,
        }
    }

    /// The changes of the source that have the same result as `inner` on the decoded text.
    pub(super) fn compose(self, inner: Vec<RepairChange>) -> Vec<RepairChange> {
        let mut all = Vec::with_capacity(self.changes.len() + inner.len());
        let mut next = 0;
        for change in inner {
            // Decoding changes before this change stay; the ones inside it are replaced by it.
            while next < self.changes.len() && self.places[next] <= change.at {
                all.push(self.changes[next]);
                next += 1;
            }
            let at = self.place(change.at);
            while next < self.changes.len() && self.places[next] <= change.end {
                next += 1;
            }
            let end = if change.end > change.at { self.place(change.end) } else { at };
            all.push(RepairChange { at, end, ..change });
        }
        all.extend_from_slice(&self.changes[next..]);
        all
    }
}
