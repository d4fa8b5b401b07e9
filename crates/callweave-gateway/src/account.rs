//! What is told of a request when it is over: in the log without a word of its content, and in the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use callweave::message::Message;
use tokio::sync::OwnedSemaphorePermit;

use crate::asked::Asked;
use crate::failure::Failure;
use crate::gateway::Gateway;
use crate::live::Live;
use crate::routes::Target;

/// The account of one request. If it is dropped before it is closed, the client has left.
pub(crate) struct Account {
    gateway: Arc<Gateway>,
    pub(crate) asked: Arc<Asked>,
    began: Instant,
    first: Option<Duration>,
    target: Option<Target>,
    tries: u32,
    is_closed: bool,
    /// The room that the request takes.
    _room: OwnedSemaphorePermit,
}

impl Account {
    pub(crate) fn open(gateway: &Arc<Gateway>, asked: &Arc<Asked>, room: OwnedSemaphorePermit) -> Self {
        gateway.metrics.active(1);
        Self {
            gateway: Arc::clone(gateway),
            asked: Arc::clone(asked),
            began: Instant::now(),
            first: None,
            target: None,
            tries: 0,
            is_closed: false,
            _room: room,
        }
    }

    /// Somebody is asked.
    pub(crate) fn ask(&mut self, target: &Target) {
        self.tries += 1;
        if self.tries > 1 {
            self.gateway.metrics.retry();
        }
        self.target = Some(target.clone());
    }

    /// The client gets something.
    pub(crate) fn first_byte(&mut self) {
        if self.first.is_none() {
            let waited = self.began.elapsed();
            self.first = Some(waited);
            self.gateway.metrics.first(waited);
        }
    }

    /// The client gets an error.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.tell(failure.status().as_str(), Some(failure.error.class.name()));
    }

    /// The client gets an error in the place of an answer that has begun.
    pub(crate) fn break_off(&mut self, failure: &Failure) {
        self.tell("broken", Some(failure.error.class.name()));
    }

    /// The answer is over.
    pub(crate) fn close(&mut self, live: &mut Live, message: &Message) {
        let usage = live.output.usage();
        let Target { upstream, model } = live.target();
        let counts = [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached", usage.cached_tokens),
            ("reasoning", usage.reasoning_tokens),
        ];
        for (kind, count) in counts {
            if let Some(count) = count.filter(|count| *count > 0) {
                self.gateway.metrics.tokens(kind, &upstream.name, model, count);
            }
        }
        self.gateway.metrics.added(self.asked.read_for + live.worked);
        let class = live.output.watch.error.as_ref().map(|error| error.class.name());
        if class.is_none() && live.output.is_kept {
            self.gateway.keep(&self.asked, message);
        }
        self.tell(if class.is_some() { "broken" } else { "200" }, class);
    }

    fn tell(&mut self, status: &str, error: Option<&str>) {
        self.is_closed = true;
        let upstream = self.target.as_ref().map_or("none", |target| target.upstream.name.as_str());
        let protocol = self.asked.wire.protocol.name;
        self.gateway.metrics.request(protocol, upstream, status);
        tracing::info!(
            request = %self.asked.id,
            trace = %self.asked.trace.id,
            span = %self.asked.trace.span,
            protocol,
            model = %self.asked.model,
            upstream,
            status,
            error,
            streamed = self.asked.is_streamed,
            tries = self.tries,
            first_ms = self.first.map(|first| first.as_secs_f64() * 1e3),
            ms = self.began.elapsed().as_secs_f64() * 1e3,
            "answered"
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.gateway.metrics.active(-1);
        if !self.is_closed {
            self.tell("left", None);
        }
    }
}
