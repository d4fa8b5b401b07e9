//! Gemini generateContent, as its clients expect it.

use std::collections::BTreeSet;

use callweave::encode::EncodeOptions;
use callweave::event::{FinishReason, NoticeCode};
use callweave::framing::Framing;
use callweave::message::Message;
use serde_json::Value;

use super::{Calls, Ending, Over, Wire};
use crate::laws::decode_truncated;
use crate::samples::{Sample, samples};

pub(super) const WIRE: Wire = Wire {
    name: "gemini-generatecontent",
    model: "m",
    walk,
    check_whole,
    finish,
    over: Over::AllReasons,
    calls: Calls::Whole,
};

/// Calls are no reason of their own here; a blocked prompt has reasons of its own.
fn finish(reason: FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => &["STOP"],
        FinishReason::Length => &["MAX_TOKENS"],
        FinishReason::ContentFilter => FILTERS,
        FinishReason::Error => {
            &["OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"]
        }
        FinishReason::Other => &["FINISH_REASON_UNSPECIFIED"],
        reason => panic!("no word is known for the reason {reason}"),
    }
}

const FILTERS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
];

fn check_whole(body: &Value) -> Result<Ending, String> {
    walk(format!("data: {body}\n\n").as_bytes())
}

/// The words of the SDKs' enumeration.
const FINISH: &[&str] = &[
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "IMAGE_PROHIBITED_CONTENT",
    "NO_IMAGE",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "MODEL_ARMOR",
];

/// The members of which a part has one.
const CONTENTS: &[&str] = &[
    "text",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "inlineData",
    "fileData",
];

fn walk(stream: &[u8]) -> Result<Ending, String> {
    let stream = std::str::from_utf8(stream).map_err(|_| "not UTF-8")?;
    let mut finished = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let (mut has_failed, mut is_counted, mut is_blocked) = (false, false, false);
    for frame in stream.split_terminator("\n\n") {
        let data = frame.strip_prefix("data: ").ok_or_else(|| format!("no data: {frame}"))?;
        let chunk: Value = serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))?;
        let fail = |why: &str| Err(format!("{why}: {chunk}"));
        if has_failed {
            return fail("something after an error");
        }
        if let Some(error) = chunk.get("error") {
            has_failed = true;
            if !(error["code"].is_u64() && error["message"].is_string() && error["status"].is_string()) {
                return fail("an error without its members");
            }
        }
        is_blocked |= chunk.get("promptFeedback").is_some();
        let is_named = chunk.get("error").is_none();
        if is_named && !(chunk["modelVersion"].is_string() && chunk["responseId"].is_string()) {
            return fail("a chunk without names");
        }
        for candidate in chunk["candidates"].as_array().into_iter().flatten() {
            let Some(index) = candidate["index"].as_u64() else { return fail("a candidate without number") };
            seen.insert(index);
            if finished.contains(&index) {
                return fail("a candidate that is finished");
            }
            if let Some(word) = candidate.get("finishReason") {
                finished.insert(index);
                if !candidate["content"]["parts"].is_array() {
                    return fail("a last chunk whose parts cannot be walked");
                }
                if !word.as_str().is_some_and(|word| FINISH.contains(&word)) {
                    return fail("an unknown reason to finish");
                }
            }
            let Some(content) = candidate.get("content") else { continue };
            if content["role"] != "model" {
                return fail("a role");
            }
            let Some(parts) = content["parts"].as_array() else { return fail("no parts") };
            for part in parts {
                check_part(part).map_err(|why| format!("{why}: {chunk}"))?;
            }
        }
        if chunk.get("usageMetadata").is_some() {
            is_counted = true;
        } else if is_counted && chunk["candidates"][0].get("finishReason").is_some() {
            return fail("the last chunk does not count");
        }
        for count in chunk["usageMetadata"].as_object().into_iter().flat_map(|usage| usage.iter()) {
            if count.0.ends_with("TokenCount") && !count.1.is_u64() {
                return fail("a count that is none");
            }
        }
    }
    match () {
        () if has_failed => Ok(Ending::Failed),
        // A prompt that is blocked has no candidate.
        () if !is_blocked && (seen.is_empty() || finished != seen) => Ok(Ending::Truncated),
        () => Ok(Ending::Whole),
    }
}

fn check_part(part: &Value) -> Result<(), String> {
    let Some(members) = part.as_object() else { return Ok(()) };
    let contents = members.keys().filter(|key| CONTENTS.contains(&key.as_str())).count();
    if contents != 1 {
        return Err(format!("{contents} contents in a part"));
    }
    if members.contains_key("thought") && !part["text"].is_string() {
        return Err("a thought that is no text".to_owned());
    }
    if let Some(call) = part.get("functionCall")
        && !(call["id"].is_string() && call["name"].is_string() && call["args"].is_object())
    {
        return Err("a call without its members".to_owned());
    }
    Ok(())
}

/// A stream that was not asked for as server-sent events is one array, which ends with the response.
#[test]
fn the_same_chunks_are_the_elements_of_an_array() {
    let framed = WIRE.options().framing(Framing::JsonValues);
    for Sample { title, protocol, bytes, .. } in &samples() {
        let decoded = decode_truncated(Some(protocol), bytes, &[]);
        // Several responses are several arrays.
        if decoded.error.is_some() || decoded.messages.len() > 1 {
            continue;
        }
        let write = |options: &EncodeOptions| {
            let mut encoder = WIRE.protocol().encoder(options).expect("Gemini is written");
            let mut out = Vec::new();
            decoded.events.iter().for_each(|event| encoder.encode(event, &mut out));
            String::from_utf8(out).expect("UTF-8")
        };
        let (array, stream) = (write(&framed), write(&WIRE.options()));
        let is_complete = serde_json::from_str::<Vec<Value>>(&array).is_ok();
        let is_truncated = decoded.message.notices.iter().any(|notice| notice.code == NoticeCode::Truncated);
        assert_eq!(is_complete, !is_truncated, "{title}: {array}");
        let [one, other] =
            [&array, &stream].map(|text| decode_truncated(Some(WIRE.protocol()), text.as_bytes(), &[]));
        assert_eq!(one.message.choices, other.message.choices, "{title}: {array}");
    }
}

/// A Gemini client that gets a Gemini response must send its signatures back, each with its own part.
#[test]
fn signatures_stay_on_their_parts() {
    let signed = |message: &Message| -> Vec<String> {
        let blocks = message.choices.iter().flat_map(|choice| &choice.blocks);
        let signed = blocks.filter(|block| !block.attachments.is_empty());
        signed.map(|block| format!("{:?} {:?}", block.content, block.attachments)).collect()
    };
    let mut count = 0;
    for Sample { title, protocol, bytes, .. } in samples().iter().filter(|own| own.protocol.name == WIRE.name)
    {
        let decoded = decode_truncated(Some(protocol), bytes, &[]);
        for (stream, message) in WIRE.streams(&decoded.events).iter().zip(&decoded.messages) {
            let mut whole = Vec::new();
            assert!(protocol.encode_body(message, &WIRE.options(), &mut whole));
            count += signed(message).len();
            for bytes in [&stream.bytes, &whole] {
                let read = decode_truncated(Some(protocol), bytes, &[]).message;
                // Made ids are given to clients.
                let [one, other] = [message, &read].map(|message| signed(message).join("\n"));
                let [one, other] =
                    [one, other].map(|text| text.replace("has_made_id: true", "has_made_id: false"));
                assert_eq!(one, other, "{title}");
            }
        }
    }
    assert!(count > 10, "{count} signatures");
}
