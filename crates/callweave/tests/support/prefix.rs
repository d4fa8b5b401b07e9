//! The law of prefixes: a response that breaks off is an error for the client, never a success that looks complete.

use callweave::message::Message;
use callweave::protocol::Protocol;

use crate::driver::{Client, End, Got};
use crate::laws::decode_cut;

/// What is wrong with a client's response to a prefix of an upstream's.
pub(crate) fn judge(
    client: &Client,
    got: &Got,
    upstream: &'static Protocol,
    prefix: &[u8],
    end: End,
) -> Result<(), &'static str> {
    let message = got.message(client.protocol());
    if got.status != 200 {
        return match () {
            () if got.status < 400 => Err("a status that is neither success nor error"),
            () if got.error.is_none() => Err("an error status without an error"),
            () if !is_error_body(client, &got.body) => Err("no error body of the protocol"),
            () if got.header("content-type") != Some("application/json") => Err("an error that is not JSON"),
            () => Ok(()),
        };
    }
    let is_marked = message.error().is_some();
    if got.error.is_some() != is_marked {
        return Err("an error that one side does not know of");
    }
    if is_marked && !client.is_streamed {
        return Err("an error with the status of success");
    }
    if is_marked && !has_content(&message) {
        return Err("a failure before any content, with the status of success");
    }
    match is_complete(upstream, prefix, end) {
        false if !is_marked => Err("a success, though the upstream broke off"),
        _ => Ok(()),
    }
}

fn has_content(message: &Message) -> bool {
    message.choices.iter().any(|choice| !choice.blocks.is_empty())
}

/// Whether a body is an error as clients of the protocol expect it: an object with the words where they look for them.
fn is_error_body(client: &Client, body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
    let words = match client.protocol().name {
        "ollama" => body.pointer("/error"),
        _ => body.pointer("/error/message"),
    };
    words.and_then(|words| words.as_str()).is_some_and(|words| !words.is_empty())
}

/// Whether the upstream's response came to its end: to its end marker, or to a finish reason in a frame that came
/// completely. A connection that fails later makes an error of a response without its end marker.
pub(crate) fn is_complete(upstream: &'static Protocol, prefix: &[u8], end: End) -> bool {
    let whole = decode_cut(Some(upstream), prefix, &[]);
    let ended =
        whole.events[..whole.before_finish].iter().any(|event| event.body == callweave::event::Body::End);
    if ended || end == End::Fail {
        return ended;
    }
    let intact = decode_cut(Some(upstream), intact(prefix), &[]);
    let finished = |message: &Message| {
        let raw =
            |choice: &callweave::message::Choice| choice.finish.as_ref().is_some_and(|it| it.raw.is_some());
        !message.choices.is_empty() && message.choices.iter().any(raw)
    };
    intact.messages.first().is_some_and(finished)
}

/// The bytes up to the end of the last frame whose JSON is complete.
fn intact(prefix: &[u8]) -> &[u8] {
    let mut end = prefix.len();
    loop {
        let line_start = prefix[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = prefix[line_start..end].trim_ascii();
        let data = line.strip_prefix(b"data:").unwrap_or(line).trim_ascii();
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
        if line.is_empty() || is_json || data == b"[DONE]" || line_start == 0 {
            return match is_json || line_start > 0 || line.is_empty() {
                true => &prefix[..end],
                false => &[],
            };
        }
        end = line_start - 1;
    }
}
