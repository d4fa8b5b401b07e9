//! Events that wait to be taken.

use std::collections::VecDeque;

use crate::event::{BlockId, Body, Counters, DeltaKind, Event, Json, Sink, Span};

/// Events in their order. What may come with every delta stands in memory that is used again.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Their texts, one after the other, and how much of that was taken.
    texts: String,
    taken: usize,
}

enum Waiting {
    Delta { choice: u32, source: Span, block: BlockId, kind: DeltaKind, length: usize },
    Usage { choice: u32, source: Span, counters: Counters, lengths: [usize; 2] },
    Other(Event<'static>),
}

impl<'e> Sink<Event<'e>> for Queue {
    fn put(&mut self, event: Event<'e>) {
        if self.waiting.is_empty() {
            self.texts.clear();
            self.taken = 0;
        }
        let (choice, source) = (event.choice, event.source);
        self.waiting.push_back(match &event.body {
            Body::Delta { block, kind, text } => {
                self.texts.push_str(text);
                Waiting::Delta { choice, source, block: *block, kind: *kind, length: text.len() }
            }
            Body::Usage { word, counters, raw } => {
                let texts = [word.as_ref(), raw.as_str()];
                texts.iter().for_each(|text| self.texts.push_str(text));
                Waiting::Usage { choice, source, counters: *counters, lengths: texts.map(str::len) }
            }
            _ => Waiting::Other(event.into_owned()),
        });
    }
}

impl Queue {
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
            Waiting::Delta { choice, source, block, kind, length } => {
                let body = Body::Delta { block, kind, text: text(length).into() };
                Event { choice, source, body }
            }
            Waiting::Usage { choice, source, counters, lengths } => {
                let [word, raw] = lengths.map(text);
                let body = Body::Usage { word: word.into(), counters, raw: Json::trusted(raw) };
                Event { choice, source, body }
            }
            Waiting::Other(event) => event,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_as_they_went_in() {
        let usage = |word: &'static str, count| {
            let counters = Counters { output_tokens: Some(count), ..Counters::default() };
            Body::Usage { word: word.into(), counters, raw: Json::trusted(count.to_string()) }
        };
        let delta = |block, text: &'static str| Body::Delta {
            block: BlockId(block),
            kind: DeltaKind::Text,
            text: text.into(),
        };
        let bodies =
            [delta(0, "é"), usage("usage", 10), Body::ChoiceStart, delta(1, ""), usage("", 7), delta(0, "z")];
        let source = Span { start: 3, end: 9 };
        let events: Vec<_> =
            bodies.into_iter().zip(5..).map(|(body, choice)| Event { choice, source, body }).collect();
        let mut queue = Queue::default();
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
