//! The interfaces of other systems that have users of Python: Prompty's processing, and the tool-call aggregator.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use callweave::compat::prompty::{self, ApiType, Processed, PromptAgent, StreamItem};
use callweave::compat::tool_call_aggregator::{self as aggregator, IngestDeltaResult, IngestMessageOptions};
use callweave::json::Value;
use callweave::pipeline::{Decoder, FrameDecoder};
use callweave::{Error, ErrorKind};
use futures_core::Stream;
use pyo3::prelude::*;

use crate::bytes_like::BytesLike;
use crate::error::raise;
use crate::json::{self, JsonLike};
use crate::message::{Message, members, unwritten};
use crate::typed::JsonObject;

/// The agent: the provider that was asked, and the request to it.
#[pyclass(frozen, module = "callweave.compat.prompty", name = "PromptAgent")]
pub(crate) struct Agent(PromptAgent);

#[pymethods]
impl Agent {
    #[new]
    #[pyo3(signature = (provider, *, model=None, name=None, api=None, outputs=false))]
    fn new(
        py: Python<'_>,
        provider: &str,
        model: Option<String>,
        name: Option<String>,
        api: Option<&str>,
        outputs: bool,
    ) -> PyResult<Self> {
        let mut agent = PromptAgent::new(provider);
        agent = model.into_iter().fold(agent, PromptAgent::model);
        agent = name.into_iter().fold(agent, PromptAgent::named);
        if let Some(api) = api {
            agent = agent.api(match api {
                "chat" => ApiType::Chat,
                "responses" => ApiType::Responses,
                "embedding" | "embeddings" => ApiType::Embeddings,
                "image" | "images" => ApiType::Images,
                other => {
                    let what =
                        format!("api cannot be {other:?}: it is one of chat, responses, embeddings, images");
                    return Err(raise(py, &Error::new(ErrorKind::Invalid, what)));
                }
            });
        }
        Ok(Self(if outputs { agent.with_outputs() } else { agent }))
    }

    /// The provider.
    #[getter]
    fn provider(&self) -> &str {
        self.0.provider()
    }
}

/// The result of a provider's complete response.
#[pyfunction]
pub(crate) fn process_response<'py>(
    py: Python<'py>,
    agent: &Agent,
    response: JsonLike,
) -> PyResult<Bound<'py, PyAny>> {
    let result = prompty::process(&agent.0, &response.0).map_err(|error| raise(py, &error))?;
    if let Processed::Text(text) = &result {
        return Ok(text.into_pyobject(py)?.into_any());
    }
    json::loads(py, &serde_json::to_string(&result).map_err(unwritten)?)
}

/// A source that its owner puts items into: pending while there are none.
struct Fed<T>(Arc<Mutex<FedItems<T>>>);

struct FedItems<T> {
    items: VecDeque<T>,
    is_over: bool,
}

impl<T> Stream for Fed<T> {
    type Item = Result<T, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut fed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fed.items.pop_front() {
            Some(item) => Poll::Ready(Some(Ok(item))),
            None if fed.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Items put into one end of a stream; results out of the other.
struct FedStream<T, D> {
    fed: Arc<Mutex<FedItems<T>>>,
    stream: prompty::ProcessStream<Fed<T>, D>,
}

impl<T, D> FedStream<T, D>
where
    prompty::ProcessStream<Fed<T>, D>: Stream<Item = Result<StreamItem, prompty::StreamFailure>> + Unpin,
{
    fn new(
        make: impl FnOnce(Fed<T>) -> Result<prompty::ProcessStream<Fed<T>, D>, Error>,
    ) -> Result<Self, Error> {
        let fed = Arc::new(Mutex::new(FedItems { items: VecDeque::new(), is_over: false }));
        Ok(Self { stream: make(Fed(Arc::clone(&fed)))?, fed })
    }

    /// Puts an item in, or the end; returns the results that are ready.
    fn step(&mut self, item: Option<T>) -> (Vec<StreamItem>, Option<prompty::StreamFailure>) {
        {
            let mut fed = self.fed.lock().unwrap_or_else(PoisonError::into_inner);
            fed.is_over |= item.is_none();
            fed.items.extend(item);
        }
        let mut items = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(item)) = Pin::new(&mut self.stream).poll_next(&mut context) {
            match item {
                Ok(item) => items.push(item),
                Err(failure) => return (items, Some(failure)),
            }
        }
        (items, None)
    }
}

enum StreamInput {
    Bytes(Box<FedStream<Vec<u8>, Decoder>>),
    Chunks(Box<FedStream<Value, FrameDecoder>>),
}

/// A streamed response, chunk by chunk: bytes, or chunks as providers' clients have them.
#[pyclass(module = "callweave.compat.prompty")]
pub(crate) struct ProcessStream {
    agent: PromptAgent,
    /// The first chunk says what kind they are.
    input: Option<StreamInput>,
}

impl ProcessStream {
    fn results<'py>(
        py: Python<'py>,
        (items, failure): (Vec<StreamItem>, Option<prompty::StreamFailure>),
    ) -> PyResult<(Vec<JsonObject<'py>>, Option<Bound<'py, PyAny>>)> {
        let items: PyResult<Vec<_>> =
            items.iter().map(|item| members(py, &serde_json::to_string(item).map_err(unwritten)?)).collect();
        let failure = match failure {
            Some(failure) => {
                let exception = raise(py, &failure.error);
                exception.value(py).setattr("partial", &failure.partial)?;
                Some(exception.into_value(py).into_bound(py).into_any())
            }
            None => None,
        };
        Ok((items?, failure))
    }
}

#[pymethods]
impl ProcessStream {
    #[new]
    fn new(agent: &Agent) -> Self {
        Self { agent: agent.0.clone(), input: None }
    }

    /// Takes a chunk; returns the items that it makes, and the error that ended the stream.
    fn push<'py>(
        &mut self,
        py: Python<'py>,
        chunk: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<JsonObject<'py>>, Option<Bound<'py, PyAny>>)> {
        let input = match self.input.take() {
            Some(input) => input,
            None => {
                let made = match chunk.extract::<BytesLike<'_>>() {
                    Ok(_) => FedStream::new(|fed| prompty::process_bytes_async(&self.agent, fed))
                        .map(|stream| StreamInput::Bytes(Box::new(stream))),
                    Err(_) => FedStream::new(|fed| prompty::process_stream_async(&self.agent, fed))
                        .map(|stream| StreamInput::Chunks(Box::new(stream))),
                };
                made.map_err(|error| raise(py, &error))?
            }
        };
        let results = match self.input.insert(input) {
            StreamInput::Bytes(stream) => {
                stream.step(Some(chunk.extract::<BytesLike<'_>>()?.as_slice().to_vec()))
            }
            StreamInput::Chunks(stream) => stream.step(Some(chunk.extract::<JsonLike>()?.0)),
        };
        Self::results(py, results)
    }

    /// Says that no chunk will come any more; returns the last items, and the error that ended the stream.
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Vec<JsonObject<'py>>, Option<Bound<'py, PyAny>>)> {
        let results = match &mut self.input {
            Some(StreamInput::Bytes(stream)) => stream.step(None),
            Some(StreamInput::Chunks(stream)) => stream.step(None),
            None => (Vec::new(), None),
        };
        Self::results(py, results)
    }

    /// The message so far, with usage, reasoning and everything else that is no item.
    #[getter]
    fn message(&self) -> Message {
        let message = match &self.input {
            Some(StreamInput::Bytes(stream)) => stream.stream.message().clone(),
            Some(StreamInput::Chunks(stream)) => stream.stream.message().clone(),
            None => callweave::Message::default(),
        };
        Message::new(message, None)
    }
}

/// Payloads of any wrapping in; records of the tool calls, and their changes, out.
///
/// >>> aggregator = ToolCallAggregator()
/// >>> first = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"at":'}}]}
/// >>> aggregator.ingest_delta(first)["updated"]
/// True
/// >>> _ = aggregator.ingest_delta({"tool_calls": [{"index": 0, "function": {"arguments": '"sky"}'}}]})
/// >>> aggregator.snapshot()
/// [{'id': 'c', 'type': 'function', 'function': {'name': 'look'}, 'arguments': '{"at":"sky"}'}]
#[pyclass(module = "callweave.compat.aggregator")]
pub(crate) struct ToolCallAggregator(aggregator::ToolCallAggregator);

/// The changes of one payload: the calls, and their renderings for a streamed chunk of the first choice.
fn ingested<'py>(py: Python<'py>, ingested: &IngestDeltaResult<'_>) -> PyResult<JsonObject<'py>> {
    members(py, &serde_json::to_string(ingested).map_err(unwritten)?)
}

#[pymethods]
impl ToolCallAggregator {
    #[new]
    fn new() -> Self {
        Self(aggregator::ToolCallAggregator::new())
    }

    /// Takes one delta or event, and returns the calls that it changed: ``updated`` and ``deltas``.
    #[pyo3(signature = (payload, choice=None))]
    fn ingest_delta<'py>(
        &mut self,
        py: Python<'py>,
        payload: JsonLike,
        choice: Option<u32>,
    ) -> PyResult<JsonObject<'py>> {
        ingested(py, &self.0.ingest_delta(&payload.0, choice))
    }

    /// Takes a complete message. Argument text in it replaces the text that deltas emitted before.
    #[pyo3(signature = (payload, choice=None, *, emit_if_missing=false))]
    fn ingest_message<'py>(
        &mut self,
        py: Python<'py>,
        payload: JsonLike,
        choice: Option<u32>,
        emit_if_missing: bool,
    ) -> PyResult<JsonObject<'py>> {
        ingested(py, &self.0.ingest_message(&payload.0, choice, IngestMessageOptions { emit_if_missing }))
    }

    /// The calls of a choice as they stand, in the order in which they became known.
    #[pyo3(signature = (choice=None))]
    fn snapshot<'py>(&self, py: Python<'py>, choice: Option<u32>) -> PyResult<Vec<JsonObject<'py>>> {
        let records = self.0.snapshot(choice);
        records.iter().map(|record| members(py, &serde_json::to_string(record).map_err(unwritten)?)).collect()
    }

    /// The calls of a choice as a message's ``tool_calls``.
    #[pyo3(signature = (choice=None))]
    fn tool_calls<'py>(&self, py: Python<'py>, choice: Option<u32>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.0.tool_calls(choice))
    }

    /// The first call of a choice as a message's singular ``function_call``.
    #[pyo3(signature = (choice=None))]
    fn function_call<'py>(
        &self,
        py: Python<'py>,
        choice: Option<u32>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.function_call(choice).map(|call| json::to_python(py, &call)).transpose()
    }

    /// Whether the choice has calls.
    #[pyo3(signature = (choice=None))]
    fn has_calls(&self, choice: Option<u32>) -> bool {
        self.0.has_calls(choice)
    }

    /// The choices that have calls.
    #[getter]
    fn choices(&self) -> Vec<u32> {
        self.0.choices().collect()
    }

    /// Whether calls may run in parallel: until a payload says otherwise.
    #[getter]
    fn supports_parallel_calls(&self) -> bool {
        self.0.supports_parallel_calls()
    }

    /// Forgets all calls, for the next turn.
    fn reset_turn(&mut self) {
        self.0.reset_turn();
    }
}
