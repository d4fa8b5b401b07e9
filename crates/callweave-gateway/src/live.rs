//! An answer that is under way: what the upstream sends goes through the stages, and what is due is done.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callweave::event::FinishReason;
use callweave::message::{Content, Message};
use callweave::upstream::{ErrorClass, UpstreamError};
use http::HeaderMap;

use crate::again;
use crate::answer::{Chain, Hold, Outcome, Output, Reading, Wanted};
use crate::asked::{Asked, Sent};
use crate::config::OnInvalid;
use crate::failure::Failure;
use crate::gateway::Gateway;
use crate::heavy;
use crate::quiet::{Due, Quiet};
use crate::record::Recording;
use crate::routes::Target;
use crate::trace::made;
use crate::upstream::{Reply, Trouble, passed_on};

/// An answer that is under way.
pub(crate) struct Live {
    gateway: Arc<Gateway>,
    asked: Arc<Asked>,
    target: Target,
    state: State,
    quiet: Quiet,
    pub(crate) output: Output,
    /// How often the model was asked again.
    again: u32,
    /// How long the gateway itself worked.
    pub(crate) worked: Duration,
    /// Comes to its end when the gateway does.
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Headers for the client.
    pub(crate) headers: HeaderMap,
    /// Whether the upstream has answered, and told no error, but the answer fails.
    is_broken: bool,
}

enum State {
    Reading(Box<Turn>),
    Asking(Asking),
    /// The answer is over; what is left of the upstream's, if it may come to its end.
    Over(Option<Reply>),
}

type Asking = Pin<Box<dyn Future<Output = Result<Turn, Failure>> + Send>>;

/// One answer of an upstream.
pub(crate) struct Turn {
    reply: Reply,
    chain: Chain,
    recording: Option<Recording>,
    /// How long it took to make the request.
    prepared: Duration,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes of the answer came.
    Heard,
    /// The client should hear that the answer still comes.
    Ping,
    /// The answer is over.
    Over,
}

enum Tick {
    Bytes(Bytes),
    End,
    Failed(Trouble),
    Due(Due),
    Closing,
}

impl Turn {
    /// Asks a target. The answer has begun when this returns; what is no answer is a failure.
    pub(crate) async fn open(
        gateway: &Gateway,
        asked: &Asked,
        target: &Target,
        end: tokio::time::Instant,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        let write = || asked.for_target(target, &gateway.toolbox);
        let Sent { outgoing, written, reading, tools } = heavy::run(asked.size(), write)?;
        let prepared = began.elapsed();
        let upstream = &target.upstream;
        let recording = gateway.recorder.begin(&asked.id, &outgoing);
        let asking = upstream.ask(&gateway.client, &outgoing, end).await;
        let mut reply = asking.map_err(|trouble| trouble.of(target))?;
        if reply.status >= 300 {
            return Err(reply.failure(outgoing.wire.protocol, target, gateway.config.timeouts.idle).await);
        }
        let chain = Chain::new(Reading {
            protocol: outgoing.wire.protocol,
            dialect: reading.or_else(|| upstream.dialect(&target.model, asked.has_tools)),
            tools,
            repair: upstream.config.repair,
            schema: upstream.config.schema,
            stop: &upstream.stop,
            written: written.as_ref(),
            id_prefix: format!("call_{}", made::<8>()),
            limit: gateway.config.limits.answer,
            arguments: gateway.config.limits.arguments,
            target,
            steps: gateway.config.limits.schema_steps,
        });
        Ok(Self { reply, chain, recording, prepared })
    }
}

/// So long the last bytes are waited for.
const LAST_BYTES: Duration = Duration::from_millis(50);

impl Live {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        asked: Arc<Asked>,
        target: Target,
        mut turn: Turn,
        wanted: Wanted,
        end: tokio::time::Instant,
    ) -> Self {
        let timeouts = &gateway.config.timeouts;
        let (headers, turn_took) = (passed_on(&std::mem::take(&mut turn.reply.headers)), turn.prepared);
        Self {
            quiet: Quiet::new(timeouts.keep_alive, timeouts.idle, end),
            output: Output::new(wanted),
            state: State::Reading(Box::new(turn)),
            again: 0,
            worked: turn_took,
            closing: Box::pin(gateway.closing()),
            headers,
            is_broken: false,
            gateway,
            asked,
            target,
        }
    }

    /// How much of an answer must be held.
    pub(crate) fn hold(target: &Target, has_tools: bool) -> Hold {
        match target.upstream.config.invalid {
            _ if !has_tools => Hold::Nothing,
            OnInvalid::Pass => Hold::Nothing,
            OnInvalid::Error => Hold::Calls,
            OnInvalid::AskAgain => Hold::All,
        }
    }

    /// Whether the request is needed once the answer has begun.
    pub(crate) fn needs_request(&self) -> bool {
        self.output.may_ask_again() || self.output.is_kept
    }

    /// Knows only what is left of the request.
    pub(crate) fn set_asked(&mut self, asked: &Arc<Asked>) {
        self.asked = Arc::clone(asked);
    }

    /// The failure, if the answer is one before anything of it was shown.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let error = self.output.watch.error.clone()?;
        Some(Failure { error, headers: self.headers.clone(), is_answered: self.is_broken })
    }

    /// Waits for what comes next, and does what is to be done about it.
    pub(crate) async fn advance(&mut self) -> Progress {
        let tick = match &mut self.state {
            State::Over(_) => return Progress::Over,
            State::Asking(asking) => {
                let asked = tokio::select! {
                    biased;
                    asked = asking => asked,
                    due = poll_fn(|context| self.quiet.poll_due(context)) => match due {
                        Due::Over => Err(overdue(&self.gateway).of(&self.target)),
                        Due::Ping => return Progress::Ping,
                        // The time to the first byte has a limit of its own.
                        Due::Idle | Due::Grace => {
                            self.quiet.hear();
                            return Progress::Ping;
                        }
                    },
                    () = &mut self.closing => Err(Failure::shutting_down()),
                };
                return self.asked_again(asked);
            }
            State::Reading(turn) => tick(turn, &mut self.quiet, &mut self.closing).await,
        };
        let State::Reading(turn) = &mut self.state else { return Progress::Over };
        let Turn { chain, recording, .. } = &mut **turn;
        let (had_error, is_heard) = (self.output.watch.error.is_some(), matches!(tick, Tick::Bytes(_)));
        match tick {
            Tick::Due(Due::Ping) => return Progress::Ping,
            Tick::Bytes(bytes) => {
                let began = Instant::now();
                if let Some(recording) = recording {
                    recording.write(&bytes);
                }
                self.output.take_raw(&bytes);
                chain.push(&bytes, &mut self.output);
                self.output.mark();
                if self.output.has_bytes() {
                    self.quiet.tell();
                }
                let grace = chain.awaits_call().then(|| self.target.upstream.stop.grace());
                self.quiet.set_grace(grace);
                let took = began.elapsed();
                self.worked += took;
                self.gateway.metrics.chunk(took);
            }
            Tick::End => {
                chain.finish(&mut self.output);
                self.output.mark();
            }
            Tick::Failed(trouble) => chain.break_off(&trouble, &mut self.output),
            Tick::Due(Due::Grace) => chain.cut(&mut self.output),
            Tick::Due(Due::Idle) => {
                let waited = self.gateway.config.timeouts.idle;
                chain.break_off(&Trouble::late("sent nothing more", waited), &mut self.output);
            }
            Tick::Due(Due::Over) => chain.break_off(&overdue(&self.gateway), &mut self.output),
            Tick::Closing => chain.fail(*Failure::shutting_down().error, &mut self.output),
        }
        if !is_heard && !had_error {
            self.output.end_raw();
        }
        match chain.is_over() {
            true => self.end_turn(),
            false => Progress::Heard,
        }
    }

    /// The answer of an upstream is over: it is the client's, or the model is asked again.
    fn end_turn(&mut self) -> Progress {
        let State::Reading(turn) = std::mem::replace(&mut self.state, State::Over(None)) else {
            return Progress::Over;
        };
        let Turn { reply, chain, .. } = *turn;
        let dialect = chain.dialect().map(str::to_owned);
        self.is_broken = chain.is_broken();
        if !chain.is_cut() && self.output.watch.error.is_none() {
            self.state = State::Over(Some(reply));
        }
        let upstream = &self.target.upstream;
        let is_bad = !self.output.watch.complaints.is_empty() && self.output.watch.error.is_none();
        let asks_again = is_bad
            && upstream.config.invalid == OnInvalid::AskAgain
            && self.again < upstream.config.ask_again
            && self.output.is_holding();
        self.count_calls(dialect.as_deref(), asks_again);
        if asks_again {
            self.ask_again();
            return Progress::Heard;
        }
        if is_bad && upstream.config.invalid == OnInvalid::Error {
            let what = self.output.watch.complaints.first().map(|(_, what)| what.clone()).unwrap_or_default();
            let what = format!("the model made a call that cannot be run: {what}");
            let mut error = UpstreamError::new(ErrorClass::Other, what);
            error.status = Some(502);
            self.output.fail(&error);
        }
        self.output.release();
        Progress::Over
    }

    fn count_calls(&self, dialect: Option<&str>, is_asked_again: bool) {
        let (upstream, model) = (&self.target.upstream.name, self.target.label());
        for &outcome in &self.output.watch.calls {
            let is_retried = is_asked_again && outcome == Outcome::Invalid;
            let outcome = if is_retried { Outcome::Retried } else { outcome };
            self.gateway.metrics.call(outcome, dialect.unwrap_or("none"), upstream, model);
        }
    }

    /// Tells the model what is wrong with its calls, and asks it again.
    fn ask_again(&mut self) {
        self.again += 1;
        let message = self.output.held_message();
        let complaints = std::mem::take(&mut self.output.watch.complaints);
        self.output.forget();
        self.quiet.hear();
        let end = self.quiet.end();
        let again = again::asked(&self.asked, &message, &complaints);
        let (gateway, target) = (Arc::clone(&self.gateway), self.target.clone());
        self.asked = Arc::new(again);
        let asked = Arc::clone(&self.asked);
        let asking = async move { Turn::open(&gateway, &asked, &target, end).await };
        self.state = State::Asking(Box::pin(asking));
    }

    fn asked_again(&mut self, asked: Result<Turn, Failure>) -> Progress {
        self.quiet.hear();
        match asked {
            Ok(turn) => {
                self.state = State::Reading(Box::new(turn));
                Progress::Heard
            }
            Err(failure) => {
                self.state = State::Over(None);
                self.output.fail(&failure.error);
                Progress::Over
            }
        }
    }

    /// Hears the upstream's last bytes, so that its connection can serve the next request. Answers that are over end
    /// with their last word, and the connection's own end follows at once, or never.
    pub(crate) async fn drain(&mut self) {
        if let State::Over(reply) = &mut self.state
            && let Some(mut reply) = reply.take()
        {
            let rest = async { while let Some(Ok(_)) = reply.next().await {} };
            let _ = tokio::time::timeout(LAST_BYTES, rest).await;
        }
    }

    /// The message, for what keeps answers; and the whole body, for who wants one.
    pub(crate) fn message(&mut self) -> Message {
        let mut message = self.output.message();
        let stop = &self.target.upstream.stop;
        let is_stopped = stop.is_on.unwrap_or(false) && !self.asked.is_streamed;
        if is_stopped && message.finish_reason() == Some(FinishReason::ToolCalls) {
            // Who stops at calls wants nothing but calls.
            for choice in &mut message.choices {
                choice.blocks.retain(|block| !matches!(block.content, Content::Text(_)));
            }
        }
        message
    }

    /// What became of the answer, for the log.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

/// What is told of an answer that takes too long.
fn overdue(gateway: &Gateway) -> Trouble {
    Trouble::late("did not come to the end of its answer", gateway.config.timeouts.answer)
}

/// Waits for what comes next.
async fn tick(
    turn: &mut Turn,
    quiet: &mut Quiet,
    closing: &mut Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Tick {
    let mut next = pin!(turn.reply.next());
    let tick = poll_fn(|context| {
        if let Poll::Ready(next) = next.as_mut().poll(context) {
            return Poll::Ready(match next {
                Some(Ok(bytes)) => Tick::Bytes(bytes),
                Some(Err(trouble)) => Tick::Failed(trouble),
                None => Tick::End,
            });
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
