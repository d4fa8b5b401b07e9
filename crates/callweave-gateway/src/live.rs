//! A response that is under way: the driver of one exchange.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callweave::exchange::{Exchange, Next, Outgoing, Refusal, UpstreamFault};

use crate::asked::Asked;
use crate::failure::{Failure, header_map};
use crate::gateway::Gateway;
use crate::heavy;
use crate::quiet::{Due, Quiet};
use crate::record::Recording;
use crate::routes::Target;
use crate::upstream::Reply;

/// A response that is under way.
pub(crate) struct Live {
    gateway: Arc<Gateway>,
    asked: Arc<Asked>,
    target: Target,
    pub(crate) exchange: Exchange,
    upstream: Connection,
    recording: Option<Recording>,
    quiet: Quiet,
    /// How long the gateway itself worked.
    pub(crate) worked: Duration,
    /// Comes to its end when the gateway does.
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The number of calls that were counted.
    counted: usize,
}

/// The upstream's side of an exchange.
enum Connection {
    /// Nothing was sent, or the last response is not needed.
    None,
    /// A request was sent.
    Asking(Waiting<Result<Reply, UpstreamFault>>),
    /// The response has another status than success, and its body is read.
    Refusing(Waiting<Refusal>),
    Reading(Reply),
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something came.
    Heard,
    /// The client should get a keep-alive.
    Ping,
    /// The response is over.
    Over,
}

enum Tick {
    Answered(Result<Reply, UpstreamFault>),
    Refused(Refusal),
    Bytes(Bytes),
    End,
    Failed(UpstreamFault),
    Due(Due),
    Closing,
}

/// How long the last bytes are waited for.
const LAST_BYTES: Duration = Duration::from_millis(50);

impl Live {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        asked: Arc<Asked>,
        target: Target,
        end: tokio::time::Instant,
    ) -> Result<Self, Failure> {
        let timeouts = &gateway.config.timeouts;
        let exchange = Exchange::new(Arc::clone(&asked.request), target.of_exchange()?);
        Ok(Self {
            quiet: Quiet::new(timeouts.first_byte, end),
            exchange,
            upstream: Connection::None,
            recording: None,
            worked: Duration::ZERO,
            closing: Box::pin(gateway.closing()),
            counted: 0,
            gateway,
            asked,
            target,
        })
    }

    /// Who answers.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The client reads from now on, and gets keep-alives.
    pub(crate) fn begin(&mut self) {
        self.quiet.ping_every(self.gateway.config.timeouts.keep_alive);
    }

    /// The failure of a response of which the client has seen nothing.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let error = self.exchange.failure()?.clone();
        let mut failure = Failure::of(error);
        failure.is_answered = self.exchange.is_broken();
        failure.headers = header_map(self.exchange.forwarded_headers());
        Some(failure)
    }

    /// Waits for what comes next, and hands it to the exchange.
    pub(crate) async fn advance(&mut self) -> Progress {
        match self.exchange.next() {
            Next::Over => return Progress::Over,
            Next::Interrupt => {
                self.upstream = Connection::None;
                self.exchange.interrupt();
                return Progress::Over;
            }
            Next::Send => {
                self.send();
                return self.progress();
            }
            Next::Read(grace) => self.quiet.set_grace(grace),
        }
        match tick(&mut self.upstream, &mut self.quiet, &mut self.closing).await {
            Tick::Due(Due::Ping) => return Progress::Ping,
            // The words of a refusal have a limit of their own.
            Tick::Due(Due::Idle) if matches!(self.upstream, Connection::Refusing(_)) => {
                self.quiet.hear();
                return Progress::Ping;
            }
            Tick::Answered(Ok(reply)) => self.take_reply(reply),
            Tick::Answered(Err(fault)) | Tick::Failed(fault) => self.fail(&fault),
            Tick::Refused(refusal) => {
                self.upstream = Connection::None;
                self.exchange.refuse(&refusal);
            }
            Tick::Bytes(bytes) => {
                let began = Instant::now();
                if let Some(recording) = &mut self.recording {
                    recording.write(&bytes);
                }
                self.exchange.push(&bytes);
                if self.exchange.has_bytes() {
                    self.quiet.tell();
                }
                let took = began.elapsed();
                self.worked += took;
                self.gateway.metrics.chunk(took);
            }
            Tick::End => self.exchange.finish(),
            Tick::Due(Due::Grace) => self.exchange.silence(),
            Tick::Due(Due::Idle) => {
                let timeouts = &self.gateway.config.timeouts;
                let fault = match self.upstream {
                    Connection::Asking(_) => UpstreamFault::late("did not answer", timeouts.first_byte),
                    _ => UpstreamFault::late("sent nothing more", timeouts.idle),
                };
                self.fail(&fault);
            }
            Tick::Due(Due::Over) => {
                let waited = self.gateway.config.timeouts.answer;
                self.fail(&UpstreamFault::late("did not come to the end of its answer", waited));
            }
            Tick::Closing => self.exchange.abort(*Failure::shutting_down().error),
        }
        self.count_calls();
        self.progress()
    }

    fn progress(&self) -> Progress {
        match self.exchange.next() {
            Next::Over | Next::Interrupt => Progress::Over,
            Next::Send | Next::Read(_) => Progress::Heard,
        }
    }

    /// Sends the request that is due.
    fn send(&mut self) {
        let began = Instant::now();
        let outgoing = heavy::run(self.asked.request.size(), || self.exchange.take_outgoing());
        self.worked += began.elapsed();
        self.quiet.wait_for(self.gateway.config.timeouts.first_byte);
        let Some(Outgoing::Request(request)) = outgoing else { return };
        self.log_losses();
        self.recording = self.gateway.recorder.begin(&self.asked.id, request.body.as_ref());
        let (gateway, upstream) = (Arc::clone(&self.gateway), Arc::clone(&self.target.upstream));
        let headers = self.asked.upstream_headers();
        let asking = async move { upstream.ask(&gateway.client, &request, headers).await };
        self.upstream = Connection::Asking(Box::pin(asking));
    }

    /// Takes the beginning of a response.
    fn take_reply(&mut self, mut reply: Reply) {
        let idle = self.gateway.config.timeouts.idle;
        self.quiet.wait_for(idle);
        self.upstream = if reply.status >= 300 {
            Connection::Refusing(Box::pin(async move { reply.refusal(idle).await }))
        } else {
            // Taken, since they keep the buffer that the response was read into.
            let headers = std::mem::take(&mut reply.headers);
            self.exchange.accept(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
            Connection::Reading(reply)
        };
    }

    fn fail(&mut self, fault: &UpstreamFault) {
        self.upstream = Connection::None;
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
        let connection = std::mem::replace(&mut self.upstream, Connection::None);
        if let Connection::Reading(mut reply) = connection
            && self.exchange.next() == Next::Over
            && self.exchange.error().is_none()
        {
            let rest = async { while let Some(Ok(_)) = reply.next().await {} };
            let _ = tokio::time::timeout(LAST_BYTES, rest).await;
        }
    }
}

/// Waits for what comes next.
async fn tick(
    connection: &mut Connection,
    quiet: &mut Quiet,
    closing: &mut Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Tick {
    let mut next = pin!(connection.next());
    let tick = poll_fn(|context| {
        if let Poll::Ready(tick) = next.as_mut().poll(context) {
            return Poll::Ready(tick);
        }
        if let Poll::Ready(due) = quiet.poll_due(context) {
            return Poll::Ready(Tick::Due(due));
        }
        closing.as_mut().poll(context).map(|()| Tick::Closing)
    })
    .await;
    if matches!(tick, Tick::Bytes(_)) {
        quiet.hear();
    }
    tick
}

impl Connection {
    /// The next of the upstream.
    async fn next(&mut self) -> Tick {
        match self {
            Self::None => Tick::End,
            Self::Asking(asking) => Tick::Answered(asking.await),
            Self::Refusing(refusing) => Tick::Refused(refusing.await),
            Self::Reading(reply) => match reply.next().await {
                Some(Ok(bytes)) => Tick::Bytes(bytes),
                Some(Err(fault)) => Tick::Failed(fault),
                None => Tick::End,
            },
        }
    }
}
