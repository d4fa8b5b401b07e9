//! The argument stage for tool calls: their arguments are repaired, coerced to the schemas of the declared tools, and
//! checked against them.
//!
//! Nothing is taken back. Where arguments are repaired, their text flows while it is strict JSON, and is held from the
//! first oddity to the end of the call. Where they are coerced, each value flows that its schema cannot change, and any
//! other is held to its own end ([`StreamCoercer`]). Changes are reported in a notice, with the model's own text. A
//! truncated call is not repaired, and nothing is coerced after the truncation.
//!
//! Schemas decide how much work it is to coerce and check a call, and others write them. Each call therefore has a
//! [budget](ArgumentStage::budget) of steps; where it is spent the rest is passed on as it is, and reported to be
//! unchecked.

use std::borrow::Cow;

use crate::dialect::Tools;
use crate::error::Error;
#[cfg(feature = "schema")]
use crate::error::ErrorKind;
use crate::event::{
    BlockCompletion, BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, EventSink, Notice, NoticeCode,
};
use crate::json::repair;
use crate::json::schema::{self, CoerceOptions, StepBudget, StreamCoercer};
use crate::json::{JsonContainer, JsonScanner, ScanToken, ScanVisitor, Value};

/// Repairs, coerces and checks calls. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct ArgumentStage {
    tools: Tools,
    is_repairing: bool,
    is_coercing: bool,
    #[cfg(feature = "schema")]
    is_validating: bool,
    /// The budget of steps for coercing and checking a call, where one was set.
    steps: Option<u64>,
    open: Vec<OpenCall>,
    /// Damage reported of calls that have not ended yet: it is not reported if the call is repaired in the end.
    complaints: Vec<Event<'static>>,
}

#[derive(Clone, Debug)]
struct OpenCall {
    block: BlockId,
    name: String,
    /// The arguments, as the model wrote them.
    written: String,
    /// The number of their bytes that were passed on, to the coercer if there is one.
    passed: usize,
    /// Whether the provider corrected the text, so that only the complete text can be emitted.
    is_anew: bool,
    /// The prefix that may be passed on, where something may be repaired later.
    flow: Option<CertainPrefix>,
    coerced: Option<Box<CoercedArguments>>,
}

/// The arguments of a call that are coerced while they come.
#[derive(Clone, Debug)]
struct CoercedArguments {
    coercer: StreamCoercer,
    /// The piece that was passed on last.
    piece: String,
    /// The number of bytes that were passed on in all.
    passed: usize,
    /// The passed-on text, once it is no longer a prefix of the written arguments.
    text: Option<String>,
}

/// A schema's verdict on the arguments of a call.
enum ArgumentVerdict {
    /// The arguments fit.
    Fitting,
    /// The arguments do not fit, with a description.
    #[cfg(feature = "schema")]
    Misfit(String),
    /// The arguments were not checked, because that would have been too much work.
    Unchecked(Error),
}

/// The maximum number of characters of a value that are reported of a change.
const EXCERPT: usize = 40;
/// The maximum number of changes of values that are reported of a call.
const MAX_REPORTED: usize = 64;

impl ArgumentStage {
    /// A stage that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports calls of tools that are none of these.
    pub fn tools(self, tools: Tools) -> Self {
        Self { tools, ..self }
    }

    /// Repairs arguments that are not quite JSON.
    pub fn repair(self) -> Self {
        Self { is_repairing: true, ..self }
    }

    /// Coerces arguments to the schemas of the [tools](ArgumentStage::tools), and names to the declared ones.
    pub fn coerce(self) -> Self {
        Self { is_coercing: true, ..self }
    }

    /// Reports arguments that do not fit the schemas of the [tools](ArgumentStage::tools).
    #[cfg(feature = "schema")]
    pub fn validate(self) -> Self {
        Self { is_validating: true, ..self }
    }

    /// The maximum number of steps that the schema of a tool may take for one call, for coercing and checking together;
    /// else [`StepBudget::STEPS`]. A call that would take more stays as it is, with a notice of
    /// [`NoticeCode::Unchecked`].
    pub fn budget(self, steps: u64) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// The tools that were declared.
    pub fn declared(&self) -> &Tools {
        &self.tools
    }

    /// Whether the stage has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.tools.is_empty() && !self.is_repairing
    }

    /// Takes the next event.
    pub fn push(&mut self, mut event: Event<'_>, sink: &mut EventSink<'_>) {
        match event.body {
            _ if self.complaints.is_empty() => {}
            // The damaged call may go on, or ends here.
            EventKind::Markup { .. }
            | EventKind::BlockEnd { .. }
            | EventKind::Delta { kind: DeltaKind::Arguments, .. } => {}
            EventKind::Notice(ref notice) if is_complaint(notice) => {}
            EventKind::End => self.finish(sink),
            _ => self.release_complaints(event.choice, sink),
        }
        match &mut event.body {
            EventKind::Delta { block, kind: DeltaKind::Arguments, text } => {
                if let Some(call) = self.open.iter_mut().find(|call| call.block == *block) {
                    let passed = call.take(text);
                    if !passed.is_empty() {
                        let text = Cow::Borrowed(passed);
                        let body = EventKind::Delta { block: *block, kind: DeltaKind::Arguments, text };
                        sink.put(Event { choice: event.choice, source: event.source, body });
                    }
                    return;
                }
            }
            EventKind::BlockStart {
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
                    let renamed = Event::new(event.choice, EventKind::Notice(notice));
                    sink.put(event);
                    return sink.put(renamed);
                }
            }
            EventKind::Correction { block, text } => {
                if let Some(call) = self.open.iter_mut().find(|call| call.block == *block) {
                    call.written.replace_range(.., text);
                    call.is_anew = true;
                    return;
                }
            }
            EventKind::BlockEnd { block, completion } => {
                match self.open.iter().position(|call| call.block == *block) {
                    Some(at) => {
                        let call = self.open.swap_remove(at);
                        self.end(event.choice, call, *completion, sink);
                    }
                    None => self.release_complaints(event.choice, sink),
                }
            }
            // It is reported at the end of the call, with its block.
            EventKind::Notice(notice) if notice.code == NoticeCode::UnknownTool && !self.tools.is_empty() => {
                return;
            }
            // A complaint about a call that is repaired at its end is reported as a repair, with the model's own text.
            EventKind::Notice(notice) if is_complaint(notice) => {
                self.complaints.push(event.into_owned());
                return;
            }
            EventKind::End => self.open.clear(),
            _ => {}
        }
        sink.put(event);
    }

    /// Signals that no more events will come.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) {
        self.complaints.drain(..).for_each(|complaint| sink.put(complaint));
    }

    fn release_complaints(&mut self, choice: u32, sink: &mut EventSink<'_>) {
        self.take_complaints(choice).into_iter().for_each(|complaint| sink.put(complaint));
    }

    /// The damage reported of the call of that choice.
    fn take_complaints(&mut self, choice: u32) -> Vec<Event<'static>> {
        self.complaints.extract_if(.., |complaint| complaint.choice == choice).collect()
    }

    fn call(&self, block: BlockId, name: &str) -> OpenCall {
        OpenCall {
            block,
            name: name.to_owned(),
            written: String::new(),
            passed: 0,
            is_anew: false,
            flow: self.is_repairing.then(CertainPrefix::default),
            coerced: self.coerced(name).map(Box::new),
        }
    }

    fn coerced(&self, name: &str) -> Option<CoercedArguments> {
        let schema = self.tools.schema(name).filter(|_| self.is_coercing)?;
        let coercer = StreamCoercer::new(schema, CoerceOptions::default(), self.steps()).of_arguments();
        Some(CoercedArguments { coercer, piece: String::new(), passed: 0, text: None })
    }

    fn steps(&self) -> StepBudget {
        StepBudget::new(self.steps.unwrap_or(StepBudget::STEPS))
    }

    /// Emits what is left of a call that ends.
    fn end(
        &mut self,
        choice: u32,
        mut call: OpenCall,
        completion: BlockCompletion,
        sink: &mut EventSink<'_>,
    ) {
        let complaints = self.take_complaints(choice);
        let is_complete = completion == BlockCompletion::Complete;
        let mut changes = ChangeSummary::default();
        let repaired = if is_complete { self.repaired(&call.written, &mut changes) } else { None };
        let text = repaired.as_deref().unwrap_or(&call.written);
        let is_extended = !call.is_anew && text.starts_with(&call.written[..call.passed]);
        let (rest, mut budget, mut unchecked) = (&text[call.passed.min(text.len())..], self.steps(), None);
        let mut told = is_extended.then_some(rest);
        let mut arguments = Cow::Borrowed(text);
        let fresh = if is_extended { None } else { self.coerced(&call.name) };
        let coerced = match (call.coerced.take(), fresh) {
            (Some(_), Some(fresh)) => Some((fresh, text)),
            (coerced, _) => coerced.map(|coerced| (*coerced, rest)),
        };
        let coerced = coerced.map(|(mut coerced, rest)| {
            coerced.end(rest, is_complete, &call.written);
            coerced
        });
        if let Some(coerced) = &coerced {
            changes.of_value(coerced.coercer.changes());
            if let Some(coerced) = &coerced.text {
                arguments = Cow::Borrowed(coerced);
            }
            told = is_extended.then_some(&coerced.piece);
        }
        let OpenCall { block, name, written, .. } = &call;
        let arguments = &*arguments;
        match told {
            Some("") => {}
            Some(piece) => {
                let (kind, text) = (DeltaKind::Arguments, Cow::Borrowed(piece));
                sink.put(Event::new(choice, EventKind::Delta { block: *block, kind, text }));
            }
            None => {
                let text = Cow::Borrowed(arguments);
                sink.put(Event::new(choice, EventKind::Correction { block: *block, text }));
            }
        }
        let notice = |code, detail: String, text: Option<&str>| {
            let text = text.map(|text| Cow::Owned(text.to_owned()));
            let notice = Notice { block: Some(*block), text, ..Notice::new(code, 0, detail) };
            Event::new(choice, EventKind::Notice(notice))
        };
        let is_changed = arguments != written;
        if is_changed {
            let detail = format!("the arguments of {name} were repaired: {}", changes.words());
            sink.put(notice(NoticeCode::Repaired, detail, Some(written)));
        }
        let is_repaired = || is_changed && is_complete && arguments.parse::<Value>().is_ok();
        if !complaints.is_empty() && !is_repaired() {
            complaints.into_iter().for_each(|complaint| sink.put(complaint));
        }
        if let Some(coerced) = &coerced {
            unchecked = coerced.coercer.error().cloned();
            budget = coerced.coercer.budget().clone();
        }
        if self.tools.is_empty() || name.is_empty() {
        } else if !self.tools.contains(name) {
            let detail = format!("the tool {name:?} was not declared");
            sink.put(notice(NoticeCode::UnknownTool, detail, None));
        } else {
            match unchecked
                .map_or_else(|| self.verdict(name, arguments, &mut budget), ArgumentVerdict::Unchecked)
            {
                ArgumentVerdict::Fitting => {}
                #[cfg(feature = "schema")]
                ArgumentVerdict::Misfit(misfit) => sink.put(notice(NoticeCode::SchemaMismatch, misfit, None)),
                ArgumentVerdict::Unchecked(error) => {
                    let detail = format!("the arguments of {name} were passed on as they are: {error}");
                    sink.put(notice(NoticeCode::Unchecked, detail, None));
                }
            }
        }
    }

    /// The repaired arguments, if they must be repaired and can be.
    fn repaired(&self, written: &str, changes: &mut ChangeSummary) -> Option<String> {
        // Empty arguments need no repair.
        if !self.is_repairing || written.trim_ascii().is_empty() {
            return None;
        }
        // The call ended normally, so nothing more was to come: the end of open values was forgotten.
        let repaired = repair::RepairOptions::new().close_truncated().repair(written);
        let is_normalized =
            matches!(repaired.verdict, repair::RepairVerdict::Repaired | repair::RepairVerdict::Incomplete);
        if !is_normalized || !is_object(&repaired.text) {
            return None;
        }
        changes.of_text(&repaired.changes);
        Some(repaired.text.into_owned())
    }

    #[cfg(feature = "schema")]
    fn verdict(&self, name: &str, arguments: &str, budget: &mut StepBudget) -> ArgumentVerdict {
        let Some(schema) = self.tools.schema(name).filter(|_| self.is_validating) else {
            return ArgumentVerdict::Fitting;
        };
        let arguments = if arguments.trim_ascii().is_empty() { "{}" } else { arguments };
        let value = arguments.parse().ok().filter(Value::is_object);
        let Some(value) = value else { return ArgumentVerdict::Fitting };
        let problems = match schema.validate_within(&value, budget) {
            Ok(problems) => problems,
            Err(error) if error.kind() == ErrorKind::Limit => return ArgumentVerdict::Unchecked(error),
            // A schema that cannot be used says nothing about the call.
            Err(_) => return ArgumentVerdict::Fitting,
        };
        let Some((first, more)) = problems.split_first() else { return ArgumentVerdict::Fitting };
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        ArgumentVerdict::Misfit(format!(
            "the arguments of {name} do not fit its schema: {}: {}{more}",
            first.path, first.detail
        ))
    }

    #[cfg(not(feature = "schema"))]
    fn verdict(&self, _: &str, _: &str, _: &mut StepBudget) -> ArgumentVerdict {
        ArgumentVerdict::Fitting
    }
}

/// Whether a notice reports damage that a repair of the call undoes.
fn is_complaint(notice: &Notice<'_>) -> bool {
    matches!(notice.code, NoticeCode::MalformedCall | NoticeCode::IncompleteArguments)
}

impl OpenCall {
    /// Takes a piece of the arguments, and gives what may now be passed on.
    fn take(&mut self, text: &str) -> &str {
        let start = self.written.len();
        self.written.push_str(text);
        if self.is_anew {
            return "";
        }
        let sure = match &mut self.flow {
            Some(flow) => {
                flow.push(text, start);
                flow.sure
            }
            None => self.written.len(),
        };
        let passed = std::mem::replace(&mut self.passed, sure);
        let sure = &self.written[passed..sure];
        match &mut self.coerced {
            Some(coerced) => {
                coerced.push(sure, &self.written);
                &coerced.piece
            }
            None => sure,
        }
    }
}

impl CoercedArguments {
    /// Takes more of the arguments; `written` is the model's own text so far.
    fn push(&mut self, sure: &str, written: &str) {
        self.piece.clear();
        self.coercer.push(sure, &mut self.piece);
        self.pass(written);
    }

    /// Takes the rest of the arguments, which is passed on unchanged where they were truncated.
    fn end(&mut self, rest: &str, is_complete: bool, written: &str) {
        self.piece.clear();
        if is_complete {
            self.coercer.push(rest, &mut self.piece);
        }
        self.coercer.finish(&mut self.piece);
        if !is_complete {
            self.piece.push_str(rest);
        }
        self.pass(written);
    }

    fn pass(&mut self, written: &str) {
        match &mut self.text {
            Some(text) => text.push_str(&self.piece),
            None if self.coercer.has_diverged() => {
                self.text = Some([&written[..self.passed], &self.piece].concat());
            }
            None => {}
        }
        self.passed += self.piece.len();
    }
}

/// The part of a growing text that is certain to stand in its repair: everything up to the first oddity except the
/// token that is not over yet, and a quote or comma that later text may show to be none.
#[derive(Clone, Debug, Default)]
struct CertainPrefix {
    scanner: JsonScanner,
    sure: usize,
    /// Whether the object has begun.
    has_begun: bool,
    /// Whether the last token is a key or a string.
    is_quoted: bool,
    is_odd: bool,
}

impl CertainPrefix {
    fn push(&mut self, text: &str, start: usize) {
        let mut scanner = self.scanner;
        scanner.push_to(text, &mut PrefixFollower { flow: self, text, start });
        self.scanner = scanner;
    }
}

/// Follows one piece of the text that `flow` is about.
struct PrefixFollower<'f> {
    flow: &'f mut CertainPrefix,
    text: &'f str,
    /// The position where the piece begins.
    start: usize,
}

impl PrefixFollower<'_> {
    fn is_sure_to(&mut self, at: usize) {
        if !self.flow.is_odd {
            self.flow.sure = self.start + at;
        }
    }

    fn token(&mut self) {
        // A text that is no object may still be repaired.
        self.flow.is_odd |= !self.flow.has_begun;
    }
}

impl ScanVisitor for PrefixFollower<'_> {
    fn open(&mut self, container: JsonContainer, at: usize) {
        self.flow.has_begun |= container == JsonContainer::Object;
        self.token();
        self.is_sure_to(at + 1);
    }

    fn close(&mut self, _: JsonContainer, at: usize) {
        self.is_sure_to(at);
    }

    fn begin(&mut self, token: ScanToken, at: usize) {
        self.token();
        self.flow.is_quoted = matches!(token, ScanToken::Key | ScanToken::String);
        // A key of which nothing came is left out.
        self.is_sure_to(at + usize::from(token == ScanToken::String));
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

    fn escape(&mut self, _: u16, at: usize) {
        self.is_sure_to(at);
    }
}

fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}

/// Descriptions of changes: of the text by kind, with the bytes of the original at which they begin, then of the value.
#[derive(Default)]
struct ChangeSummary {
    kinds: Vec<(&'static str, Vec<usize>)>,
    values: Vec<String>,
}

impl ChangeSummary {
    fn of_text(&mut self, changes: &[repair::RepairChange]) {
        for change in changes {
            let label = change.kind.label();
            match self.kinds.iter_mut().find(|(known, _)| *known == label) {
                Some((_, places)) => places.push(change.at),
                None => self.kinds.push((label, vec![change.at])),
            }
        }
    }

    fn of_value(&mut self, changes: &[schema::CoercionChange]) {
        let shown = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(EXCERPT) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        self.values.extend(changes.iter().take(MAX_REPORTED).map(
            |schema::CoercionChange { kind, path, from, to }| {
                format!("{} at {path}, {} became {}", kind.label(), shown(from), shown(to))
            },
        ));
        if changes.len() > MAX_REPORTED {
            self.values.push(format!("and {} more", changes.len() - MAX_REPORTED));
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
        let words: Vec<String> = kinds.chain(self.values).collect();
        // A member waited for the end of its object, to get a name that another one had.
        if words.is_empty() { "members were moved".to_owned() } else { words.join("; ") }
    }
}
