//! What is done to tool calls on their way: their arguments are repaired, and checked against the tools that
//! were declared.
//!
//! Both happen where a call ends, so events are seen as early as ever; a repair is a correction before the end.

use callweave::dialect::Tools;
use callweave::event::{
    BlockId, BlockKind, Body, CallKind, Completion, Event, EventSink, Notice, NoticeCode, Sink,
};
use callweave::json::Value;
use serde::Serialize;

use crate::commands::repair::{Change, Report, Wish};
use crate::tell::excerpt;

/// What to do with calls.
#[derive(Clone, Copy, Default)]
pub(crate) struct Treatment<'t> {
    /// The tools that were declared, if they are known.
    pub(crate) tools: Option<&'t Tools>,
    /// Whether arguments that are not as they should be are repaired.
    pub(crate) is_repairing: bool,
}

/// Why a call cannot be run, though its arguments are a JSON object.
#[derive(Serialize)]
pub(crate) struct Invalid {
    reason: NoticeCode,
    detail: String,
}

/// Passes events on and treats the calls among them.
pub(crate) struct Calls<'a> {
    treatment: Treatment<'a>,
    open: Vec<(BlockId, Call)>,
    invalid: Vec<(BlockId, Invalid)>,
    /// Calls of tools that were not declared of which the text told already, and that have not ended.
    strangers: usize,
    /// What was just told of the arguments of the call that ends next.
    complaint: Option<Event<'static>>,
    next: &'a mut EventSink<'a>,
}

struct Call {
    name: String,
    arguments: String,
}

/// Characters of a value that are told of a change.
const EXCERPT: usize = 40;

impl<'a> Calls<'a> {
    /// A stage in front of `next`.
    pub(crate) fn new(treatment: Treatment<'a>, next: &'a mut EventSink<'a>) -> Self {
        Self { treatment, open: Vec::new(), invalid: Vec::new(), strangers: 0, complaint: None, next }
    }

    /// Says that no event will come any more, and which calls do not suit the declared tools.
    pub(crate) fn finish(mut self) -> Vec<(BlockId, Invalid)> {
        if let Some(complaint) = self.complaint.take() {
            self.next.put(complaint);
        }
        self.invalid
    }

    fn open(&mut self, block: BlockId) -> Option<&mut Call> {
        self.open.iter_mut().find(|(open, _)| *open == block).map(|(_, call)| call)
    }

    /// Does to a call that ends what is to be done, and says whether it is whole.
    fn end(&mut self, choice: u32, block: BlockId, call: &mut Call, completion: Completion) -> Completion {
        let mut completion = completion;
        let complaint = self.complaint.take();
        if let Some(report) = self.repaired(call) {
            let original = std::mem::replace(&mut call.arguments, report.text);
            self.next.put(Event::new(choice, Body::Correction { block, text: (&*call.arguments).into() }));
            let detail = format!("the arguments of {} were repaired: {}", call.name, told(&report.changes));
            let mut notice = Notice::new(NoticeCode::Repaired, 0, detail);
            notice.text = Some(original.into());
            self.next.put(Event::new(choice, Body::Notice(notice)));
            completion = Completion::Whole;
        } else if let Some(complaint) = complaint {
            self.next.put(complaint);
        }
        if let Some((reason, detail)) = self.misfit(call) {
            match reason {
                NoticeCode::UnknownTool if self.strangers > 0 => self.strangers -= 1,
                _ => self.notice(choice, reason, detail.clone()),
            }
            self.invalid.push((block, Invalid { reason, detail }));
        }
        completion
    }

    /// What the arguments are when repaired, if they need it and it can be done.
    fn repaired(&self, call: &Call) -> Option<Report> {
        let schema = self.treatment.tools.and_then(|tools| tools.schema(&call.name));
        let wish = Wish { schema, is_partial: false, missing: None };
        let report = self.treatment.is_repairing.then(|| wish.repair(&call.arguments))?.ok()?;
        (report.verdict == "repaired" && report.text.trim_ascii_start().starts_with('{')).then_some(report)
    }

    /// Why the call does not suit the declared tools. Arguments that are no object are a matter of the message.
    fn misfit(&self, call: &Call) -> Option<(NoticeCode, String)> {
        let Call { name, arguments } = call;
        let tools = self.treatment.tools.filter(|tools| !tools.is_empty() && !name.is_empty())?;
        if !tools.contains(name) {
            return Some((NoticeCode::UnknownTool, format!("the tool {name:?} was not declared")));
        }
        let arguments = if arguments.trim_ascii().is_empty() { "{}" } else { arguments };
        let value = arguments.parse().ok().filter(Value::is_object)?;
        // A schema that cannot be used says nothing about the call.
        let problems = tools.schema(name)?.validate(&value).ok()?;
        let (first, more) = problems.split_first()?;
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let detail =
            format!("the arguments of {name} do not fit its schema: {}: {}{more}", first.path, first.detail);
        Some((NoticeCode::SchemaMismatch, detail))
    }

    fn notice(&mut self, choice: u32, code: NoticeCode, detail: String) {
        self.next.put(Event::new(choice, Body::Notice(Notice::new(code, 0, detail))));
    }
}

impl<'e> Sink<Event<'e>> for Calls<'_> {
    fn put(&mut self, mut event: Event<'e>) {
        if !matches!(event.body, Body::BlockEnd { .. })
            && let Some(complaint) = self.complaint.take()
        {
            self.next.put(complaint);
        }
        match &mut event.body {
            Body::BlockStart { block, kind: BlockKind::ToolCall { name, call: CallKind::Function, .. } } => {
                self.open.push((*block, Call { name: name.to_string(), arguments: String::new() }));
            }
            Body::Delta { block, text } => {
                if let Some(call) = self.open(*block) {
                    call.arguments.push_str(text);
                }
            }
            Body::Correction { block, text } => {
                if let Some(call) = self.open(*block) {
                    call.arguments.replace_range(.., text);
                }
            }
            Body::BlockEnd { block, completion } => {
                if let Some(at) = self.open.iter().position(|(open, _)| open == block) {
                    let (_, mut call) = self.open.swap_remove(at);
                    *completion = self.end(event.choice, *block, &mut call, *completion);
                } else if let Some(complaint) = self.complaint.take() {
                    self.next.put(complaint);
                }
            }
            Body::Notice(notice) if notice.code == NoticeCode::UnknownTool => self.strangers += 1,
            // What is repaired at the end of its call is told as repaired, with what the model wrote.
            Body::Notice(Notice {
                code: NoticeCode::MalformedCall | NoticeCode::IncompleteArguments,
                ..
            }) => {
                self.complaint = Some(event.into_owned());
                return;
            }
            _ => {}
        }
        self.next.put(event);
    }
}

/// All changes in words: of the text by kind, with the bytes of the original at which they begin, then of the value.
fn told(changes: &[Change]) -> String {
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    let mut values = Vec::new();
    for change in changes {
        match change {
            Change::Text { kind, at, .. } => match kinds.iter_mut().find(|(known, _)| known == kind) {
                Some((_, places)) => places.push(at.to_string()),
                None => kinds.push((kind, vec![at.to_string()])),
            },
            Change::Value { kind, path, from, to } => {
                let shown = |value: &Value| excerpt(&value.to_string(), EXCERPT);
                values.push(format!("{kind} at {path}, {} became {}", shown(from), shown(to)));
            }
        }
    }
    let kinds = kinds.into_iter().map(|(kind, places)| match places.len() {
        1 => format!("{kind} at byte {}", places[0]),
        _ => format!("{kind} at bytes {}", places.join(", ")),
    });
    kinds.chain(values).collect::<Vec<_>>().join("; ")
}
