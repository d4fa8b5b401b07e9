//! The way back: changes of a request for the provider are undone in the response.

mod carry;
mod unwrap;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::WrittenRequest;
use crate::event::{BlockId, BlockKind, CallKind, DeltaKind, Event, EventKind, EventSink, JsonText};
use carry::SealCarrier;
use unwrap::InputUnwrapper;

/// A stage that gives calls the names and namespaces that the client knows, and calls of free-text tools their free
/// text.
///
/// It stands after the decoder. Free text flows while it comes.
///
/// ```
/// use callweave::event::Event;
/// use callweave::pipeline::Decoder;
/// use callweave::protocol::Protocol;
/// use callweave::request::{RequestOptions, ReverseMappingStage};
/// use callweave::{Accumulator, Value};
///
/// let responses = Protocol::named("openai-responses").expect("a protocol of that name");
/// let body: Value = r#"{"input": "fix it", "tools": [{"type": "custom", "name": "apply_patch"}]}"#.parse()?;
/// let request = responses.read_request(body)?;
/// let anthropic = Protocol::named("anthropic-messages").expect("a protocol of that name");
/// let written = anthropic.write_request(&request, &RequestOptions::default())?;
///
/// let answer = r#"{"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
///     {"type": "tool_use", "id": "t", "name": "apply_patch", "input": {"input": "*** Begin Patch\n"}}]}"#;
/// let (mut undo, mut message) = (ReverseMappingStage::new(&written), Accumulator::new());
/// let mut decoder = Decoder::detect();
/// decoder.push(answer.as_bytes(), &mut |event: Event<'_>| undo.push(event, &mut message))?;
/// decoder.finish(&mut |event: Event<'_>| undo.push(event, &mut message))?;
/// let call = message.message().tool_calls().next().expect("a call").clone();
/// assert_eq!(call.arguments(), "*** Begin Patch\n");
/// # Ok::<(), callweave::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ReverseMappingStage {
    names: HashMap<String, String>,
    namespaces: HashMap<String, String>,
    wrapped: HashSet<String>,
    issuer: Option<&'static str>,
    signs_calls: bool,
    /// Calls whose free text is unwrapped.
    open: HashMap<BlockId, InputUnwrapper>,
    carry: Option<SealCarrier>,
}

impl ReverseMappingStage {
    /// Undoes the changes of writing this request.
    pub fn new(written: &WrittenRequest) -> Self {
        let WrittenRequest { names, namespaces, wrapped, issuer, signs_calls, .. } = written;
        Self { issuer: *issuer, signs_calls: *signs_calls, ..Self::of_tools(names, namespaces, wrapped) }
    }

    /// Undoes the changes of the tools.
    pub(crate) fn of_tools(
        names: &[(String, String)],
        namespaces: &[(String, String)],
        wrapped: &[String],
    ) -> Self {
        Self {
            names: names.iter().cloned().collect(),
            namespaces: namespaces.iter().cloned().collect(),
            wrapped: wrapped.iter().cloned().collect(),
            ..Self::default()
        }
    }

    /// Carries signatures and encrypted reasoning in the ids of the calls that they lead to.
    ///
    /// Providers want them back with the next request, and clients of other protocols have no place for them; but ids
    /// come back from every client. Such ids are long. When the request with these ids is written, the ids get their
    /// original form, and the issuer of the signatures gets them unaltered.
    pub fn carrying_seals(self) -> Self {
        Self { carry: self.issuer.map(|issuer| SealCarrier::new(issuer, self.signs_calls)), ..self }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: Event<'_>, sink: &mut EventSink<'_>) {
        match &mut self.carry {
            None => Self::reverse_mapping(
                &self.names,
                &self.namespaces,
                &self.wrapped,
                &mut self.open,
                event,
                sink,
            ),
            Some(carry) => {
                let mut reverse_mapping = |event: Event<'_>| {
                    Self::reverse_mapping(
                        &self.names,
                        &self.namespaces,
                        &self.wrapped,
                        &mut self.open,
                        event,
                        sink,
                    );
                };
                carry.push(event, &mut reverse_mapping);
            }
        }
    }

    fn reverse_mapping(
        names: &HashMap<String, String>,
        namespaces: &HashMap<String, String>,
        wrapped: &HashSet<String>,
        open: &mut HashMap<BlockId, InputUnwrapper>,
        mut event: Event<'_>,
        sink: &mut EventSink<'_>,
    ) {
        match &mut event.body {
            EventKind::BlockStart {
                block,
                kind: BlockKind::ToolCall { name, call, .. },
                extra: members,
                ..
            } => {
                if *call == CallKind::Function && wrapped.contains(name.as_ref()) {
                    *call = CallKind::Custom;
                    open.insert(*block, InputUnwrapper::default());
                }
                if let Some(namespace) = namespaces.get(name.as_ref()) {
                    let own = crate::Value::object([("namespace", namespace.as_str().into())]);
                    *members = Some(JsonText::from_value(&own));
                }
                if let Some(own) = names.get(name.as_ref()) {
                    *name = Cow::Owned(own.clone());
                }
            }
            EventKind::Delta { block, kind: DeltaKind::Arguments, text } => {
                if let Some(unwrap) = open.get_mut(block) {
                    unwrap.push(text);
                    *text = Cow::Owned(unwrap.take());
                    if text.is_empty() {
                        return;
                    }
                }
            }
            EventKind::Correction { block, text } => {
                if let Some(unwrap) = open.get_mut(block) {
                    *unwrap = InputUnwrapper::default();
                    unwrap.push(text);
                    unwrap.finish();
                    *text = Cow::Owned(unwrap.take());
                }
            }
            EventKind::BlockEnd { block, .. } => {
                let block = *block;
                if let Some(mut unwrap) = open.remove(&block) {
                    unwrap.finish();
                    let text = unwrap.take();
                    if !text.is_empty() {
                        let body =
                            EventKind::Delta { block, kind: DeltaKind::Arguments, text: Cow::Owned(text) };
                        sink.put(Event { choice: event.choice, source: event.source, body });
                    }
                }
            }
            _ => {}
        }
        sink.put(event);
    }
}
