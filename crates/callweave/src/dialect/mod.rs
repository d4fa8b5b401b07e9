//! The markup that models write inside their text to mark reasoning and to call tools.
//!
//! In go text deltas; out come [events](crate::event): text, reasoning and calls in the order written, the name of a
//! call as soon as it is complete, its arguments as they come. One engine reads all dialects; a [`Dialect`] is data
//! (markers around a shared body grammar), one small file each in `table/`.
//!
//! ```
//! use callweave::dialect::{Extractor, ExtractOptions};
//! use callweave::event::Event;
//!
//! let mut events: Vec<Event<'static>> = Vec::new();
//! let mut extractor = Extractor::new(&ExtractOptions::new("hermes")?);
//! extractor.push("<tool_call>{\"name\": \"look\", \"argum", &mut events);
//! extractor.push("ents\": {}}</tool_call>", &mut events);
//! extractor.finish(&mut events);
//! # assert!(events.len() > 3);
//! # Ok::<(), callweave::Error>(())
//! ```
//!
//! Invariants of every dialect:
//!
//! - the text may be split anywhere: the events are the same, once adjacent deltas are merged;
//! - the [`source`](crate::event::Event::source) ranges of the events tile the text;
//! - only text that may still become a marker, or a call that is not certain yet, is held back;
//! - text that turns out to be no call comes back as text; a certain call that is damaged ends with a notice.

mod bodies;
mod calls;
mod channel;
mod check;
mod collect;
mod emit;
mod engine;
mod evidence;
mod extractor;
mod markers;
mod matcher;
mod plan;
mod position;
mod quotation;
mod registry;
mod spec;
mod stage;
mod table;
mod tools;

pub use channel::ChannelGrammar;
pub(crate) use channel::MessageNotation;
pub use collect::Extraction;
pub use extractor::{ExtractOptions, Extractor};
pub use matcher::{CallMatcher, MatchedCall};
pub use registry::DialectRegistry;
pub use spec::{
    CallBody, CallForm, CallsInReasoning, ChildrenBody, Dialect, HeaderBody, JsonBody, NamedTag,
    ReasoningMarkers, TaggedBody, TextStart,
};
pub use stage::DialectStage;
pub use table::{
    gemma4::braces::BracesBody, minimax_m3::elements::ElementsBody, use_tool::fields::FieldsBody,
};
pub use tools::Tools;
