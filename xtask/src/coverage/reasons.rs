//! The reasons why some paths may be dropped.

use super::rows::Row;

/// Paths that may be dropped, and why.
pub(crate) struct Reason {
    /// Patterns of `protocol  path`; `*` stands for anything.
    pub(crate) paths: &'static [&'static str],
    /// The reason why the loss is harmless.
    pub(crate) why: &'static str,
}

/// Every reason there is.
pub(crate) static TABLE: &[Reason] = &[
    Reason {
        paths: &[
            "anthropic-messages  EV:message_stop",
            "anthropic-messages  EV:data",
            "gemini-interactions  EV:done",
        ],
        why: "the end was told by the finish reason already",
    },
    Reason {
        paths: &[
            "*  content_block_delta.delta.type*",
            "bedrock-invoke  completion.type*",
            "*  message_start.message.type*",
            "bedrock-converse  $.output.message.content[].type*",
            "bedrock-converse  *toolUse.type=tool_use",
            "gemini-interactions  $.steps[].content[].type*",
            "gemini-interactions  step.delta.delta.content.type*",
            "mistral-chat  $.choices[].*.content[].thinking[].type*",
            "openai-responses  *summary[].type*",
            "openai-responses  *content[].type=reasoning_text",
            "openai-responses  response.reasoning_summary_part.*.part.type*",
        ],
        why: "it names the kind of an object whose members are read whatever it says",
    },
    Reason {
        paths: &[
            "bedrock-converse  *messageStart:obj",
            "bedrock-converse  EV:messageStart",
            "bedrock-invoke  chunk.messageStart:obj",
            "cohere-v2  message-start.delta*:obj",
        ],
        why: "it only says that the assistant speaks",
    },
    Reason {
        paths: &[
            "cohere-v2  EV:content-start",
            "cohere-v2  content-start.delta*:obj",
            "openai-responses  *response.content_part.added*",
            "openai-responses  *response.reasoning_summary_part.added*",
            "codex-appserver-v2  item/reasoning/summaryPartAdded.params*",
        ],
        why: "a block opens with its first text",
    },
    Reason {
        paths: &["cohere-v2  EV:citation-end", "cohere-v2  citation-*.index:num"],
        why: "citations are told whole and in order",
    },
    Reason {
        paths: &["ollama  $.message.tool_calls[].function.index:num"],
        why: "calls are told whole and in order",
    },
    Reason {
        paths: &[
            "gemini-interactions  interaction.*.interaction.status*",
            "gemini-interactions  *interaction.status_update*",
            "openai-responses  response.created.response.status*",
            "openai-responses  response.in_progress.response.status*",
            "codex-appserver-v2  $.result.turn.status:str",
            "codex-appserver-v2  turn/started.params.turn.status:str",
        ],
        why: "what has not ended is in progress",
    },
    Reason {
        paths: &["openai-responses  *status:str", "openai-responses  *status=incomplete"],
        why: "the details of what is missing say more",
    },
    Reason { paths: &["openai-chat  $.choices[].text:str"], why: "the content beside it is the same text" },
    Reason {
        paths: &[
            "openai-responses  EV:response.*.done",
            "openai-responses  *.logprobs*",
            "openai-responses  response.failed.response.error.code*",
            "codex-appserver-v2  turn/completed.params.turn.error.*",
            "codex-appserver-v2  turn/completed.params.turn.items[].id:str",
        ],
        why: "it restates what was told before",
    },
    Reason {
        paths: &[
            "openai-responses  response.output_item.added.item.*",
            "codex-appserver-v2  item/started.params.item.*",
        ],
        why: "the end of the item tells it again, settled",
    },
    Reason { paths: &["codex-appserver-v2  $.id:num"], why: "it pairs requests with responses" },
];

/// The reason why the row's path may be dropped, if there is one.
pub(crate) fn find(row: &Row) -> Option<&'static Reason> {
    let path = row.to_string();
    TABLE.iter().find(|reason| reason.paths.iter().any(|pattern| matches(pattern, &path)))
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| matches(tail, &rest[at..]))
}
