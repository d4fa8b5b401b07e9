//! The error classes of codes, statuses and messages, from any provider.

use std::time::Duration;

use super::ErrorClassNames;
use crate::protocol::TABLE;
use crate::upstream::ErrorClass;

/// Codes of many providers and servers, [folded](fold).
const CODES: &[(ErrorClass, &str)] = &[
    (
        ErrorClass::Authentication,
        "invalidauthentication invalidtoken expiredtoken tokenexpired unrecognizedclient",
    ),
    (
        ErrorClass::Permission,
        "forbidden notauthorized insufficientbalance insufficientcredits paymentrequired \
         billinghardlimitreached accountdeactivated unsupportedcountryregionterritory",
    ),
    (
        ErrorClass::RateLimit,
        "ratelimitreached toomanyrequests throttled requestlimitexceeded quotaexceeded tokenquotaexceeded \
         exceededcurrentquota",
    ),
    (
        ErrorClass::Overloaded,
        "engineoverloaded serverbusy serviceisunavailable modelloading capacityexceeded \
         servicetiercapacityexceeded queueexceeded",
    ),
    (
        ErrorClass::InvalidRequest,
        "invalidparameter invalidvalue invalidinput unprocessableentity contentpolicyviolation methodnotallowed \
         unsupportedmediatype",
    ),
    (
        ErrorClass::ContextTooLong,
        "prompttoolong requestentitytoolarge payloadtoolarge contenttoolarge contextlength",
    ),
    (ErrorClass::NotFound, "modelnotavailable gone"),
    (ErrorClass::Server, "internalfailure badgateway"),
    (ErrorClass::Transport, "requesttimeout gatewaytimeout apitimeout apiconnection clientclosedrequest"),
];

/// Phrases of messages, in lower case; the first that is found counts. Only used where no other evidence gives a class.
///
/// Rates come first, since their messages mention tokens, too; then phrases for [overflows](is_overflow).
const TEXTS: &[(ErrorClass, &[&str])] = &[
    (
        ErrorClass::RateLimit,
        &[
            "rate limit",
            "rate-limit",
            "ratelimit",
            "too many requests",
            "per minute",
            "per hour",
            "per day",
            "per second",
            "/ minute",
            "/min",
            "concurrency",
            "throttl",
            "wait before",
            "high traffic",
            "resource exhausted",
            "resource has been exhausted",
            "quota exceeded",
        ],
    ),
    (
        ErrorClass::Permission,
        &[
            "credit balance",
            "insufficient balance",
            "insufficient credits",
            "included credits",
            "any credits",
            "exceeded your current quota",
            "access denied",
            "permission denied",
            "not authorized to",
            "not have access",
        ],
    ),
    (
        ErrorClass::Authentication,
        &[
            "invalid api key",
            "incorrect api key",
            "api key not valid",
            "provide an api key",
            "unauthorized",
            "authentication token",
            "security token",
            "authentication fail",
            "authentication credentials",
            "invalid api token",
            "bad credentials",
            "login fail",
        ],
    ),
    (
        ErrorClass::Overloaded,
        &[
            "overloaded",
            "loading model",
            "currently loading",
            "is busy",
            "too busy",
            "at capacity",
            "capacity exceeded",
            "temporarily unavailable",
            "service unavailable",
            "unable to process your request",
            "is not ready",
            "not ready yet",
        ],
    ),
    (
        ErrorClass::NotFound,
        &[
            "model not found",
            "' not found",
            "not a valid model",
            "no such model",
            "try pulling it",
            "model does not exist",
        ],
    ),
    (
        ErrorClass::Transport,
        &[
            "timed out",
            "connection reset",
            "connection refused",
            "connection closed",
            "stream disconnected",
            "upstream connect error",
            "socket hang up",
            "connection error",
            "deadline expired",
            "invocation_timeout",
        ],
    ),
    (
        ErrorClass::InvalidRequest,
        &[
            "validation error",
            "invalid param",
            "field required",
            "bad request",
            "not permitted",
            "must be followed by",
            "content management policy",
            "inappropriate content",
            "is not supported",
            "isn't supported",
            "isn’t supported",
        ],
    ),
    (
        ErrorClass::Server,
        &[
            "internal error",
            "internal server error",
            "unexpected error",
            "system memory",
            "out of memory",
            "upstream error",
        ],
    ),
];

/// Returns the class of a code: by the names of its own protocol, of the others (servers pass on codes of their
/// upstreams), or by common codes.
pub(super) fn by_code(own: &ErrorClassNames, code: &str) -> Option<ErrorClass> {
    let folded = fold(code);
    let all = TABLE.iter().flat_map(|protocol| protocol.errors);
    if let Some((_, class)) = own.iter().chain(all).find(|(word, _)| fold(word) == folded) {
        return Some(*class);
    }
    let of_many = CODES.iter().find(|(_, words)| words.split(' ').any(|word| word == folded));
    // Other gateways of our kind may have put the class beside names of their own.
    let neutral = || ErrorClass::ALL.into_iter().find(|class| fold(class.name()) == folded);
    of_many.map(|(class, _)| *class).or_else(neutral).filter(|class| *class != ErrorClass::Other)
}

/// Returns a code without the differences between providers: `com.amazon#ThrottlingException:http://…`,
/// `RateLimitError`, `rate_limit_error` and `Rate limit` differ by no more than that.
fn fold(code: &str) -> String {
    let name = code.split(':').next().unwrap_or_default();
    let name = name.rsplit(['#', '/']).next().unwrap_or_default();
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let folded: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    let bare = folded.strip_suffix("exception").or(folded.strip_suffix("error")).map(str::to_owned);
    bare.unwrap_or(folded)
}

/// Whether the number is the HTTP status of a failure, and not just any number of that size.
pub(super) fn is_status(number: u16) -> bool {
    matches!(number, 400..=431 | 451 | 498 | 499 | 500..=511 | 520..=530 | 598 | 599)
}

/// Returns the class of an HTTP status.
pub(super) fn by_status(status: u16) -> Option<ErrorClass> {
    Some(match status {
        401 | 407 => ErrorClass::Authentication,
        402 | 403 | 451 => ErrorClass::Permission,
        404 | 410 => ErrorClass::NotFound,
        // The last ones are from a proxy that did not reach the server behind it.
        408 | 499 | 504 | 520..=527 | 598 | 599 => ErrorClass::Transport,
        // A lock, a model or a service that the provider itself waited for; clients try again.
        409 | 424 | 425 => ErrorClass::Server,
        413 => ErrorClass::ContextTooLong,
        429 => ErrorClass::RateLimit,
        // 498 is from Groq: its flexible tier has no capacity left.
        503 | 498 | 529 => ErrorClass::Overloaded,
        400..=499 => ErrorClass::InvalidRequest,
        500..=599 => ErrorClass::Server,
        _ => return None,
    })
}

/// Returns the class of a code beside a more specific status: a provider reports a model without permission as not
/// found.
pub(super) fn by_code_and_status(
    own: &ErrorClassNames,
    code: &str,
    status: Option<u16>,
) -> Option<ErrorClass> {
    let class = by_code(own, code)?;
    let is_hidden = class == ErrorClass::NotFound && status == Some(403) && fold(code).contains("model");
    Some(if is_hidden { ErrorClass::Permission } else { class })
}

/// Returns the class of a message, if it is plain enough.
pub(super) fn by_text(message: &str) -> Option<ErrorClass> {
    let message = message.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    let (rates, others) = TEXTS.split_first()?;
    if says(rates.1) {
        return Some(rates.0);
    }
    if is_overflow(&message) {
        return Some(ErrorClass::ContextTooLong);
    }
    let named = others.iter().find(|(_, texts)| says(texts)).map(|(class, _)| *class);
    // A message with a time to wait, and no other evidence, means a rate limit.
    named.or_else(|| wait(&message).map(|_| ErrorClass::RateLimit))
}

/// Phrases that each say that the request is too long.
const OVERFLOWS: &[&str] = &[
    "context length exceeded",
    "context size",
    "context limit",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "messages is too long",
    "too many tokens",
    "reduce the length of the",
    "range of input length",
];

/// The things that may be too long, their units, and the phrases for too long.
const TOO_LONG: [&[&str]; 3] = [
    &["prompt", "input", "context", "request", "message", "conversation"],
    &["token", "context length", "context window", "context size"],
    &[
        "exceed",
        "too long",
        "longer than",
        "maximum",
        "max context",
        "limit",
        "must be <",
        "overflow",
        "at most",
        "too large",
    ],
];

/// Whether the message says that a request has more tokens than the model takes. Limits of the response are another
/// case.
fn is_overflow(message: &str) -> bool {
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    let is_of_response =
        says(&["completion tokens", "output tokens", "max_tokens is too", "max_completion_tokens is too"]);
    says(OVERFLOWS) || !is_of_response && TOO_LONG.iter().all(|texts| says(texts))
}

/// The phrases before a time to wait.
const WAITS: [&str; 7] =
    ["again in ", "again after ", "retry in ", "retry after ", "wait ", "resets in ", "reset in "];

/// Returns the wait in a message: `Please try again in 6m0s`, `wait 9 seconds before retrying`.
pub(super) fn wait(message: &str) -> Option<Duration> {
    let message = message.to_ascii_lowercase();
    let after = |(at, mark): (usize, &str)| {
        let rest = &message[at + mark.len()..];
        let rest = ["for ", "about ", "at least ", "another "]
            .iter()
            .fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        duration(rest)
    };
    WAITS.iter().flat_map(|mark| message.match_indices(mark)).find_map(after)
}

/// Returns the time at the beginning of a text: `17s`, `6m0s`, `1.5 seconds`, `250ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = None;
    let mut rest = text;
    loop {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let Ok(number) = number.parse::<f64>() else { break };
        let after = after.strip_prefix(' ').unwrap_or(after);
        let end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * unit);
        rest = after.strip_prefix(" and ").or(after.strip_prefix(' ')).unwrap_or(after);
    }
    total.and_then(super::seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name means the same in every protocol, so the order of the tables does not matter; and the names of a protocol
    /// are in its own file only.
    #[test]
    fn a_word_has_one_class_and_one_place() {
        let mut known = std::collections::BTreeMap::new();
        for (word, class) in TABLE.iter().flat_map(|protocol| protocol.errors) {
            assert_eq!(*known.entry(fold(word)).or_insert(*class), *class, "{word}");
        }
        for word in CODES.iter().flat_map(|(_, words)| words.split(' ')) {
            assert_eq!(fold(word), word);
            assert!(!known.contains_key(word), "{word} stands in a protocol's table already");
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, millis) in [
            ("Please try again in 6m0s.", Some(360_000)),
            ("Please try again in 7.66s. Visit", Some(7660)),
            ("Please retry after 9 seconds.", Some(9000)),
            ("Rate limit reached, try again in 250ms", Some(250)),
            ("try again in 1h2m3.5s", Some(3_723_500)),
            ("please try again after 1 seconds", Some(1000)),
            ("Please wait 42 seconds before retrying.", Some(42_000)),
            ("Please wait before trying again. Wait for 2 minutes.", Some(120_000)),
            ("try again in a moment", None),
            ("try again in 5 lines", None),
            ("try again in 99999999999999999999999999999s", None),
        ] {
            assert_eq!(wait(text).map(|wait| wait.as_millis()), millis, "{text}");
        }
    }
}
