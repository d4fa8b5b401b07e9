//! Parts of a request that could not be carried, by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::seals::issuer_name;
use super::{
    ContentPart, MessageContent, PartKind, Request, RequestMessage, RequestTool, RetainedFields, ToolChoice,
    ToolKind,
};

/// A part of a request that the written body does not contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Loss {
    /// The path in the neutral request, such as `messages[3].parts[0]`; empty for the request as a whole.
    pub path: String,
    /// The lost part, in a few fixed words.
    pub what: String,
    /// Whether the part violated the protocol that it came in: a server would refuse such a request.
    pub is_malformed: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.what),
            false => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// The maximum number of losses that are named one by one. A request that loses more is not meant to be read.
const NAMED: usize = 256;

/// Losses as they are found.
#[derive(Default)]
pub(crate) struct LossList {
    all: Vec<Loss>,
    /// The number of further losses, and whether something malformed is among them.
    unnamed: usize,
    is_unnamed_malformed: bool,
    /// The path of the next loss.
    path: String,
}

impl LossList {
    /// Sets the path of the next losses.
    pub(crate) fn at(&mut self, path: fmt::Arguments<'_>) {
        use fmt::Write;
        self.path.clear();
        let _ = self.path.write_fmt(path);
    }

    /// Names a loss, once for each path.
    pub(crate) fn put(&mut self, what: impl Into<String>) {
        self.add(what.into(), false);
    }

    /// Names a malformed part.
    pub(crate) fn refuse(&mut self, what: impl Into<String>) {
        self.add(what.into(), true);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All losses; where there are too many, the last one has the number of unnamed ones.
    pub(crate) fn into_all(mut self) -> Vec<Loss> {
        if self.unnamed > 0 {
            let what = format!("{} more losses", self.unnamed);
            self.all.push(Loss { path: String::new(), what, is_malformed: self.is_unnamed_malformed });
        }
        self.all
    }

    fn add(&mut self, what: String, is_malformed: bool) {
        if self.all.len() >= NAMED {
            self.unnamed += 1;
            self.is_unnamed_malformed |= is_malformed;
            return;
        }
        let loss = Loss { path: self.path.clone(), what, is_malformed };
        // Losses at one path are reported in a row.
        let mut same = self.all.iter().rev().take_while(|other| other.path == loss.path);
        if !same.any(|other| *other == loss) {
            self.all.push(loss);
        }
    }

    /// Names the rest of a part after it was written.
    pub(crate) fn part(&mut self, protocol: &str, part: &ContentPart) {
        if part.cache.is_some() {
            self.put("cache mark");
        }
        if let Some(seal) = &part.signature {
            self.put(format!("signature of {}", issuer_name(&seal.issuer)));
        }
        self.kept(protocol, &part.retained);
    }

    /// Names extra fields of another protocol.
    pub(crate) fn kept(&mut self, protocol: &str, kept: &RetainedFields) {
        let Some(own) = kept.protocol().filter(|own| *own != protocol) else { return };
        for path in kept.malformed() {
            self.refuse(format!("malformed {path} of {own}"));
        }
        for (key, _) in kept.unread().filter(|(key, _)| *key != "type") {
            self.put(format!("{key} of {own}"));
        }
    }

    /// Names the rest of a message after it was written.
    pub(crate) fn message(&mut self, protocol: &str, message: &RequestMessage) {
        if message.name.is_some() {
            self.put("name of a speaker");
        }
        self.kept(protocol, &message.retained);
        self.content(protocol, &message.content);
    }

    fn content(&mut self, protocol: &str, content: &MessageContent) {
        for part in &content.parts {
            match &part.body {
                PartKind::Text(_) => self.put("text"),
                PartKind::Refusal(_) => self.put("refusal"),
                PartKind::Media(media) => self.put(format!("{:?}", media.kind).to_lowercase()),
                PartKind::Reasoning(_) => self.put("reasoning"),
                PartKind::Call(call) => self.put(format!("{:?} call", call.kind).to_lowercase()),
                PartKind::Result(result) => self.put(format!("{:?} result", result.kind).to_lowercase()),
                PartKind::Tools(_) => self.put("tools declared in mid-conversation"),
                PartKind::Opaque(_) => {
                    if part.retained.protocol().is_some_and(|own| own != protocol) {
                        self.opaque(part);
                    }
                    continue;
                }
            }
            self.part(protocol, part);
        }
    }

    /// Names a part of another protocol alone.
    pub(crate) fn opaque(&mut self, part: &ContentPart) {
        if let (PartKind::Opaque(word), Some(own)) = (&part.body, part.retained.protocol()) {
            self.put(format!("{word} of {own}"));
        }
    }

    /// Names the rest of a tool after it was written.
    pub(crate) fn tool(&mut self, protocol: &str, tool: &RequestTool) {
        if tool.strict == Some(true) {
            self.put("strict tool");
        }
        if tool.cache.is_some() {
            self.put("cache mark");
        }
        if let ToolKind::Builtin(word) = &tool.kind {
            if let Some(own) = tool.retained.protocol().filter(|own| *own != protocol) {
                // A function without a name is none.
                match word.as_str() {
                    "function" | "custom" => self.refuse(format!("malformed tool of {own}")),
                    word => self.put(format!("tool {word} of {own}")),
                }
            }
            return;
        }
        self.kept(protocol, &tool.retained);
    }

    /// Names the rest of a request after its body was written.
    pub(super) fn leftovers(&mut self, protocol: &str, request: &Request) {
        self.path.clear();
        let Request {
            protocol: _,
            model: _,
            instructions,
            messages,
            tools,
            tool_choice,
            parallel_calls,
            max_tool_calls,
            max_tokens,
            stop,
            sampling,
            format,
            reasoning,
            stream: _,
            stream_usage: _,
            store,
            previous,
            metadata,
            user,
            service_tier,
            modalities,
            cache_key,
            compaction,
            verbosity,
            kept,
        } = request;
        let set = [
            ("instructions", !instructions.is_empty()),
            ("messages", !messages.is_empty()),
            ("tools", !tools.is_empty()),
            ("tool choice", tool_choice.as_ref().is_some_and(|choice| *choice != ToolChoice::Auto)),
            ("parallel calls", *parallel_calls == Some(false)),
            ("max tool calls", max_tool_calls.is_some()),
            ("max tokens", max_tokens.is_some()),
            ("stop", !stop.is_empty()),
            ("temperature", sampling.temperature.is_some()),
            ("top_p", sampling.top_p.is_some()),
            ("top_k", sampling.top_k.is_some()),
            ("min_p", sampling.min_p.is_some()),
            ("frequency penalty", sampling.frequency_penalty.is_some()),
            ("presence penalty", sampling.presence_penalty.is_some()),
            ("repetition penalty", sampling.repetition_penalty.is_some()),
            ("seed", sampling.seed.is_some()),
            ("several choices", sampling.choices.as_ref().is_some_and(|number| number.as_str() != "1")),
            ("logit bias", sampling.logit_bias.is_some()),
            ("logprobs", sampling.logprobs == Some(true)),
            ("top logprobs", sampling.top_logprobs.is_some()),
            ("format", format.is_some()),
            ("thinking", reasoning.mode.is_some()),
            ("effort", reasoning.effort.is_some()),
            ("thinking budget", reasoning.budget.is_some()),
            ("summary of reasoning", reasoning.summary.is_some()),
            ("store", *store == Some(true)),
            ("previous response", previous.is_some()),
            ("metadata", metadata.as_ref().is_some_and(|all| !all.is_empty())),
            ("user", user.is_some()),
            ("service tier", service_tier.is_some()),
            ("modalities", !modalities.is_empty()),
            ("cache key", cache_key.is_some()),
            ("compaction", compaction.is_some()),
            ("verbosity", verbosity.is_some()),
        ];
        for (what, _) in set.iter().filter(|(_, is_set)| *is_set) {
            self.put(*what);
        }
        self.kept(protocol, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_losses_the_last_one_tells_how_many_more_there_are() {
        let mut losses = LossList::default();
        for number in 0..1000 {
            losses.at(format_args!("messages[{number}]"));
            losses.put("name");
        }
        losses.refuse("malformed role");
        let all = losses.into_all();
        assert_eq!(all.len(), NAMED + 1);
        assert_eq!(all[NAMED - 1].to_string(), "messages[255]: name");
        assert_eq!((all[NAMED].what.as_str(), all[NAMED].is_malformed), ("745 more losses", true));
        assert!(all[..NAMED].iter().all(|loss| !loss.is_malformed));
    }
}
