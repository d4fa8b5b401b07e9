//! OpenAI Responses streams.

use std::borrow::Cow;

use jiter::Jiter;
use serde::Deserialize;

use super::{Collected, hand};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
    #[serde(default)]
    output_index: usize,
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
}

impl Event<'_> {
    fn add(self, all: &mut Collected) {
        let delta = self.delta.as_deref().unwrap_or_default();
        match &*self.name {
            "response.output_text.delta" => all.text.push_str(delta),
            "response.function_call_arguments.delta" => all.call(self.output_index).push_str(delta),
            _ => {}
        }
    }
}

/// The smallest borrowed structs, by serde_json.
pub(crate) fn serde_json(data: &[u8], all: &mut Collected) {
    if let Ok(event) = serde_json::from_slice::<Event<'_>>(data) {
        event.add(all);
    }
}

/// The same by sonic-rs.
pub(crate) fn sonic(data: &[u8], all: &mut Collected) {
    if let Ok(event) = sonic_rs::from_slice::<Event<'_>>(data) {
        event.add(all);
    }
}

enum Key {
    Type,
    OutputIndex,
    Delta,
    Other,
}

impl Key {
    fn of(name: &str) -> Self {
        match name {
            "type" => Self::Type,
            "output_index" => Self::OutputIndex,
            "delta" => Self::Delta,
            _ => Self::Other,
        }
    }
}

enum Kind {
    Text,
    Arguments,
    Other,
}

/// jiter driven by hand.
pub(crate) fn jiter(data: &[u8], all: &mut Collected) {
    // They come in any order.
    let (mut kind, mut index, mut delta) = (Kind::Other, 0, std::mem::take(&mut all.scratch));
    let _ = hand::object(&mut Jiter::new(data), Key::of, |key, jiter| match key {
        Key::Type => {
            kind = match jiter.next_str().ok()? {
                "response.output_text.delta" => Kind::Text,
                "response.function_call_arguments.delta" => Kind::Arguments,
                _ => Kind::Other,
            };
            Some(())
        }
        Key::OutputIndex => {
            index = hand::index(jiter)?;
            Some(())
        }
        Key::Delta => hand::append(jiter, &mut delta),
        Key::Other => hand::skip(jiter),
    });
    match kind {
        Kind::Text => all.text.push_str(&delta),
        Kind::Arguments => all.call(index).push_str(&delta),
        Kind::Other => {}
    }
    delta.clear();
    all.scratch = delta;
}
