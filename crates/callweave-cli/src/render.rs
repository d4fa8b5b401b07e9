//! Events → something to print as they happen: JSON lines, bare text, a view for people.
//!
//! A renderer writes to memory, which cannot fail; its caller prints the result after each piece of input. Events are
//! thus seen as they happen, and a renderer holds only text that is not printed.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;

use anstyle::Style;
use anyhow::Result;
use callweave::event::{BlockId, BlockKind, Event, EventKind, Sink};
use clap::ValueEnum;

use crate::pretty::{PrettyPrinter, visible};
use crate::rows::FileTurn;
use crate::terminal::TerminalView;

/// The form in which a response is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// One JSON object at the end (default for a pipe)
    Message,
    /// One JSON event per line, as it happens
    Events,
    /// The visible text alone, as it comes
    Text,
    /// To be read by people, as it comes (default for a terminal)
    View,
}

impl OutputForm {
    /// Returns the form that suits the output: the view for a terminal, else the message.
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
pub(crate) struct EventPrinter {
    render: Rc<RefCell<dyn Render>>,
    output: Box<dyn Write>,
    buffer: Vec<u8>,
}

impl EventPrinter {
    /// A printer to standard output of what happens in a file, under its name if there are several.
    pub(crate) fn of_file(form: OutputForm, turn: FileTurn<'_>) -> Result<Self> {
        if matches!(form, OutputForm::Text | OutputForm::View) {
            print_heading(turn)?;
        }
        Ok(Self::new(form, turn.name))
    }

    /// A printer to standard output; events carry the name of their file, if it has one.
    pub(crate) fn new(form: OutputForm, file: Option<&str>) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let render: Rc<RefCell<dyn Render>> = match form {
            OutputForm::Message => Rc::new(RefCell::new(SilentRenderer)),
            OutputForm::Events => Rc::new(RefCell::new(EventLines::new(file))),
            OutputForm::Text => Rc::new(RefCell::new(VisibleText { is_terminal, ..VisibleText::default() })),
            OutputForm::View => Rc::<RefCell<TerminalView>>::default(),
        };
        // Text and JSON go out byte for byte; only what we coloured ourselves may be stripped of it.
        let output: Box<dyn Write> = if form == OutputForm::View {
            Box::new(anstream::stdout())
        } else {
            Box::new(io::stdout().lock())
        };
        Self { render, output, buffer: Vec::new() }
    }

    /// The sink of the events: a stage before it may keep it while the printer prints.
    pub(crate) fn sink(&self) -> impl for<'e> Sink<Event<'e>> + use<> {
        RenderedForm(Rc::clone(&self.render))
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

struct RenderedForm(Rc<RefCell<dyn Render>>);

impl<'e> Sink<Event<'e>> for RenderedForm {
    fn put(&mut self, event: Event<'e>) {
        self.0.borrow_mut().put(event);
    }
}

/// Nothing before the end.
struct SilentRenderer;

impl<'e> Sink<Event<'e>> for SilentRenderer {
    fn put(&mut self, _: Event<'e>) {}
}

impl Render for SilentRenderer {
    fn print(&mut self, _: &mut Vec<u8>) {}

    fn finish(&mut self) {}
}

/// One JSON event per line.
struct EventLines {
    out: Vec<u8>,
    /// The beginning of each line instead of its brace, if it differs.
    opening: Option<String>,
}

impl EventLines {
    fn new(file: Option<&str>) -> Self {
        let opening = file.map(|file| format!("{{\"file\":{},", callweave::json::Value::from(file)));
        Self { out: Vec::new(), opening }
    }
}

impl<'e> Sink<Event<'e>> for EventLines {
    fn put(&mut self, event: Event<'e>) {
        let start = self.out.len();
        serde_json::to_writer(&mut self.out, &event).expect("an event has text keys, and memory takes all");
        if let Some(opening) = &self.opening {
            self.out.splice(start..=start, opening.bytes());
        }
        self.out.push(b'\n');
    }
}

impl Render for EventLines {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    fn finish(&mut self) {}
}

/// The visible text of the first choice that says anything.
#[derive(Default)]
struct VisibleText {
    out: String,
    /// The text block that is open, of the choice that is shown.
    choice: Option<u32>,
    blocks: Vec<BlockId>,
    is_terminal: bool,
    ends_line: bool,
}

impl<'e> Sink<Event<'e>> for VisibleText {
    fn put(&mut self, event: Event<'e>) {
        match &event.body {
            EventKind::BlockStart { block, kind: BlockKind::Text | BlockKind::Refusal, .. }
                if *self.choice.get_or_insert(event.choice) == event.choice =>
            {
                self.blocks.push(*block);
            }
            EventKind::BlockEnd { block, .. } => self.blocks.retain(|open| open != block),
            EventKind::Delta { block, text, .. } if self.blocks.contains(block) => {
                self.ends_line = text.ends_with('\n');
                match self.is_terminal {
                    true => self.out.extend(text.chars().map(visible)),
                    false => self.out.push_str(text),
                }
            }
            EventKind::End => {
                self.end_line();
                self.choice = None;
            }
            _ => {}
        }
    }
}

impl Render for VisibleText {
    fn print(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.out.as_bytes());
        self.out.clear();
    }

    fn finish(&mut self) {
        self.end_line();
    }
}

impl VisibleText {
    fn end_line(&mut self) {
        if self.choice.is_some() && !std::mem::replace(&mut self.ends_line, true) {
            self.out.push('\n');
        }
    }
}

/// Prints complete results, where nothing of them was printed as it happened.
pub(crate) fn print_complete(shown: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        _ if shown.is_empty() => {}
        true => anstream::stdout().write_all(shown.as_bytes())?,
        false => io::stdout().write_all(shown.as_bytes())?,
    }
    Ok(())
}

/// Says whose result follows, where there are several.
pub(crate) fn print_heading(turn: FileTurn<'_>) -> Result<()> {
    let Some(name) = turn.name else { return Ok(()) };
    let (style, name) = (Style::new().bold(), name.chars().map(visible).collect::<String>());
    let gap = if turn.is_first { "" } else { "\n" };
    Ok(writeln!(anstream::stdout(), "{gap}{style}==> {name} <=={style:#}")?)
}

/// Appends a line of JSON; on a terminal several, indented and coloured.
pub(crate) fn show(json: &str, out: &mut String) {
    match io::stdout().is_terminal() {
        true => PrettyPrinter::new(0).push(json, out),
        false => out.push_str(json),
    }
    out.push('\n');
}
