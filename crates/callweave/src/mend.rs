//! What is done to tool calls on their way: their arguments are repaired, fitted to the schemas of the tools that were
//! declared, and checked against them.
//!
//! A repair takes nothing back: text flows while it is strict JSON, and is held from the first oddity to the end of
//! its call. To fit arguments to a schema all of them must be there, so they are held from the start. What was changed
//! is told in a notice, with what the model wrote. A call that was cut off stays as it is.
//!
//! Schemas decide how much work it is to fit and check a call, and others write them. So each call has a
//! [budget](Mend::budget) of steps; one that would take more is passed on as it is, and told to be unchecked.

use std::borrow::Cow;

use crate::dialect::Tools;
#[cfg(feature = "schema")]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::event::{
    BlockId, BlockKind, Body, CallKind, Completion, DeltaKind, Event, EventSink, Notice, NoticeCode,
};
use crate::json::repair;
use crate::json::schema::{self, Budget};
use crate::json::{Container, Scanner, Token, Value, Visit};

/// Mends calls. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Mend {
    tools: Tools,
    is_repairing: bool,
    is_coercing: bool,
    #[cfg(feature = "schema")]
    is_validating: bool,
    /// Steps for fitting and checking a call, where they were said.
    steps: Option<u64>,
    open: Vec<Call>,
    /// What was just told of the arguments of the call that ends next.
    complaint: Option<Event<'static>>,
}

#[derive(Clone, Debug)]
struct Call {
    block: BlockId,
    name: String,
    /// The arguments, as the model wrote them.
    written: String,
    /// How many bytes of them were passed on.
    passed: usize,
    /// Whether what was passed on was taken back, so that only all of it can be told.
    is_anew: bool,
    /// What may be passed on; none where all is held.
    flow: Option<Flow>,
}

/// What became of the arguments of a call.
#[derive(Default)]
struct Mended {
    /// What they should be, and what was changed in words, if anything was.
    text: Option<(String, String)>,
    /// What they say, where somebody had to read them.
    value: Option<Value>,
    /// Why they could not be looked at, if they could not.
    unchecked: Option<Error>,
}

/// What a schema says of the arguments of a call.
enum Verdict {
    /// Nothing against them.
    Fitting,
    /// What is wrong with them, in words.
    #[cfg(feature = "schema")]
    Misfit(String),
    /// Nothing at all, because that would have been too much work.
    Unchecked(Error),
}

/// Characters of a value that are told of a change.
const EXCERPT: usize = 40;
/// Changes of a value that are told of a call.
const MAX_TOLD: usize = 64;

impl Mend {
    /// A stage that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells of calls of tools that are none of these.
    pub fn tools(self, tools: Tools) -> Self {
        Self { tools, ..self }
    }

    /// Repairs arguments that are not quite JSON.
    pub fn repair(self) -> Self {
        Self { is_repairing: true, ..self }
    }

    /// Fits arguments to the schemas of the [tools](Mend::tools), and names to those they were declared by.
    pub fn coerce(self) -> Self {
        Self { is_coercing: true, ..self }
    }

    /// Tells of arguments that do not fit the schemas of the [tools](Mend::tools).
    #[cfg(feature = "schema")]
    pub fn validate(self) -> Self {
        Self { is_validating: true, ..self }
    }

    /// How many steps the schema of a tool may make of one call, for fitting and checking together; else
    /// [`Budget::STEPS`]. A call that would take more stays as it is, with a notice of
    /// [`NoticeCode::Unchecked`].
    pub fn budget(self, steps: u64) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// The tools that were declared.
    pub fn declared(&self) -> &Tools {
        &self.tools
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.tools.is_empty() && !self.is_repairing
    }

    /// Takes the next event.
    pub fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        let mut event = event;
        if !matches!(event.body, Body::BlockEnd { .. }) {
            self.finish(sink);
        }
        match &mut event.body {
            Body::Delta { block, kind: DeltaKind::Arguments, text } => {
                if let Some(call) = self.open.iter_mut().find(|call| call.block == *block) {
                    let passed = call.take(text);
                    if !passed.is_empty() {
                        let text = Cow::Borrowed(passed);
                        let body = Body::Delta { block: *block, kind: DeltaKind::Arguments, text };
                        sink.put(Event { choice: event.choice, source: event.source, body });
                    }
                    return;
                }
            }
            Body::BlockStart {
                block,
                kind: BlockKind::ToolCall { name, call: CallKind::Function, .. },
                ..
            } => {
                let declared = self.tools.find(name).filter(|declared| self.is_coercing && declared != name);
                let written = declared.map(|declared| std::mem::replace(name, declared.to_owned().into()));
                self.open.push(self.call(*block, name));
                if let Some(written) = written {
                    let detail = format!("the tool {name} was called {written:?}");
                    let notice = Notice::new(NoticeCode::Repaired, 0, detail);
                    let notice =
                        Notice { block: Some(*block), text: Some(written.into_owned().into()), ..notice };
                    let renamed = Event::new(event.choice, Body::Notice(notice));
                    sink.put(event);
                    return sink.put(renamed);
                }
            }
            Body::Correction { block, text } => {
                if let Some(call) = self.open.iter_mut().find(|call| call.block == *block) {
                    call.written.replace_range(.., text);
                    call.is_anew = true;
                    return;
                }
            }
            Body::BlockEnd { block, completion } => {
                match self.open.iter().position(|call| call.block == *block) {
                    Some(at) => {
                        let call = self.open.swap_remove(at);
                        self.end(event.choice, &call, *completion, sink);
                    }
                    None => self.finish(sink),
                }
            }
            // Told at the end of the call, with its block.
            Body::Notice(notice) if notice.code == NoticeCode::UnknownTool && !self.tools.is_empty() => {
                return;
            }
            // What is repaired at the end of its call is told as repaired, with what the model wrote.
            Body::Notice(notice)
                if matches!(notice.code, NoticeCode::MalformedCall | NoticeCode::IncompleteArguments) =>
            {
                self.complaint = Some(event.into_owned());
                return;
            }
            Body::End => self.open.clear(),
            _ => {}
        }
        sink.put(event);
    }

    /// Says that no more events will come.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        if let Some(complaint) = self.complaint.take() {
            sink.put(complaint);
        }
    }

    fn call(&self, block: BlockId, name: &str) -> Call {
        let is_held = self.is_coercing && self.tools.schema(name).is_some();
        let flow = (!is_held).then(Flow::default);
        Call { block, name: name.to_owned(), written: String::new(), passed: 0, is_anew: false, flow }
    }

    /// Tells what is left to tell of a call that ends.
    fn end(&mut self, choice: u32, call: &Call, completion: Completion, sink: &mut EventSink<'_>) {
        let Call { block, name, written, .. } = call;
        let complaint = self.complaint.take();
        let mut budget = Budget::new(self.steps.unwrap_or(Budget::STEPS));
        let Mended { text: mended, value, unchecked } = match completion {
            Completion::Whole => self.mended(call, &mut budget),
            _ => Mended::default(),
        };
        let arguments = mended.as_ref().map_or(written.as_str(), |(text, _)| text);
        let told = match call.is_anew {
            true => None,
            false => arguments.strip_prefix(&written[..call.passed]),
        };
        let text = Cow::Borrowed(told.unwrap_or(arguments));
        match told {
            Some("") => {}
            Some(_) => {
                let body = Body::Delta { block: *block, kind: DeltaKind::Arguments, text };
                sink.put(Event::new(choice, body));
            }
            None => sink.put(Event::new(choice, Body::Correction { block: *block, text })),
        }
        let notice = |code, detail: String, text: Option<&str>| {
            let text = text.map(|text| Cow::Owned(text.to_owned()));
            let notice = Notice { block: Some(*block), text, ..Notice::new(code, 0, detail) };
            Event::new(choice, Body::Notice(notice))
        };
        match (&mended, complaint) {
            (Some((_, changes)), _) => {
                let detail = format!("the arguments of {name} were repaired: {changes}");
                sink.put(notice(NoticeCode::Repaired, detail, Some(written)));
            }
            (None, Some(complaint)) => sink.put(complaint),
            (None, None) => {}
        }
        if self.tools.is_empty() || name.is_empty() {
        } else if !self.tools.contains(name) {
            let detail = format!("the tool {name:?} was not declared");
            sink.put(notice(NoticeCode::UnknownTool, detail, None));
        } else {
            match unchecked
                .map_or_else(|| self.verdict(name, arguments, value, &mut budget), Verdict::Unchecked)
            {
                Verdict::Fitting => {}
                #[cfg(feature = "schema")]
                Verdict::Misfit(misfit) => sink.put(notice(NoticeCode::SchemaMismatch, misfit, None)),
                Verdict::Unchecked(error) => {
                    let detail = format!("the arguments of {name} were passed on as they are: {error}");
                    sink.put(notice(NoticeCode::Unchecked, detail, None));
                }
            }
        }
    }

    /// The arguments as they should be.
    fn mended(&self, call: &Call, budget: &mut Budget) -> Mended {
        let mut changes = Changes::default();
        let (mut value, mut unchecked) = (None, None);
        let mut text = Cow::Borrowed(call.written.as_str());
        // None at all are none.
        if self.is_repairing && !text.trim_ascii().is_empty() {
            // The call ended as it should, so nothing more was to come: what is open was forgotten.
            let repaired = repair::RepairOptions::new().close_truncated().repair(&call.written);
            let is_mended =
                matches!(repaired.verdict, repair::Verdict::Repaired | repair::Verdict::Incomplete);
            if is_mended && is_object(&repaired.text) {
                changes.of_text(&repaired.changes);
                text = Cow::Owned(repaired.text.into_owned());
            }
        }
        let schema = self.tools.schema(&call.name).filter(|_| self.is_coercing);
        match schema.map(|schema| self.fit(schema, &text, budget)) {
            Some(Ok(Some(fit))) => {
                if !fit.is_unchanged() {
                    changes.of_value(&fit.changes);
                    text = Cow::Owned(fit.value.to_string());
                }
                value = Some(fit.value);
            }
            Some(Err(error)) => unchecked = Some(error),
            Some(Ok(None)) | None => {}
        }
        let text = (*text != call.written).then(|| (text.into_owned(), changes.words()));
        Mended { text, value, unchecked }
    }

    /// Fits the arguments to a schema. A text that spells them is read where the schema wants an object.
    fn fit(&self, schema: &schema::Schema, text: &str, budget: &mut Budget) -> Result<Option<schema::Fit>> {
        let text = if text.trim_ascii().is_empty() { "{}" } else { text };
        let Ok(value) = text.parse::<Value>() else { return Ok(None) };
        let fit = schema.coerce_within(&value, schema::FitOptions::default(), budget)?;
        Ok(Some(fit).filter(|fit| fit.value.is_object()))
    }

    #[cfg(feature = "schema")]
    fn verdict(&self, name: &str, arguments: &str, value: Option<Value>, budget: &mut Budget) -> Verdict {
        let Some(schema) = self.tools.schema(name).filter(|_| self.is_validating) else {
            return Verdict::Fitting;
        };
        let arguments = if arguments.trim_ascii().is_empty() { "{}" } else { arguments };
        let value = value.or_else(|| arguments.parse().ok()).filter(Value::is_object);
        let Some(value) = value else { return Verdict::Fitting };
        let problems = match schema.validate_within(&value, budget) {
            Ok(problems) => problems,
            Err(error) if error.kind() == ErrorKind::Limit => return Verdict::Unchecked(error),
            // A schema that cannot be used says nothing about the call.
            Err(_) => return Verdict::Fitting,
        };
        let Some((first, more)) = problems.split_first() else { return Verdict::Fitting };
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Verdict::Misfit(format!(
            "the arguments of {name} do not fit its schema: {}: {}{more}",
            first.path, first.detail
        ))
    }

    #[cfg(not(feature = "schema"))]
    fn verdict(&self, _: &str, _: &str, _: Option<Value>, _: &mut Budget) -> Verdict {
        Verdict::Fitting
    }
}

impl Call {
    /// Takes a piece of the arguments, and gives what may now be passed on.
    fn take(&mut self, text: &str) -> &str {
        let start = self.written.len();
        self.written.push_str(text);
        let Some(flow) = self.flow.as_mut().filter(|_| !self.is_anew) else { return "" };
        flow.push(text, start);
        let passed = std::mem::replace(&mut self.passed, flow.sure);
        &self.written[passed..flow.sure]
    }
}

/// How much of a growing text is certain to stand in its repair: all up to the first oddity but the token that is
/// not over yet, and the quote or comma that what follows may show to be none.
#[derive(Clone, Debug, Default)]
struct Flow {
    scanner: Scanner,
    sure: usize,
    /// Whether the object has begun.
    has_begun: bool,
    /// Whether the last token is a key or a string.
    is_quoted: bool,
    is_odd: bool,
}

impl Flow {
    fn push(&mut self, text: &str, start: usize) {
        let mut scanner = self.scanner;
        scanner.push_to(text, &mut Follow { flow: self, text, start });
        self.scanner = scanner;
    }
}

/// Follows one piece of the text that `flow` is about.
struct Follow<'f> {
    flow: &'f mut Flow,
    text: &'f str,
    /// Where the piece begins.
    start: usize,
}

impl Follow<'_> {
    fn is_sure_to(&mut self, at: usize) {
        if !self.flow.is_odd {
            self.flow.sure = self.start + at;
        }
    }

    fn token(&mut self) {
        // What is no object may yet be mended.
        self.flow.is_odd |= !self.flow.has_begun;
    }
}

impl Visit for Follow<'_> {
    fn open(&mut self, container: Container, at: usize) {
        self.flow.has_begun |= container == Container::Object;
        self.token();
        self.is_sure_to(at + 1);
    }

    fn close(&mut self, _: Container, at: usize) {
        self.is_sure_to(at);
    }

    fn begin(&mut self, token: Token, at: usize) {
        self.token();
        self.flow.is_quoted = matches!(token, Token::Key | Token::String);
        self.is_sure_to(at + usize::from(self.flow.is_quoted));
    }

    fn text(&mut self, run: &str) {
        if !self.flow.is_quoted {
            return;
        }
        let start = run.as_ptr().addr() - self.text.as_ptr().addr();
        // Raw line ends and the like are to be escaped.
        let sound = run.bytes().position(|byte| byte < b' ');
        self.is_sure_to(start + sound.unwrap_or(run.len()));
        self.flow.is_odd |= sound.is_some();
    }
}

fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}

/// Changes in words: of the text by kind, with the bytes of the original at which they begin, then of the value.
#[derive(Default)]
struct Changes {
    kinds: Vec<(&'static str, Vec<usize>)>,
    values: Vec<String>,
}

impl Changes {
    fn of_text(&mut self, changes: &[repair::Change]) {
        for change in changes {
            let label = change.kind.label();
            match self.kinds.iter_mut().find(|(known, _)| *known == label) {
                Some((_, places)) => places.push(change.at),
                None => self.kinds.push((label, vec![change.at])),
            }
        }
    }

    fn of_value(&mut self, changes: &[schema::Change]) {
        let shown = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(EXCERPT) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        self.values.extend(changes.iter().take(MAX_TOLD).map(|schema::Change { kind, path, from, to }| {
            format!("{} at {path}, {} became {}", kind.label(), shown(from), shown(to))
        }));
        if changes.len() > MAX_TOLD {
            self.values.push(format!("and {} more", changes.len() - MAX_TOLD));
        }
    }

    fn words(self) -> String {
        let kinds = self.kinds.into_iter().map(|(kind, places)| match &places[..] {
            [place] => format!("{kind} at byte {place}"),
            places => {
                let places: Vec<_> = places.iter().map(usize::to_string).collect();
                format!("{kind} at bytes {}", places.join(", "))
            }
        });
        kinds.chain(self.values).collect::<Vec<_>>().join("; ")
    }
}
