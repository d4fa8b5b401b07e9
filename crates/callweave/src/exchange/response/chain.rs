//! Bytes of an upstream to events for the client.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::fault::UpstreamFault;
use super::super::http::HttpWire;
use super::super::incoming::IncomingRequest;
use super::super::kept_calls::KeptCalls;
use super::super::policy::{ExchangePolicy, ExchangeTarget, SchemaMode};
use super::ending::FailureReporter;
use super::stopper::StopStage;
use super::unique_ids::UniqueIds;
use crate::dialect::{ExtractOptions, Tools};
use crate::error::ErrorKind;
use crate::event::{Event, EventKind, EventSink, JsonText, TokenCounts};
use crate::framing::StreamLimits;
use crate::pipeline::Decoder;
use crate::protocol::Protocol;
use crate::request::{ReverseMappingStage, SealHarvest, WrittenRequest};
use crate::upstream::UpstreamError;

/// Bytes → events as the client gets them.
pub(in crate::exchange) struct ResponseChain {
    decoder: Decoder,
    /// Maps changes of the request back, if there were any.
    reverse_mapping: Option<Box<ReverseMappingStage>>,
    /// Replaces ids of calls that the conversation has already.
    unique_ids: UniqueIds,
    /// Ends the response after its calls, where the policy says so.
    stopper: Option<Box<StopStage>>,
    ending: FailureReporter,
    /// Keeps the provider's seals, where there is a place for them.
    harvest: Option<Box<SealHarvest>>,
}

/// The context for reading a response.
pub(in crate::exchange) struct ResponseReading<'r> {
    /// The protocol of the upstream.
    pub(in crate::exchange) protocol: &'static Protocol,
    /// The options for reading its text.
    pub(in crate::exchange) dialect: Option<ExtractOptions>,
    /// The tools, by the names that the upstream knows.
    pub(in crate::exchange) tools: Tools,
    /// The changes of the request.
    pub(in crate::exchange) written: Option<&'r WrittenRequest>,
    /// The number of times that the model was asked again.
    pub(in crate::exchange) reasks: u32,
    /// The client's request.
    pub(in crate::exchange) incoming: &'r Arc<IncomingRequest>,
    /// The target.
    pub(in crate::exchange) target: &'r ExchangeTarget,
}

impl ResponseChain {
    pub(in crate::exchange) fn new(reading: ResponseReading<'_>) -> Self {
        let ExchangePolicy { limits, repair, schema, stop, seals_in_ids, .. } = &reading.target.engine.policy;
        let framing = StreamLimits { total: limits.bytes, ..StreamLimits::default() };
        let mut builder = Decoder::builder()
            .protocol(reading.protocol)
            .limits(framing)
            .tools(reading.tools)
            .budget(limits.schema_steps)
            .id_seed(reading.incoming.call_id_seed(reading.reasks));
        if let Some(dialect) = reading.dialect {
            builder = builder.dialect(dialect);
        }
        if *repair {
            builder = builder.repair();
        }
        builder = match schema {
            SchemaMode::Off => builder,
            SchemaMode::Validate => builder.validate(),
            SchemaMode::Coerce => builder.coerce().validate(),
        };
        let ResponseReading { incoming, target, written, reasks, .. } = reading;
        let reverse_mapping = written.filter(|written| is_changed(written) || *seals_in_ids).map(|written| {
            let reverse_mapping = ReverseMappingStage::new(written);
            Box::new(if *seals_in_ids { reverse_mapping.carrying_seals() } else { reverse_mapping })
        });
        let seals = target.engine.shared.seals.as_ref();
        let harvest = seals.zip(written).map(|(seals, written)| {
            Box::new(seals.harvest(written, incoming.wire.protocol, incoming.seal_scope(target)))
        });
        let harvest = harvest.filter(|harvest| harvest.is_on());
        let stopper = StopStage::new(stop);
        // A session can be interrupted without being lost.
        let is_session = HttpWire::of(reading.protocol).is_none();
        let stopper = if is_session { stopper.map(StopStage::holding_end) } else { stopper };
        Self {
            decoder: builder.build(),
            reverse_mapping,
            harvest,
            unique_ids: UniqueIds::new(Arc::clone(incoming), reasks),
            stopper: stopper.map(Box::new),
            ending: FailureReporter::new(limits.argument_bytes, target.clone()),
        }
    }

    /// Takes the next bytes.
    pub(in crate::exchange) fn push(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) {
        let pushed = self.decode(sink, |decoder, sink| decoder.push(bytes, sink));
        if let Err(error) = pushed {
            self.fail(self.unreadable(&error), sink);
        }
    }

    /// Signals that no more bytes will come.
    pub(in crate::exchange) fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over() {
            return;
        }
        if let Err(error) = self.decode(sink, |decoder, sink| decoder.finish(sink)) {
            self.ending.fail(self.unreadable(&error));
        }
        let Self { ending, harvest, .. } = self;
        ending.finish(&mut |event: Event<'_>| keep(harvest, event, sink));
    }

    /// Reports that the response failed.
    pub(in crate::exchange) fn fail(&mut self, error: UpstreamError<'static>, sink: &mut EventSink<'_>) {
        if self.is_over() {
            return;
        }
        self.ending.fail(error);
        self.finish(sink);
    }

    /// Whether the response fails for another reason than an error of the upstream.
    pub(in crate::exchange) fn is_broken(&self) -> bool {
        self.ending.is_broken()
    }

    /// The error for bytes that cannot be read.
    fn unreadable(&self, error: &crate::Error) -> UpstreamError<'static> {
        if let Some(error) = error.upstream() {
            return error.clone();
        }
        let fault = match error.kind() {
            ErrorKind::Limit => UpstreamFault::unusable(format!("sent an answer that is too large: {error}")),
            _ => UpstreamFault::unusable(format!("sent an answer that cannot be read: {error}")),
        };
        fault.error(&self.ending.shown())
    }

    /// Ends the response after the calls that are there.
    pub(in crate::exchange) fn cut(&mut self, sink: &mut EventSink<'_>) {
        if let Some(stopper) = &mut self.stopper {
            stopper.begin_cut();
        }
        // Held arguments come out, and the response ends here regardless of the decoder's result.
        let _ = self.decode(sink, |decoder, sink| decoder.finish(sink));
        let Self { stopper, ending, harvest, .. } = self;
        let mut keep = |event: Event<'_>| keep(harvest, event, sink);
        if let Some(stopper) = stopper {
            stopper.cut(&mut |event: Event<'_>| ending.push(event, &mut keep));
        }
    }

    /// Whether the response was ended after its calls, and only the usage of it is waited for.
    pub(in crate::exchange) fn is_settling(&self) -> bool {
        self.stopper.as_ref().is_some_and(|stopper| stopper.is_settling())
    }

    /// Takes the usage of a response that was ended after its calls.
    pub(in crate::exchange) fn push_usage(
        &mut self,
        counters: TokenCounts,
        raw: &str,
        sink: &mut EventSink<'_>,
    ) {
        let usage =
            EventKind::Usage { wire_type: "tokenUsage".into(), counters, raw: JsonText::trusted(raw) };
        let Self { ending, harvest, .. } = self;
        ending.push(Event::new(0, usage), &mut |event: Event<'_>| keep(harvest, event, sink));
    }

    /// Waits for nothing more of a response that was ended after its calls.
    pub(in crate::exchange) fn end(&mut self, sink: &mut EventSink<'_>) {
        let Self { stopper, ending, harvest, .. } = self;
        let mut keep = |event: Event<'_>| keep(harvest, event, sink);
        if let Some(stopper) = stopper {
            stopper.end(&mut |event: Event<'_>| ending.push(event, &mut keep));
        }
    }

    /// The ids of calls that were replaced, and the new ones.
    pub(in crate::exchange) fn replaced_ids(&self) -> &HashMap<String, String> {
        self.unique_ids.replaced()
    }

    /// The id of the response, where a request may follow it, and the calls of the conversation up to its end.
    pub(in crate::exchange) fn conversation(&self) -> Option<(&str, KeptCalls)> {
        self.unique_ids.conversation()
    }

    /// Whether the response is over, for the client.
    pub(in crate::exchange) fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Whether the upstream is to be interrupted.
    pub(in crate::exchange) fn is_truncated(&self) -> bool {
        self.stopper.as_ref().is_some_and(|stopper| stopper.is_truncated())
    }

    /// Whether every call is complete, so that only a next one may follow.
    pub(in crate::exchange) fn awaits_call(&self) -> bool {
        let awaits = |stopper: &StopStage| stopper.awaits_call(self.decoder.has_complete_calls());
        self.stopper.as_deref().is_some_and(awaits)
    }

    /// The dialect of the text, once something was found in it.
    pub(in crate::exchange) fn dialect(&self) -> Option<&str> {
        self.decoder.dialect()
    }

    fn decode<T>(
        &mut self,
        sink: &mut EventSink<'_>,
        decode: impl FnOnce(&mut Decoder, &mut EventSink<'_>) -> T,
    ) -> T {
        let Self { decoder, reverse_mapping, unique_ids, stopper, ending, harvest } = self;
        let mut keep = |event: Event<'_>| keep(harvest, event, sink);
        let mut end = |event: Event<'_>| ending.push(event, &mut keep);
        let mut stop = |mut event: Event<'_>| {
            unique_ids.look(&mut event);
            match stopper {
                Some(stopper) => stopper.push(event, &mut end),
                None => end(event),
            }
        };
        match reverse_mapping {
            Some(reverse_mapping) => {
                decode(decoder, &mut |event: Event<'_>| reverse_mapping.push(event, &mut stop))
            }
            None => decode(decoder, &mut stop),
        }
    }
}

/// Passes an event on, by way of the seal harvest.
fn keep(harvest: &mut Option<Box<SealHarvest>>, event: Event<'_>, sink: &mut EventSink<'_>) {
    match harvest {
        Some(harvest) => harvest.push(event, sink),
        None => sink.put(event),
    }
}

/// Whether changes of a request show in its response.
fn is_changed(WrittenRequest { names, namespaces, wrapped, .. }: &WrittenRequest) -> bool {
    !(names.is_empty() && namespaces.is_empty() && wrapped.is_empty())
}
