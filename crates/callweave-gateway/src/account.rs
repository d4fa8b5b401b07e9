//! The final report of a request: a log line without any of its content, and the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tracing::Level;

use crate::failure::RequestFailure;
use crate::gateway::Gateway;
use crate::incoming::IncomingHttp;
use crate::live::LiveResponse;
use crate::routes::RouteTarget;

/// Logs at a level that is only known at run time.
macro_rules! at_level {
    ($level:expr, $($told:tt)*) => {
        match $level == tracing::Level::WARN {
            true => tracing::warn!($($told)*),
            false => tracing::info!($($told)*),
        }
    };
}
pub(crate) use at_level;

/// The maximum number of bytes of client text in the log.
const LONGEST: usize = 200;

/// The client's text, truncated to the maximum for the log.
pub(crate) fn bounded(text: &str) -> &str {
    beginning(text, LONGEST)
}

/// The longest prefix of a text with at most `max` bytes.
pub(crate) fn beginning(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// A time in milliseconds, as exact as anybody reads it.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

/// The account of one request. If it is dropped before it is closed, the client has left.
pub(crate) struct RequestAccount {
    gateway: Arc<Gateway>,
    asked: Arc<IncomingHttp>,
    began: Instant,
    first: Option<Duration>,
    target: Option<RouteTarget>,
    tries: u32,
    /// The number of times that another target was asked.
    fallbacks: u32,
    is_closed: bool,
    /// The room that the request takes.
    _room: OwnedSemaphorePermit,
}

impl RequestAccount {
    pub(crate) fn open(
        gateway: &Arc<Gateway>,
        asked: &Arc<IncomingHttp>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        gateway.metrics.active(1);
        Self {
            gateway: Arc::clone(gateway),
            asked: Arc::clone(asked),
            began: Instant::now(),
            first: None,
            target: None,
            tries: 0,
            fallbacks: 0,
            is_closed: false,
            _room: room,
        }
    }

    /// Records that a target is asked.
    pub(crate) fn ask(&mut self, target: &RouteTarget) {
        self.tries += 1;
        if self.tries > 1 {
            self.gateway.metrics.retry();
        }
        let is_same =
            |last: &RouteTarget| last.upstream.name == target.upstream.name && last.model == target.model;
        if self.target.as_ref().is_some_and(|last| !is_same(last)) {
            self.fallbacks += 1;
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
    pub(crate) fn fail(&mut self, failure: &RequestFailure) {
        self.tell(failure.status().as_str(), Some(failure.error.class.name()));
    }

    /// The client gets an error in the place of a response that has begun.
    pub(crate) fn break_off(&mut self, failure: &RequestFailure) {
        self.tell("broken", Some(failure.error.class.name()));
    }

    /// The response is over.
    pub(crate) fn close(&mut self, live: &LiveResponse) {
        let usage = live.exchange.usage();
        let target = live.target();
        let counts = [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached", usage.cached_tokens),
            ("reasoning", usage.reasoning_tokens),
        ];
        for (kind, count) in counts {
            if let Some(count) = count.filter(|count| *count > 0) {
                self.gateway.metrics.tokens(kind, &target.upstream.name, target.label(), count);
            }
        }
        self.gateway.metrics.added(self.asked.read_for + live.worked);
        let class = live.exchange.error().map(|error| error.class.name());
        self.tell(if class.is_some() { "broken" } else { "200" }, class);
    }

    fn tell(&mut self, status: &str, error: Option<&str>) {
        self.is_closed = true;
        let upstream = self.target.as_ref().map_or("none", |target| target.upstream.name.as_str());
        let protocol = self.asked.request.protocol().name;
        self.gateway.metrics.request(protocol, upstream, status);
        let key = self.gateway.keys.name(&self.asked.key);
        at_level!(
            self.level(status),
            request = self.asked.id.as_str(),
            trace = self.asked.trace.id.as_str(),
            span = self.asked.trace.span.as_str(),
            protocol,
            model = bounded(self.asked.request.model()),
            upstream,
            status,
            error,
            key,
            streamed = self.asked.request.is_streamed(),
            tries = self.tries,
            fallbacks = Some(self.fallbacks).filter(|count| *count > 0),
            first_ms = self.first.map(millis),
            ms = millis(self.began.elapsed()),
            "answered"
        );
    }

    /// Warns about failures of the gateway or an upstream, requests that needed a fallback, and the gateway's own key
    /// being refused by an upstream: these concern the operator of the gateway. Mistakes of a client do not.
    fn level(&self, status: &str) -> Level {
        let has_failed = status.starts_with('5') || status == "broken";
        let is_own_key = self.target.as_ref().is_some_and(|target| target.upstream.has_key());
        let is_refused = matches!(status, "401" | "403") && is_own_key;
        if has_failed || is_refused || self.fallbacks > 0 { Level::WARN } else { Level::INFO }
    }
}

impl Drop for RequestAccount {
    fn drop(&mut self) {
        self.gateway.metrics.active(-1);
        if !self.is_closed {
            match self.gateway.is_closing() {
                true => self.fail(&RequestFailure::shutting_down()),
                false => self.tell("left", None),
            }
        }
    }
}
