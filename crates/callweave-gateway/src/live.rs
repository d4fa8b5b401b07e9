//! A response that is under way: the driver of one exchange.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callweave::exchange::{Exchange, NextStep, OutgoingRequest, UpstreamFault, UpstreamRefusal};

use crate::codex::SessionLink;
use crate::failure::{RequestFailure, header_map};
use crate::gateway::Gateway;
use crate::heavy;
use crate::idle_timer::{DueAction, IdleTimer};
use crate::incoming::IncomingHttp;
use crate::record::OpenRecording;
use crate::routes::RouteTarget;
use crate::upstream::UpstreamReply;

/// A response that is under way.
pub(crate) struct LiveResponse {
    gateway: Arc<Gateway>,
    asked: Arc<IncomingHttp>,
    target: RouteTarget,
    pub(crate) exchange: Exchange,
    upstream: UpstreamState,
    recording: Option<OpenRecording>,
    idle_timer: IdleTimer,
    /// The time that the gateway itself worked.
    pub(crate) worked: Duration,
    /// Comes to its end when the gateway does.
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The number of calls that were counted.
    counted: usize,
}

/// The upstream's side of an exchange.
enum UpstreamState {
    /// Nothing was sent, or the last response is not needed.
    None,
    /// A request was sent.
    Asking(BoxedFuture<Result<UpstreamReply, UpstreamFault>>),
    /// The response has another status than success, and its body is read.
    Refusing(BoxedFuture<UpstreamRefusal>),
    Reading(UpstreamReply),
    /// A session is being opened.
    Opening(BoxedFuture<Result<SessionLink, UpstreamFault>>),
    InSession(SessionLink),
}

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The progress of a live exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveProgress {
    /// Something came.
    Heard,
    /// The client should get a keep-alive.
    Ping,
    /// The response is over.
    Over,
}

enum TimerTick {
    Answered(Result<UpstreamReply, UpstreamFault>),
    Opened(Result<SessionLink, UpstreamFault>),
    Refused(UpstreamRefusal),
    Bytes(Bytes),
    End,
    Failed(UpstreamFault),
    Due(DueAction),
    Closing,
}

/// The maximum wait for the last bytes.
const LAST_BYTES: Duration = Duration::from_millis(50);

impl LiveResponse {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        asked: Arc<IncomingHttp>,
        target: RouteTarget,
        end: tokio::time::Instant,
    ) -> Result<Self, RequestFailure> {
        let timeouts = &gateway.config.timeouts;
        let exchange = Exchange::new(Arc::clone(&asked.request), target.of_exchange()?);
        Ok(Self {
            idle_timer: IdleTimer::new(timeouts.first_byte, end),
            exchange,
            upstream: UpstreamState::None,
            recording: None,
            worked: Duration::ZERO,
            closing: Box::pin(gateway.closing()),
            counted: 0,
            gateway,
            asked,
            target,
        })
    }

    /// Returns the target that responds.
    pub(crate) fn target(&self) -> &RouteTarget {
        &self.target
    }

    /// The client reads from now on, and gets keep-alives.
    pub(crate) fn begin(&mut self) {
        self.idle_timer.ping_every(self.gateway.config.timeouts.keep_alive);
    }

    /// The failure of a response of which the client has seen nothing.
    pub(crate) fn failure(&self) -> Option<RequestFailure> {
        let error = self.exchange.failure()?.clone();
        let mut failure = RequestFailure::of(error);
        failure.is_answered = self.exchange.is_broken();
        failure.headers = header_map(self.exchange.forwarded_headers());
        Some(failure)
    }

    /// Waits for what comes next, and hands it to the exchange.
    pub(crate) async fn advance(&mut self) -> LiveProgress {
        match self.exchange.next() {
            NextStep::Over => return LiveProgress::Over,
            NextStep::Interrupt => {
                self.upstream = UpstreamState::None;
                self.exchange.interrupt();
                return LiveProgress::Over;
            }
            NextStep::Send => {
                self.idle_timer.set_grace(None);
                self.send();
                return self.progress();
            }
            NextStep::Read(grace) => self.idle_timer.set_grace(grace),
        }
        match tick(&mut self.upstream, &mut self.idle_timer, &mut self.closing).await {
            TimerTick::Due(DueAction::Ping) => return LiveProgress::Ping,
            // The words of a refusal have a limit of their own.
            TimerTick::Due(DueAction::Idle) if matches!(self.upstream, UpstreamState::Refusing(_)) => {
                self.idle_timer.note_input();
                return LiveProgress::Ping;
            }
            TimerTick::Answered(Ok(reply)) => self.take_reply(reply),
            TimerTick::Opened(Ok(link)) => self.upstream = UpstreamState::InSession(link),
            TimerTick::Answered(Err(fault)) | TimerTick::Opened(Err(fault)) | TimerTick::Failed(fault) => {
                self.fail(&fault);
            }
            TimerTick::Refused(refusal) => {
                self.upstream = UpstreamState::None;
                self.exchange.refuse(&refusal);
            }
            TimerTick::Bytes(bytes) => {
                let began = Instant::now();
                if let Some(recording) = &mut self.recording {
                    recording.write(&bytes);
                }
                self.exchange.push(&bytes);
                if matches!(self.upstream, UpstreamState::InSession(_)) && self.exchange.has_content() {
                    self.idle_timer.wait_for(self.gateway.config.timeouts.idle);
                }
                if self.exchange.has_bytes() {
                    self.idle_timer.note_output();
                }
                let took = began.elapsed();
                self.worked += took;
                self.gateway.metrics.chunk(took);
            }
            TimerTick::End => self.exchange.finish(),
            TimerTick::Due(DueAction::Grace) => self.exchange.silence(),
            TimerTick::Due(DueAction::Idle) => {
                let timeouts = &self.gateway.config.timeouts;
                let fault = match self.upstream {
                    UpstreamState::Asking(_) | UpstreamState::Opening(_) => {
                        UpstreamFault::late("did not answer", timeouts.first_byte)
                    }
                    UpstreamState::InSession(_) if !self.exchange.has_content() => {
                        UpstreamFault::late("did not answer", timeouts.first_byte)
                    }
                    _ => UpstreamFault::late("sent nothing more", timeouts.idle),
                };
                // Only a model may take long: a process that does not even prepare to ask it hangs.
                if let UpstreamState::InSession(link) = &self.upstream
                    && !self.exchange.has_asked_model()
                {
                    link.give_up();
                }
                self.fail(&fault);
            }
            TimerTick::Due(DueAction::Over) => {
                let waited = self.gateway.config.timeouts.response;
                self.fail(&UpstreamFault::late("did not come to the end of its answer", waited));
            }
            TimerTick::Closing => self.exchange.abort(*RequestFailure::shutting_down().error),
        }
        self.count_calls();
        self.progress()
    }

    fn progress(&self) -> LiveProgress {
        match self.exchange.next() {
            NextStep::Over | NextStep::Interrupt => LiveProgress::Over,
            NextStep::Send | NextStep::Read(_) => LiveProgress::Heard,
        }
    }

    /// Sends the request that is due.
    fn send(&mut self) {
        let began = Instant::now();
        let outgoing = heavy::run(self.asked.request.size(), || self.exchange.take_outgoing());
        self.worked += began.elapsed();
        self.idle_timer.wait_for(self.gateway.config.timeouts.first_byte);
        let request = match outgoing {
            Some(OutgoingRequest::Request(request)) => request,
            Some(OutgoingRequest::Messages(lines)) => return self.send_messages(lines),
            _ => return,
        };
        self.log_losses();
        self.recording = self.gateway.recorder.begin(&self.asked.id, request.body.as_ref());
        let (gateway, upstream) = (Arc::clone(&self.gateway), Arc::clone(&self.target.upstream));
        let headers = self.asked.upstream_headers();
        let asking = async move { upstream.ask(&gateway.client, &request, headers).await };
        self.upstream = UpstreamState::Asking(Box::pin(asking));
    }

    /// Sends messages of a session, which is opened first.
    fn send_messages(&mut self, lines: Vec<u8>) {
        let Some(name) = self.exchange.session_name() else { return };
        match &mut self.upstream {
            UpstreamState::InSession(link) if link.name() == name => return link.send(lines),
            _ => {}
        }
        self.log_losses();
        self.recording = self.gateway.recorder.begin(&self.asked.id, &lines);
        let (upstream, name) = (Arc::clone(&self.target.upstream), name.to_owned());
        self.upstream = UpstreamState::Opening(Box::pin(async move {
            let codex = upstream.codex().ok_or_else(|| UpstreamFault::unusable("is no app-server"))?;
            let mut link = codex.open(name).await?;
            link.send(lines);
            Ok(link)
        }));
    }

    /// Takes the beginning of a response.
    fn take_reply(&mut self, mut reply: UpstreamReply) {
        let idle = self.gateway.config.timeouts.idle;
        self.idle_timer.wait_for(idle);
        self.upstream = if reply.status >= 300 {
            UpstreamState::Refusing(Box::pin(async move { reply.refusal(idle).await }))
        } else {
            // Taken, since they keep the buffer that the response was read into.
            let headers = std::mem::take(&mut reply.headers);
            self.exchange.accept(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
            UpstreamState::Reading(reply)
        };
    }

    fn fail(&mut self, fault: &UpstreamFault) {
        self.upstream = UpstreamState::None;
        self.exchange.fail(fault);
    }

    fn log_losses(&self) {
        let lost: Vec<&str> = self.exchange.lost_parameters().collect();
        if !lost.is_empty() {
            self.gateway.metrics.loss(&self.target.upstream.name);
            let (request, upstream) = (self.asked.id.as_str(), self.target.upstream.name.as_str());
            tracing::warn!(request, upstream, lost = lost.join(", "), "left out of the request");
        }
    }

    fn count_calls(&mut self) {
        let (upstream, model) = (&self.target.upstream.name, self.target.label());
        for call in &self.exchange.outcomes()[self.counted..] {
            let dialect = call.dialect.as_deref().unwrap_or("none");
            self.gateway.metrics.call(call.outcome, dialect, upstream, model);
        }
        self.counted = self.exchange.outcomes().len();
    }

    /// Reads the upstream's last bytes, so that its connection can serve the next request. A response that is over ends
    /// with its end marker, and the end of the connection's body follows at once, or never.
    pub(crate) async fn drain(&mut self) {
        let connection = std::mem::replace(&mut self.upstream, UpstreamState::None);
        if let UpstreamState::Reading(mut reply) = connection
            && self.exchange.next() == NextStep::Over
            && self.exchange.error().is_none()
        {
            let rest = async { while let Some(Ok(_)) = reply.next().await {} };
            let _ = tokio::time::timeout(LAST_BYTES, rest).await;
        }
    }
}

/// Waits for what comes next.
async fn tick(
    connection: &mut UpstreamState,
    idle_timer: &mut IdleTimer,
    closing: &mut Pin<Box<dyn Future<Output = ()> + Send>>,
) -> TimerTick {
    let mut next = pin!(connection.next());
    let tick = poll_fn(|context| {
        if let Poll::Ready(tick) = next.as_mut().poll(context) {
            return Poll::Ready(tick);
        }
        if let Poll::Ready(due) = idle_timer.poll_due(context) {
            return Poll::Ready(TimerTick::Due(due));
        }
        closing.as_mut().poll(context).map(|()| TimerTick::Closing)
    })
    .await;
    if matches!(tick, TimerTick::Bytes(_)) {
        idle_timer.note_input();
    }
    tick
}

impl UpstreamState {
    /// The next of the upstream.
    async fn next(&mut self) -> TimerTick {
        match self {
            Self::None => TimerTick::End,
            Self::Asking(asking) => TimerTick::Answered(asking.await),
            Self::Opening(opening) => TimerTick::Opened(opening.await),
            Self::InSession(link) => match link.next().await {
                Some(Ok(bytes)) => TimerTick::Bytes(bytes),
                Some(Err(fault)) => TimerTick::Failed(fault),
                None => TimerTick::End,
            },
            Self::Refusing(refusing) => TimerTick::Refused(refusing.await),
            Self::Reading(reply) => match reply.next().await {
                Some(Ok(bytes)) => TimerTick::Bytes(bytes),
                Some(Err(fault)) => TimerTick::Failed(fault),
                None => TimerTick::End,
            },
        }
    }
}
