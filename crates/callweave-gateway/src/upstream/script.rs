//! A script that is played.

use std::pin::Pin;
use std::vec;

use bytes::Bytes;
use callweave::exchange::UpstreamFault;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Sleep, sleep};

use super::{ReplyBody, UpstreamReply};
use crate::demo::{DemoScript, ScriptStep};

/// The remaining steps of a script.
pub(super) struct ScriptPlayer {
    steps: vec::IntoIter<ScriptStep>,
    /// The wait that is under way: a reader that stops in the middle of it resumes it later.
    wait: Option<Pin<Box<Sleep>>>,
}

impl ScriptPlayer {
    pub(super) fn reply(script: DemoScript) -> UpstreamReply {
        let headers = script.headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        });
        UpstreamReply {
            status: script.status,
            headers: HeaderMap::from_iter(headers),
            body: ReplyBody::Script(Self { steps: script.steps.into_iter(), wait: None }),
            unpack: None,
        }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, UpstreamFault>> {
        loop {
            if let Some(wait) = &mut self.wait {
                wait.await;
                self.wait = None;
            }
            match self.steps.next()? {
                ScriptStep::Send(bytes) if bytes.is_empty() => {}
                ScriptStep::Send(bytes) => return Some(Ok(bytes.into())),
                ScriptStep::Wait(time) => self.wait = Some(Box::pin(sleep(time))),
                ScriptStep::Break => {
                    return Some(Err(UpstreamFault::lost("lost the connection in the middle of its answer")));
                }
            }
        }
    }
}
