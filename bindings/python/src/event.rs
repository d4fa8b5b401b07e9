//! Events: one frozen class for each kind.

use std::marker::PhantomData;

use callweave::event::{self, BlockId, ByteSpan, Event, EventKind, EventScope};
#[cfg(feature = "stubs")]
use pyo3::inspect::{PyStaticConstant, PyStaticExpr};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
#[cfg(feature = "stubs")]
use pyo3::{type_hint_identifier, type_hint_subscript};

use crate::error::upstream;
use crate::json;
use crate::message::{Notice, Usage, members, unwritten};
use crate::typed::{
    self, AnyEvent, AttachmentKind, BlockCompletion, BlockKind, CallKind, DeltaKind, FinishReason,
    JsonObject, ReasoningForm, UpstreamException,
};

/// The class of an event for Python.
pub(crate) fn to_python<'py>(py: Python<'py>, event: &Event<'_>) -> PyResult<AnyEvent<'py>> {
    if let EventKind::Delta { block, kind, text } = &event.body {
        let delta = DeltaEvent {
            choice: event.choice,
            block: block.0,
            kind: *kind,
            source: event.source,
            text: PyString::new(py, text).unbind(),
        };
        return Ok(AnyEvent(Bound::new(py, delta)?.into_any()));
    }
    let event = event.clone().into_owned();
    macro_rules! made {
        ($class:ident) => {
            Bound::new(py, $class(event))?.into_any()
        };
    }
    Ok(AnyEvent(match &event.body {
        EventKind::Start { .. } => made!(StartEvent),
        EventKind::ChoiceStart => made!(ChoiceStartEvent),
        EventKind::ItemStart { .. } => made!(ItemStartEvent),
        EventKind::ItemEnd { .. } => made!(ItemEndEvent),
        EventKind::BlockStart { .. } => made!(BlockStartEvent),
        EventKind::Identity { .. } => made!(IdentityEvent),
        EventKind::Correction { .. } => made!(CorrectionEvent),
        EventKind::BlockEnd { .. } => made!(BlockEndEvent),
        EventKind::Attachment { .. } => made!(AttachmentEvent),
        EventKind::Progress { .. } => made!(ProgressEvent),
        EventKind::Usage { .. } => made!(UsageEvent),
        EventKind::Finish { .. } => made!(FinishEvent),
        EventKind::Markup { .. } => made!(MarkupEvent),
        EventKind::Notice(_) => made!(NoticeEvent),
        EventKind::Error(_) => made!(ErrorEvent),
        EventKind::Extra { .. } => made!(ExtraEvent),
        EventKind::End => made!(EndEvent),
        other => unreachable!("an event without a class: {other:?}"),
    }))
}

/// The positional patterns of a class.
trait HasMatchArgs {
    const NAMES: &'static [&'static str];
    #[cfg(feature = "stubs")]
    const HINT: PyStaticExpr;
}

struct MatchArgs<C>(PhantomData<C>);

impl<C> Default for MatchArgs<C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'py, C: HasMatchArgs> IntoPyObject<'py> for MatchArgs<C> {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;
    #[cfg(feature = "stubs")]
    const OUTPUT_TYPE: PyStaticExpr = C::HINT;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        PyTuple::new(py, C::NAMES)
    }
}

macro_rules! match_args {
    ($class:ident($($argument:literal),*)) => {
        impl HasMatchArgs for $class {
            const NAMES: &'static [&'static str] = &[$($argument),*];
            #[cfg(feature = "stubs")]
            const HINT: PyStaticExpr = PyStaticExpr::Subscript {
                value: &type_hint_identifier!("builtins", "tuple"),
                slice: &PyStaticExpr::Tuple {
                    elts: &[$(type_hint_subscript!(
                        type_hint_identifier!("typing", "Literal"),
                        PyStaticExpr::Constant { value: PyStaticConstant::Str($argument) }
                    )),*],
                },
            };
        }
    };
}

/// A class of events with its own properties, and those that all events have.
macro_rules! event_class {
    ($(#[$doc:meta])* $name:ident($($argument:literal),*) { $($own:tt)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "callweave")]
        pub(crate) struct $name(Event<'static>);

        match_args!($name($($argument),*));

        #[pymethods]
        impl $name {
            #[classattr]
            fn __match_args__() -> MatchArgs<Self> {
                MatchArgs::default()
            }

            /// The choice (candidate response) it belongs to.
            #[getter]
            fn choice(&self) -> u32 {
                self.0.choice
            }

            /// The bytes of the text that it was made from, where a dialect was found in text.
            #[getter]
            fn source(&self) -> Option<(u64, u64)> {
                range(self.0.source)
            }

            $($own)*

            /// The JSON text of the event, as the program ``callweave`` prints it.
            fn to_json(&self) -> PyResult<String> {
                serde_json::to_string(&self.0).map_err(unwritten)
            }

            /// The event as a dictionary.
            fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
                members(py, &self.to_json()?)
            }

            fn __repr__(&self) -> PyResult<String> {
                Ok(format!("{}({})", stringify!($name), self.to_json()?))
            }

            fn __eq__(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }
    };
}

/// A part of the body of an event, whose class says its kind.
macro_rules! part {
    ($self:ident.$kind:ident.$part:ident) => {
        match &$self.0.body {
            EventKind::$kind { $part, .. } => $part,
            _ => unreachable!("the class says the kind"),
        }
    };
}

fn range(source: ByteSpan) -> Option<(u64, u64)> {
    (!source.is_empty()).then_some((source.start, source.end))
}

fn loads<'py>(py: Python<'py>, value: Option<&event::JsonText<'_>>) -> PyResult<Option<Bound<'py, PyAny>>> {
    value.map(|value| json::loads(py, value.as_str())).transpose()
}

/// The name of the thing that an event is about.
fn scope_name(scope: EventScope) -> typed::EventScope {
    let name = match scope {
        EventScope::Response => "response",
        EventScope::Choice => "choice",
        EventScope::Item(_) => "item",
        EventScope::Block(_) => "block",
    };
    typed::EventScope(name.to_owned())
}

fn scope_item(scope: EventScope) -> Option<u32> {
    if let EventScope::Item(item) = scope { Some(item.0) } else { None }
}

fn scope_block(scope: EventScope) -> Option<u32> {
    if let EventScope::Block(block) = scope { Some(block.0) } else { None }
}

event_class! {
    /// The response begins: the first event of every response.
    StartEvent("id", "model") {
        /// The provider's id of the response.
        #[getter]
        fn id(&self) -> Option<&str> {
            part!(self.Start.id).as_deref()
        }

        /// The model that generates it.
        #[getter]
        fn model(&self) -> Option<&str> {
            part!(self.Start.model).as_deref()
        }

        /// The wire's own type of such a response.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.Start.wire_type)
        }

        /// Fields that only the protocol has.
        #[getter]
        fn extra<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
            loads(py, part!(self.Start.extra).as_ref())
        }
    }
}

event_class! {
    /// A choice begins, before or without any block.
    ChoiceStartEvent() {}
}

event_class! {
    /// An item begins: a group of blocks on the wire, such as an output item of OpenAI Responses.
    ItemStartEvent("item", "wire_type") {
        /// Its number, unique in the response.
        #[getter]
        fn item(&self) -> u32 {
            part!(self.ItemStart.item).0
        }

        /// The provider's id of it.
        #[getter]
        fn id(&self) -> Option<&str> {
            part!(self.ItemStart.id).as_deref()
        }

        /// The wire's own type of the item.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.ItemStart.wire_type)
        }

        /// Fields that only the protocol has.
        #[getter]
        fn extra<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
            loads(py, part!(self.ItemStart.extra).as_ref())
        }
    }
}

event_class! {
    /// An item is over.
    ItemEndEvent("item") {
        /// The item.
        #[getter]
        fn item(&self) -> u32 {
            part!(self.ItemEnd.item).0
        }
    }
}

event_class! {
    /// A block opened.
    BlockStartEvent("block", "kind") {
        /// Its number, unique in the response.
        #[getter]
        fn block(&self) -> u32 {
            part!(self.BlockStart.block).0
        }

        /// The item it belongs to.
        #[getter]
        fn item(&self) -> Option<u32> {
            part!(self.BlockStart.item).map(|item| item.0)
        }

        /// The kind of its content.
        #[getter]
        fn kind(&self) -> BlockKind {
            let kind = match part!(self.BlockStart.kind) {
                event::BlockKind::Text => "text",
                event::BlockKind::Reasoning(_) => "reasoning",
                event::BlockKind::Refusal => "refusal",
                event::BlockKind::ToolCall { .. } => "tool_call",
                event::BlockKind::ToolResult { .. } => "tool_result",
                _ => "opaque",
            };
            BlockKind(kind.to_owned())
        }

        /// The form of reasoning.
        #[getter]
        fn form(&self) -> Option<ReasoningForm> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::Reasoning(form) => Some(ReasoningForm::of(form)),
                _ => None,
            }
        }

        /// The id of a call.
        #[getter]
        fn id(&self) -> Option<&str> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::ToolCall { id, .. } => id.as_deref(),
                _ => None,
            }
        }

        /// Whether the id was made here, because the provider gave none.
        #[getter]
        fn has_made_id(&self) -> bool {
            matches!(part!(self.BlockStart.kind), event::BlockKind::ToolCall { is_made: true, .. })
        }

        /// The name of the called tool.
        #[getter]
        fn name(&self) -> Option<&str> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::ToolCall { name, .. } => Some(name),
                _ => None,
            }
        }

        /// Who runs the call.
        #[getter]
        fn call_kind(&self) -> Option<CallKind> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::ToolCall { call, .. } => Some(CallKind::of(call)),
                _ => None,
            }
        }

        /// The id of the call that a result belongs to.
        #[getter]
        fn call(&self) -> Option<&str> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::ToolResult { call, .. } => call.as_deref(),
                _ => None,
            }
        }

        /// The value of a tool result or of content that only the protocol has.
        #[getter]
        fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
            match part!(self.BlockStart.kind) {
                event::BlockKind::ToolResult { value, .. } | event::BlockKind::Opaque { value } => loads(py, Some(value)),
                _ => Ok(None),
            }
        }

        /// The wire's own type of the block.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.BlockStart.wire_type)
        }

        /// The wire's own number for it, where it has one.
        #[getter]
        fn index(&self) -> Option<i64> {
            *part!(self.BlockStart.index)
        }

        /// Fields that only the protocol has.
        #[getter]
        fn extra<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
            loads(py, part!(self.BlockStart.extra).as_ref())
        }
    }
}

event_class! {
    /// An id or a model name that came late, or changed.
    IdentityEvent("scope", "id", "model") {
        /// What it names: the ``response``, the ``choice``, an ``item`` or a ``block``.
        #[getter]
        fn scope(&self) -> typed::EventScope {
            scope_name(*part!(self.Identity.scope))
        }

        /// The item, where it is about one.
        #[getter]
        fn item(&self) -> Option<u32> {
            scope_item(*part!(self.Identity.scope))
        }

        /// The block, where it is about one.
        #[getter]
        fn block(&self) -> Option<u32> {
            scope_block(*part!(self.Identity.scope))
        }

        /// The provider's id.
        #[getter]
        fn id(&self) -> Option<&str> {
            part!(self.Identity.id).as_deref()
        }

        /// The model (of a response).
        #[getter]
        fn model(&self) -> Option<&str> {
            part!(self.Identity.model).as_deref()
        }
    }
}

event_class! {
    /// The provider's closing restatement differs from the text it streamed: this is the complete text.
    CorrectionEvent("block", "text") {
        /// The block.
        #[getter]
        fn block(&self) -> u32 {
            part!(self.Correction.block).0
        }

        /// The complete text of the block.
        #[getter]
        fn text(&self) -> &str {
            part!(self.Correction.text)
        }
    }
}

event_class! {
    /// A block ended.
    BlockEndEvent("block", "completion") {
        /// The block.
        #[getter]
        fn block(&self) -> u32 {
            part!(self.BlockEnd.block).0
        }

        /// Whether the block is complete.
        #[getter]
        fn completion(&self) -> BlockCompletion {
            BlockCompletion::of(part!(self.BlockEnd.completion))
        }
    }
}

event_class! {
    /// An attachment to a block, an item, a choice or the response.
    AttachmentEvent("kind", "value") {
        /// What it is attached to: the ``response``, the ``choice``, an ``item`` or a ``block``.
        #[getter]
        fn scope(&self) -> typed::EventScope {
            scope_name(*part!(self.Attachment.scope))
        }

        /// The item, where it is about one.
        #[getter]
        fn item(&self) -> Option<u32> {
            scope_item(*part!(self.Attachment.scope))
        }

        /// The block, where it is about one.
        #[getter]
        fn block(&self) -> Option<u32> {
            scope_block(*part!(self.Attachment.scope))
        }

        /// The kind of attachment.
        #[getter]
        fn kind(&self) -> AttachmentKind {
            AttachmentKind::of(part!(self.Attachment.kind))
        }

        /// The wire's own type of the attachment.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.Attachment.wire_type)
        }

        /// The attachment, as the provider wrote it.
        #[getter]
        fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            json::loads(py, part!(self.Attachment.value).as_str())
        }
    }
}

event_class! {
    /// The progress of an item or of the response; not part of the message.
    ProgressEvent("wire_type", "value") {
        /// What progresses: the ``response``, the ``choice``, an ``item`` or a ``block``.
        #[getter]
        fn scope(&self) -> typed::EventScope {
            scope_name(*part!(self.Progress.scope))
        }

        /// The item, where it is about one.
        #[getter]
        fn item(&self) -> Option<u32> {
            scope_item(*part!(self.Progress.scope))
        }

        /// The block, where it is about one.
        #[getter]
        fn block(&self) -> Option<u32> {
            scope_block(*part!(self.Progress.scope))
        }

        /// The wire's own type of this step.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.Progress.wire_type)
        }

        /// The value of the step, if it has one.
        #[getter]
        fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
            loads(py, part!(self.Progress.value).as_ref())
        }
    }
}

event_class! {
    /// Token counts so far.
    UsageEvent("usage") {
        /// The counts.
        #[getter]
        fn usage(&self) -> Usage {
            Usage { counters: *part!(self.Usage.counters), raw: part!(self.Usage.raw).clone() }
        }

        /// The place of the counts on the wire.
        #[getter]
        fn wire_type(&self) -> &str {
            part!(self.Usage.wire_type)
        }
    }
}

event_class! {
    /// The choice is finished.
    FinishEvent("reason") {
        /// The normalized reason, derived from content where the provider's is wrong.
        #[getter]
        fn reason(&self) -> FinishReason {
            FinishReason::of(part!(self.Finish.reason))
        }

        /// The provider's last name of the reason.
        #[getter]
        fn raw(&self) -> Option<&str> {
            part!(self.Finish.raw).as_deref()
        }
    }
}

event_class! {
    /// Dialect syntax that is neither text nor argument; ``source`` says where it stood.
    MarkupEvent("text") {
        /// The syntax.
        #[getter]
        fn text(&self) -> &str {
            part!(self.Markup.text)
        }
    }
}

event_class! {
    /// An oddity that was recovered from.
    NoticeEvent("notice") {
        /// The oddity.
        #[getter]
        fn notice(&self) -> Notice {
            match &self.0.body {
                EventKind::Notice(notice) => Notice(notice.clone()),
                _ => unreachable!("the class says the kind"),
            }
        }
    }
}

event_class! {
    /// The upstream reported an error.
    ErrorEvent("error") {
        /// The error; it can be raised.
        #[getter]
        fn error<'py>(&self, py: Python<'py>) -> PyResult<UpstreamException<'py>> {
            match &self.0.body {
                EventKind::Error(error) => upstream(py, error),
                _ => unreachable!("the class says the kind"),
            }
        }
    }
}

event_class! {
    /// An extra field: one that only this protocol has. It is emitted when it is new or has changed.
    ExtraEvent("path", "value") {
        /// What has the field: the ``response``, the ``choice``, an ``item`` or a ``block``.
        #[getter]
        fn scope(&self) -> typed::EventScope {
            scope_name(*part!(self.Extra.scope))
        }

        /// The item, where it is about one.
        #[getter]
        fn item(&self) -> Option<u32> {
            scope_item(*part!(self.Extra.scope))
        }

        /// The block, where it is about one.
        #[getter]
        fn block(&self) -> Option<u32> {
            scope_block(*part!(self.Extra.scope))
        }

        /// The path of the field: keys joined by dots, a dot inside a key written as ``\\.``.
        #[getter]
        fn path(&self) -> &str {
            part!(self.Extra.path)
        }

        /// The value of the field.
        #[getter]
        fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            json::loads(py, part!(self.Extra.value).as_str())
        }
    }
}

event_class! {
    /// The response is over: the last event of every response. Another response may follow in the same input.
    EndEvent() {}
}

/// A block grew. Most events are deltas, so this class has its text as Python has it.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct DeltaEvent {
    choice: u32,
    block: u32,
    kind: event::DeltaKind,
    source: ByteSpan,
    text: Py<PyString>,
}

match_args!(DeltaEvent("kind", "text"));

impl DeltaEvent {
    fn event<'t>(&self, text: &'t str) -> Event<'t> {
        let body = EventKind::Delta { block: BlockId(self.block), kind: self.kind, text: text.into() };
        let mut event = Event::new(self.choice, body);
        event.source = self.source;
        event
    }
}

#[pymethods]
impl DeltaEvent {
    #[classattr]
    fn __match_args__() -> MatchArgs<Self> {
        MatchArgs::default()
    }

    /// The choice (candidate response) it belongs to.
    #[getter]
    fn choice(&self) -> u32 {
        self.choice
    }

    /// The bytes of the text that it was made from, where a dialect was found in text.
    #[getter]
    fn source(&self) -> Option<(u64, u64)> {
        range(self.source)
    }

    /// The block.
    #[getter]
    fn block(&self) -> u32 {
        self.block
    }

    /// The kind of the block's content: ``text``, ``reasoning``, ``refusal`` or ``arguments``.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> DeltaKind<'py> {
        DeltaKind(match self.kind {
            event::DeltaKind::Text => intern!(py, "text").clone(),
            event::DeltaKind::Reasoning => intern!(py, "reasoning").clone(),
            event::DeltaKind::Refusal => intern!(py, "refusal").clone(),
            event::DeltaKind::Arguments => intern!(py, "arguments").clone(),
            // A kind that the library has and this package does not know yet.
            other => PyString::new(py, &format!("{other:?}").to_lowercase()),
        })
    }

    /// The text to append; never empty.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.text.bind(py).clone()
    }

    /// The JSON text of the event, as the program ``callweave`` prints it.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let text = self.text.bind(py).to_string();
        serde_json::to_string(&self.event(&text)).map_err(unwritten)
    }

    /// The event as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        members(py, &self.to_json(py)?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("DeltaEvent({})", self.to_json(py)?))
    }

    fn __eq__(&self, other: &Self, py: Python<'_>) -> bool {
        let own = (self.choice, self.block, self.kind, self.source);
        let is_alike = own == (other.choice, other.block, other.kind, other.source);
        is_alike && self.text.bind(py).to_string() == other.text.bind(py).to_string()
    }
}
