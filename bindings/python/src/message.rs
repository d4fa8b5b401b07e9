//! Messages and their parts. A part is a reference into its message: nothing is copied to Python before it is asked for.

use std::sync::Arc;

use callweave::encode::EncodeOptions;
use callweave::event::{JsonText, TokenCounts};
use callweave::message::{self, BlockContent};
use callweave::protocol::Protocol;
use callweave::{Error, ErrorKind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

use crate::error::{raise, upstream};
use crate::typed::{
    AttachmentKind, BlockCompletion, BlockKind, CallKind, FinishReason, InvalidReason, JsonObject,
    NoticeCode, ParsedType, ParsedValue, UpstreamException,
};
use crate::{json, protocols};

pub(crate) fn unwritten(error: serde_json::Error) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
}

/// A function and its arguments, which make an object anew.
type Recipe<'py> = (Bound<'py, PyAny>, (String, Option<&'static str>));

/// A response, finished or growing.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Message {
    inner: Arc<message::Message>,
    protocol: Option<&'static Protocol>,
}

impl Message {
    pub(crate) fn new(inner: message::Message, protocol: Option<&'static Protocol>) -> Self {
        Self { inner: Arc::new(inner), protocol }
    }

    fn choice_at(&self, at: usize) -> Choice {
        Choice { inner: Arc::clone(&self.inner), at }
    }

    /// The first choice: the one with the smallest number.
    fn first(&self) -> Option<Choice> {
        let numbers = self.inner.choices.iter().enumerate();
        numbers.min_by_key(|(_, choice)| choice.number).map(|(at, _)| self.choice_at(at))
    }
}

#[pymethods]
impl Message {
    /// The provider's id of the response.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.inner.id.as_deref()
    }

    /// The model that generated it.
    #[getter]
    fn model(&self) -> Option<&str> {
        self.inner.model.as_deref()
    }

    /// The wire's own type of such a response.
    #[getter]
    fn wire_type(&self) -> &str {
        &self.inner.wire_type
    }

    /// The name of the protocol that the response came in, where one is known.
    #[getter]
    fn protocol(&self) -> Option<&str> {
        self.protocol.map(|protocol| protocol.name)
    }

    /// The candidate responses; usually one.
    #[getter]
    fn choices(&self) -> Vec<Choice> {
        (0..self.inner.choices.len()).map(|at| self.choice_at(at)).collect()
    }

    /// The visible text of the first choice.
    #[getter]
    fn text(&self) -> String {
        self.inner.text().into_owned()
    }

    /// The reasoning of the first choice.
    #[getter]
    fn reasoning(&self) -> String {
        self.inner.reasoning().into_owned()
    }

    /// The refusal of the first choice.
    #[getter]
    fn refusal(&self) -> String {
        self.inner.first().map(|choice| choice.refusal().into_owned()).unwrap_or_default()
    }

    /// The tool calls of the first choice, in the order in which they began.
    #[getter]
    fn tool_calls(&self) -> Vec<ToolCall> {
        self.first().map(|choice| choice.tool_calls()).unwrap_or_default()
    }

    /// The normalized reason why the first choice finished.
    #[getter]
    fn finish_reason(&self) -> Option<FinishReason> {
        self.inner.finish_reason().map(|reason| FinishReason::of(&reason))
    }

    /// Token counts, if any were reported.
    #[getter]
    fn usage(&self) -> Option<Usage> {
        self.inner.usage.as_ref().map(|usage| Usage { counters: usage.counters(), raw: usage.raw.clone() })
    }

    /// Oddities that were recovered from.
    #[getter]
    fn notices(&self) -> Vec<Notice> {
        self.inner.notices.iter().cloned().map(Notice).collect()
    }

    /// Errors that the upstream reported; they can be raised.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Vec<UpstreamException<'py>>> {
        self.inner.errors.iter().map(|error| upstream(py, error)).collect()
    }

    /// Attachments to the response as a whole.
    #[getter]
    fn attachments(&self) -> Vec<Attachment> {
        self.inner.attachments.iter().cloned().map(Attachment).collect()
    }

    /// Fields that only the protocol has, by path.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        extra(py, &self.inner.extra)
    }

    /// Whether the end is missing: the input ended before the provider's end marker, or a limit truncated the response.
    #[getter]
    fn is_truncated(&self) -> bool {
        self.inner.is_truncated()
    }

    /// Raise the upstream's error, if the response failed; else return the message itself.
    fn raise_for_error<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let message = this.get();
        let is_failed = !message.inner.errors.is_empty()
            || message.inner.finish_reason() == Some(callweave::FinishReason::Error);
        if is_failed && let Err(error) = message::Message::clone(&message.inner).into_result() {
            return Err(raise(this.py(), &error));
        }
        Ok(this)
    }

    /// The JSON text of the message, as the program ``callweave`` prints it; with ``indent`` in several lines.
    #[pyo3(signature = (*, indent=false))]
    fn to_json(&self, indent: bool) -> PyResult<String> {
        let json = if indent {
            serde_json::to_string_pretty(&*self.inner)
        } else {
            serde_json::to_string(&*self.inner)
        };
        json.map_err(unwritten)
    }

    /// The message of a JSON text that ``to_json`` wrote.
    #[staticmethod]
    #[pyo3(signature = (text, protocol=None))]
    fn from_json(py: Python<'_>, text: &str, protocol: Option<&str>) -> PyResult<Self> {
        let protocol = protocol.map(|name| protocols::named(py, name)).transpose()?;
        let message = serde_json::from_str(text).map_err(|error| {
            raise(py, &Error::new(ErrorKind::Json, format!("the text is no message: {error}")))
        })?;
        Ok(Self::new(message, protocol))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Recipe<'py>> {
        let read = py.get_type::<Self>().getattr(intern!(py, "from_json"))?;
        Ok((read, (self.to_json(false)?, self.protocol.map(|protocol| protocol.name))))
    }

    /// The message as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        members(py, &self.to_json(false)?)
    }

    /// The message as the complete body of a protocol.
    #[pyo3(signature = (protocol, *, id=None, created=None, model=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        protocol: &str,
        id: Option<String>,
        created: Option<u64>,
        model: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let protocol = protocols::written(py, protocol)?;
        let mut options = EncodeOptions::normalized();
        options = id.into_iter().fold(options, EncodeOptions::id);
        options = model.into_iter().fold(options, EncodeOptions::model);
        options = created.into_iter().fold(options, EncodeOptions::created);
        let mut body = Vec::new();
        protocol.encode_body(&self.inner, &options, &mut body);
        Ok(PyBytes::new(py, &body))
    }

    fn __repr__(&self) -> String {
        let calls: Vec<String> = self.inner.tool_calls().map(|call| call.name.clone()).collect();
        let text: String = self.inner.text().chars().take(60).collect();
        let finish =
            self.inner.finish_reason().map_or_else(|| "None".to_owned(), |reason| format!("'{reason}'"));
        format!("Message(text={text:?}, tool_calls={calls:?}, finish_reason={finish})")
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

/// The members of a JSON object.
pub(crate) fn members<'py>(py: Python<'py>, text: &str) -> PyResult<JsonObject<'py>> {
    Ok(JsonObject(json::loads(py, text)?.cast_into::<PyDict>()?))
}

/// Extra fields by path.
pub(crate) fn extra<'py>(py: Python<'py>, fields: &message::ExtraFields) -> PyResult<JsonObject<'py>> {
    let dict = PyDict::new(py);
    for (path, value) in fields.iter() {
        dict.set_item(path, json::loads(py, value.as_str())?)?;
    }
    Ok(JsonObject(dict))
}

/// One candidate response.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Choice {
    inner: Arc<message::Message>,
    at: usize,
}

impl Choice {
    fn own(&self) -> &message::Choice {
        &self.inner.choices[self.at]
    }

    fn block(&self, block: usize) -> Block {
        Block { inner: Arc::clone(&self.inner), choice: self.at, at: block }
    }
}

#[pymethods]
impl Choice {
    /// Its number.
    #[getter]
    fn number(&self) -> u32 {
        self.own().number
    }

    /// Its content, in the order in which the blocks began.
    #[getter]
    fn blocks(&self) -> Vec<Block> {
        (0..self.own().blocks.len()).map(|at| self.block(at)).collect()
    }

    /// All visible text, joined.
    #[getter]
    fn text(&self) -> String {
        self.own().text().into_owned()
    }

    /// All reasoning, joined.
    #[getter]
    fn reasoning(&self) -> String {
        self.own().reasoning().into_owned()
    }

    /// All refusal text, joined.
    #[getter]
    fn refusal(&self) -> String {
        self.own().refusal().into_owned()
    }

    /// The tool calls, in the order in which they began.
    #[getter]
    fn tool_calls(&self) -> Vec<ToolCall> {
        let blocks = self.own().blocks.iter().enumerate();
        let calls = blocks.filter(|(_, block)| matches!(block.content, BlockContent::ToolCall(_)));
        calls.map(|(at, _)| ToolCall { block: self.block(at) }).collect()
    }

    /// The normalized reason why it finished; ``None`` while it has not.
    #[getter]
    fn finish_reason(&self) -> Option<FinishReason> {
        self.own().finish.as_ref().map(|finish| FinishReason::of(&finish.reason))
    }

    /// The provider's own name of the reason.
    #[getter]
    fn raw_finish_reason(&self) -> Option<&str> {
        self.own().finish.as_ref()?.raw.as_deref()
    }

    /// Attachments to the choice as a whole, such as log probabilities.
    #[getter]
    fn attachments(&self) -> Vec<Attachment> {
        self.own().attachments.iter().cloned().map(Attachment).collect()
    }

    /// Fields that only the protocol has, by path.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        extra(py, &self.own().extra)
    }

    fn __repr__(&self) -> String {
        format!("Choice(number={}, blocks={})", self.own().number, self.own().blocks.len())
    }
}

/// A piece of content: text, reasoning, a refusal, a tool call, a tool result, or what only the protocol has.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Block {
    inner: Arc<message::Message>,
    choice: usize,
    at: usize,
}

impl Block {
    fn own(&self) -> &message::Block {
        &self.inner.choices[self.choice].blocks[self.at]
    }

    fn kind_name(&self) -> &'static str {
        match self.own().content {
            BlockContent::Text(_) => "text",
            BlockContent::Reasoning { .. } => "reasoning",
            BlockContent::Refusal(_) => "refusal",
            BlockContent::ToolCall(_) => "tool_call",
            BlockContent::ToolResult(_) => "tool_result",
            _ => "opaque",
        }
    }

    fn copy(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), choice: self.choice, at: self.at }
    }
}

#[pymethods]
impl Block {
    /// Its number in the stream of events.
    #[getter]
    fn id(&self) -> u32 {
        self.own().id.0
    }

    /// The kind of its content: ``text``, ``reasoning``, ``refusal``, ``tool_call``, ``tool_result`` or ``opaque``.
    #[getter]
    fn kind(&self) -> BlockKind {
        BlockKind(self.kind_name().to_owned())
    }

    /// Its text, where it is text, reasoning or a refusal.
    #[getter]
    fn text(&self) -> Option<&str> {
        match &self.own().content {
            BlockContent::Text(text) | BlockContent::Refusal(text) => Some(text),
            BlockContent::Reasoning { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The call, where it is one.
    #[getter]
    fn tool_call(&self) -> Option<ToolCall> {
        matches!(self.own().content, BlockContent::ToolCall(_)).then(|| ToolCall { block: self.copy() })
    }

    /// The value of a tool result or of content that only the protocol has.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.own().content {
            BlockContent::ToolResult(result) => json::loads(py, result.value.as_str()).map(Some),
            BlockContent::Opaque(value) => json::loads(py, value.as_str()).map(Some),
            _ => Ok(None),
        }
    }

    /// The wire's own type of the block.
    #[getter]
    fn wire_type(&self) -> &str {
        &self.own().wire_type
    }

    /// Whether it has ended.
    #[getter]
    fn is_ended(&self) -> bool {
        self.own().is_ended
    }

    /// Its position in the text, in bytes, if it was found there.
    #[getter]
    fn source(&self) -> Option<(u64, u64)> {
        let source = self.own().source;
        (!source.is_empty()).then_some((source.start, source.end))
    }

    /// Its attachments.
    #[getter]
    fn attachments(&self) -> Vec<Attachment> {
        self.own().attachments.iter().cloned().map(Attachment).collect()
    }

    /// Fields that only the protocol has, by path.
    #[getter]
    fn extra<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        extra(py, &self.own().extra)
    }

    fn __repr__(&self) -> String {
        let shown: String = self.own().content.to_string().chars().take(60).collect();
        format!("Block({}, {shown:?})", self.kind_name())
    }
}

/// A tool call.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct ToolCall {
    block: Block,
}

impl ToolCall {
    fn own(&self) -> &message::ToolCall {
        match &self.block.own().content {
            BlockContent::ToolCall(call) => call,
            _ => unreachable!("it is made for calls alone"),
        }
    }
}

#[pymethods]
impl ToolCall {
    /// The provider's id, or a made one.
    #[getter]
    fn id(&self) -> &str {
        &self.own().id
    }

    /// Whether the id was made here, because the provider gave none.
    #[getter]
    fn has_made_id(&self) -> bool {
        self.own().has_made_id
    }

    /// The tool's name; empty if the provider never gave one.
    #[getter]
    fn name(&self) -> &str {
        &self.own().name
    }

    /// The arguments as JSON text (for a custom tool: free text).
    #[getter]
    fn arguments(&self) -> &str {
        self.own().arguments()
    }

    /// The argument text as it came, byte for byte; empty if there was none.
    #[getter]
    fn raw_arguments(&self) -> &str {
        &self.own().raw_arguments
    }

    /// Who runs it: ``function`` and ``custom`` are yours, ``builtin`` was run by the provider.
    #[getter]
    fn kind(&self) -> CallKind {
        CallKind::of(&self.own().kind)
    }

    /// Whether it is ``complete``, ``truncated``, or stands ``after_damage`` in text.
    #[getter]
    fn completion(&self) -> BlockCompletion {
        BlockCompletion::of(&self.own().completion)
    }

    /// The reason why the call cannot be run, if it cannot.
    #[getter]
    fn invalid(&self) -> Option<InvalidCall> {
        self.own().invalid().map(InvalidCall)
    }

    /// A ready-made result for the model that made an invalid call; ``None`` for a valid one.
    #[getter]
    fn error_result(&self) -> Option<String> {
        self.own().error_result()
    }

    /// The block of the call.
    #[getter]
    fn block(&self) -> Block {
        self.block.copy()
    }

    /// The arguments as a dictionary. Raises ``InvalidError`` if they are no JSON object, or the call is truncated.
    #[pyo3(name = "object")]
    fn as_object<'py>(&self, py: Python<'py>) -> PyResult<JsonObject<'py>> {
        self.own().object().map_err(|error| raise(py, &error))?;
        members(py, self.own().arguments())
    }

    /// The arguments as a value of a type: a pydantic model, a dataclass, a typed dictionary. Raises ``InvalidError`` if
    /// they do not fit.
    fn parse<'py>(&self, py: Python<'py>, r#type: ParsedType<'py>) -> PyResult<ParsedValue<'py>> {
        static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let parse = PARSE.import(py, "callweave._tools", "parse")?;
        Ok(ParsedValue(parse.call1((&self.own().name, self.as_object(py)?, r#type.0))?))
    }

    fn __repr__(&self) -> String {
        let message::ToolCall { id, name, .. } = self.own();
        format!("ToolCall(id={id:?}, name={name:?}, arguments={:?})", self.own().arguments())
    }
}

/// The reason why a call cannot be run.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct InvalidCall(callweave::InvalidCall);

#[pymethods]
impl InvalidCall {
    /// The reason, such as ``not_json`` or ``unknown_tool``.
    #[getter]
    fn reason(&self) -> InvalidReason {
        InvalidReason::of(&self.0.reason)
    }

    /// A description of the reason.
    #[getter]
    fn detail(&self) -> &str {
        &self.0.detail
    }

    fn __str__(&self) -> &str {
        &self.0.detail
    }

    fn __repr__(&self) -> String {
        format!("InvalidCall({}, {:?})", self.0.reason, self.0.detail)
    }
}

/// An oddity that was recovered from.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Notice(pub(crate) callweave::event::Notice<'static>);

#[pymethods]
impl Notice {
    /// The kind of oddity, such as ``repaired`` or ``truncated``.
    #[getter]
    fn code(&self) -> NoticeCode {
        NoticeCode::of(&self.0.code)
    }

    /// The position in the input, in bytes.
    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset
    }

    /// The number of the block that it is about, if it is about one.
    #[getter]
    fn block(&self) -> Option<u32> {
        self.0.block.map(|block| block.0)
    }

    /// A description that names the thing.
    #[getter]
    fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Text that has no other place.
    #[getter]
    fn text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("Notice({}, {:?})", self.0.code, self.0.detail)
    }
}

/// Token counts. A missing counter was not reported.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Usage {
    pub(crate) counters: TokenCounts,
    pub(crate) raw: JsonText<'static>,
}

impl From<TokenCounts> for Usage {
    fn from(counters: TokenCounts) -> Self {
        let counts = serde_json::to_value(counters).unwrap_or_default();
        Self { counters, raw: JsonText::from_value(&counts) }
    }
}

#[pymethods]
impl Usage {
    /// All input tokens, cached ones included.
    #[getter]
    fn input_tokens(&self) -> Option<u64> {
        self.counters.input_tokens
    }

    /// All output tokens, reasoning included.
    #[getter]
    fn output_tokens(&self) -> Option<u64> {
        self.counters.output_tokens
    }

    /// The provider's own total, else input + output.
    #[getter]
    fn total_tokens(&self) -> Option<u64> {
        self.counters.total_tokens
    }

    /// Input tokens read from a cache.
    #[getter]
    fn cached_tokens(&self) -> Option<u64> {
        self.counters.cached_tokens
    }

    /// Input tokens written to a cache.
    #[getter]
    fn cache_write_tokens(&self) -> Option<u64> {
        self.counters.cache_write_tokens
    }

    /// Output tokens spent on reasoning.
    #[getter]
    fn reasoning_tokens(&self) -> Option<u64> {
        self.counters.reasoning_tokens
    }

    /// The provider's own object.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loads(py, self.raw.as_str())
    }

    fn __repr__(&self) -> String {
        let shown = |count: Option<u64>| count.map_or_else(|| "None".to_owned(), |count| count.to_string());
        let TokenCounts { input_tokens, output_tokens, .. } = self.counters;
        format!("Usage(input_tokens={}, output_tokens={})", shown(input_tokens), shown(output_tokens))
    }
}

/// An attachment to a block, an item, a choice or the response.
#[pyclass(frozen, module = "callweave")]
pub(crate) struct Attachment(message::Attachment);

#[pymethods]
impl Attachment {
    /// The kind: ``signature``, ``encrypted``, ``annotation`` or ``logprobs``.
    #[getter]
    fn kind(&self) -> AttachmentKind {
        AttachmentKind::of(&self.0.kind)
    }

    /// The wire's own type of the attachment.
    #[getter]
    fn wire_type(&self) -> &str {
        &self.0.wire_type
    }

    /// The attachment, as the provider wrote it.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loads(py, self.0.value.as_str())
    }

    fn __repr__(&self) -> String {
        format!("Attachment({})", self.kind().0)
    }
}
