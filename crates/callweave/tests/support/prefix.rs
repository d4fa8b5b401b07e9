//! The law of prefixes: a response that breaks off is an error for the client, never a success that looks complete.

use callweave::event::NoticeCode;
use callweave::message::Message;
use callweave::protocol::Protocol;

use super::driver::{Client, End, Got};
use super::laws::decode_truncated;

/// Returns the fault of a client's response to a prefix of an upstream's.
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
    // Lines that were damaged before they were relayed may hide the error from this reader, but not from one of lines.
    let last = got.body.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_last =
        serde_json::from_slice::<serde_json::Value>(last).is_ok_and(|last| last.get("error").is_some());
    let is_marked = message.error().is_some() || is_last;
    if got.error.is_some() && !is_marked {
        return Err("an error that the client does not get");
    }
    if got.error.is_some() && !client.is_streamed {
        return Err("an error with the status of success");
    }
    if got.error.is_some() && !has_content(&decode_truncated(Some(upstream), prefix, &[]).messages) {
        return Err("a failure before any content, with the status of success");
    }
    match is_complete(upstream, prefix, end) {
        false if !is_marked => Err("a success, though the upstream broke off"),
        _ => Ok(()),
    }
}

/// Whether the first response says anything.
fn has_content(messages: &[Message]) -> bool {
    let choices = messages.first().map(|message| &message.choices[..]).unwrap_or_default();
    choices.iter().any(|choice| !choice.blocks.is_empty())
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
/// completely; or it is one complete body. A connection that fails later makes an error of a response without its end
/// marker.
pub(crate) fn is_complete(upstream: &'static Protocol, prefix: &[u8], end: End) -> bool {
    let whole = decode_truncated(Some(upstream), prefix, &[]);
    let ended = whole.events[..whole.before_finish]
        .iter()
        .any(|event| event.body == callweave::event::EventKind::End);
    if ended || end == End::Fail {
        return ended;
    }
    let is_body = serde_json::from_slice::<serde::de::IgnoredAny>(prefix).is_ok();
    let is_broken =
        |message: &Message| message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
    if is_body && whole.messages.first().is_some_and(|message| !is_broken(message)) {
        return true;
    }
    let intact = intact(prefix);
    if intact.trim_ascii_end().ends_with(b"[DONE]") {
        return true;
    }
    let intact = decode_truncated(Some(upstream), intact, &[]);
    let finished = |message: &Message| {
        let raw =
            |choice: &callweave::message::Choice| choice.finish.as_ref().is_some_and(|it| it.raw.is_some());
        !message.choices.is_empty() && message.choices.iter().any(raw)
    };
    intact.messages.first().is_some_and(finished)
}

/// The bytes up to the end of the last frame whose JSON is complete. Binary frames have a checksum, and are read only if
/// they came completely.
fn intact(prefix: &[u8]) -> &[u8] {
    if prefix.first() == Some(&0) {
        return prefix;
    }
    let mut end = prefix.len();
    loop {
        let line_start = prefix[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = prefix[line_start..end].trim_ascii();
        let data = line.strip_prefix(b"data:").unwrap_or(line).trim_ascii();
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
        let is_marker = data == b"[DONE]";
        if line.is_empty() || is_json || is_marker || line_start == 0 {
            return match is_json || is_marker || line_start > 0 || line.is_empty() {
                true => &prefix[..end],
                false => &[],
            };
        }
        end = line_start - 1;
    }
}
