//! What HTTP adds to a protocol: paths, headers and how silence is bridged. One row for each protocol that is served or
//! asked.

use callweave::protocol::{self, Protocol};

use crate::failure::Failure;

/// A row: one protocol over HTTP.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The protocol.
    pub(crate) protocol: &'static Protocol,
    /// What paths begin with, where a base URL does not say it already.
    root: Root,
    /// Where a whole answer is asked for; `{model}` stands for the model's name.
    whole: &'static str,
    /// Where a streamed one is.
    streamed: &'static str,
    /// Where the models are listed.
    pub(crate) models: &'static str,
    /// The header that holds the key, and what stands before the key in it.
    pub(crate) key: (&'static str, &'static str),
    /// A header that every request must have, if the client did not send it.
    pub(crate) version: Option<(&'static str, &'static str)>,
    /// Headers of the client's that are sent on.
    pub(crate) forwarded: &'static [&'static str],
    /// Whether an answer is streamed if the body does not say.
    pub(crate) streams_by_default: bool,
    /// The type of a streamed answer.
    pub(crate) stream_type: &'static str,
    /// What the ids of answers begin with, for people who look at them.
    pub(crate) id_word: &'static str,
    /// What is sent while the model is silent: before the answer has begun, and afterwards. Empty where clients would
    /// understand nothing.
    pub(crate) pings: [&'static str; 2],
}

/// What a path begins with.
#[derive(Clone, Copy, Debug)]
enum Root {
    /// This, unless the base URL ends with it.
    Always(&'static str),
    /// This, if the base URL has no path at all: many who speak the protocol have a path of their own.
    IfBare(&'static str),
}

/// What clients of server-sent events take for nothing.
const COMMENT: &str = ": keep-alive\n\n";
/// What clients of Anthropic's expect, once the answer has begun.
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

const OPENAI: &[&str] = &["openai-beta", "openai-organization", "openai-project"];
const SSE: &str = "text/event-stream";

/// A row as most are.
const fn usual(protocol: &'static Protocol, root: Root, path: &'static str) -> Wire {
    Wire {
        protocol,
        root,
        whole: path,
        streamed: path,
        models: "/models",
        key: ("authorization", "Bearer "),
        version: None,
        forwarded: &[],
        streams_by_default: false,
        stream_type: SSE,
        id_word: "",
        pings: [COMMENT, COMMENT],
    }
}

/// The rows.
pub(crate) static TABLE: &[Wire] = &[
    Wire {
        forwarded: OPENAI,
        id_word: "chatcmpl-",
        ..usual(&protocol::OPENAI_CHAT, Root::IfBare("/v1"), "/chat/completions")
    },
    Wire {
        forwarded: OPENAI,
        id_word: "resp_",
        ..usual(&protocol::OPENAI_RESPONSES, Root::IfBare("/v1"), "/responses")
    },
    Wire {
        key: ("x-api-key", ""),
        version: Some(("anthropic-version", "2023-06-01")),
        forwarded: &["anthropic-beta", "anthropic-version"],
        id_word: "msg_",
        pings: [COMMENT, PING],
        ..usual(&protocol::ANTHROPIC_MESSAGES, Root::Always("/v1"), "/messages")
    },
    Wire {
        streamed: "/models/{model}:streamGenerateContent?alt=sse",
        key: ("x-goog-api-key", ""),
        ..usual(
            &protocol::GEMINI_GENERATE_CONTENT,
            Root::Always("/v1beta"),
            "/models/{model}:generateContent",
        )
    },
    Wire {
        models: "/tags",
        streams_by_default: true,
        stream_type: "application/x-ndjson",
        pings: ["", ""],
        ..usual(&protocol::OLLAMA, Root::Always("/api"), "/chat")
    },
    usual(&protocol::COHERE_V2, Root::Always("/v2"), "/chat"),
    Wire {
        streamed: "/model/{model}/converse-stream",
        models: "/foundation-models",
        stream_type: "application/vnd.amazon.eventstream",
        id_word: "resp_",
        pings: ["", ""],
        ..usual(&protocol::BEDROCK_CONVERSE, Root::Always(""), "/model/{model}/converse")
    },
];

impl Wire {
    /// The row of a protocol.
    pub(crate) fn of(protocol: &Protocol) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.protocol == protocol)
    }

    /// Where to ask for a model under a base URL.
    pub(crate) fn address(&self, base: &str, model: &str, is_streamed: bool) -> Result<String, Failure> {
        let path = if is_streamed { self.streamed } else { self.whole };
        if !self.names_model() {
            return Ok(self.under(base, path));
        }
        Ok(self.under(base, &path.replace("{model}", &escaped(model)?)))
    }

    /// Whether addresses name the model.
    pub(crate) fn names_model(&self) -> bool {
        [self.whole, self.streamed].iter().any(|path| path.contains("{model}"))
    }

    /// A path under a base URL. What the URL has behind a `?` stays behind the path.
    pub(crate) fn under(&self, base: &str, path: &str) -> String {
        let base = base.split('#').next().unwrap_or_default();
        let (base, query) = base.split_once('?').map_or((base, ""), |(base, query)| (base, query));
        let base = base.trim_end_matches('/');
        let own = base.split_once("://").map_or(base, |(_, rest)| rest);
        let own = own.find('/').map_or("", |at| &own[at..]);
        let root = match self.root {
            Root::Always(root) if own.ends_with(root) => "",
            Root::Always(root) => root,
            Root::IfBare(root) if own.is_empty() => root,
            Root::IfBare(_) => "",
        };
        let mark = match query {
            "" => "",
            _ if path.contains('?') => "&",
            _ => "?",
        };
        format!("{base}{root}{path}{mark}{query}")
    }
}

/// The name of a model as a part of a path. One that would lead elsewhere is refused, however it is escaped.
pub(crate) fn escaped(name: &str) -> Result<String, Failure> {
    if walks(name) {
        let shown: String = name.chars().take(100).collect();
        let what = format!(
            "the model {shown:?} cannot be asked for: its name has a . or .. between slashes, a backslash or a control character"
        );
        return Err(Failure::invalid(what).with_code("invalid_model"));
    }
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' => {
                path.push(byte.into());
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(path)
}

/// Whether a name would lead to another path, for whoever takes escapes out of it, once or several times.
fn walks(name: &str) -> bool {
    let mut name = name.to_owned();
    loop {
        // Some servers take what stands behind a semicolon for a parameter of the segment.
        let is_dots = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
        if name.contains('\\') || name.chars().any(char::is_control) || name.split('/').any(is_dots) {
            return true;
        }
        let plain = decoded(&name);
        if plain.len() == name.len() {
            return false;
        }
        name = plain;
    }
}

/// A part of a path without its escapes.
pub(crate) fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(protocol: &Protocol, base: &str, is_streamed: bool) -> String {
        Wire::of(protocol).expect("a row").address(base, "m:1", is_streamed).expect("a name")
    }

    #[test]
    fn base_urls_are_completed_and_never_doubled() {
        let cases = [
            (&protocol::OPENAI_CHAT, "http://h:1", "http://h:1/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h:1/", "http://h:1/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h/v1", "http://h/v1/chat/completions"),
            (&protocol::OPENAI_CHAT, "http://h/v1beta/openai/", "http://h/v1beta/openai/chat/completions"),
            (&protocol::OPENAI_RESPONSES, "http://h", "http://h/v1/responses"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h", "http://h/v1/messages"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/v1", "http://h/v1/messages"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/anthropic", "http://h/anthropic/v1/messages"),
            (&protocol::GEMINI_GENERATE_CONTENT, "http://h", "http://h/v1beta/models/m%3A1:generateContent"),
            (&protocol::OLLAMA, "http://h:11434", "http://h:11434/api/chat"),
            (&protocol::OPENAI_CHAT, "http://h/v1?key=q", "http://h/v1/chat/completions?key=q"),
            (&protocol::OPENAI_CHAT, "http://h?key=q#f", "http://h/v1/chat/completions?key=q"),
            (&protocol::OPENAI_CHAT, "http://h/v1/?key=a/b", "http://h/v1/chat/completions?key=a/b"),
            (&protocol::ANTHROPIC_MESSAGES, "http://h/v1?a=b&c", "http://h/v1/messages?a=b&c"),
        ];
        for (protocol, base, expected) in cases {
            assert_eq!(address(protocol, base, false), expected);
        }
    }

    #[test]
    fn a_stream_may_have_a_path_of_its_own() {
        let streamed = address(&protocol::GEMINI_GENERATE_CONTENT, "http://h/v1beta", true);
        assert_eq!(streamed, "http://h/v1beta/models/m%3A1:streamGenerateContent?alt=sse");
        let keyed = address(&protocol::GEMINI_GENERATE_CONTENT, "http://h/v1beta?key=q", true);
        assert_eq!(keyed, "http://h/v1beta/models/m%3A1:streamGenerateContent?alt=sse&key=q");
    }

    #[test]
    fn a_name_never_leads_to_another_path() {
        for name in [
            "..",
            ".",
            "../x",
            "x/..",
            "a/../b",
            "a/./b",
            "../../admin/keys",
            "%2e%2e/x",
            "%2E./x",
            "a/%2e",
            "..%2f..",
            "%252e%252e%252fx",
            "%25252e%25252e",
            "a\\b",
            "..\\..",
            "%5c..",
            "..;/x",
            "a/..;p=1/b",
            "a\nb",
            "a%0d%0ab",
            "%00",
        ] {
            assert!(escaped(name).is_err(), "{name:?}");
        }
        for (name, path) in [
            ("gemini-2.5-pro", "gemini-2.5-pro"),
            ("models/a..b", "models/a..b"),
            ("...", "..."),
            (".hidden", ".hidden"),
            ("100%", "100%25"),
            ("%zz", "%25zz"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("a%2Fb", "a%252Fb"),
            ("arn:aws:bedrock:x/y", "arn%3Aaws%3Abedrock%3Ax/y"),
        ] {
            assert_eq!(escaped(name).expect("a name"), path, "{name}");
        }
    }
}
