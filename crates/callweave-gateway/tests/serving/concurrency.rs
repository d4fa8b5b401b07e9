//! The room for requests that are served at once, and the requests that take it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;

use crate::support::{chat, gateway, get, post, request};

#[tokio::test]
async fn a_client_that_sends_slowly_takes_nobodys_place() {
    /// A body of which nothing ever comes.
    struct Never;

    impl http_body::Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    let gateway = gateway("[limits]\nconcurrent = 1");
    let slow = Request::post("/v1/chat/completions").body(Never).expect("a request");
    let mut slow = Box::pin(gateway.handle(slow));
    assert!(poll_fn(|context| Poll::Ready(slow.as_mut().poll(context).is_pending())).await);
    assert_eq!(post(&gateway, "/v1/chat/completions", &chat("demo/hermes", false)).await.status, 200);
}

#[tokio::test]
async fn whoever_has_no_room_is_not_ready() {
    let gateway = gateway("[limits]\nconcurrent = 1");
    assert_eq!(get(&gateway, "/readyz").await.status, 200);
    let body = chat("demo/slow", true).to_string();
    let taken = gateway.handle(request(http::Method::POST, "/v1/chat/completions", &[], &body)).await;
    let got = get(&gateway, "/readyz").await;
    assert_eq!((got.status, got.text.as_str()), (503, "overloaded\n"));
    assert_eq!(get(&gateway, "/healthz").await.status, 200);
    drop(taken);
    assert_eq!(get(&gateway, "/readyz").await.status, 200);
}
