"""Replays our protocol cases to the providers' official clients and compares what they understand with
what `callweave decode` says: text and tool calls, by value.

usage: compare.py CALLWEAVE DATA [RECORDINGS]
"""

import json
import pathlib
import subprocess
import sys

from answers import TYPES, Matrix, play, serve


def openai_chat(url, streamed):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    messages = [{"role": "user", "content": "?"}]
    if streamed:
        with client.chat.completions.stream(model="m", messages=messages) as stream:
            message = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model="m", messages=messages).choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
    return message.content or "", calls


def openai_responses(url, streamed):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    if streamed:
        with client.responses.stream(model="m", input="?") as stream:
            response = stream.get_final_response()
    else:
        response = client.responses.create(model="m", input="?")
    calls = [
        (item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"
    ]
    return response.output_text, calls


def anthropic_messages(url, streamed):
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    if streamed:
        with client.messages.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(b.id, b.name, json.dumps(b.input)) for b in message.content if b.type == "tool_use"]
    return text, calls


def gemini(url, streamed):
    from google import genai

    client = genai.Client(api_key="none", http_options={"base_url": url})
    asked = {"model": "m", "contents": "?"}
    if streamed:
        chunks = list(client.models.generate_content_stream(**asked))
    else:
        chunks = [client.models.generate_content(**asked)]
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or []
        if not candidate.index
        for part in (candidate.content and candidate.content.parts) or []
    ]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [
        (part.function_call.id, part.function_call.name, json.dumps(part.function_call.args or {}))
        for part in parts
        if part.function_call
    ]
    return text, calls


def ollama(url, streamed):
    import ollama

    client = ollama.Client(host=url)
    answer = client.chat(model="m", messages=[{"role": "user", "content": "?"}], stream=streamed)
    messages = [chunk.message for chunk in (answer if streamed else [answer])]
    text = "".join(message.content or "" for message in messages)
    calls = [
        (None, call.function.name, json.dumps(dict(call.function.arguments)))
        for message in messages
        for call in message.tool_calls or []
    ]
    return text, calls


def cohere(url, streamed):
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=url)
    asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    if not streamed:
        message = client.chat(**asked).message
        text = "".join(part.text for part in message.content or [] if part.type == "text")
        calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []]
        return text, calls
    text, calls = "", []
    for event in client.chat_stream(**asked):
        if event.type == "content-delta" and event.delta.message.content.text:
            text += event.delta.message.content.text
        if event.type == "tool-call-start":
            call = event.delta.message.tool_calls
            calls.append([call.id, call.function.name, call.function.arguments or ""])
        if event.type == "tool-call-delta":
            calls[event.index][2] += event.delta.message.tool_calls.function.arguments
    return text, [tuple(call) for call in calls]


# The cases that each client can be asked for: plain answers of its own provider. Others hold what the
# client does not know of, or refuses.
CASES = {
    "openai-chat": (openai_chat, ["text-and-parallel-calls", "reasoning-content"]),
    "openai-responses": (
        openai_responses,
        ["encrypted-thoughts-and-parallel-calls", "text-with-citation", "refusal"],
    ),
    "anthropic-messages": (
        anthropic_messages,
        [
            "thoughts-text-and-call",
            "zero-argument-call",
            "redacted-thoughts",
            "web-search-with-citations",
            "stop-sequence",
        ],
    ),
    "gemini-generatecontent": (
        gemini,
        ["parallel-calls-without-ids", "thoughts-then-text", "two-candidates", "grounding-comes-late"],
    ),
    "ollama": (ollama, ["parallel-calls", "thinking-then-text"]),
    "cohere-v2": (cohere, ["plan-then-calls", "thinking-then-cited-text"]),
}


def decoded(program, path):
    run = subprocess.run([program, "decode", "--as", "message", "--dialect", "none", str(path)], capture_output=True, check=True)
    message = json.loads(run.stdout)
    calls = [
        (None if call.get("has_made_id") else call["id"], call["name"], call["arguments"])
        for call in message["tool_calls"]
        if call["kind"] != "builtin"
    ]
    return message["content"] or "", calls


def by_value(calls, with_ids):
    return [(id if with_ids else None, name, json.loads(arguments or "{}")) for id, name, arguments in calls]


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    url, matrix = serve(), Matrix("read")
    for protocol, (client, names) in CASES.items():
        for name in names:
            for way in ("stream", "whole"):
                case = data / protocol / f"{way}-{name}"
                path = next(case.glob("input.*"), None)
                if path is None or path.suffix not in TYPES:
                    continue
                theirs = play(lambda: client(url, way == "stream"), path.read_bytes(), TYPES[path.suffix])
                ours, with_ids, faults = decoded(program, path), protocol != "ollama", []
                is_read = not isinstance(theirs, str) and theirs[0] == ours[0]
                if not is_read or by_value(theirs[1], with_ids) != by_value(ours[1], with_ids):
                    faults.append(f"the client has {theirs}, callweave {ours}")
                matrix.add(client.__name__, protocol, None, faults, case.name)
    matrix.conclude()


if __name__ == "__main__":
    main()
