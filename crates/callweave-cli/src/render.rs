//! Events → something to print: JSON lines, bare text, or one message.
//!
//! A renderer writes to memory, which cannot fail; whoever drives it prints what has come together after
//! each piece of input. So events are seen as they happen, and a renderer holds only what is not printed.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;

use anyhow::Result;
use callweave::accumulator::Accumulator;
use callweave::dialect::Extraction;
use callweave::event::{BlockId, BlockKind, Body, Event, Sink};
use callweave::message::Message;
use clap::ValueEnum;
use serde::Serialize;

use crate::pretty::{Pretty, visible};
use crate::terminal::View;

/// In which form an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One JSON object at the end (what a pipe gets unless told otherwise)
    Message,
    /// One JSON event per line, as it happens
    Events,
    /// The visible text alone, as it comes
    Text,
    /// To be read by people, as it comes (what a terminal gets unless told otherwise)
    View,
}

impl Form {
    /// What suits where the output goes.
    pub(crate) fn suited() -> Self {
        if io::stdout().is_terminal() { Self::View } else { Self::Message }
    }
}

/// A sink of events that says what to print.
pub(crate) trait Render: for<'e> Sink<Event<'e>> {
    /// Moves what is to be printed to `out`.
    fn print(&mut self, out: &mut Vec<u8>);

    /// Says that no event will come any more.
    fn finish(&mut self);
}

/// A renderer and where it prints to.
pub(crate) struct Printer {
    render: Rc<RefCell<dyn Render>>,
    output: Box<dyn Write>,
    buffer: Vec<u8>,
}

impl Printer {
    /// A printer to standard output.
    pub(crate) fn new<C: Collect + Default + 'static>(form: Form) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let render: Rc<RefCell<dyn Render>> = match form {
            Form::Message => Rc::<RefCell<Whole<C>>>::default(),
            Form::Events => Rc::<RefCell<Lines>>::default(),
            Form::Text => Rc::new(RefCell::new(Text { is_terminal, ..Text::default() })),
            Form::View => Rc::<RefCell<View>>::default(),
        };
        // Text and JSON go out byte for byte; only what we coloured ourselves may be stripped of it.
        let is_styled = form == Form::View || (form == Form::Message && is_terminal);
        let output: Box<dyn Write> =
            if is_styled { Box::new(anstream::stdout()) } else { Box::new(io::stdout().lock()) };
        Self { render, output, buffer: Vec::new() }
    }

    /// Where the events go: a stage before it may keep it while the printer prints.
    pub(crate) fn sink(&self) -> impl for<'e> Sink<Event<'e>> + use<> {
        Rendered(Rc::clone(&self.render))
    }

    /// Prints what has come together.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.render.borrow_mut().print(&mut self.buffer);
        if !self.buffer.is_empty() {
            self.output.write_all(&self.buffer)?;
            self.output.flush()?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Prints what is left once everything has been said.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.render.borrow_mut().finish();
        self.flush()
    }
}

struct Rendered(Rc<RefCell<dyn Render>>);

impl<'e> Sink<Event<'e>> for Rendered {
    fn put(&mut self, event: Event<'e>) {
        self.0.borrow_mut().put(event);
    }
}

/// One JSON event per line.
#[derive(Default)]
struct Lines(Vec<u8>);

impl<'e> Sink<Event<'e>> for Lines {
    fn put(&mut self, event: Event<'e>) {
        serde_json::to_writer(&mut self.0, &event).expect("an event has text keys, and memory takes all");
        self.0.push(b'\n');
    }
}

impl Render for Lines {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.0);
    }

    fn finish(&mut self) {}
}

/// The visible text of the first choice that says anything.
#[derive(Default)]
struct Text {
    out: String,
    /// The text block that is open, of the choice that is shown.
    choice: Option<u32>,
    blocks: Vec<BlockId>,
    is_terminal: bool,
    ends_line: bool,
}

impl<'e> Sink<Event<'e>> for Text {
    fn put(&mut self, event: Event<'e>) {
        match &event.body {
            Body::BlockStart { block, kind: BlockKind::Text | BlockKind::Refusal }
                if *self.choice.get_or_insert(event.choice) == event.choice =>
            {
                self.blocks.push(*block);
            }
            Body::BlockEnd { block, .. } => self.blocks.retain(|open| open != block),
            Body::Delta { block, text } if self.blocks.contains(block) => {
                self.ends_line = text.ends_with('\n');
                match self.is_terminal {
                    true => self.out.extend(text.chars().map(visible)),
                    false => self.out.push_str(text),
                }
            }
            _ => {}
        }
    }
}

impl Render for Text {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.out.as_bytes());
        self.out.clear();
    }

    fn finish(&mut self) {
        if self.choice.is_some() && !self.ends_line {
            self.out.push('\n');
        }
    }
}

/// What a whole answer amounts to, as JSON.
pub(crate) trait Collect: for<'e> Sink<Event<'e>> {
    /// The result, once no event will come any more; nothing if there was nothing.
    fn json(&mut self) -> Option<String>;
}

impl Collect for Accumulator {
    fn json(&mut self) -> Option<String> {
        let message = self.take();
        (message != Message::default()).then(|| to_json(&message))
    }
}

impl Collect for Extraction {
    fn json(&mut self) -> Option<String> {
        Some(to_json(self))
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our results have text keys, and memory takes all")
}

/// The result, once everything has been said.
#[derive(Default)]
struct Whole<C> {
    collector: C,
    out: String,
}

impl<'e, C: Collect> Sink<Event<'e>> for Whole<C> {
    fn put(&mut self, event: Event<'e>) {
        self.collector.put(event);
    }
}

impl<C: Collect> Render for Whole<C> {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.append(&mut std::mem::take(&mut self.out).into_bytes());
    }

    fn finish(&mut self) {
        let Some(json) = self.collector.json() else { return };
        self.out = shown(json);
    }
}

/// A line of JSON; on a terminal several, indented and coloured.
pub(crate) fn shown(mut json: String) -> String {
    if io::stdout().is_terminal() {
        let compact = std::mem::take(&mut json);
        Pretty::new(0).push(&compact, &mut json);
    }
    json.push('\n');
    json
}
