//! The stages between the bytes of an upstream and what is written for the client.

use callweave::dialect::{ExtractOptions, Tools};
use callweave::event::{Event, EventSink};
use callweave::framing::Limits;
use callweave::protocol::Protocol;
use callweave::request::{Undo, Written};
use callweave::upstream::UpstreamError;
use callweave::{Decoder, ErrorKind};

use super::ending::Ending;
use super::stopper::Stopper;
use crate::config::{Check, Stop};
use crate::routes::Target;
use crate::upstream::Trouble;

/// Bytes → events as the client is to get them.
pub(crate) struct Chain {
    decoder: Decoder,
    /// Undoes what was changed in the request, if anything was.
    undo: Option<Box<Undo>>,
    /// Stops it after its calls, if it is to be stopped.
    stopper: Option<Box<Stopper>>,
    ending: Ending,
}

/// How an answer is read.
pub(crate) struct Reading<'r> {
    /// The protocol of the upstream.
    pub(crate) protocol: &'static Protocol,
    /// How its text is.
    pub(crate) dialect: Option<ExtractOptions>,
    /// The tools, by the names that the upstream knows.
    pub(crate) tools: Tools,
    /// Whether arguments are repaired.
    pub(crate) repair: bool,
    /// What is done with schemas.
    pub(crate) schema: Check,
    /// When it is stopped.
    pub(crate) stop: &'r Stop,
    /// What was changed in the request.
    pub(crate) written: Option<&'r Written>,
    /// What made ids begin with.
    pub(crate) id_prefix: String,
    /// How many bytes are read at most.
    pub(crate) limit: u64,
    /// How many bytes the arguments of a call may have.
    pub(crate) arguments: usize,
    /// Who answers.
    pub(crate) target: &'r Target,
    /// How many steps the schema of a tool may make of a call.
    pub(crate) steps: u64,
}

impl Chain {
    pub(crate) fn new(reading: Reading<'_>) -> Self {
        let limits = Limits { total: reading.limit, ..Limits::default() };
        let mut builder = Decoder::builder()
            .protocol(reading.protocol)
            .limits(limits)
            .tools(reading.tools)
            .budget(reading.steps)
            .id_prefix(reading.id_prefix);
        if let Some(dialect) = reading.dialect {
            builder = builder.dialect(dialect);
        }
        if reading.repair {
            builder = builder.repair();
        }
        builder = match reading.schema {
            Check::Off => builder,
            Check::Validate => builder.validate(),
            Check::Coerce => builder.coerce().validate(),
        };
        Self {
            decoder: builder.build(),
            undo: reading
                .written
                .filter(|written| is_changed(written))
                .map(|written| Box::new(Undo::new(written))),
            stopper: Stopper::new(reading.stop).map(Box::new),
            ending: Ending::new(reading.arguments, reading.target.clone()),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut EventSink<'_>) {
        let pushed = self.decode(sink, |decoder, sink| decoder.push(bytes, sink));
        if let Err(error) = pushed {
            self.fail(self.unreadable(&error), sink);
        }
    }

    /// Says that no more bytes will come.
    pub(crate) fn finish(&mut self, sink: &mut EventSink<'_>) {
        if self.is_over() {
            return;
        }
        if let Err(error) = self.decode(sink, |decoder, sink| decoder.finish(sink)) {
            self.ending.fail(self.unreadable(&error));
        }
        self.ending.finish(sink);
    }

    /// Says that the answer failed, and why.
    pub(crate) fn fail(&mut self, error: UpstreamError<'static>, sink: &mut EventSink<'_>) {
        if self.is_over() {
            return;
        }
        self.ending.fail(error);
        self.finish(sink);
    }

    /// The same for something that went wrong with the upstream.
    pub(crate) fn break_off(&mut self, trouble: &Trouble, sink: &mut EventSink<'_>) {
        self.fail(trouble.error(self.ending.target()), sink);
    }

    /// Whether the upstream has answered, and told no error, but the answer fails.
    pub(crate) fn is_broken(&self) -> bool {
        self.ending.is_broken()
    }

    /// What is wrong with the bytes of an answer.
    fn unreadable(&self, error: &callweave::Error) -> UpstreamError<'static> {
        if let Some(error) = error.upstream() {
            return error.clone();
        }
        let trouble = match error.kind() {
            ErrorKind::Limit => Trouble::unfit(format!("sent an answer that is too large: {error}")),
            _ => Trouble::unfit(format!("sent an answer that cannot be read: {error}")),
        };
        trouble.error(self.ending.target())
    }

    /// Ends the answer after the calls that are there.
    pub(crate) fn cut(&mut self, sink: &mut EventSink<'_>) {
        let Self { stopper, ending, .. } = self;
        if let Some(stopper) = stopper {
            stopper.cut(&mut |event: Event<'_>| ending.push(event, sink));
        }
    }

    /// Whether the answer is over, for the client.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Whether the upstream is to be stopped.
    pub(crate) fn is_cut(&self) -> bool {
        self.stopper.as_ref().is_some_and(|stopper| stopper.is_cut())
    }

    /// Whether every call is over, and only a next one is waited for.
    pub(crate) fn awaits_call(&self) -> bool {
        self.stopper.as_ref().is_some_and(|stopper| stopper.awaits_call())
    }

    /// The dialect in which something was found.
    pub(crate) fn dialect(&self) -> Option<&str> {
        self.decoder.dialect()
    }

    fn decode<T>(
        &mut self,
        sink: &mut EventSink<'_>,
        decode: impl FnOnce(&mut Decoder, &mut EventSink<'_>) -> T,
    ) -> T {
        let Self { decoder, undo, stopper, ending } = self;
        let mut end = |event: Event<'_>| ending.push(event, sink);
        let mut stop = |event: Event<'_>| match stopper {
            Some(stopper) => stopper.push(event, &mut end),
            None => end(event),
        };
        match undo {
            Some(undo) => decode(decoder, &mut |event: Event<'_>| undo.push(event, &mut stop)),
            None => decode(decoder, &mut stop),
        }
    }
}

/// Whether something of a request was changed that its answer tells.
fn is_changed(Written { names, namespaces, wrapped, .. }: &Written) -> bool {
    !(names.is_empty() && namespaces.is_empty() && wrapped.is_empty())
}
