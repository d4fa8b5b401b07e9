//! Known mistakes of translators, one by one: a request as small as the mistake, and its expected translation.

use callweave::Value;
use callweave::request::{RequestMode, RequestOptions};

use super::protocol;

/// A request, who is to get it, and what must be found in its body: a path and a value, or nothing.
struct Pitfall {
    what: &'static str,
    from: &'static str,
    /// The protocol that is written; with a provider or a model, if those matter.
    to: &'static str,
    provider: Option<&'static str>,
    model: Option<&'static str>,
    body: &'static str,
    found: &'static [(&'static str, &'static str)],
    absent: &'static [&'static str],
}

const USUAL: Pitfall = Pitfall {
    what: "",
    from: "openai-chat",
    to: "anthropic-messages",
    provider: None,
    model: None,
    body: "",
    found: &[],
    absent: &[],
};

const PITFALLS: &[Pitfall] = &[
    Pitfall {
        what: "text before a result stands behind all results",
        from: "anthropic-messages",
        to: "openai-chat",
        body: r#"{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "tool_result", "tool_use_id": "b", "content": "2"}, {"type": "tool_result", "tool_use_id": "a", "content": "1"}]}]}"#,
        found: &[
            ("/messages/1/tool_call_id", "\"a\""),
            ("/messages/2/tool_call_id", "\"b\""),
            ("/messages/3/role", "\"user\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "a turn of the user begins with the results",
        body: r#"{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
            {"role": "user", "content": ""}, {"role": "user", "content": "on"}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        // The user speaks first.
        found: &[
            ("/messages/0/role", "\"user\""),
            ("/messages/1/content/0/type", "\"tool_use\""),
            ("/messages/1/content/0/input", "{}"),
            ("/messages/2/content/0/type", "\"tool_result\""),
            ("/messages/2/content/1/text", "\"on\""),
        ],
        absent: &["/messages/3", "/messages/2/content/2"],
        ..USUAL
    },
    Pitfall {
        what: "a call that nobody answered is answered, a result of none is left out",
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "user", "content": "on"}, {"role": "tool", "tool_call_id": "gone", "content": "1"}]}"#,
        found: &[("/messages/2/content/0/tool_use_id", "\"a\""), ("/messages/2/content/0/is_error", "true")],
        absent: &["/messages/3", "/messages/2/content/2"],
        ..USUAL
    },
    Pitfall {
        what: "images in results are shown by the user, after all results",
        from: "anthropic-messages",
        to: "openai-chat",
        body: r#"{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}]}, {"type": "tool_result", "tool_use_id": "b", "content": "2"}]}]}"#,
        found: &[
            ("/messages/1/role", "\"tool\""),
            ("/messages/2/role", "\"tool\""),
            ("/messages/3/role", "\"user\""),
            ("/messages/3/content/0/image_url/url", "\"data:image/png;base64,QUJD\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "an image in a result stays an image for Gemini",
        from: "anthropic-messages",
        to: "gemini-generatecontent",
        body: r#"{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "t"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}]}]}]}"#,
        found: &[
            ("/contents/2/parts/0/functionResponse/parts/0/inlineData/data", "\"QUJD\""),
            ("/contents/2/parts/0/functionResponse/response/output", "\"t\""),
            ("/contents/2/parts/0/functionResponse/name", "\"f\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "marks for caching do not leak",
        from: "anthropic-messages",
        to: "openai-chat",
        body: r#"{"max_tokens": 9, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}], "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "y"}]}]}"#,
        absent: &[
            "/messages/1/content/0/cache_control",
            "/tools/0/cache_control",
            "/messages/0/cache_control",
        ],
        ..USUAL
    },
    Pitfall {
        what: "a thought is not marked for caching",
        from: "bedrock-converse",
        body: r#"{"messages": [{"role": "user", "content": [{"text": "x"}]}, {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "t", "signature": "c2ln"}}}, {"cachePoint": {"type": "default"}}, {"text": "y"}]}]}"#,
        found: &[("/messages/1/content/0/signature", "\"c2ln\"")],
        absent: &["/messages/1/content/0/cache_control"],
        ..USUAL
    },
    Pitfall {
        what: "a key for caching is refused by some",
        to: "openai-chat",
        provider: Some("fireworks"),
        body: r#"{"prompt_cache_key": "k", "max_completion_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "9")],
        absent: &["/prompt_cache_key", "/max_completion_tokens"],
        ..USUAL
    },
    Pitfall {
        what: "a chat server of which nothing is known gets the limit under the name that all know",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("tiny"),

        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "9")],
        absent: &["/max_completion_tokens"],
        ..USUAL
    },
    Pitfall {
        what: "a model of OpenAI from before it reasoned may be a local one under its name",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("gpt-4o"),

        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "9")],
        absent: &["/max_completion_tokens"],
        ..USUAL
    },
    Pitfall {
        what: "the models of OpenAI that reason know only the newer name of the limit",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("gpt-5.1"),

        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_completion_tokens", "9")],
        absent: &["/max_tokens"],
        ..USUAL
    },
    Pitfall {
        what: "some providers want the newer name of the limit",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("llama"),
        provider: Some("groq"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_completion_tokens", "9")],
        absent: &["/max_tokens"],
    },
    Pitfall {
        what: "whoever is named as compatible gets the limit under the name that all know",
        from: "openai-chat",
        to: "openai-chat",
        model: Some("tiny"),
        provider: Some("openai-compatible"),
        body: r#"{"max_completion_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "9")],
        absent: &["/max_completion_tokens"],
    },
    Pitfall {
        what: "whoever may not be OpenAI gets what every chat server knows",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("tiny"),
        body: r#"{"instructions": "a", "max_output_tokens": 50, "prompt_cache_key": "k", "service_tier": "flex", "metadata": {"k": "v"}, "text": {"verbosity": "low"},
            "input": [{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}, {"role": "system", "content": "d"}, {"type": "custom_tool_call", "call_id": "i", "name": "p", "input": "t"}, {"type": "custom_tool_call_output", "call_id": "i", "output": "o"}],
            "tools": [{"type": "custom", "name": "p"}], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "p"}]}}"#,
        found: &[
            ("/messages/0", r#"{"role":"system","content":"a\n\nb"}"#),
            ("/messages/1/role", "\"user\""),
            ("/messages/2/tool_calls/0/type", "\"function\""),
            ("/tools/0/type", "\"function\""),
            ("/max_tokens", "50"),
        ],
        absent: &[
            "/max_completion_tokens",
            "/prompt_cache_key",
            "/service_tier",
            "/metadata",
            "/verbosity",
            "/tool_choice/type",
        ],
        ..USUAL
    },
    Pitfall {
        what: "OpenAI gets what it knows",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("gpt-5.1"),
        body: r#"{"instructions": "a", "max_output_tokens": 50, "prompt_cache_key": "k", "text": {"verbosity": "low"}, "input": [{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}],
            "tools": [{"type": "custom", "name": "p"}]}"#,
        found: &[
            ("/messages/1/role", "\"developer\""),
            ("/tools/0/type", "\"custom\""),
            ("/max_completion_tokens", "50"),
            ("/prompt_cache_key", "\"k\""),
            ("/verbosity", "\"low\""),
        ],
        absent: &["/max_tokens"],
        ..USUAL
    },
    Pitfall {
        what: "a server that is named gets what every server knows, whatever its models are called",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("gpt-5.5"),
        provider: Some("llama.cpp"),
        body: r#"{"max_output_tokens": 50, "input": [{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}], "tools": [{"type": "custom", "name": "p"}]}"#,
        found: &[
            ("/messages/0/role", "\"system\""),
            ("/tools/0/type", "\"function\""),
            ("/max_tokens", "50"),
        ],
        absent: &["/max_completion_tokens"],
    },
    Pitfall {
        what: "Ollama's chat knows the older name of the limit",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("qwen3"),
        provider: Some("ollama"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "9")],
        absent: &["/max_completion_tokens"],
    },
    Pitfall {
        what: "where OpenAI is named, its older models are not told how hard to think",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("gpt-4.1"),
        provider: Some("openai"),
        body: r#"{"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}, "messages": [{"role": "user", "content": "x"}]}"#,
        absent: &["/reasoning_effort", "/thinking"],
        ..USUAL
    },
    Pitfall {
        what: "in Responses, too",
        from: "openai-chat",
        to: "openai-responses",
        model: Some("gpt-4.1"),
        provider: Some("openai"),
        body: r#"{"reasoning_effort": "high", "messages": [{"role": "user", "content": "x"}]}"#,
        absent: &["/reasoning"],
        ..USUAL
    },
    Pitfall {
        what: "Kimi knows calls by their number, and its own ids stay",
        from: "anthropic-messages",
        to: "openai-chat",
        provider: Some("moonshot"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}, {"type": "tool_result", "tool_use_id": "toolu_2", "content": "2"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "functions.f:7", "name": "f", "input": {}}, {"type": "tool_use", "id": "toolu_3", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "functions.f:7", "content": "3"}, {"type": "tool_result", "tool_use_id": "toolu_3", "content": "4"}]}]}"#,
        found: &[
            ("/messages/0/tool_calls/0/id", "\"functions.f:0\""),
            ("/messages/0/tool_calls/1/id", "\"functions.g:1\""),
            ("/messages/2/tool_call_id", "\"functions.g:1\""),
            ("/messages/3/tool_calls/0/id", "\"functions.f:7\""),
            ("/messages/3/tool_calls/1/id", "\"functions.f:8\""),
            ("/messages/5/tool_call_id", "\"functions.f:8\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "without thoughts of its own a model amid calls is not asked to think",
        model: Some("claude-sonnet-4-5"),
        body: r#"{"reasoning_effort": "high", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        absent: &["/thinking"],
        ..USUAL
    },
    Pitfall {
        what: "another provider's signature is not sent",
        from: "gemini-generatecontent",
        body: r#"{"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"text": "t", "thought": true, "thoughtSignature": "c2ln"}, {"text": "y"}]}, {"role": "user", "parts": [{"text": "z"}]}]}"#,
        found: &[("/messages/1/content/0/type", "\"text\"")],
        absent: &["/messages/1/content/1"],
        ..USUAL
    },
    Pitfall {
        what: "DeepSeek wants a thought with every call",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("deepseek-reasoner"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]}]}"#,
        found: &[("/messages/0/reasoning_content", "\" \""), ("/max_tokens", "9")],
        ..USUAL
    },
    Pitfall {
        what: "Groq wants none",
        to: "openai-chat",
        provider: Some("groq"),
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "reasoning_content": "t"}, {"role": "user", "content": "z"}]}"#,
        absent: &["/messages/1/reasoning_content", "/messages/1/reasoning"],
        ..USUAL
    },
    Pitfall {
        what: "OpenRouter's details are thoughts with signatures",
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "reasoning": "t", "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "c2ln", "format": "anthropic-claude-v1"}]}, {"role": "user", "content": "z"}]}"#,
        found: &[
            ("/messages/1/content/0/thinking", "\"t\""),
            ("/messages/1/content/0/signature", "\"c2ln\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "Gemini 3 wants a signature on the first call of a step",
        to: "gemini-generatecontent",
        model: Some("gemini-3-pro"),
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        found: &[
            ("/contents/1/parts/0/thoughtSignature", "\"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=\""),
            ("/contents/2/parts/1/functionResponse/id", "\"b\""),
        ],
        absent: &["/contents/1/parts/1/thoughtSignature"],
        ..USUAL
    },
    Pitfall {
        what: "schemas say what Gemini knows",
        to: "gemini-generatecontent",
        body: r##"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"$schema": "s", "type": "object", "required": ["a", "gone"], "properties": {
            "a": {"const": "x"}, "b": {"type": ["string", "null"]}, "c": {"type": "integer", "enum": [1, 2], "multipleOf": 2}, "d": {"$ref": "#/$defs/d", "title": "t"}, "e": {"type": "array"}, "f": {"oneOf": [{"type": "string"}, {"type": "null"}]}}, "$defs": {"d": {"type": "number", "exclusiveMinimum": 0}}}}}]}"##,
        found: &[
            ("/tools/0/functionDeclarations/0/parameters/properties/a/enum", r#"["x"]"#),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/b",
                r#"{"type":"string","nullable":true}"#,
            ),
            ("/tools/0/functionDeclarations/0/parameters/properties/d", r#"{"title":"t","type":"number"}"#),
            ("/tools/0/functionDeclarations/0/parameters/properties/e/items/type", "\"string\""),
            ("/tools/0/functionDeclarations/0/parameters/properties/f/type", "\"string\""),
            ("/tools/0/functionDeclarations/0/parameters/required", r#"["a"]"#),
        ],
        absent: &[
            "/tools/0/functionDeclarations/0/parameters/$schema",
            "/tools/0/functionDeclarations/0/parameters/$defs",
            "/tools/0/functionDeclarations/0/parameters/properties/c/enum",
            "/tools/0/functionDeclarations/0/parameters/properties/c/multipleOf",
        ],
        ..USUAL
    },
    Pitfall {
        what: "Kimi wants types in the branches of unions",
        to: "openai-chat",
        model: Some("kimi-k2.5"),
        body: r#"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]}}}}}]}"#,
        found: &[(
            "/tools/0/function/parameters/properties/a",
            r#"{"anyOf":[{"minLength":1,"type":"string"},{"type":"null"}]}"#,
        )],
        ..USUAL
    },
    Pitfall {
        what: "a union at the root would kill all requests to Claude",
        body: r#"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"anyOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "object", "properties": {"b": {}}}]}}}]}"#,
        found: &[("/tools/0/input_schema", r#"{"properties":{"a":{},"b":{}},"type":"object"}"#)],
        ..USUAL
    },
    Pitfall {
        what: "half of what strict demands is not strict",
        from: "anthropic-messages",
        to: "openai-responses",
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f", "strict": true, "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}}]}"#,
        found: &[("/tools/0/strict", "false")],
        ..USUAL
    },
    Pitfall {
        what: "Cohere knows no strict tool, only strict tools",
        to: "cohere-v2",
        body: r#"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "strict": true}}]}"#,
        found: &[("/strict_tools", "true"), ("/tools/0/function/parameters/type", "\"object\"")],
        absent: &["/tools/0/function/strict"],
        ..USUAL
    },
    Pitfall {
        what: "names without dots, ids of nine letters",
        from: "gemini-generatecontent",
        to: "openai-chat",
        provider: Some("mistral"),
        body: r#"{"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"functionCall": {"name": "a.b", "id": "long_identifier", "args": {}}}]}, {"role": "user", "parts": [{"functionResponse": {"name": "a.b", "id": "long_identifier", "response": {"output": "1"}}}, {"text": "y"}]}], "tools": [{"functionDeclarations": [{"name": "a.b"}]}]}"#,
        found: &[
            ("/tools/0/function/name", "\"a_b\""),
            ("/messages/1/tool_calls/0/function/name", "\"a_b\""),
            ("/messages/3/role", "\"assistant\""),
            ("/messages/4/role", "\"user\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "the newest models of OpenAI call functions in chat only if they do not think",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("gpt-5.6"),
        body: r#"{"reasoning": {"effort": "high"}, "input": "x", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}"#,
        found: &[("/reasoning_effort", "\"none\"")],
        ..USUAL
    },
    Pitfall {
        what: "names of speakers, options of streams and lists of no tools stay away",
        to: "openai-chat",
        provider: Some("mistral"),
        body: r#"{"stream": true, "stream_options": {"include_usage": true}, "parallel_tool_calls": true, "tool_choice": "auto", "messages": [{"role": "user", "content": "x", "name": "ann"}]}"#,
        absent: &["/messages/0/name", "/stream_options", "/tools", "/parallel_tool_calls", "/tool_choice"],
        ..USUAL
    },
    Pitfall {
        what: "a tool is not forced on Claude while it thinks",
        model: Some("claude-sonnet-4-5"),
        body: r#"{"reasoning_effort": "high", "temperature": 0.2, "max_tokens": 9000, "tool_choice": "required", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f"}}]}"#,
        found: &[("/tool_choice/type", "\"any\"")],
        absent: &["/thinking"],
        ..USUAL
    },
    Pitfall {
        what: "Nova cannot be made to call any tool",
        to: "bedrock-converse",
        model: Some("us.amazon.nova-pro-v1:0"),
        body: r#"{"tool_choice": "required", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "description": ""}}]}"#,
        found: &[("/toolConfig/tools/0/toolSpec/inputSchema/json/type", "\"object\"")],
        absent: &["/toolConfig/toolChoice", "/toolConfig/tools/0/toolSpec/description"],
        ..USUAL
    },
    Pitfall {
        what: "tools that may not be called are still declared where Converse has seen calls",
        to: "bedrock-converse",
        body: r#"{"tool_choice": "none", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}], "tools": [{"type": "function", "function": {"name": "f"}}]}"#,
        found: &[("/toolConfig/tools/0/toolSpec/name", "\"f\"")],
        ..USUAL
    },
    Pitfall {
        what: "developers are operators where nobody knows them",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("qwen3"),
        body: r#"{"input": [{"role": "developer", "content": "d"}, {"role": "user", "content": "x"}]}"#,
        found: &[("/messages/0/role", "\"system\"")],
        ..USUAL
    },
    Pitfall {
        what: "operators amid the conversation stay in their place, marked",
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "s"}, {"role": "user", "content": "y"}]}"#,
        found: &[
            ("/messages/0/content/1/text", "\"<system>s</system>\""),
            ("/messages/0/content/2/text", "\"y\""),
        ],
        absent: &["/system"],
        ..USUAL
    },
    Pitfall {
        what: "one text is a text, and nothing is not null",
        from: "anthropic-messages",
        to: "openai-chat",
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}]}"#,
        found: &[("/messages/0/content", "\"x\"")],
        absent: &["/messages/1/content"],
        ..USUAL
    },
    Pitfall {
        what: "arguments that were cut are an object for Claude",
        body: r#"{"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"a\": \"b"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        found: &[("/messages/1/content/0/input", r#"{"arguments":"{\"a\": \"b"}"#)],
        ..USUAL
    },
    Pitfall {
        what: "blank texts and blanks at the end are refused",
        body: r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": " \n"}, {"type": "text", "text": "x"}]}, {"role": "assistant", "content": "so far \n"}]}"#,
        found: &[("/messages/0/content/0/text", "\"x\""), ("/messages/1/content/0/text", "\"so far\"")],
        absent: &["/messages/0/content/1"],
        ..USUAL
    },
    Pitfall {
        what: "newer Claudes choose tokens in their own way",
        model: Some("claude-opus-4-7"),
        body: r#"{"temperature": 0.2, "top_p": 0.5, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/max_tokens", "128000")],
        absent: &["/temperature", "/top_p"],
        ..USUAL
    },
    Pitfall {
        what: "Claude takes a temperature or a top_p",
        model: Some("claude-opus-4-5"),
        body: r#"{"temperature": 1.7, "top_p": 0.5, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/temperature", "1.0")],
        absent: &["/top_p"],
        ..USUAL
    },
    Pitfall {
        what: "Converse wants tools, words before calls, and documents with plain names",
        to: "bedrock-converse",
        from: "anthropic-messages",
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "document", "title": "a_b.c.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}}]}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "text", "text": "y"}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": true}]}]}"#,
        found: &[
            ("/messages/0/content/0/document/name", "\"a b c\""),
            ("/messages/1/content/0/text", "\"y\""),
            ("/messages/2/content/0/toolResult/content/0/text", "\"(no output)\""),
            ("/messages/2/content/0/toolResult/status", "\"error\""),
            ("/toolConfig/tools/0/toolSpec/name", "\"no_tool_do_not_call\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "free text and namespaces are functions elsewhere",
        from: "openai-responses",
        to: "gemini-generatecontent",
        body: r#"{"input": [{"role": "user", "content": "x"}, {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "*** Begin"}, {"type": "custom_tool_call_output", "call_id": "a", "output": "1"}], "tools": [{"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}}, {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]}]}"#,
        found: &[
            ("/tools/0/functionDeclarations/0/parameters/required", r#"["input"]"#),
            ("/tools/0/functionDeclarations/1/name", "\"mcp__look\""),
            ("/contents/1/parts/0/functionCall/args", r#"{"input":"*** Begin"}"#),
        ],
        ..USUAL
    },
    Pitfall {
        what: "Mistral takes no store and no user, and wants to be told what it goes on from",
        to: "openai-chat",
        provider: Some("mistral"),
        body: r#"{"store": true, "user": "u", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "I"}]}"#,
        found: &[("/messages/1/prefix", "true")],
        absent: &["/store", "/user", "/messages/0/prefix"],
        ..USUAL
    },
    Pitfall {
        what: "models from before reasoning are not told how hard to think",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("gpt-4.1"),
        body: r#"{"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [{"role": "user", "content": "x"}]}"#,
        absent: &["/reasoning_effort"],
        ..USUAL
    },
    Pitfall {
        what: "nor are they in Responses",
        to: "openai-responses",
        model: Some("gpt-4o"),
        body: r#"{"reasoning_effort": "high", "messages": [{"role": "user", "content": "x"}]}"#,
        absent: &["/reasoning"],
        ..USUAL
    },
    Pitfall {
        what: "OpenAI refuses names of users that are longer than 64 letters",
        from: "anthropic-messages",
        to: "openai-responses",
        body: r#"{"max_tokens": 20, "metadata": {"user_id": "user_0123456789012345678901234567890123456789_session_01234567890123456789"}, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/user", "\"user_0123456789012345678901234567890123456789_session_0_R64iaE3S\"")],
        ..USUAL
    },
    Pitfall {
        what: "tiers of other providers are not known to OpenAI",
        to: "openai-responses",
        body: r#"{"service_tier": "on_demand", "messages": [{"role": "user", "content": "x"}]}"#,
        absent: &["/service_tier"],
        ..USUAL
    },
    Pitfall {
        what: "Gemini has a word for a tier",
        to: "gemini-generatecontent",
        body: r#"{"service_tier": "flex", "modalities": ["text", "image"], "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[
            ("/serviceTier", "\"flex\""),
            ("/generationConfig/responseModalities", r#"["TEXT","IMAGE"]"#),
        ],
        ..USUAL
    },
    Pitfall {
        what: "what Gemini does anyway is not asked of servers that may not know the word",
        from: "openai-responses",
        to: "gemini-generatecontent",
        body: r#"{"service_tier": "default", "input": "x"}"#,
        absent: &["/serviceTier"],
        ..USUAL
    },
    Pitfall {
        what: "a name of Claude's that tells no version is that of a newer model",
        model: Some("claude-haiku-latest"),
        body: r#"{"temperature": 0.5, "top_p": 0.9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/temperature", "0.5")],
        absent: &["/top_p"],
        ..USUAL
    },
    Pitfall {
        what: "Claude takes a temperature or a top_p, whoever serves it",
        to: "bedrock-converse",
        model: Some("us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        body: r#"{"temperature": 0.5, "top_p": 0.9, "messages": [{"role": "user", "content": "x"}]}"#,
        found: &[("/inferenceConfig/temperature", "0.5")],
        absent: &["/inferenceConfig/topP"],
        ..USUAL
    },
    Pitfall {
        what: "a signature of Claude's is not Gemini's, whatever gateway hands it on",
        to: "gemini-generatecontent",
        model: Some("gemini-3-pro"),
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "EgQKAggHGAI="}], "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        found: &[(
            "/contents/1/parts/1/thoughtSignature",
            "\"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=\"",
        )],
        absent: &["/contents/1/parts/0/thoughtSignature"],
        ..USUAL
    },
    Pitfall {
        what: "a signature of Gemini's goes back to it, on the call that the thought led to",
        to: "gemini-generatecontent",
        model: Some("gemini-3-pro"),
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "EgQKAgEH"}], "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]}"#,
        found: &[("/contents/1/parts/1/thoughtSignature", "\"EgQKAgEH\"")],
        absent: &["/contents/1/parts/0/thoughtSignature"],
        ..USUAL
    },
    Pitfall {
        what: "and not to Claude",
        body: r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "reasoning_content": "t", "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "EgQKAgEH"}, {"type": "thinking", "thinking": "u", "signature": "EgQKAggHGAI="}]}, {"role": "user", "content": "z"}]}"#,
        found: &[
            ("/messages/1/content/0/thinking", "\"u\""),
            ("/messages/1/content/0/signature", "\"EgQKAggHGAI=\""),
            ("/messages/1/content/1/type", "\"text\""),
        ],
        absent: &["/messages/1/content/2"],
        ..USUAL
    },
    Pitfall {
        what: "gateways before Claude get its thoughts with their signatures",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("anthropic/claude-sonnet-4.5"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "ZW5j"}, {"type": "text", "text": "y"}]}, {"role": "user", "content": "z"}]}"#,
        found: &[
            ("/messages/1/reasoning_content", "\"t\""),
            (
                "/messages/1/thinking_blocks",
                r#"[{"type":"thinking","thinking":"t","signature":"c2ln"},{"type":"redacted_thinking","data":"ZW5j"}]"#,
            ),
        ],
        ..USUAL
    },
    Pitfall {
        what: "other chat servers do not",
        from: "anthropic-messages",
        to: "openai-chat",
        model: Some("tiny"),
        body: r#"{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "c2ln"}, {"type": "text", "text": "y"}]}, {"role": "user", "content": "z"}]}"#,
        found: &[("/messages/1/reasoning_content", "\"t\"")],
        absent: &["/messages/1/thinking_blocks"],
        ..USUAL
    },
    Pitfall {
        what: "chat servers before Gemini get its signatures with the calls",
        from: "gemini-generatecontent",
        to: "openai-chat",
        model: Some("gemini-3-pro"),
        body: r#"{"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]}, {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "1"}}}]}]}"#,
        found: &[("/messages/1/tool_calls/0/extra_content/google/thought_signature", "\"c2ln\"")],
        ..USUAL
    },
    Pitfall {
        what: "a call cannot have the name of a tool that Anthropic runs",
        body: r#"{"web_search_options": {}, "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "web_search"}}]}"#,
        found: &[("/tools/0/name", "\"web_search_y821TSVO\""), ("/tools/1/name", "\"web_search\"")],
        ..USUAL
    },
    Pitfall {
        what: "newer drafts know no lists of items",
        body: r#"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}}}}}]}"#,
        found: &[(
            "/tools/0/input_schema/properties/a",
            r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]}"#,
        )],
        ..USUAL
    },
    Pitfall {
        what: "a strict tool of Claude's allows no other members anywhere",
        body: r#"{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "additionalProperties": false, "properties": {"a": {"properties": {"b": {"type": "string"}}}}}}}]}"#,
        absent: &["/tools/0/strict"],
        ..USUAL
    },
    Pitfall {
        what: "a conversation that the model begins, and nobody else speaks in",
        body: r#"{"messages": [{"role": "assistant", "content": "I begin."}]}"#,
        found: &[("/messages/0/role", "\"user\""), ("/messages/1/role", "\"assistant\"")],
        ..USUAL
    },
    Pitfall {
        what: "what stands in the storage of one provider cannot be reached by another",
        from: "gemini-generatecontent",
        body: r#"{"contents": [{"role": "user", "parts": [{"text": "x"}, {"fileData": {"fileUri": "gs://b/a.png", "mimeType": "image/png"}}]}]}"#,
        absent: &["/messages/0/content/1"],
        ..USUAL
    },
    Pitfall {
        what: "a thought without words is none",
        from: "openai-responses",
        to: "openai-chat",
        model: Some("deepseek-reasoner"),
        body: r#"{"input": [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "a", "output": "1"}]}"#,
        found: &[("/messages/1/reasoning_content", "\" \"")],
        ..USUAL
    },
    Pitfall {
        what: "a call is made where a result has none, and the provider does not keep it",
        from: "openai-responses",
        body: r#"{"previous_response_id": "resp_1", "input": [{"type": "function_call_output", "call_id": "a", "output": "1"}]}"#,
        found: &[
            ("/messages/1/content/0/id", "\"a\""),
            ("/messages/1/content/0/name", "\"unknown_tool\""),
            ("/messages/2/content/0/tool_use_id", "\"a\""),
        ],
        ..USUAL
    },
    Pitfall {
        what: "and none where the provider keeps it",
        from: "openai-responses",
        to: "openai-responses",
        body: r#"{"previous_response_id": "resp_1", "input": [{"type": "function_call_output", "call_id": "a", "output": "1"}]}"#,
        found: &[("/input/0/type", "\"function_call_output\"")],
        absent: &["/input/1"],
        ..USUAL
    },
];

/// It is malformed, which is reported; the body written all the same is one that the provider takes.
#[test]
fn a_request_that_says_nothing_is_malformed() {
    let chat = protocol("openai-chat").expect("a protocol");
    for (name, messages, is_malformed) in [
        ("openai-responses", "input", true),
        ("anthropic-messages", "messages", true),
        ("gemini-generatecontent", "contents", true),
        ("bedrock-converse", "messages", true),
        ("cohere-v2", "messages", true),
        // Without messages a model is loaded.
        ("ollama", "messages", false),
    ] {
        let body = r#"{"model": "m", "messages": []}"#.parse().expect("JSON");
        let target = protocol(name).expect("a protocol");
        let written = chat.translate_request(body, target, &RequestOptions::default()).expect("a body");
        let count = written.body[messages].as_array().map_or(0, |messages| messages.len());
        assert_eq!(count, usize::from(is_malformed), "{name}: {}", written.body);
        let loss = written.losses.iter().find(|loss| loss.what == "conversation without a message");
        assert_eq!(loss.is_some_and(|loss| loss.is_malformed), is_malformed, "{name}");
    }
}

#[test]
fn known_mistakes_are_not_made() {
    let mut wrong = Vec::new();
    for Pitfall { what, from, to, provider, model, body, found, absent } in PITFALLS {
        let body: Value = body.parse().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut options = RequestOptions::default();
        options.provider = provider.map(str::to_owned);
        options.model = model.map(str::to_owned);
        // A provider may speak the client's own protocol.
        options.mode = RequestMode::Normalized;
        let (from, to) = (protocol(from).expect("a protocol"), protocol(to).expect("a protocol"));
        let written = from.translate_request(body, to, &options).expect("a body").body;
        for (path, value) in *found {
            let expected: Value = value.parse().unwrap_or_else(|error| panic!("{what}: {error}"));
            if written.pointer(path) != Some(&expected) {
                wrong.push(format!(
                    "{what}: {path} is {:?}, not {expected}\n{written}",
                    written.pointer(path)
                ));
            }
        }
        for path in *absent {
            if let Some(value) = written.pointer(path) {
                wrong.push(format!("{what}: {path} is {value}\n{written}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An envelope around many vendors' bodies is not guessed at.
#[test]
fn requests_that_are_not_read_are_a_clear_error() {
    let invoke = callweave::protocol::Protocol::named("bedrock-invoke").expect("a protocol");
    let body = r#"{"inputText": "Hi", "textGenerationConfig": {"maxTokenCount": 9}}"#.parse().expect("JSON");
    let error = invoke.read_request(body).expect_err("no requests").to_string();
    assert!(
        error.starts_with("requests of bedrock-invoke are not read or written, only those of "),
        "{error}"
    );
    assert!(error.contains("anthropic-messages") && error.contains("bedrock-converse"), "{error}");
}
