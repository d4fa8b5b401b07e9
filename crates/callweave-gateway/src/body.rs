//! The bodies that clients get. One that is streamed is made while it is read: nothing runs on its own, so a slow client
//! slows its upstream down, and one that leaves takes everything with it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of a response to a client.
pub struct ResponseBody(BodyKind);

enum BodyKind {
    Whole(Option<Bytes>),
    Made { maker: Option<PieceMaker>, slot: PieceSlot },
}

type PieceMaker = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl ResponseBody {
    /// All of it at once.
    pub fn complete(bytes: impl Into<Bytes>) -> Self {
        Self(BodyKind::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }

    /// A body that `make` produces piece by piece. It runs only while the body is read. If it fails, the body breaks
    /// off without an end.
    pub(crate) fn made<M: Future<Output = io::Result<()>> + Send + 'static>(
        make: impl FnOnce(PieceSlot) -> M,
    ) -> Self {
        let slot = PieceSlot::default();
        let maker: PieceMaker = Box::pin(make(slot.clone()));
        Self(BodyKind::Made { maker: Some(maker), slot })
    }
}

/// The place for the next piece of a body.
#[derive(Clone, Default)]
pub(crate) struct PieceSlot(Arc<Mutex<Option<Bytes>>>);

impl PieceSlot {
    /// Puts a piece there, and waits until it was taken.
    pub(crate) async fn put(&self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        *self.lock() = Some(bytes);
        // The taker of the piece polls again for the next one: nobody needs to be woken.
        poll_fn(|_| if self.lock().is_some() { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    fn take(&self) -> Option<Bytes> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.get_mut().0 {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Made { maker, slot } => {
                let Some(running) = maker else { return Poll::Ready(None) };
                let made = running.as_mut().poll(context);
                if let Some(bytes) = slot.take() {
                    if made.is_ready() {
                        *maker = None;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                match made {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(done) => {
                        *maker = None;
                        Poll::Ready(done.err().map(Err))
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Whole(bytes) => bytes.is_none(),
            BodyKind::Made { maker, .. } => maker.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyKind::Made { .. } => SizeHint::default(),
        }
    }
}
