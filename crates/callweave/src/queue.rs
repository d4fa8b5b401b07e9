//! Events that wait to be taken.

use std::collections::VecDeque;

use crate::event::{BlockId, ByteSpan, DeltaKind, Event, EventKind, JsonText, Sink, TokenCounts};

/// Events in their order. Events that may come with every delta stand in memory that is used again.
#[derive(Default)]
pub(crate) struct EventQueue {
    waiting: VecDeque<QueuedEvent>,
    /// Their texts, one after the other, and the length of the part that was taken.
    texts: String,
    taken: usize,
}

enum QueuedEvent {
    Delta { choice: u32, source: ByteSpan, block: BlockId, kind: DeltaKind, length: usize },
    Usage { choice: u32, source: ByteSpan, counters: TokenCounts, lengths: [usize; 2] },
    Other(Event<'static>),
}

impl<'e> Sink<Event<'e>> for EventQueue {
    fn put(&mut self, event: Event<'e>) {
        if self.waiting.is_empty() {
            self.texts.clear();
            self.taken = 0;
        }
        let (choice, source) = (event.choice, event.source);
        self.waiting.push_back(match &event.body {
            EventKind::Delta { block, kind, text } => {
                self.texts.push_str(text);
                QueuedEvent::Delta { choice, source, block: *block, kind: *kind, length: text.len() }
            }
            EventKind::Usage { wire_type: word, counters, raw } => {
                let texts = [word.as_ref(), raw.as_str()];
                texts.iter().for_each(|text| self.texts.push_str(text));
                QueuedEvent::Usage { choice, source, counters: *counters, lengths: texts.map(str::len) }
            }
            _ => QueuedEvent::Other(event.into_owned()),
        });
    }
}

impl EventQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the event that has waited longest.
    pub(crate) fn take(&mut self) -> Option<Event<'_>> {
        let Self { waiting, texts, taken } = self;
        let mut text = |length: usize| {
            *taken += length;
            &texts[*taken - length..*taken]
        };
        Some(match waiting.pop_front()? {
            QueuedEvent::Delta { choice, source, block, kind, length } => {
                let body = EventKind::Delta { block, kind, text: text(length).into() };
                Event { choice, source, body }
            }
            QueuedEvent::Usage { choice, source, counters, lengths } => {
                let [word, raw] = lengths.map(text);
                let body = EventKind::Usage { wire_type: word.into(), counters, raw: JsonText::trusted(raw) };
                Event { choice, source, body }
            }
            QueuedEvent::Other(event) => event,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_as_they_went_in() {
        let usage = |word: &'static str, count| {
            let counters = TokenCounts { output_tokens: Some(count), ..TokenCounts::default() };
            EventKind::Usage { wire_type: word.into(), counters, raw: JsonText::trusted(count.to_string()) }
        };
        let delta = |block, text: &'static str| EventKind::Delta {
            block: BlockId(block),
            kind: DeltaKind::Text,
            text: text.into(),
        };
        let bodies = [
            delta(0, "é"),
            usage("usage", 10),
            EventKind::ChoiceStart,
            delta(1, ""),
            usage("", 7),
            delta(0, "z"),
        ];
        let source = ByteSpan { start: 3, end: 9 };
        let events: Vec<_> =
            bodies.into_iter().zip(5..).map(|(body, choice)| Event { choice, source, body }).collect();
        let mut queue = EventQueue::default();
        for round in [&events[..], &events[1..3], &events[2..]] {
            round.iter().for_each(|event| queue.put(event.clone()));
            let taken: Vec<_> = std::iter::from_fn(|| queue.take().map(Event::into_owned)).collect();
            assert_eq!(taken, round);
            assert!(queue.is_empty());
        }
        // Taken while others come.
        queue.put(events[0].clone());
        queue.put(events[1].clone());
        assert_eq!(queue.take().as_ref(), Some(&events[0]));
        queue.put(events[5].clone());
        assert_eq!(queue.take().as_ref(), Some(&events[1]));
        assert_eq!(queue.take().as_ref(), Some(&events[5]));
    }
}
