//! The pipelines that people build by hand from existing crates. Each gives the text and the argument texts, so that
//! nobody is measured on work that it does not do; a result that differs from ours is not measured at all.

pub(crate) mod anthropic;
pub(crate) mod chat;
mod hand;
pub(crate) mod responses;
pub(crate) mod typed;

use callweave::message::Message;
use callweave::pipeline::Decoder;
use callweave::protocol::Protocol;
use eventsource_stream::Eventsource;
use futures::StreamExt;

use crate::streams::Reads;

/// The output of a pipeline. A peer may leave out facts that come once in a response.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The visible text.
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// The argument text of each call.
    pub(crate) arguments: Vec<String>,
    pub(crate) id: String,
    pub(crate) model: String,
    /// The name of each call.
    pub(crate) names: Vec<String>,
    pub(crate) output_tokens: u64,
    /// Room for a text of which it is not known yet where it belongs.
    pub(crate) scratch: String,
}

impl Collected {
    /// The arguments of the call of that number.
    pub(crate) fn call(&mut self, number: usize) -> &mut String {
        if self.arguments.len() <= number {
            self.arguments.resize_with(number + 1, String::new);
        }
        &mut self.arguments[number]
    }

    /// Returns content that a peer has and we lack, if any. That it knows fewer kinds of calls, such as those that a
    /// provider runs by itself, is only less work.
    pub(crate) fn contradiction(&self, ours: &Self) -> Option<String> {
        let known = |call: &String| call.is_empty() || ours.arguments.contains(call);
        let arguments = if self.arguments.iter().all(known) { &ours.arguments } else { &self.arguments };
        let known = Self { text: self.text.clone(), arguments: arguments.clone(), ..Self::default() };
        known.difference(ours)
    }

    /// Returns content that differs between a peer and us, if any.
    pub(crate) fn difference(&self, ours: &Self) -> Option<String> {
        let shown = |what: &str, theirs: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
            let short =
                |value: &dyn std::fmt::Debug| format!("{value:?}").chars().take(200).collect::<String>();
            Some(format!("the {what} is {} instead of {}", short(theirs), short(ours)))
        };
        let arguments =
            |all: &Self| -> Vec<_> { all.arguments.iter().filter(|it| !it.is_empty()).cloned().collect() };
        if self.text != ours.text {
            shown("text", &self.text, &ours.text)
        } else if arguments(self) != arguments(ours) {
            shown("argument text", &arguments(self), &arguments(ours))
        } else if !self.reasoning.is_empty() && self.reasoning != ours.reasoning {
            shown("reasoning", &self.reasoning, &ours.reasoning)
        } else if !self.model.is_empty() && (&self.id, &self.model) != (&ours.id, &ours.model) {
            shown("id and model", &(&self.id, &self.model), &(&ours.id, &ours.model))
        } else if !self.names.is_empty() && self.names != ours.names {
            shown("list of names", &self.names, &ours.names)
        } else if self.output_tokens != 0 && self.output_tokens != ours.output_tokens {
            shown("usage", &self.output_tokens, &ours.output_tokens)
        } else {
            None
        }
    }
}

/// The result of a pipeline. Only the comparison, which is not timed, brings both into one form.
pub(crate) enum Outcome {
    Collected(Collected),
    Message(Box<Message>),
    /// A JSON text, with any blanks and in any order.
    Json(Box<dyn FnOnce() -> String>),
}

impl Outcome {
    pub(crate) fn into_collected(self) -> Collected {
        match self {
            Self::Collected(all) => all,
            Self::Json(text) => {
                let value = serde_json::from_str::<serde_json::Value>(&text()).ok();
                Collected {
                    text: value.map_or_else(String::new, |value| value.to_string()),
                    ..Collected::default()
                }
            }
            Self::Message(message) => Collected {
                text: message.text().into_owned(),
                reasoning: message.reasoning().into_owned(),
                arguments: message.tool_calls().map(|call| call.raw_arguments.clone()).collect(),
                names: message.tool_calls().map(|call| call.name.clone()).collect(),
                output_tokens: message
                    .usage
                    .as_ref()
                    .and_then(|usage| usage.counters.output_tokens)
                    .unwrap_or_default(),
                id: message.id.unwrap_or_default(),
                model: message.model.unwrap_or_default(),
                scratch: String::new(),
            },
        }
    }

    /// An outcome that is JSON, written only on demand.
    pub(crate) fn of_json(text: impl FnOnce() -> String + 'static) -> Self {
        Self::Json(Box::new(text))
    }

    /// An outcome that is only a text.
    pub(crate) fn of_text(text: impl Into<String>) -> Self {
        Self::Collected(Collected { text: text.into(), ..Collected::default() })
    }
}

/// callweave, bytes to message.
pub(crate) fn callweave(reads: &Reads, decoder: Decoder) -> Outcome {
    let mut decoder = decoder;
    let mut message = callweave::accumulator::Accumulator::new();
    let pushed = reads.pieces().try_for_each(|piece| decoder.push(piece, &mut message));
    pushed.and_then(|()| decoder.finish(&mut message)).expect("an answer of that protocol");
    Outcome::Message(Box::new(message.take()))
}

/// A protocol of the table.
pub(crate) fn protocol(name: &str) -> &'static Protocol {
    Protocol::named(name).expect("a protocol of the table")
}

/// memchr for the lines, and a function for the data of each event.
pub(crate) fn lines(reads: &Reads, mut event: impl FnMut(&[u8], &mut Collected)) -> Outcome {
    let mut all = Collected::default();
    let mut carried = Vec::new();
    let mut line = |line: &[u8], all: &mut Collected| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let data = match line.strip_prefix(b"data:") {
            Some(data) => data.strip_prefix(b" ").unwrap_or(data),
            // Recordings of events without their framing.
            None if line.starts_with(b"{") => line,
            None => return,
        };
        if data != b"[DONE]" {
            event(data, all);
        }
    };
    for piece in reads.pieces() {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if carried.is_empty() {
                line(&rest[..end], &mut all);
            } else {
                carried.extend_from_slice(&rest[..end]);
                line(&carried, &mut all);
                carried.clear();
            }
            rest = &rest[end + 1..];
        }
        carried.extend_from_slice(rest);
    }
    line(&carried, &mut all);
    Outcome::Collected(all)
}

/// eventsource-stream for the events, and a function for the data of each.
pub(crate) fn events(reads: &Reads, mut event: impl FnMut(&[u8], &mut Collected)) -> Outcome {
    let mut all = Collected::default();
    let pieces = futures::stream::iter(reads.pieces().map(Ok::<_, std::convert::Infallible>));
    let mut events = pieces.eventsource();
    futures::executor::block_on(async {
        while let Some(Ok(read)) = events.next().await {
            event(read.data.as_bytes(), &mut all);
        }
    });
    Outcome::Collected(all)
}
