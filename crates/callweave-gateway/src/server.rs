//! Listens, and shuts down without breaking any response.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gateway::{Gateway, ShutdownStage};
use crate::patient::PatientConnection;

/// A gateway that listens.
pub struct Server {
    gateway: Arc<Gateway>,
    listener: TcpListener,
}

/// The maximum number of connections beyond the limit that are accepted at the same time, to tell their clients that
/// there is no room, and monitors how the gateway is. Others wait to be accepted.
const BEYOND: usize = 64;
/// The time each of these connections has.
const BRIEF: Duration = Duration::from_secs(5);

/// The time a client has to take the error that its response ends with.
const FAREWELL: Duration = Duration::from_secs(2);

impl Server {
    /// Listens where the configuration says.
    pub async fn bind(gateway: Arc<Gateway>) -> io::Result<Self> {
        let listener = TcpListener::bind(gateway.config().listen).await?;
        Ok(Self { gateway, listener })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is over. Then nothing new is taken; responses under way have the configured time, and end
    /// with an error after that.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.run_until(stop, std::future::pending()).await;
    }

    /// The same; when `hurry` is over as well, no response is waited for any longer.
    pub async fn run_until(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self { gateway, listener } = self;
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(gateway.config.limits.connections.min(Semaphore::MAX_PERMITS)));
        let beyond = Arc::new(Semaphore::new(BEYOND));
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                (brief, accepted) = accept(&listener, &beyond) => match accepted {
                    Ok(stream) => match Arc::clone(&room).try_acquire_owned() {
                        Ok(permit) => serve(&gateway, stream, &graceful, permit),
                        Err(_) => turn_away(&gateway, stream, brief),
                    },
                    // Too many open files, most likely: some will be closed.
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(listener);
        gateway.enter(ShutdownStage::Draining);
        let mut drained = std::pin::pin!(graceful.shutdown());
        tokio::select! {
            biased;
            () = &mut drained => return,
            () = hurry => {}
            () = tokio::time::sleep(gateway.config.timeouts.shutdown) => {}
        }
        gateway.enter(ShutdownStage::Closing);
        let _ = tokio::time::timeout(FAREWELL, drained).await;
    }
}

/// The next connection. It is accepted only if its client can get a response, be it that there is no room.
async fn accept(
    listener: &TcpListener,
    beyond: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, io::Result<TcpStream>) {
    let brief = Arc::clone(beyond).acquire_owned().await.ok();
    let accepted = listener.accept().await;
    (brief, accepted.map(|(stream, _)| stream))
}

fn serve(
    gateway: &Arc<Gateway>,
    stream: TcpStream,
    graceful: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    // A chunk must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let service = {
        let gateway = Arc::clone(gateway);
        service_fn(move |request| {
            let gateway = Arc::clone(&gateway);
            // The connection keeps the room for it while its response streams: that of a pointer.
            Box::pin(async move { Ok::<_, Infallible>(gateway.serve(request).await) })
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(gateway.config.timeouts.request)
        .max_headers(gateway.config.limits.headers)
        .serve_connection(PatientConnection::new(stream, gateway.config.timeouts.idle), service);
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        // Clients leave when they like: nobody hears how it ended.
        let _ = watched.await;
        drop(permit);
    });
}

/// Answers one request on a connection for which there is no room.
fn turn_away(gateway: &Arc<Gateway>, stream: TcpStream, brief: Option<OwnedSemaphorePermit>) {
    let own = Arc::clone(gateway);
    let service = service_fn(move |request| {
        let gateway = Arc::clone(&own);
        Box::pin(async move { Ok::<_, Infallible>(gateway.turn_away(request).await) })
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_headers(gateway.config.limits.headers)
        .serve_connection(TokioIo::new(stream), service);
    tokio::spawn(async move {
        let _ = tokio::time::timeout(BRIEF, connection).await;
        drop(brief);
    });
}
