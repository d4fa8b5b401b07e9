//! Anthropic Messages streams.

use std::borrow::Cow;

use jiter::Jiter;
use serde::Deserialize;

use super::{Collected, hand};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
    #[serde(default)]
    index: usize,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
}

impl Event<'_> {
    fn add(self, all: &mut Collected) {
        if self.name != "content_block_delta" {
            return;
        }
        let Some(delta) = self.delta else { return };
        all.text.push_str(delta.text.as_deref().unwrap_or_default());
        if let Some(json) = delta.partial_json {
            all.call(self.index).push_str(&json);
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
    Index,
    Delta,
    Text,
    PartialJson,
    Other,
}

impl Key {
    fn of(name: &str) -> Self {
        match name {
            "index" => Self::Index,
            "delta" => Self::Delta,
            "text" => Self::Text,
            "partial_json" => Self::PartialJson,
            _ => Self::Other,
        }
    }
}

/// jiter driven by hand.
pub(crate) fn jiter(data: &[u8], all: &mut Collected) {
    // The index may come after the arguments.
    let (mut index, mut arguments) = (0, std::mem::take(&mut all.scratch));
    let _ = hand::object(&mut Jiter::new(data), Key::of, |key, jiter| match key {
        Key::Index => {
            index = hand::index(jiter)?;
            Some(())
        }
        // No other event has a delta with these members.
        Key::Delta => hand::object(jiter, Key::of, |key, jiter| match key {
            Key::Text => hand::append(jiter, &mut all.text),
            Key::PartialJson => hand::append(jiter, &mut arguments),
            _ => hand::skip(jiter),
        }),
        _ => hand::skip(jiter),
    });
    if !arguments.is_empty() {
        all.call(index).push_str(&arguments);
        arguments.clear();
    }
    all.scratch = arguments;
}
