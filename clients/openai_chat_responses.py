"""Plays what callweave writes to OpenAI's official client, and compares what the client understands with what it
understands of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original, empty members aside.
Mended: the client's stream helper reads answers of every protocol, every event is of a type that it declares, and text,
calls, the reason to finish and the token counts are those that callweave has.

usage: openai_chat_responses.py CALLWEAVE DATA...
"""

import json
import sys

import openai
from answers import (
    NOT_SINGLE,
    TYPES,
    UNREADABLE,
    Callweave,
    Matrix,
    answers,
    filled,
    misread,
    parsed,
    play,
    serve,
)
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

ASKED = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


class Responses:
    name = "openai-responses"
    event = TypeAdapter(ResponseStreamEvent)
    # Cases that are written better than they came.
    aside = {
        "closing-response-leaves-items-out": "the closing response is written with all items",
        "texts-where-lists-of-parts-belong": "a lone text is written as the only part of a list",
        "final-output-shifted": "items are written under the numbers that they were first told by",
        "final-output-shifted-and-longer": "items are written under the numbers that they were first told by",
        "output-index-absent": "without numbers nobody knows what item a part is of",
        "output-index-absent-and-no-item-done": "without numbers nobody knows what item a part is of",
        "output-index-and-id-absent": "without numbers nobody knows what item a part is of",
        "second-response-after-the-first": "without numbers nobody knows what item a part is of",
    }
    # What the client says of streams that end otherwise than completed.
    unfinished = ("Didn't receive a `response.completed` event",)
    start = b"event: response.created\n"
    # The cases that the client can be asked about.
    clean = ""

    @staticmethod
    def whole(client):
        return client.responses.create(model="m", input="?").model_dump(mode="json")

    @staticmethod
    def streamed(client):
        last = None
        for event in client.responses.create(model="m", input="?", stream=True):
            last = getattr(event, "response", last)
        return last.model_dump(mode="json")

    @staticmethod
    def helped(client):
        with client.responses.stream(model="m", input="?") as stream:
            return stream.get_final_response().model_dump(mode="json")

    @staticmethod
    def essence(dump):
        text, calls = "", []
        for item in dump["output"]:
            if item["type"] == "message":
                text += "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])
            if item["type"] == "function_call":
                calls.append((item["name"], parsed(item["arguments"])))
            if item["type"] == "custom_tool_call":
                calls.append((item["name"], {"input": item["input"]}))
        counts = dump["usage"] or {}
        details = dump.get("incomplete_details") or {}
        finish = details.get("reason") or dump["status"]
        return text, calls, finish, [counts.get("input_tokens", 0), counts.get("output_tokens", 0)]

    @staticmethod
    def reasons(finish):
        return {
            "completed": {"stop", "tool_calls"},
            "max_output_tokens": {"length", "other"},
            "content_filter": {"content_filter"},
            "incomplete": {"other"},
            # What was cut off has failed.
            "failed": {"error", "other", "length", "stop", "tool_calls", "content_filter"},
        }.get(finish, set())


class Chat:
    name = "openai-chat"
    event = TypeAdapter(ChatCompletionChunk)
    aside = {
        "whole-answer-after-its-deltas": "what is told again is written once",
        "stream-function-call-beside-tool-calls": "a call that is told in two forms is written once",
        "whole-function-call-beside-tool-calls": "a call that is told in two forms is written once",
        "function-call-beside-tool-calls-in-other-pieces": "a call that is told in two forms is written once",
        "whole-message-differs-from-its-deltas": "a text that differs is told as one more",
        "whole-text-and-parallel-calls": "a body numbers its calls by their order",
        "mistral-mistral-small-latest-chat-mistral-hybrid-reasoning-streams-thinking-separately-from-content.sse": (
            "parts of one chunk are told one by one"
        ),
    }
    unfinished = (
        "LengthFinishReasonError",
        "ContentFilterFinishReasonError",
        # The helper does not know custom calls.
        "AttributeError: 'dict' object has no attribute 'name'",
    )
    start = b'"role":"assistant"'
    clean = ("stream-", "whole-")

    @staticmethod
    def whole(client):
        return client.chat.completions.create(**ASKED).model_dump(mode="json")

    @staticmethod
    def streamed(client):
        """All that the chunks say, texts joined."""
        said = {}
        for chunk in client.chat.completions.create(**ASKED, stream=True):
            gather(chunk.model_dump(mode="json"), said, ())
        return {" ".join(map(str, path)): value for path, value in said.items()}

    @staticmethod
    def helped(client):
        with client.chat.completions.stream(**ASKED) as stream:
            return stream.get_final_completion().model_dump(mode="json")

    @staticmethod
    def essence(dump):
        choice = dump["choices"][0] if dump["choices"] else {"message": {}, "finish_reason": "length"}
        message, calls = choice["message"], []
        for call in message.get("tool_calls") or []:
            if call["type"] == "custom":
                calls.append((call["custom"]["name"], {"input": call["custom"]["input"]}))
            else:
                calls.append((call["function"]["name"], parsed(call["function"]["arguments"])))
        counts = dump["usage"] or {}
        text = (message.get("content") or "") + (message.get("refusal") or "")
        usage = [counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)]
        return text, calls, choice["finish_reason"], usage

    @staticmethod
    def reasons(finish):
        return {"length": {"length", "error", "other"}}.get(finish, {finish})


# What grows from chunk to chunk.
GROWING = {"content", "refusal", "reasoning", "reasoning_content", "text", "summary", "thinking", "arguments", "input"}


def gather(value, said, path):
    """Collects the leaves of a chunk by their paths: pieces are joined, the rest counts as it was last said. Elements
    that have an index stand under it. What stands in another place of each chunk, or is told beside its pieces, says
    nothing more."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key not in ("logprobs", "message"):
                gather(member, said, (*path, key))
    elif isinstance(value, list):
        for at, element in enumerate(value):
            number = element.get("index", at) if isinstance(element, dict) else at
            gather(element, said, (*path, number))
    elif isinstance(value, str) and path[-1] in GROWING:
        said[path] = said.get(path, "") + value
    elif value is not None:
        said[path] = value


# Padding, and numbers that an order tells as well.
VOLATILE = {"obfuscation", "p", "padding"}


def missing(original, ours, path=""):
    """What the client knew of the original and does not know of ours. An `output` that the server left empty although
    it had streamed items is written with them."""
    if isinstance(original, dict) and isinstance(ours, dict):
        for key, value in original.items():
            is_numbered = key == "index" and path.endswith("tool_calls[]")
            if key.split(" ")[-1] not in VOLATILE and not is_numbered:
                yield from missing(value, ours.get(key), f"{path}.{key}")
    elif isinstance(original, list) and isinstance(ours, list) and len(original) == len(ours):
        for one, other in zip(original, ours):
            yield from missing(one, other, f"{path}[]")
    elif original != ours:
        yield f"{path}: {original!r:.300}, ours {ours!r:.300}"


def as_sse(body):
    """Recorded lines of JSON as the stream they were."""
    if not body.lstrip().startswith(b"{"):
        return body
    lines = [line for line in body.decode().splitlines() if line.strip()]
    names = [json.loads(line).get("type") for line in lines]
    names = [f"event: {name}\n" if name else "" for name in names]
    return "".join(f"{name}data: {line}\n\n" for name, line in zip(names, lines)).encode()


def strange_events(stream, kind):
    """The events of our stream that are of no type that the client declares."""
    for line in stream.decode().splitlines():
        data = line.removeprefix("data: ")
        if data != line and data != "[DONE]":
            event = json.loads(data)
            try:
                kind.event.validate_python(event)
            except ValidationError:
                # Nor does it declare custom calls in a stream.
                if "error" not in event and '"type":"custom"' not in data:
                    yield event.get("type") or ",".join(event)


def check_faithful(callweave, client, answer, kind):
    """Why it is skipped, if it is, and what differs."""
    is_whole = answer.path.suffix == ".json"
    read, form = (kind.whole, "whole") if is_whole else (kind.streamed, "stream")
    content_type = TYPES[".json" if is_whole else ".sse"]
    recorded = answer.path.read_bytes()
    body = recorded if is_whole else as_sse(recorded)
    theirs = play(lambda: read(client), body, content_type)
    written = callweave.convert(answer, kind.name, form, "faithful")
    if answer.name in kind.aside:
        return kind.aside[answer.name], []
    if callweave.message(answer).get("errors"):
        return "an error is written where clients look for one", []
    if isinstance(theirs, str) or written is None:
        return UNREADABLE, []
    # Lines of JSON have no marks of their ends: of several answers the client would make one.
    if body is not recorded and not callweave.is_single(answer, kind.name):
        return NOT_SINGLE, []
    ours = play(lambda: read(client), written, content_type)
    lost = list(missing(filled(theirs), filled(ours)))
    return None, [f"the client has of the original and not of ours: {lost}"] if lost else []


ENDLESS = {"choice-index-huge-negative-or-text": "no client can hold as many choices"}


def check_mended(callweave, client, answer, kind):
    if not callweave.is_single(answer, kind.name) or answer.name in ENDLESS:
        return ENDLESS.get(answer.name, NOT_SINGLE), []
    message, faults = callweave.message(answer), []
    for form, read in (("stream", kind.helped), ("whole", kind.whole)):
        body = callweave.convert(answer, kind.name, form, "mended")
        has_failed = bool(message.get("errors"))
        status = 500 if has_failed and form == "whole" else 200
        theirs = play(lambda: read(client), body, TYPES[".sse" if form == "stream" else ".json"], status)
        if isinstance(theirs, str):
            is_told = any(word in theirs for word in kind.unfinished) or has_failed and "Error" in theirs
            faults += [] if is_told else [f"mended {form}: {theirs}"]
        elif not has_failed:
            text, calls, *rest = kind.essence(theirs)
            # Only this protocol has calls of other kinds.
            if answer.protocol == "openai-responses" == kind.name:
                calls = None
            told = misread(message, (text, calls, *rest), kind.reasons, form, answer.name)
            faults += [f"mended {form}: {fault}" for fault in told]
        elif "error" not in kind.reasons(kind.essence(theirs)[2]):
            faults.append(f"mended {form}: a failure that does not show: {theirs}")
        # What only one server knows is passed on as it came.
        if form == "stream" and answer.protocol != kind.name:
            strange = set(strange_events(body, kind)) - {"response.failed", "error"}
            faults += [f"mended: {strange}"] if strange else []
    return None, faults


def main():
    kinds = (Chat, Responses)
    callweave = Callweave(sys.argv[1], answers(sys.argv[2:]), [kind.name for kind in kinds])
    client = openai.OpenAI(base_url=serve() + "/v1", api_key="none", max_retries=0)
    matrix = Matrix("python openai")
    for kind in kinds:
        for answer in callweave.answers:
            if answer.protocol == kind.name and answer.is_own and not answer.name.startswith(kind.clean):
                matrix.add(kind.name, "as it came", "what servers do that the client misreads")
            elif answer.protocol == kind.name:
                skipped, faults = check_faithful(callweave, client, answer, kind)
                matrix.add(kind.name, "as it came", skipped, faults, answer)
            skipped, faults = check_mended(callweave, client, answer, kind)
            matrix.add(kind.name, answer.protocol, skipped, faults, answer)
    matrix.conclude()


if __name__ == "__main__":
    main()
