//! One request from its body to its response: which targets are tried, how often, and how the response begins.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use callweave::exchange::Exchange;
use callweave::upstream::ErrorClass;
use http::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::account::RequestAccount;
use crate::body::{PieceSlot, ResponseBody};
use crate::failure::{RequestFailure, header_map};
use crate::gateway::Gateway;
use crate::incoming::IncomingHttp;
use crate::live::{LiveProgress, LiveResponse};
use crate::retry;
use crate::routes::RouteTarget;

/// Answers a client.
pub(crate) async fn answer(
    gateway: Arc<Gateway>,
    asked: IncomingHttp,
    room: OwnedSemaphorePermit,
) -> Response<ResponseBody> {
    let asked = Arc::new(asked);
    let account = RequestAccount::open(&gateway, &asked, room);
    let silence = gateway.config.timeouts.keep_alive;
    let closing = gateway.closing();
    let mut opening = Box::pin(opened(gateway, Arc::clone(&asked), account));
    let may_ping = !asked.request.pings()[0].is_empty();
    let opened = match may_ping {
        true => match tokio::time::timeout(silence, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => return late(opening, &asked, silence, closing),
        },
        false => opening.await,
    };
    match opened {
        (Ok(live), account) if asked.request.is_streamed() => streamed(live, &asked, account),
        (Ok(live), account) => complete(live, account),
        (Err(failure), mut account) => {
            account.fail(&failure);
            failure.response(asked.request.protocol())
        }
    }
}

/// A response that has begun, or the reason why there is none.
type OpenResult = (Result<Box<LiveResponse>, RequestFailure>, RequestAccount);

/// Asks until a response begins, or there is no more time for it.
async fn opened(gateway: Arc<Gateway>, asked: Arc<IncomingHttp>, mut account: RequestAccount) -> OpenResult {
    (open(&gateway, &asked, &mut account).await, account)
}

/// A stream that begins before its response does: the client gets keep-alives. Later failures can only be reported in
/// the stream.
fn late(
    mut opening: Pin<Box<impl Future<Output = OpenResult> + Send + 'static>>,
    asked: &Arc<IncomingHttp>,
    silence: Duration,
    closing: impl Future<Output = ()> + Send + 'static,
) -> Response<ResponseBody> {
    let (asked, pings) = (Arc::clone(asked), asked.request.pings());
    let request = Arc::clone(&asked.request);
    let body = ResponseBody::made(move |slot| async move {
        let mut closing = std::pin::pin!(closing);
        let opened = loop {
            slot.put(Bytes::from_static(pings[0].as_bytes())).await;
            tokio::select! {
                biased;
                opened = &mut opening => break opened,
                () = &mut closing => {
                    // The account of the request sees why it ends.
                    drop(opening);
                    slot.put(asked.request.error_stream(*RequestFailure::shutting_down().error).into()).await;
                    return Ok(());
                }
                () = tokio::time::sleep(silence) => {}
            }
        };
        drop(opening);
        match opened {
            (Ok(mut live), account) => {
                drop(asked);
                live.exchange.head();
                stream(live, account, pings, slot).await
            }
            (Err(failure), mut account) => {
                account.break_off(&failure);
                slot.put(asked.request.error_stream(*failure.error).into()).await;
                Ok(())
            }
        }
    });
    let mut response = Response::new(body);
    let head = [
        ("content-type", request.content_type()),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    ];
    *response.headers_mut() = header_map(&head.map(|(name, value)| (name, value.into())));
    response
}

/// Asks the targets in order, until one responds. Nothing was sent to the client yet, so every failure can be retried;
/// but a response of an upstream was paid for, and is not asked for again unless that is configured.
async fn open(
    gateway: &Arc<Gateway>,
    asked: &Arc<IncomingHttp>,
    account: &mut RequestAccount,
) -> Result<Box<LiveResponse>, RequestFailure> {
    let end = Instant::now() + gateway.config.timeouts.response;
    let targets = gateway.routes.find(asked.request.model())?;
    let mut last: Option<RequestFailure> = None;
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
        // An invalid request is invalid at every upstream.
        if last.as_ref().is_some_and(|failure| failure.error.class == ErrorClass::InvalidRequest) {
            break;
        }
    }
    Err(last.unwrap_or_else(|| RequestFailure::new(ErrorClass::Server, "nobody was asked")))
}

/// Asks one target, and waits until its response shows something; or, if it is wanted complete, until it is over.
async fn attempt_at(
    gateway: &Arc<Gateway>,
    asked: &Arc<IncomingHttp>,
    target: &RouteTarget,
    end: Instant,
) -> Result<Box<LiveResponse>, RequestFailure> {
    // It goes a long way, and stays long: only a pointer to it does.
    let mut live = Box::new(LiveResponse::new(Arc::clone(gateway), Arc::clone(asked), target.clone(), end)?);
    let is_streamed = asked.request.is_streamed();
    loop {
        let progress = live.advance().await;
        // A stream that broke after some content is the client's, with its error.
        if let Some(failure) = live.failure() {
            return Err(failure);
        }
        let is_ready = match progress {
            LiveProgress::Over => true,
            LiveProgress::Heard | LiveProgress::Ping => live.exchange.is_ready(),
        };
        if is_ready {
            if !is_streamed {
                live.drain().await;
            }
            return Ok(live);
        }
    }
}

fn streamed(
    mut live: Box<LiveResponse>,
    asked: &IncomingHttp,
    account: RequestAccount,
) -> Response<ResponseBody> {
    let (pings, head) = (asked.request.pings(), headed(&mut live.exchange));
    head.map(|()| ResponseBody::made(move |slot| stream(live, account, pings, slot)))
}

/// The beginning of the client's response.
fn headed(exchange: &mut Exchange) -> Response<()> {
    let head = exchange.head();
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = header_map(&head.headers);
    response
}

/// Makes the body of a stream.
async fn stream(
    mut live: Box<LiveResponse>,
    mut account: RequestAccount,
    pings: [&'static str; 2],
    slot: PieceSlot,
) -> std::io::Result<()> {
    live.begin();
    let mut has_begun = false;
    // An exchange without bytes so far has been silent for long.
    let mut progress = if live.exchange.has_bytes() { LiveProgress::Heard } else { LiveProgress::Ping };
    loop {
        let bytes = live.exchange.take_bytes();
        if !bytes.is_empty() {
            account.first_byte();
            has_begun = true;
            slot.put(bytes.into()).await;
        } else if progress == LiveProgress::Ping && live.exchange.may_ping() {
            slot.put(Bytes::from_static(pings[usize::from(has_begun)].as_bytes())).await;
        }
        if progress == LiveProgress::Over {
            account.close(&live);
            live.drain().await;
            return Ok(());
        }
        progress = live.advance().await;
    }
}

fn complete(mut live: Box<LiveResponse>, mut account: RequestAccount) -> Response<ResponseBody> {
    account.first_byte();
    account.close(&live);
    let head = headed(&mut live.exchange);
    head.map(|()| ResponseBody::complete(live.exchange.take_bytes()))
}
