//! A connection whose peer must read, and must be there: one that never reads would hold its response, and the upstream
//! of it, for ever; and one that has left would be waited for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A connection that breaks if nothing can be written for too long.
pub(crate) struct PatientConnection {
    io: TokioIo<TcpStream>,
    patience: Duration,
    /// Whether the stream was read since the last look at the peer.
    is_read: bool,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl PatientConnection {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { io: TokioIo::new(stream), patience, is_read: false, timer: None, is_waiting: false }
    }

    /// Whether the peer has left. A reader notices that; but while requests wait that were sent before their turn,
    /// nobody reads. A peer that has sent more than was taken from it is seen to leave only later.
    fn has_left(&mut self, context: &mut Context<'_>) -> bool {
        if std::mem::replace(&mut self.is_read, false) {
            return false;
        }
        let mut byte = [0];
        matches!(
            self.io.inner().poll_peek(context, &mut ReadBuf::new(&mut byte)),
            Poll::Ready(Ok(0) | Err(_))
        )
    }

    /// Passes on the outcome of a write, or fails if the write waits for too long.
    fn within<R>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            timer.as_mut().reset(Instant::now() + patience);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for PatientConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.is_read = true;
        Pin::new(&mut this.io).poll_read(context, buffer)
    }
}

impl Write for PatientConnection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(context, bytes);
        this.within(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_left(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let flushed = Pin::new(&mut this.io).poll_flush(context);
        this.within(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(context, slices);
        this.within(context, written)
    }
}
