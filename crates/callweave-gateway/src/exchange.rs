//! One request from its body to its answer: who is asked, how often, and how the answer begins.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callweave::event::{self, Event, Notice, NoticeCode};
use callweave::framing::Framing;
use callweave::upstream::ErrorClass;
use http::{HeaderMap, HeaderValue, Response, header};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::account::Account;
use crate::answer::Wanted;
use crate::asked::Asked;
use crate::body::{Body, Slot};
use crate::failure::{Failure, JSON};
use crate::gateway::Gateway;
use crate::live::{Live, Progress, Turn};
use crate::retry;
use crate::routes::Target;

/// Answers a client.
pub(crate) async fn answer(
    gateway: Arc<Gateway>,
    asked: Asked,
    room: OwnedSemaphorePermit,
) -> Response<Body> {
    let asked = Arc::new(asked);
    let account = Account::open(&gateway, &asked, room);
    let silence = gateway.config.timeouts.keep_alive;
    let closing = gateway.closing();
    let mut opening = Box::pin(opened(gateway, Arc::clone(&asked), account));
    let may_ping = asked.is_streamed && !asked.pings()[0].is_empty();
    let opened = match may_ping {
        true => match tokio::time::timeout(silence, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => return late(opening, &asked, silence, closing),
        },
        false => opening.await,
    };
    match opened {
        (Ok(live), account) if asked.is_streamed => streamed(live, &asked, account),
        (Ok(live), account) => whole(live, account),
        (Err(failure), mut account) => {
            account.fail(&failure);
            failure.response(asked.wire.protocol)
        }
    }
}

/// An answer that has begun, or why there is none.
type Opened = (Result<Box<Live>, Failure>, Account);

/// Asks until an answer begins, or there is no more time for it.
async fn opened(gateway: Arc<Gateway>, mut asked: Arc<Asked>, mut account: Account) -> Opened {
    let mut opened = open(&gateway, &asked, &mut account).await;
    if let Ok(live) = &mut opened
        && asked.is_streamed
        && !live.needs_request()
    {
        // A long stream must not hold a long conversation.
        asked = Arc::new(asked.without_content());
        account.asked = Arc::clone(&asked);
        live.set_asked(&asked);
    }
    (opened, account)
}

/// A stream that begins before its answer does: the client hears that it comes. What goes wrong after that can only be
/// told in the stream.
fn late(
    mut opening: Pin<Box<impl Future<Output = Opened> + Send + 'static>>,
    asked: &Arc<Asked>,
    silence: Duration,
    closing: impl Future<Output = ()> + Send + 'static,
) -> Response<Body> {
    let (asked, pings) = (Arc::clone(asked), asked.pings());
    let wire = asked.wire;
    let body = Body::made(move |slot| async move {
        let mut closing = std::pin::pin!(closing);
        let opened = loop {
            slot.put(Bytes::from_static(pings[0].as_bytes())).await;
            tokio::select! {
                biased;
                opened = &mut opening => break opened,
                () = &mut closing => {
                    // Who gives account of the request sees why it ends.
                    drop(opening);
                    slot.put(told(&asked, Failure::shutting_down())).await;
                    return Ok(());
                }
                () = tokio::time::sleep(silence) => {}
            }
        };
        drop(opening);
        match opened {
            (Ok(live), account) => {
                drop(asked);
                stream(live, account, pings, slot).await
            }
            (Err(failure), mut account) => {
                account.break_off(&failure);
                slot.put(told(&asked, failure)).await;
                Ok(())
            }
        }
    });
    event_stream(body, HeaderMap::new(), HeaderValue::from_static(wire.stream_type))
}

/// A failure as a stream tells it.
fn told(asked: &Asked, failure: Failure) -> Bytes {
    let mut bytes = Vec::new();
    if let Some(mut encoder) = asked.wire.protocol.encoder(&asked.options) {
        let start = event::Body::Start { id: None, model: None, word: Cow::Borrowed(""), members: None };
        let notice = Notice::new(NoticeCode::Truncated, 0, "the answer failed");
        let (error, notice) = (event::Body::Error(*failure.error), event::Body::Notice(notice));
        for body in [start, error, notice, event::Body::End] {
            encoder.encode(&Event::new(0, body), &mut bytes);
        }
    }
    bytes.into()
}

/// Asks those who can answer, in order, until one does. Nothing was sent to the client yet, so whatever fails can be
/// tried again; but what an upstream has answered was paid, and is not asked for again unless it is configured so.
async fn open(
    gateway: &Arc<Gateway>,
    asked: &Arc<Asked>,
    account: &mut Account,
) -> Result<Box<Live>, Failure> {
    let end = Instant::now() + gateway.config.timeouts.answer;
    let targets = gateway.routes.find(&asked.model)?;
    let mut last: Option<Failure> = None;
    for target in &targets {
        let upstream = &target.upstream;
        upstream.budget.add();
        for attempt in 0..=upstream.config.retries {
            if attempt > 0 {
                let asked_for = last.as_ref().and_then(|failure| failure.error.retry_after);
                // Longer waits, and troubles of many, are left to the client.
                let Some(wait) = retry::wait(attempt, asked_for).filter(|_| upstream.budget.take()) else {
                    break;
                };
                if Instant::now() + wait >= end {
                    break;
                }
                tokio::time::sleep(wait).await;
            }
            account.ask(target);
            match attempt_at(gateway, asked, target, end).await {
                Ok(live) => return Ok(live),
                Err(failure) if failure.is_answered && !upstream.config.retry_broken => return Err(failure),
                Err(failure) => {
                    let is_retryable = failure.is_retryable() || failure.is_answered;
                    last = Some(failure);
                    if !is_retryable {
                        break;
                    }
                }
            }
        }
        // What is wrong with the request is wrong with it everywhere.
        if last.as_ref().is_some_and(|failure| failure.error.class == ErrorClass::InvalidRequest) {
            break;
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(ErrorClass::Server, "nobody was asked")))
}

/// Asks one target, and waits until its answer shows something; or, if it is wanted as a whole, until it is over.
async fn attempt_at(
    gateway: &Arc<Gateway>,
    asked: &Arc<Asked>,
    target: &Target,
    end: Instant,
) -> Result<Box<Live>, Failure> {
    let wire = target.upstream.wire(&target.model)?;
    let is_same = wire.protocol == asked.wire.protocol;
    let turn = Turn::open(gateway, asked, target, end).await?;
    let wanted = Wanted {
        protocol: asked.wire.protocol,
        options: asked.options.clone(),
        is_streamed: asked.is_streamed,
        is_kept: gateway.keeps(asked, target),
        hold: Live::hold(target, asked.has_tools),
        keeps_id: is_same,
        is_raw: is_same && target.upstream.is_plain(),
        tells_usage: asked.wants_usage(),
        has_comments: asked.is_streamed && !asked.pings()[0].is_empty(),
    };
    // It goes a long way, and stays long: only a pointer to it does.
    let live = Live::new(Arc::clone(gateway), Arc::clone(asked), target.clone(), turn, wanted, end);
    let mut live = Box::new(live);
    loop {
        let progress = live.advance().await;
        // Of a stream that broke after some words clients get the words, and then the error.
        let is_begun = asked.is_streamed && live.output.watch.has_content;
        if let Some(failure) = live.failure().filter(|_| !is_begun) {
            return Err(failure);
        }
        let is_ready = match progress {
            Progress::Over => true,
            Progress::Ping => asked.is_streamed,
            Progress::Heard => asked.is_streamed && live.output.has_bytes(),
        };
        if is_ready {
            if !asked.is_streamed {
                live.drain().await;
            }
            return Ok(live);
        }
    }
}

fn streamed(mut live: Box<Live>, asked: &Asked, account: Account) -> Response<Body> {
    let (wire, is_array) = (asked.wire, asked.options.framing == Some(Framing::JsonValues));
    let pings = asked.pings();
    let headers = std::mem::take(&mut live.headers);
    let body = Body::made(move |slot| stream(live, account, pings, slot));
    let kind = if is_array { JSON } else { HeaderValue::from_static(wire.stream_type) };
    event_stream(body, headers, kind)
}

fn event_stream(body: Body, headers: HeaderMap, kind: HeaderValue) -> Response<Body> {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Makes the body of a stream.
async fn stream(
    mut live: Box<Live>,
    mut account: Account,
    pings: [&'static str; 2],
    slot: Slot,
) -> std::io::Result<()> {
    let mut has_begun = false;
    // Whoever had nothing to show so far was silent for long.
    let mut progress = if live.output.has_bytes() { Progress::Heard } else { Progress::Ping };
    loop {
        let bytes = live.output.take();
        if !bytes.is_empty() {
            account.first_byte();
            has_begun = true;
            slot.put(bytes).await;
        } else if progress == Progress::Ping && live.output.may_ping() {
            slot.put(Bytes::from_static(pings[usize::from(has_begun)].as_bytes())).await;
        }
        if progress == Progress::Over {
            let message = live.message();
            account.close(&mut live, &message);
            live.drain().await;
            return Ok(());
        }
        progress = live.advance().await;
    }
}

fn whole(mut live: Box<Live>, mut account: Account) -> Response<Body> {
    account.first_byte();
    let message = live.message();
    account.close(&mut live, &message);
    let body = live.output.body(&message);
    let mut response = Response::new(Body::whole(body));
    *response.headers_mut() = std::mem::take(&mut live.headers);
    if let count @ 1.. = live.output.watch.complaints.len() {
        response.headers_mut().insert("x-callweave-invalid-calls", count.into());
    }
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
