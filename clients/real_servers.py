"""Asks real servers with a tiny random model (`servers/tiny_gguf.py`) through a running gateway, with the official client
of each protocol: limits, calls under a grammar, several system messages, errors, and streams that are cancelled. The
model's words are noise and go on until something ends them; everything else about a response is the server's own.

usage: real_servers.py GATEWAY LLAMA_SERVER
"""

import json
import sys
import time
import urllib.request

import anthropic
import ollama
import openai
from answers import Matrix
from google import genai
from google.genai import errors, types

# The upstreams of the gateway: each server, and one of them in each protocol that it speaks.
UPSTREAMS = ("llama-cpp-python", "llama-server", "llama-server-responses", "llama-server-messages")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Paris"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
# OpenAI takes no lower one on Responses.
LIMIT = 16
# More characters, and so tokens, than the context has.
TOO_LONG = "a" * 10_000


class Reply:
    """A response as a client understands it. The reason for its end has the words of Chat; tokens are none where the
    upstream counts none."""

    def __init__(self, text, calls, finish, tokens):
        self.text, self.calls, self.finish, self.tokens = text or "", calls, finish, tokens

    def __repr__(self):
        return f"{self.finish}, {self.tokens} tokens, text {self.text[:200]!r}, calls {self.calls}"


class Chat:
    """`ask` takes what the user says, what operators say (the first of them before the user, the others after), the limit
    of tokens, whether the tool must be called, and anything else as the protocol has it."""

    has_forced_calls = True

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=8)

    def asked(self, model, text="hi", systems=(), limit=None, forced=None, **more):
        messages = [{"role": "system", "content": system} for system in systems]
        messages.insert(1 if messages else 0, {"role": "user", "content": text})
        asked = {"model": model, "messages": messages, **more}
        if limit:
            asked["max_completion_tokens"] = limit
        if forced:
            tool = {"name": "get_weather", "description": "It.", "parameters": SCHEMA}
            asked["tools"] = [{"type": "function", "function": tool}]
            named = {"type": "function", "function": {"name": "get_weather"}}
            asked["tool_choice"] = named if forced == "named" else "required"
        return asked

    def ask(self, model, streamed, **said):
        asked = self.asked(model, **said)
        if streamed:
            counted = {"include_usage": True}
            with self.client.chat.completions.stream(**asked, stream_options=counted) as stream:
                # The client's own end raises where a limit was reached.
                for _ in stream:
                    pass
                whole = stream.current_completion_snapshot
        else:
            whole = self.client.chat.completions.create(**asked)
        choice = whole.choices[0]
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []]
        return Reply(choice.message.content, calls, choice.finish_reason, whole.usage and whole.usage.completion_tokens)

    def begin(self, model):
        stream = self.client.chat.completions.create(**self.asked(model), stream=True)
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                return stream.close


class OldChat(Chat):
    """With the older name of the limit."""

    def asked(self, *words, limit=None, **said):
        return super().asked(*words, **said) | ({"max_tokens": limit} if limit else {})


class Responses:
    has_forced_calls = True

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=8)

    def asked(self, model, text="hi", systems=(), limit=None, forced=None, **more):
        items = [{"role": "developer", "content": system} for system in systems[1:]]
        asked = {"model": model, "input": [{"role": "user", "content": text}, *items], "store": False, **more}
        if systems:
            asked["instructions"] = systems[0]
        if limit:
            asked["max_output_tokens"] = limit
        if forced:
            tool = {"name": "get_weather", "description": "It.", "parameters": SCHEMA, "strict": False}
            asked["tools"] = [{"type": "function", **tool}]
            named = {"type": "function", "name": "get_weather"}
            asked["tool_choice"] = named if forced == "named" else "required"
        return asked

    def ask(self, model, streamed, **said):
        asked = self.asked(model, **said)
        if streamed:
            last = None
            for event in self.client.responses.create(**asked, stream=True):
                last = event
            if last is None or last.type not in ("response.completed", "response.incomplete"):
                raise openai.OpenAIError(f"the last event is {last}")
            response = last.response
        else:
            response = self.client.responses.create(**asked)
        calls = [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]
        is_cut = response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
        finish = "length" if is_cut else "tool_calls" if calls else "stop"
        return Reply(response.output_text, calls, finish, response.usage and response.usage.output_tokens)

    def begin(self, model):
        stream = self.client.responses.create(**self.asked(model), stream=True)
        for event in stream:
            if event.type == "response.output_text.delta":
                return stream.close


class Messages:
    has_forced_calls = True
    FINISHES = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}

    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=8)

    def asked(self, model, text="hi", systems=(), limit=None, forced=None, **more):
        messages = [{"role": "user", "content": text}]
        asked = {"model": model, "max_tokens": limit or 8_000, "messages": messages, **more}
        if systems:
            asked["system"] = [{"type": "text", "text": system} for system in systems]
        if forced:
            asked["tools"] = [{"name": "get_weather", "description": "It.", "input_schema": SCHEMA}]
            named = {"type": "tool", "name": "get_weather"}
            asked["tool_choice"] = named if forced == "named" else {"type": "any"}
        return asked

    def ask(self, model, streamed, **said):
        asked = self.asked(model, **said)
        if streamed:
            with self.client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(**asked)
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
        finish = self.FINISHES.get(message.stop_reason, message.stop_reason)
        return Reply(text, calls, finish, message.usage.output_tokens)

    def begin(self, model):
        stream = self.client.messages.create(**self.asked(model), stream=True)
        for event in stream:
            if event.type == "content_block_delta":
                return stream.close


class Gemini:
    has_forced_calls = True

    def __init__(self, url):
        options = types.HttpOptions(base_url=url, timeout=8_000, retry_options=types.HttpRetryOptions(attempts=1))
        self.client = genai.Client(api_key="none", http_options=options)

    def asked(self, model, text="hi", systems=(), limit=None, forced=None, **more):
        config = {"max_output_tokens": limit, "system_instruction": list(systems) or None, **more}
        config["automatic_function_calling"] = {"disable": True}
        if forced:
            declared = {"name": "get_weather", "description": "It.", "parameters_json_schema": SCHEMA}
            config["tools"] = [{"function_declarations": [declared]}]
            named = {"allowed_function_names": ["get_weather"]} if forced == "named" else {}
            config["tool_config"] = {"function_calling_config": {"mode": "ANY", **named}}
        return {"model": model, "contents": text, "config": types.GenerateContentConfig(**config)}

    def ask(self, model, streamed, **said):
        asked = self.asked(model, **said)
        models = self.client.models
        chunks = list(models.generate_content_stream(**asked)) if streamed else [models.generate_content(**asked)]
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        parts = [part for candidate in candidates if candidate.content for part in candidate.content.parts or []]
        calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
        text = "".join(part.text for part in parts if part.text)
        told = candidates[-1].finish_reason
        finish = {"MAX_TOKENS": "length", "STOP": "tool_calls" if calls else "stop"}.get(told and told.name, told)
        usage = chunks[-1].usage_metadata
        return Reply(text, calls, finish, usage and usage.candidates_token_count)

    def begin(self, model):
        stream = self.client.models.generate_content_stream(**self.asked(model))
        for chunk in stream:
            if chunk.text:
                return stream.close


class Ollama:
    has_forced_calls = False

    def __init__(self, url):
        self.client = ollama.Client(host=url, timeout=8)

    def asked(self, model, text="hi", systems=(), limit=None, **more):
        messages = [{"role": "system", "content": system} for system in systems]
        messages.insert(1 if messages else 0, {"role": "user", "content": text})
        options = more | ({"num_predict": limit} if limit else {})
        return {"model": model, "messages": messages, "options": options}

    def ask(self, model, streamed, **said):
        answered = self.client.chat(**self.asked(model, **said), stream=streamed)
        parts = list(answered) if streamed else [answered]
        if not parts[-1].done:
            raise ollama.ResponseError("the stream has no end")
        text = "".join(part.message.content or "" for part in parts)
        return Reply(text, [], parts[-1].done_reason, parts[-1].eval_count)

    def begin(self, model):
        stream = self.client.chat(**self.asked(model), stream=True)
        for part in stream:
            if part.message.content:
                return stream.close


def status(error):
    """The status that the client's own kind of error tells; none of any other error."""
    if isinstance(error, (openai.APIStatusError, anthropic.APIStatusError, ollama.ResponseError)):
        return error.status_code
    return error.code if isinstance(error, errors.APIError) else None


def refusal(client, model, streamed, statuses, words, **said):
    """What is wrong with an error that must come, with one of these statuses and one of these words."""
    try:
        return f"no error: {client.ask(model, streamed, **said)}"
    except Exception as error:  # Each client has errors of its own, and `status` knows them.
        told = str(error).lower()
        is_right = status(error) in statuses and any(word in told for word in words)
        return None if is_right else f"{type(error).__name__}, status {status(error)}: {error}"


def limited(model):
    """The finish of a response that a limit ended: llama-server calls it complete on Responses."""
    return "stop" if model.startswith("llama-server-responses") else "length"


def limits(client, model, streamed, _):
    reply = client.ask(model, streamed, limit=LIMIT)
    # Streams of llama-cpp-python count nothing, and Messages has no other word for that than 0.
    counts = (None, 0) if streamed and model.startswith("llama-cpp-python") else (LIMIT,)
    is_right = reply.finish == limited(model) and 0 < len(reply.text) <= LIMIT and reply.tokens in counts
    return None if is_right else repr(reply)


def forced_calls(client, model, streamed, _):
    if not client.has_forced_calls:
        return SKIPPED("the protocol has no way to force a call")
    # One server knows only tools that are named; the grammar of the other has a text before the call.
    forced = "named" if model.startswith("llama-cpp-python") else "any"
    reply = client.ask(model, streamed, forced=forced, limit=1000)
    if len(reply.calls) != 1 or reply.finish != "tool_calls" or forced == "named" and reply.text.strip():
        return repr(reply)
    [(name, given)] = reply.calls
    is_right = name == "get_weather" and given.keys() == {"city", "days"}
    is_right = is_right and given["city"] in ("Oslo", "Paris") and type(given["days"]) is int
    return None if is_right else repr(reply)


def several_systems(client, model, streamed, _):
    reply = client.ask(model, streamed, limit=LIMIT, systems=("Be brief.", "Be kind.", "Be right."))
    return None if reply.finish == limited(model) and reply.text else repr(reply)


def unknown_models(client, model, streamed, _):
    return refusal(client, "nobody/" + model, streamed, (404,), ("nobody/",), limit=LIMIT)


def malformed_requests(client, model, streamed, _):
    if not isinstance(client, (Chat, Responses, Messages)):
        return SKIPPED("the client sends nothing that is malformed")
    if isinstance(client, Messages) and model.startswith("llama-server-messages"):
        return SKIPPED("the server takes it")
    if isinstance(client, Chat) and model in ("llama-cpp-python/tiny", "llama-server/tiny"):
        # The server itself finds it, and one of them calls that a fault of its own.
        more, statuses = {"temperature": "hot"}, (400, 422, 500)
    else:
        more, statuses = {"input" if isinstance(client, Responses) else "messages": 7}, (400, 422)
    words = ("temperature", "messages", "input")
    return refusal(client, model, streamed, statuses, words, limit=LIMIT, extra_body=more)


def long_contexts(client, model, streamed, _):
    if streamed and model.startswith("llama-cpp-python"):
        # It has begun to answer when it finds out, and says nothing.
        return refusal(client, model, streamed, (502,), ("empty",), text=TOO_LONG, limit=LIMIT)
    return refusal(client, model, streamed, (400, 413), ("context", "too long", "exceed"), text=TOO_LONG, limit=LIMIT)


def cancelled_streams(client, model, streamed, llama_server):
    if not streamed:
        return SKIPPED("only streams are cancelled")
    close = client.begin(model)
    if close is None:
        return "the stream ended before anything was said"
    close()
    start = time.monotonic()
    while model.startswith("llama-server") and is_busy(llama_server):
        if time.monotonic() - start > 1:
            return "the server goes on for a client that has left"
        time.sleep(0.02)
    # Each server answers one request at a time.
    return limits(client, model, True, None)


def is_busy(llama_server):
    with urllib.request.urlopen(llama_server + "/slots") as slots:
        return any(slot["is_processing"] for slot in json.load(slots))


CASES = (
    limits,
    forced_calls,
    several_systems,
    unknown_models,
    malformed_requests,
    long_contexts,
    cancelled_streams,
)


class SKIPPED(str):
    """Why a case does not concern a client."""


def main():
    url, llama_server = (argument.rstrip("/") for argument in sys.argv[1:3])
    matrix = Matrix("python, real servers")
    clients = [make(url) for make in (Chat, OldChat, Responses, Messages, Gemini, Ollama)]
    for upstream in UPSTREAMS:
        for case in CASES:
            title = f"{upstream}, {case.__name__.replace('_', ' ')}"
            for client in clients:
                for streamed in (True, False):
                    try:
                        wrong = case(client, f"{upstream}/tiny", streamed, llama_server)
                    except Exception as error:
                        wrong = f"{type(error).__name__}: {error}"
                    skipped = wrong if isinstance(wrong, SKIPPED) else None
                    faults = [wrong] if wrong and not skipped else []
                    name = f"{title}, {'streamed' if streamed else 'whole'}"
                    matrix.add(type(client).__name__, title, skipped, faults, name)
    matrix.conclude()


if __name__ == "__main__":
    main()
