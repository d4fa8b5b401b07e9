"""Plays what callweave writes to OpenAI's official client, and compares what the client understands with what it
understands of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original, empty members aside.
Mended: the client's stream helper reads answers of every protocol, and every event is of a type that it declares.

usage: openai_chat_responses.py CALLWEAVE DATA
"""

import json
import pathlib
import subprocess
import sys
import threading
import warnings
from http.server import ThreadingHTTPServer

import openai
from compare import TYPES, Replay
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


class Chat:
    name = "openai-chat"
    event = TypeAdapter(ChatCompletionChunk)
    aside = {
        "whole-answer-after-its-deltas": "what is told again is written once",
        "whole-message-differs-from-its-deltas": "a text that differs is told as one more",
        "whole-text-and-parallel-calls": "a body numbers its calls by their order",
    }
    unfinished = (
        "LengthFinishReasonError",
        "ContentFilterFinishReasonError",
        # The helper does not know custom calls.
        "AttributeError: 'dict' object has no attribute 'name'",
    )
    start = b'"role":"assistant"'
    # The others are what servers do that the client misreads.
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


# What each chunk says anew, and where pieces are to be joined.
REPEATED = {"id", "object", "created", "model", "role", "type", "finish_reason", "system_fingerprint", "service_tier"}


def gather(value, said, path):
    """Collects the leaves of a chunk by their paths: pieces are joined, the rest counts as it was last said. Elements
    that have an index stand under it."""
    if isinstance(value, dict):
        for key, member in value.items():
            gather(member, said, (*path, key))
    elif isinstance(value, list):
        for at, element in enumerate(value):
            number = element.get("index", at) if isinstance(element, dict) else at
            gather(element, said, (*path, number))
    elif isinstance(value, str) and path[-1] not in REPEATED:
        said[path] = said.get(path, "") + value
    elif value is not None:
        said[path] = value


def played(read, client, body, content_type):
    """The client's dump, or the words in which it gives up."""
    Replay.body, Replay.content_type = body, content_type
    try:
        return read(client)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def filled(value):
    """The value without members that say nothing."""
    if isinstance(value, dict):
        members = {key: filled(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, [], {}, "")}
    if isinstance(value, list):
        return [filled(element) for element in value]
    return value


def is_kept(original, ours):
    """Whether everything that the client knew of the original it knows of ours. An `output` that the server left
    empty although it had streamed items is written with them."""
    if isinstance(original, dict) and isinstance(ours, dict):
        return all(key in ours and is_kept(value, ours[key]) for key, value in original.items())
    if isinstance(original, list) and isinstance(ours, list):
        return len(original) == len(ours) and all(map(is_kept, original, ours))
    return original == ours


def as_sse(body):
    """Recorded lines of JSON as the stream they were."""
    if not body.lstrip().startswith(b"{"):
        return body
    lines = [line for line in body.decode().splitlines() if line.strip()]
    names = [json.loads(line).get("type") for line in lines]
    names = [f"event: {name}\n" if name else "" for name in names]
    return "".join(f"{name}data: {line}\n\n" for name, line in zip(names, lines)).encode()


def convert(program, path, protocol, to, *arguments):
    """What callweave writes, however it likes the answer."""
    command = [program, "convert", "--from", protocol, "--to", to, *arguments, str(path)]
    return subprocess.run(command, capture_output=True, check=False).stdout


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


def faults_of(program, client, path, kind, unread):
    protocol, case = path.parent.parent.name, path.parent.name
    if protocol == kind.name and case.startswith(kind.clean):
        is_whole = path.suffix == ".json"
        read, form = (kind.whole, "--whole") if is_whole else (kind.streamed, "--stream")
        content_type = TYPES[".json" if is_whole else ".sse"]
        body = path.read_bytes() if is_whole else as_sse(path.read_bytes())
        theirs = played(read, client, body, content_type)
        ours = played(read, client, convert(program, path, protocol, kind.name, form), content_type)
        if isinstance(theirs, str):
            unread.append(f"{protocol}/{case}: {theirs}")
        elif case not in kind.aside and not is_kept(filled(theirs), filled(ours)):
            yield f"the client has {theirs} of the original, {ours} of ours"
    stream = convert(program, path, protocol, kind.name, "--stream", "--mend")
    answer = played(kind.helped, client, stream, TYPES[".sse"])
    is_several = stream.count(kind.start) > 1 or not stream
    if isinstance(answer, str) and not any(word in answer for word in (*kind.unfinished, "APIError")) and not is_several:
        yield f"mended: {answer}"
    # What only one server knows is passed on as it came.
    if protocol != kind.name and (strange := set(strange_events(stream, kind)) - {"response.failed", "error"}):
        yield f"mended: {strange}"


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    warnings.simplefilter("ignore")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    passed, failed, unread = 0, 0, []
    for kind in (Chat, Responses):
        for path in sorted(data.glob("*/*/input.*")):
            faults = list(faults_of(program, client, path, kind, unread))
            passed, failed = passed + (not faults), failed + bool(faults)
            for fault in faults:
                print(f"{path.parent.parent.name}/{path.parent.name} as {kind.name}: {fault}")
    server.shutdown()
    for original in unread:
        print(f"cannot be read as it came: {original}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
