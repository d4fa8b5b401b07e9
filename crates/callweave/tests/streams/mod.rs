//! Generated streams of any length: each delta is one frame.

/// A kind of stream: the text before, at and after its deltas. In a frame, `@` is the delta's text and `#` its number.
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    /// The text around a frame.
    around: [&'static str; 2],
    head: &'static [&'static str],
    delta: &'static str,
    tail: &'static [&'static str],
    /// The texts of the deltas, in repetition.
    texts: &'static [&'static str],
}

impl Stream {
    /// The bytes of a stream of `count` deltas.
    pub(crate) fn bytes(&self, count: usize) -> Vec<u8> {
        let mut stream = String::new();
        let [before, after] = self.around;
        let mut frame = |json: &str| {
            stream.push_str(before);
            stream.push_str(json);
            stream.push_str(after);
        };
        self.head.iter().for_each(|json| frame(json));
        for (number, text) in self.texts.iter().cycle().take(count).enumerate() {
            frame(&self.delta.replace('@', text).replace('#', &number.to_string()));
        }
        self.tail.iter().for_each(|json| frame(json));
        stream.into_bytes()
    }
}

const EVENT: [&str; 2] = ["data: ", "\n\n"];
const LINE: [&str; 2] = ["", "\n"];

const PLAIN: &[&str] = &[" the", " quick brown", " fox jumps over", " größer"];
const ESCAPED: &[&str] = &[r#" \"the\""#, r" quick\nbrown", r" \u00e9\ud83d\ude00", r"\ud83d", r"\ude00 \\"];

const CHAT_HEAD: &[&str] = &[
    r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
];
const CHAT_TEXT: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"delta":{"content":"@"},"logprobs":null,"finish_reason":null}]}"#;
const CHAT_TAIL: &[&str] = &[
    r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#,
    "[DONE]",
];
const ANTHROPIC_TAIL: &[&str] = &[
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
    r#"{"type":"message_stop"}"#,
];

/// Every kind of stream.
pub(crate) const STREAMS: &[Stream] = &[
    Stream {
        name: "chat text",
        around: EVENT,
        head: CHAT_HEAD,
        delta: CHAT_TEXT,
        tail: CHAT_TAIL,
        texts: PLAIN,
    },
    Stream {
        name: "chat text, escaped",
        around: EVENT,
        head: CHAT_HEAD,
        delta: CHAT_TEXT,
        tail: CHAT_TAIL,
        texts: ESCAPED,
    },
    Stream {
        name: "chat arguments",
        around: EVENT,
        head: &[
            r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"write","arguments":"{\"text\":\""}}]}}]}"#,
        ],
        delta: r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]}}]}"#,
        tail: &[
            r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}]}"#,
            r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ],
        texts: &[" the", r" quick\\nbrown", " fox", r" \u00e9"],
    },
    Stream {
        name: "chat thoughts in two fields",
        around: EVENT,
        head: CHAT_HEAD,
        delta: r#"{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"reasoning":"@","reasoning_content":"@"}}]}"#,
        tail: CHAT_TAIL,
        texts: ESCAPED,
    },
    Stream {
        name: "Anthropic text",
        around: EVENT,
        head: &[
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ],
        delta: r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"@"}}"#,
        tail: ANTHROPIC_TAIL,
        texts: PLAIN,
    },
    Stream {
        name: "Anthropic thoughts, escaped",
        around: EVENT,
        head: &[
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[]}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
        ],
        delta: r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"@"}}"#,
        tail: ANTHROPIC_TAIL,
        texts: ESCAPED,
    },
    Stream {
        name: "Anthropic arguments",
        around: EVENT,
        head: &[
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[]}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"text\":\""}}"#,
        ],
        delta: r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"@"}}"#,
        tail: &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        ],
        texts: &[" the", r" quick\\nbrown", " fox", r" \u00e9"],
    },
    Stream {
        name: "Responses text",
        around: EVENT,
        head: &[
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[]}}"#,
        ],
        delta: r#"{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg","output_index":0,"content_index":0,"delta":"@","logprobs":[],"obfuscation":"xyz"}"#,
        tail: &[
            r#"{"type":"response.completed","sequence_number":9,"response":{"id":"r","object":"response","status":"completed","model":"m","output":[]}}"#,
        ],
        texts: ESCAPED,
    },
    Stream {
        name: "Responses arguments",
        around: EVENT,
        head: &[
            r#"{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[]}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"call_1","name":"write","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"{\"text\":\""}"#,
        ],
        delta: r#"{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"@"}"#,
        tail: &[
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"\"}"}"#,
            r#"{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[]}}"#,
        ],
        texts: &[" the", r" quick\\nbrown", " fox", r" \u00e9"],
    },
    Stream {
        name: "Gemini text",
        around: EVENT,
        head: &[],
        delta: r#"{"candidates":[{"content":{"parts":[{"text":"@"}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r"}"#,
        tail: &[
            r#"{"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}"#,
        ],
        texts: ESCAPED,
    },
    Stream {
        name: "Gemini text, counted in every chunk",
        around: EVENT,
        head: &[],
        delta: r#"{"candidates": [{"content": {"parts": [{"text": "@"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 8,"candidatesTokenCount": #,"totalTokenCount": #,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 8}],"thoughtsTokenCount": 45},"modelVersion": "m","responseId": "r"}"#,
        tail: &[
            r#"{"candidates": [{"content": {"parts": [{"text": "."}],"role": "model"},"finishReason": "STOP","index": 0}]}"#,
        ],
        texts: ESCAPED,
    },
    Stream {
        name: "chat text, counted in every chunk",
        around: EVENT,
        head: CHAT_HEAD,
        delta: r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":#,"total_tokens":#,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}"#,
        tail: CHAT_TAIL,
        texts: PLAIN,
    },
    Stream {
        name: "Ollama text",
        around: LINE,
        head: &[],
        delta: r#"{"model":"m","created_at":"2025-03-04T13:05:59.#Z","message":{"role":"assistant","content":"@"},"done":false}"#,
        tail: &[
            r#"{"model":"m","created_at":"2025-03-04T13:06:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":282}"#,
        ],
        texts: ESCAPED,
    },
    Stream {
        name: "Cohere text",
        around: EVENT,
        head: &[
            r#"{"id":"c","type":"message-start","delta":{"message":{"role":"assistant","content":[]}}}"#,
            r#"{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}"#,
        ],
        delta: r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"@"}}}}"#,
        tail: &[
            r#"{"type":"content-end","index":0}"#,
            r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":7,"output_tokens":4}}}}"#,
        ],
        texts: PLAIN,
    },
    Stream {
        name: "Bedrock text",
        around: LINE,
        head: &[r#"{"messageStart":{"role":"assistant"}}"#],
        delta: r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"@"},"p":"abcdef"}}"#,
        tail: &[
            r#"{"contentBlockStop":{"contentBlockIndex":0}}"#,
            r#"{"messageStop":{"stopReason":"end_turn"}}"#,
        ],
        texts: PLAIN,
    },
    Stream {
        name: "Gemini interactions text",
        around: EVENT,
        head: &[
            r#"{"event_type":"interaction.start","interaction":{"id":"i","model":"m","object":"interaction","status":"in_progress"}}"#,
            r#"{"event_type":"content.start","index":0,"content":{"type":"text"}}"#,
        ],
        delta: r#"{"event_type":"content.delta","index":0,"delta":{"type":"text","text":"@"}}"#,
        tail: &[r#"{"event_type":"content.stop","index":0}"#],
        texts: ESCAPED,
    },
    Stream {
        name: "Codex text",
        around: LINE,
        head: &[
            r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u","status":"inProgress","items":[]}}}"#,
            r#"{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"i","text":""}}}"#,
        ],
        delta: r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"@"}}"#,
        tail: &[
            r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","items":[]}}}"#,
        ],
        texts: PLAIN,
    },
];
