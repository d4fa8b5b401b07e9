//! Whether a response is as it should be: the one place that decides about exit codes.

use callweave::dialect::Extraction;
use callweave::event::{BlockCompletion, CallKind, FinishReason, Notice, NoticeCode};
use callweave::json::repair::{RepairVerdict, repair};
use callweave::message::{Choice, Message};
use callweave::protocol::Protocol;
use callweave::upstream::{ErrorClass, UpstreamError};

use crate::report::line_of;

/// The advice for input that cannot be detected.
pub(crate) const ADVICE: &str =
    "if it is a model's text, try callweave extract; if it is a response, name its protocol with --protocol";

/// Returns the reasons why a response cannot be relied on as it is: an error of the upstream, the end missing, damage,
/// a call that cannot be run. In words, the gravest first; none if all is well.
pub(crate) fn of_message(message: &Message, protocol: Option<&Protocol>) -> Option<String> {
    let errors = message.errors.iter().map(|error| of_error(error, protocol));
    let calls = message.choices.iter().flat_map(Choice::tool_calls);
    // Calls that the provider ran itself are not ours to run.
    let calls = calls.filter(|call| call.kind != CallKind::Builtin).filter_map(|call| {
        let invalid = call.invalid()?;
        let advice = match repair(call.arguments()).verdict {
            RepairVerdict::Repaired => "; --repair fixes it",
            _ => "",
        };
        Some(format!("a call cannot be used: {}{advice}", invalid.detail))
    });
    let calls: Vec<_> = calls.collect();
    // A damaged call that is present reports it itself; the notice is for one that is absent.
    let is_told = |notice: &&Notice<'_>| {
        let codes = [NoticeCode::MalformedCall, NoticeCode::UnknownTool, NoticeCode::SchemaMismatch];
        !calls.is_empty() && codes.contains(&notice.code)
    };
    let notices: Vec<_> = message.notices.iter().filter(|notice| !is_told(notice)).collect();
    told(errors.chain(of_finish(message)).chain(of_notices(&notices)).chain(calls))
}

/// The same of what was found in a text.
pub(crate) fn of_extraction(found: &Extraction) -> Option<String> {
    let calls = found.calls.iter().filter_map(|call| match call.completion {
        BlockCompletion::Truncated => Some(format!("the call of {} was cut off", call.name)),
        BlockCompletion::AfterDamage => Some(format!(
            "a call cannot be used: that of {} stands behind a damaged one, and may be a part of it",
            call.name
        )),
        _ if call.object().is_err() => {
            Some(format!("a call cannot be used: the arguments of {} are not a JSON object", call.name))
        }
        _ => None,
    });
    let notices: Vec<_> = found.notices.iter().collect();
    told(calls.chain(of_notices(&notices)))
}

fn of_error(error: &UpstreamError<'_>, protocol: Option<&Protocol>) -> String {
    let text = line_of(&error.message);
    // Text in the place of a response may be anything, unless a status says what it is.
    if protocol.is_none() && error.status.is_none() && error.raw.as_str().starts_with('"') {
        return format!(
            "this is no response in a known protocol, perhaps an error in words: {text}; {ADVICE}"
        );
    }
    let class = (error.class != ErrorClass::Other).then(|| error.class.to_string());
    let wait = error.retry_after.map(|wait| format!("retry after {wait:?}"));
    let facts: Vec<_> = class.into_iter().chain(wait).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    match error.status {
        Some(status) => format!("the upstream answered with status {status}{facts}: {text}"),
        None => format!("the upstream answered with an error{facts}: {text}"),
    }
}

/// A response that says itself that it failed, or that a limit ended it.
fn of_finish(message: &Message) -> Option<String> {
    match message.finish_reason() {
        Some(FinishReason::Error) if message.error().is_none() => {
            message.clone().into_result().err().map(|error| error.to_string())
        }
        // A response that the provider itself calls finished may be empty.
        Some(FinishReason::Other)
            if message.notices.iter().any(|notice| notice.code == NoticeCode::Empty) =>
        {
            Some("the response is empty".to_owned())
        }
        Some(FinishReason::Length) => {
            Some("the response was cut off: a limit on its length ended it".to_owned())
        }
        _ => None,
    }
}

/// Returns the losses and damages, each kind once.
fn of_notices(notices: &[&Notice<'_>]) -> impl Iterator<Item = String> {
    let kinds = [
        (NoticeCode::Truncated, "the response was cut off"),
        (NoticeCode::MalformedFrame, "a frame is damaged"),
        (NoticeCode::InvalidUtf8, "the input is damaged"),
        (NoticeCode::LateFragment, "something came too late"),
        (NoticeCode::MalformedCall, "a call is damaged"),
        (NoticeCode::UnknownTool, "a call cannot be used"),
        (NoticeCode::SchemaMismatch, "a call cannot be used"),
    ];
    kinds.into_iter().filter_map(|(code, words)| {
        let mut found = notices.iter().filter(|notice| notice.code == code);
        let first = found.next()?;
        let more = match found.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!("{words}: {}{more}", line_of(&first.detail)))
    })
}

/// The gravest problem, and how many there are beside it.
fn told(mut problems: impl Iterator<Item = String>) -> Option<String> {
    let first = problems.next()?;
    Some(match problems.count() {
        0 => first,
        1 => format!("{first} (and 1 problem more)"),
        more => format!("{first} (and {more} problems more)"),
    })
}
