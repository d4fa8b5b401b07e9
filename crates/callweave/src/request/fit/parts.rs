//! Parts of messages that a provider would refuse.

use std::collections::VecDeque;

use crate::json::Value;
use crate::request::limits::{MediaRoles, ReplayedReasoning};
use crate::request::{
    CallKind, CallResult, ContentForm, ContentPart, LossList, Media, MediaKind, MediaSource, MessageContent,
    PartKind, ProviderLimits, ProviderSeal, Request, RequestMessage, RequestReasoning, RetainedFields, Role,
    kind_of, parse_data_url, type_of_data, type_of_name,
};

/// Repairs or drops parts that the provider would refuse.
pub(super) fn normalize_parts(
    request: &mut Request,
    protocol: &str,
    limits: &ProviderLimits,
    losses: &mut LossList,
) {
    // Processed messages go behind unprocessed ones, in the same memory.
    let mut messages = VecDeque::from(std::mem::take(&mut request.messages));
    // Media that the user shows for other roles, as soon as all results are written.
    let mut shown: Vec<ContentPart> = Vec::new();
    let mut is_blank_left = false;
    for number in 0..messages.len() {
        let Some(mut message) = messages.pop_front() else { break };
        losses.at(format_args!("messages[{number}]"));
        if message.role != Role::Tool {
            show(&mut shown, &mut messages);
        }
        let was_empty = message.content.is_empty();
        let has_calls = message.content.parts.iter().any(|part| matches!(part.body, PartKind::Call(_)));
        if has_calls {
            // Some servers refuse an empty text beside calls, and none needs it.
            message.content.parts.retain(|part| part.as_text() != Some(""));
        }
        drop_doubled_reasoning(&mut message);
        if let Some(issuer) = limits.signs_calls {
            sign_first_call(&mut message.content.parts, protocol, issuer, limits.unsigned);
        }
        if let ReplayedReasoning::Signed(_) = limits.replayed_reasoning {
            think_first(&mut message.content.parts);
        }
        if limits.speaks_first {
            message.content.parts.sort_by_key(|part| matches!(part.body, PartKind::Call(_)));
        }
        message.content.parts.retain(|part| can_be_written(part, protocol, limits, losses));
        for part in &mut message.content.parts {
            normalize_part(part);
            if !limits.takes_documents {
                report_document(part, losses);
            }
            let PartKind::Result(result) = &mut part.body else { continue };
            let is_object = result.value.as_ref().is_some_and(Value::is_object);
            if !limits.takes_object_results || result.kind == CallKind::Builtin || !is_object {
                emit_value(result);
            }
            result.content.parts.retain(|part| match &part.body {
                PartKind::Media(_) => can_be_written(part, protocol, limits, losses),
                _ => true,
            });
            for part in &mut result.content.parts {
                normalize_part(part);
                if !limits.takes_documents {
                    report_document(part, losses);
                }
                emit_opaque(part, protocol, losses);
            }
            if !limits.takes_rich_results && result.content.parts.iter().any(is_media) {
                let (others, rich): (Vec<ContentPart>, Vec<ContentPart>) =
                    std::mem::take(&mut result.content.parts).into_iter().partition(|part| !is_media(part));
                result.content.parts = others;
                shown.extend(rich);
            }
            if !limits.takes_blank_text {
                result.content.parts.retain(|part| !is_blank(part));
            }
            if result.content.is_empty() && result.value.is_none() {
                if !limits.takes_blank_text {
                    losses.put("empty result");
                }
                result.content =
                    MessageContent::text(if limits.takes_blank_text { "" } else { "(no output)" });
            }
        }
        let can_show = match message.role {
            Role::User | Role::Tool => true,
            Role::Assistant => limits.media == MediaRoles::Anyone,
            Role::System | Role::Developer => limits.media != MediaRoles::User,
        };
        if !can_show && message.content.parts.iter().any(is_media) {
            let (media, others): (Vec<ContentPart>, Vec<ContentPart>) =
                std::mem::take(&mut message.content.parts).into_iter().partition(is_media);
            message.content.parts = others;
            losses.put("speaker of an image");
            shown.extend(media);
        }
        if !limits.takes_blank_text {
            message.content.parts.retain(|part| !is_blank(part));
        }
        let is_told = |part: &ContentPart| matches!(part.body, PartKind::Reasoning(_));
        if has_calls && limits.fills_reasoning && !message.content.parts.iter().any(is_told) {
            let reasoning = RequestReasoning { text: Some(" ".to_owned()), ..RequestReasoning::default() };
            message.content.parts.insert(0, ContentPart::new(reasoning));
        }
        if !message.content.is_empty() || was_empty && limits.takes_blank_text {
            messages.push_back(message);
        } else if !was_empty {
            is_blank_left |= message.role == Role::User;
            losses.put("blank message");
        }
    }
    show(&mut shown, &mut messages);
    // A conversation without any content would be refused.
    if messages.is_empty() && is_blank_left {
        messages.push_back(RequestMessage::new(Role::User, MessageContent::text("(no text)")));
    }
    request.messages = messages.into();
    if !limits.takes_blank_text {
        request.instructions.parts.retain(|part| !is_blank(part));
    }
}

fn show(shown: &mut Vec<ContentPart>, messages: &mut VecDeque<RequestMessage>) {
    if !shown.is_empty() {
        let parts = std::mem::take(shown);
        messages.push_back(RequestMessage::new(Role::User, MessageContent { parts, form: ContentForm::Any }));
    }
}

/// Whether it is media.
fn is_media(part: &ContentPart) -> bool {
    matches!(&part.body, PartKind::Media(media) if !matches!(media.source, MediaSource::Text(_)))
}

/// Signs the first of all calls of a step. Gateways hand the signature on with the reasoning before it.
fn sign_first_call(
    parts: &mut [ContentPart],
    protocol: &str,
    issuer: &'static str,
    unsigned: Option<&'static str>,
) {
    let is_loose = |part: &ContentPart| {
        matches!(part.body, PartKind::Reasoning(_))
            && part.retained.protocol() != Some(protocol)
            && is_kept_complete(part)
            && part.signature.as_ref().is_some_and(|seal| seal.is_of(issuer))
    };
    let Some(call) = parts.iter().position(|part| matches!(part.body, PartKind::Call(_))) else { return };
    if let Some(reasoning) = parts.iter().position(is_loose)
        && parts[call].signature.is_none()
    {
        parts[call].signature = parts[reasoning].signature.take();
    }
    if !parts[call].signature.as_ref().is_some_and(|seal| seal.is_of(issuer))
        && let Some(unsigned) = unsigned
    {
        parts[call].signature = Some(ProviderSeal::new(issuer, unsigned));
    }
}

/// Puts reasoning before the parts that it leads to, up to the next call.
fn think_first(parts: &mut [ContentPart]) {
    let is_call = |part: &ContentPart| matches!(part.body, PartKind::Call(_));
    for step in parts.split_inclusive_mut(is_call) {
        step.sort_by_key(|part| !matches!(part.body, PartKind::Reasoning(_)));
    }
}

/// Drops duplicates: gateways send reasoning twice, as text and with its signatures.
fn drop_doubled_reasoning(message: &mut RequestMessage) {
    let is_sealed = |part: &ContentPart| match &part.body {
        PartKind::Reasoning(reasoning) => part.signature.is_some() || reasoning.encrypted.is_some(),
        _ => false,
    };
    let is_told = |part: &ContentPart| match &part.body {
        PartKind::Reasoning(reasoning) => reasoning.text.as_ref().is_some_and(|text| !text.is_empty()),
        _ => false,
    };
    let is_bare = |part: &ContentPart| matches!(part.body, PartKind::Reasoning(_)) && part.is_plain();
    let parts = &mut message.content.parts;
    if parts.iter().any(|part| is_sealed(part) && is_told(part) && is_kept_complete(part)) {
        parts.retain(|part| !is_bare(part) || is_sealed(part));
    }
}

/// Whether a gateway sends it beside the content, or completely in it.
fn is_kept_complete(part: &ContentPart) -> bool {
    part.retained.any().is_some_and(|members| members.contains_key("type") || members.contains_key(""))
}

/// Whether the provider takes such a part at all.
fn can_be_written(
    part: &ContentPart,
    protocol: &str,
    limits: &ProviderLimits,
    losses: &mut LossList,
) -> bool {
    let is_own = part.retained.protocol() == Some(protocol);
    match &part.body {
        PartKind::Media(media) if !can_be_reached(media, limits) => {
            losses.put(format!("{:?} by url", media.kind).to_lowercase());
            false
        }
        PartKind::Opaque(word) => {
            if !is_own {
                losses.put(format!("{word} of {}", part.retained.protocol().unwrap_or("nobody")));
                for path in part.retained.malformed() {
                    losses.refuse(format!("malformed {path} of {word}"));
                }
            }
            is_own
        }
        PartKind::Reasoning(reasoning) => {
            let mut texts = reasoning.text.iter().chain(reasoning.summary.iter().flatten());
            let has_text = texts.any(|text| !text.is_empty());
            let is_told = match limits.replayed_reasoning {
                ReplayedReasoning::Never => false,
                ReplayedReasoning::Plain => {
                    let is_replayed =
                        limits.replays.is_some_and(|issuer| is_sealed_by(part, reasoning, issuer));
                    if has_text && reasoning.encrypted.is_some() && !is_replayed {
                        losses.put("encrypted reasoning");
                    }
                    has_text || is_replayed
                }
                ReplayedReasoning::Signed(issuer) => is_sealed_by(part, reasoning, issuer),
                ReplayedReasoning::Encrypted(issuer) => {
                    is_own || reasoning.encrypted.as_ref().is_some_and(|seal| seal.is_of(issuer))
                }
            };
            if !is_told {
                losses.put(if has_text { "reasoning of another provider" } else { "encrypted reasoning" });
            }
            is_told
        }
        _ => true,
    }
}

/// Addresses in the storage of one provider are no addresses for others.
fn can_be_reached(media: &Media, limits: &ProviderLimits) -> bool {
    const BUCKETS: &[&str] = &["s3://", "gs://"];
    let MediaSource::Url(url) = &media.source else { return true };
    let bucket = BUCKETS.iter().find(|bucket| url.starts_with(**bucket));
    bucket.is_none_or(|bucket| limits.bucket == Some(*bucket))
}

fn is_sealed_by(part: &ContentPart, reasoning: &RequestReasoning, issuer: &str) -> bool {
    [&part.signature, &reasoning.encrypted].into_iter().flatten().any(|seal| seal.is_of(issuer))
}

fn is_blank(part: &ContentPart) -> bool {
    matches!(&part.body, PartKind::Text(text) if text.trim().is_empty())
}

fn normalize_part(part: &mut ContentPart) {
    if matches!(part.body, PartKind::Reasoning(_)) && is_kept_complete(part) {
        // It was kept completely, and is written already.
        part.retained = RetainedFields::default();
    }
    let PartKind::Media(media) = &mut part.body else { return };
    if let MediaSource::Url(url) = &media.source
        && let Some((media_type, data)) = parse_data_url(url)
    {
        media.media_type = Some(media_type.to_owned());
        media.source = MediaSource::Data(data.to_owned());
    }
    // Some clients put the address where the data belongs.
    if let MediaSource::Data(data) = &media.source
        && ["https://", "http://"].iter().any(|start| data.starts_with(start))
    {
        media.source = MediaSource::Url(data.clone());
    }
    if let MediaSource::Data(data) = &mut media.source {
        to_usual_base64(data);
    }
    let is_vague = media.media_type.as_deref().is_none_or(|own| own == "application/octet-stream");
    // Without a media type, the first bytes of the data determine it.
    if let MediaSource::Data(data) = &media.source
        && is_vague
        && let Some(media_type) = type_of_data(data)
    {
        media.media_type = Some(media_type.to_owned());
    }
    let is_vague =
        is_vague && media.media_type.as_deref().is_none_or(|own| own == "application/octet-stream");
    if is_vague && let Some(media_type) = media.name.as_deref().and_then(type_of_name) {
        media.media_type = Some(media_type.to_owned());
    }
    // Some clients put documents where images belong.
    if media.kind == MediaKind::Image
        && let Some(media_type) = &media.media_type
    {
        media.kind = kind_of(media_type);
    }
    if media.media_type.as_deref() == Some("image/jpg") {
        media.media_type = Some("image/jpeg".to_owned());
    }
}

/// A document that is text, as text.
fn report_document(part: &mut ContentPart, losses: &mut LossList) {
    let PartKind::Media(media) = &mut part.body else { return };
    let MediaSource::Text(text) = &mut media.source else { return };
    losses.put("form of a document");
    if media.name.is_some() {
        losses.put("title of a document");
    }
    part.body = PartKind::Text(std::mem::take(text));
}

/// Google's clients write the URL-safe alphabet, which nobody else reads.
fn to_usual_base64(data: &mut String) {
    if !data.contains(['-', '_']) {
        return;
    }
    *data = data.replace('-', "+").replace('_', "/");
    if data.len() % 4 > 1 {
        data.push_str(&"=="[data.len() % 4 - 2..]);
    }
}

/// Writes the part of a result that only another protocol has as text: the model can read it.
fn emit_opaque(part: &mut ContentPart, protocol: &str, losses: &mut LossList) {
    let PartKind::Opaque(word) = &part.body else { return };
    let Some(own) = part.retained.protocol().filter(|own| *own != protocol) else { return };
    losses.put(format!("form of {word} of {own}"));
    let value = std::mem::take(&mut part.retained).into_complete(own).unwrap_or_default();
    part.body = PartKind::Text(value.to_string());
}

/// Writes a result that is an object as text. An object that only wraps a text becomes that text.
pub(crate) fn emit_value(result: &mut CallResult) {
    let Some(value) = result.value.take() else { return };
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let wrapped =
                ["output", "result", "content", "error"].iter().find_map(|key| members[*key].as_str());
            wrapped.filter(|_| members.len() == 1).map_or_else(|| value.to_string(), str::to_owned)
        }
        value => value.to_string(),
    };
    result.content.parts.insert(0, ContentPart::text(text));
}
