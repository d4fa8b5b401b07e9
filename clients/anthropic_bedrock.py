"""Plays what callweave writes to the official clients of Anthropic and Amazon, and compares what they understand with
what they understand of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original.
Mended: the client reads answers of every protocol; every event is of a type that it declares, and what it makes of the
stream it makes of the whole body, too.

usage: anthropic_bedrock.py CALLWEAVE DATA...

Each DATA is a folder of protocols, of which each holds cases or recordings.
"""

import base64
import json
import pathlib
import subprocess
import sys
import threading
import warnings
from collections import Counter
from http.server import ThreadingHTTPServer

import anthropic
import botocore.session
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from compare import Replay
from pydantic import TypeAdapter, ValidationError

SSE, JSON, AWS = "text/event-stream", "application/json", "application/vnd.amazon.eventstream"
MESSAGES = [{"role": "user", "content": [{"text": "?"}]}]
EVENT = TypeAdapter(BetaRawMessageStreamEvent)

# Cases that are written better than they came, or that this client cannot be told, and why.
ASIDE = {
    "anthropic-messages/keep-alives-of-others-before-the-stream": "what others say before the stream is passed on",
    "openai-chat/arguments-not-json": "the client gives up where arguments are not JSON",
    "openai-chat/arguments-placeholder-then-real": "a stream cannot take back what it has told",
    "openai-chat/id-comes-late": "a stream cannot take back what it has told",
    "openai-responses/closing-restatements-differ-from-deltas": "a stream cannot take back what it has told",
    "openai-chat/error-before-the-stream": "clients read one answer at a time",
    "openai-chat/several-bodies-line-by-line": "clients read one answer at a time",
    "anthropic-messages/block-start-repeated": "a block that is announced twice is written once",
    "anthropic-messages/block-start-repeated-in-the-middle": "a block that is announced twice is written once",
    "anthropic-messages/emoji-cut-between-deltas": "halves of a character are written as one",
    "anthropic-messages/usage-cache-written-then-read": "the reason is written with the last message_delta",
    "anthropic-messages/arguments-that-are-not-json": "the client gives up where arguments are not JSON",
    "bedrock-converse/thoughts-inside-thoughts": "thoughts inside thoughts have no place",
    "bedrock-converse/whole-body-cut-inside-the-input": "the client does not read a body that is cut off",
}


class Client:
    def dumped(self, dump):
        return dumped(dump)


class Anthropic(Client):
    """The Messages API, beta types included."""

    protocol = "anthropic-messages"
    own = ("anthropic-messages", "bedrock-invoke")
    start = b"event: message_start"
    types = {"stream": SSE, "whole": JSON}

    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def read(self, form):
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
        if form == "whole":
            return self.client.beta.messages.create(**asked).model_dump(mode="json")
        with self.client.beta.messages.stream(**asked) as stream:
            return stream.get_final_message().model_dump(mode="json")

    def original(self, path):
        """The form and the bytes of a recording, as the wire would have them."""
        body = path.read_bytes()
        if path.suffix == ".sse":
            return "stream", body
        if path.suffix == ".json":
            return "whole", body
        lines = [line for line in body.decode().splitlines() if line.strip()]
        frames = [f"event: {json.loads(line).get('type')}\ndata: {line}\n\n" for line in lines]
        return "stream", "".join(frames).encode()

    def strange(self, form, body):
        """What is of no type that the client declares."""
        if form == "whole":
            value = json.loads(body)
            return [] if value.get("type") == "error" else faults_of(BetaMessage.model_validate, value)
        frames = [frame for frame in body.decode().split("\n\n") if frame]
        events = [json.loads(frame.split("\ndata: ", 1)[1]) for frame in frames]
        known = [event for event in events if event["type"] not in ("ping", "error")]
        return [fault for event in known for fault in faults_of(EVENT.validate_python, event)]

    def essence(self, dump):
        content = dump["content"]
        return {
            "text": "".join(block["text"] for block in content if block["type"] == "text"),
            "thinking": "".join(block["thinking"] for block in content if block["type"] == "thinking"),
            "calls": [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
            "stop": dump["stop_reason"],
            "usage": (dump["usage"]["input_tokens"], dump["usage"]["output_tokens"]),
        }


class Converse(Client):
    """Converse and ConverseStream, by botocore's own parsers."""

    protocol = "bedrock-converse"
    own = ("bedrock-converse", "bedrock-invoke")
    start = b"messageStart"
    types = {"stream": AWS, "whole": JSON}

    def __init__(self, url):
        session = botocore.session.Session()
        session.set_credentials("none", "none")
        config = Config(retries={"max_attempts": 0}, region_name="us-east-1")
        self.client = session.create_client("bedrock-runtime", endpoint_url=url, config=config)

    def read(self, form):
        if form == "whole":
            answer = self.client.converse(modelId="m", messages=MESSAGES)
            answer.pop("ResponseMetadata")
            return answer
        return list(self.client.converse_stream(modelId="m", messages=MESSAGES)["stream"])

    def original(self, path):
        form = {".eventstream": "stream", ".json": "whole"}.get(path.suffix)
        return form, path.read_bytes()

    def strange(self, form, body):
        """What is of no shape that the service's own model declares, and what it requires and is not there."""
        model = self.client.meta.service_model
        if form == "whole":
            value = json.loads(body)
            return [] if is_failure(value) else misfits(model.operation_model("Converse").output_shape, value)
        stream = model.operation_model("ConverseStream").output_shape.members["stream"]
        return [fault for name, payload in frames_of(body) for fault in misfits(stream.members[name], payload)]

    def essence(self, dump):
        return gathered(dump) if isinstance(dump, list) else whole_converse(dump)


class Invoke(Converse):
    """InvokeModel and InvokeModelWithResponseStream."""

    protocol = "bedrock-invoke"
    own = ("anthropic-messages", "bedrock-invoke")
    start = b"eyJ0eXBlIjoibWVzc2FnZV9zdGFydCIs"  # {"type":"message_start", in base64

    def read(self, form):
        if form == "whole":
            return json.loads(self.client.invoke_model(modelId="m", body=b"{}")["body"].read())
        stream = self.client.invoke_model_with_response_stream(modelId="m", body=b"{}")["body"]
        return [json.loads(event["chunk"]["bytes"]) for event in stream]

    def essence(self, dump):
        return None

    def strange(self, form, body):
        """Claude's chunks are events of the Messages API."""
        if form == "whole":
            return []
        chunks = [base64.b64decode(payload["bytes"]) for name, payload in frames_of(body) if name == "chunk"]
        events = [event for event in map(json.loads, chunks) if event.get("type")]
        return [fault for event in events for fault in faults_of(EVENT.validate_python, event)]

    def dumped(self, dump):
        """Each vendor has shapes of its own: what stands under each key, texts joined. Numbers of blocks that hold
        nothing say nothing."""
        if not isinstance(dump, list):
            return filled(dump)
        gist = {}
        for key, value in (leaf for chunk in dump for leaf in leaves("", filled(chunk))):
            if key in JOINED:
                gist[key] = gist.get(key, "") + value
            elif key not in ("contentBlockIndex", "index", "obfuscation", "p"):
                gist.setdefault(key, set()).add(value)
        return gist


JOINED = ("text", "content", "reasoning", "arguments", "partial_json", "thinking", "completion", "outputText")


def leaves(key, value):
    if isinstance(value, dict):
        yield from (leaf for key, member in value.items() for leaf in leaves(key, member))
    elif isinstance(value, list):
        yield from (leaf for element in value for leaf in leaves(key, element))
    else:
        yield key, value


def frames_of(body):
    """The events of an AWS event stream, checksums checked; exceptions are left out."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    for message in buffer:
        if message.headers[":message-type"] == "event":
            yield message.headers[":event-type"], json.loads(message.payload)


PLAIN = {"string": str, "blob": str, "integer": int, "long": int, "boolean": bool, "float": (int, float)}


def misfits(shape, value, path=""):
    """Where the value does not fit the shape."""
    path = path or shape.name
    if getattr(shape, "is_document_type", False):
        return
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            yield f"{path}: {value} is no object"
            return
        yield from (f"{path}: {key} is missing" for key in shape.required_members if key not in value)
        for key, member in value.items():
            if key not in shape.members:
                yield f"{path}: {key} is not declared"
            else:
                yield from misfits(shape.members[key], member, f"{path}.{key}")
    elif shape.type_name == "list":
        for element in value:
            yield from misfits(shape.member, element, f"{path}[]")
    elif shape.type_name in PLAIN and not isinstance(value, PLAIN[shape.type_name]):
        yield f"{path}: {value} is no {shape.type_name}"


def whole_converse(dump):
    message = {"text": "", "thinking": "", "calls": [], "stop": dump["stopReason"], "usage": dump["usage"]}
    for block in dump["output"]["message"]["content"]:
        message["text"] += block.get("text", "")
        for part in block.get("citationsContent", {}).get("content", []):
            message["text"] += part.get("text", "")
        message["thinking"] += block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
        if call := block.get("toolUse"):
            message["calls"].append((call["toolUseId"], call["name"], call["input"]))
    return message


def gathered(events):
    """What the events of a ConverseStream amount to."""
    message = {"text": "", "thinking": "", "calls": [], "stop": None, "usage": None}
    calls, inputs = {}, Counter()
    for event in events:
        if start := event.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
            calls[event["contentBlockStart"]["contentBlockIndex"]] = (start["toolUseId"], start["name"])
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        message["text"] += delta.get("text", "")
        message["thinking"] += delta.get("reasoningContent", {}).get("text", "")
        if "toolUse" in delta:
            index = event["contentBlockDelta"]["contentBlockIndex"]
            inputs[index] = (inputs[index] or "") + delta["toolUse"]["input"]
        message["stop"] = event.get("messageStop", {}).get("stopReason", message["stop"])
        message["usage"] = event.get("metadata", {}).get("usage", message["usage"])
    for index, (name, tool) in calls.items():
        message["calls"].append((name, tool, parsed(inputs[index] or "{}")))
    return message


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def faults_of(validate, value):
    try:
        validate(value)
    except ValidationError as error:
        return [f"{value.get('type')}: {error}"]
    return []


def filled(value):
    """The value without members that say nothing, bytes as text."""
    if isinstance(value, dict):
        members = {key: filled(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, [], {}, "")}
    if isinstance(value, list):
        return [filled(element) for element in value]
    return value.hex() if isinstance(value, bytes) else value


def dumped(dump):
    """The dump in an order and in pieces that say nothing: adjacent deltas of one block are one, padding is none, and
    an event that says nothing is none."""
    if not isinstance(dump, list):
        return filled(dump)
    merged = []
    for event in map(filled, dump):
        event.pop("p", None)
        last = merged[-1] if merged else None
        if last and grown(last, event):
            continue
        if said(event):
            merged.append(event)
    return merged


def said(event):
    """Whether a chunk's event says anything: an empty delta does not."""
    delta = event.get("delta", event.get("contentBlockDelta", {}).get("delta"))
    is_delta = "contentBlockDelta" in event or event.get("type") == "content_block_delta"
    return bool(event) and not (is_delta and set(delta or {}) <= {"type"})


def grown(last, event):
    """Adds a delta to the one before it, if it goes on with the same text."""
    one, other = (item.get("contentBlockDelta", item if "delta" in item else None) for item in (last, event))
    if not one or not other or [one.get(k) for k in ("contentBlockIndex", "index")] != [
        other.get(k) for k in ("contentBlockIndex", "index")
    ]:
        return False
    return append(one.get("delta"), other.get("delta"))


def append(one, other):
    if not isinstance(one, dict) or not isinstance(other, dict) or one.keys() != other.keys():
        return False
    texts = [key for key in one if key in ("text", "thinking", "partial_json", "input")]
    nested = [key for key in one if isinstance(one[key], dict)]
    if any(one[key] != other[key] for key in one if key not in texts + nested) or len(texts + nested) != 1:
        return False
    if nested:
        return append(one[nested[0]], other[nested[0]])
    one[texts[0]] += other[texts[0]]
    return True


def played(client, form, body):
    """The client's dump, or the words in which it gives up."""
    Replay.body, Replay.content_type = body, client.types[form]
    try:
        return client.read(form)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def convert(program, path, protocol, client, form, mode):
    command = [program, "convert", "--from", protocol, "--to", client.protocol, f"--{form}"]
    mend = ["--mend"] if mode == "mended" else []
    return subprocess.run([*command, *mend, str(path)], capture_output=True, check=False).stdout or None


def check_faithful(program, client, path, counts):
    form, body = client.original(path)
    # Clients read one answer at a time.
    if form is None or body.count(client.start) > 1:
        return
    theirs = played(client, form, body)
    if isinstance(theirs, str):
        counts["unread"] += 1
        return
    written = convert(program, path, client.protocol, client, form, "faithful")
    if written is None:
        counts["unread"] += 1
        return
    ours = played(client, form, written)
    counts["faithful"] += 1
    if client.dumped(theirs) != client.dumped(ours):
        yield f"the client has of the original\n  {client.dumped(theirs)}\nof ours\n  {client.dumped(ours)}"


def check_mended(program, client, path, protocol, counts):
    dumps = {}
    for form in ("stream", "whole"):
        body = convert(program, path, protocol, client, form, "mended")
        # Clients read one answer at a time.
        if body is None or body.count(client.start) > 1 or form == "whole" and body.strip().count(b"\n"):
            return
        dumps[form] = played(client, form, body)
        # What only one protocol knows is passed on to its own clients as it came.
        if protocol not in client.own:
            yield from client.strange(form, body)
        if form == "whole":
            has_failed = is_failure(json.loads(body))
    counts["mended"] += 1
    if isinstance(dumps["stream"], str) or isinstance(dumps["whole"], str):
        # The stream says so, and the body of a failed request is no message.
        is_told = isinstance(dumps["stream"], str) and "rror" in dumps["stream"] and ": " in dumps["stream"]
        if not (has_failed and is_told):
            yield f"mended: {dumps}"
    elif has_failed:
        yield f"mended: a failure that does not show: {dumps}"
    else:
        one, other = (client.essence(dump) for dump in dumps.values())
        if one and not one["usage"]:
            # The end of the stream is missing.
            one["usage"] = other["usage"]
        if one != other and not is_cut(one, other):
            yield f"mended: the stream gives\n  {one}\nthe whole body\n  {other}"


def is_cut(one, other):
    """Whether the two differ only in arguments that are no object: a stream has them as they came."""
    calls = [message.pop("calls") for message in (one, other)]
    differing = [pair for pair in zip(*calls, strict=True) if pair[0] != pair[1]]
    is_none = [isinstance(call[2], str) or list(whole[2]) == ["INVALID_JSON"] for call, whole in differing]
    return one == other and all(is_none)


def is_failure(body):
    """Whether a whole body tells of a failure."""
    return any(key in ("error", "__type") or key.endswith("Exception") for key in body)


def main():
    program, folders = sys.argv[1], map(pathlib.Path, sys.argv[2:])
    warnings.simplefilter("ignore")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    clients = [kind(url) for kind in (Anthropic, Converse, Invoke)]
    paths = [
        (path, protocol.name)
        for folder in folders
        for protocol in sorted(folder.iterdir())
        if protocol.is_dir()
        for path in [*sorted(protocol.glob("*/input.*")), *sorted(p for p in protocol.iterdir() if p.is_file())]
    ]
    failures = 0
    for client in clients:
        counts = Counter()
        for path, protocol in paths:
            name = f"{protocol}/{path.parent.name if path.stem == 'input' else path.name}"
            if name in ASIDE:
                continue
            faults = list(check_mended(program, client, path, protocol, counts))
            if protocol == client.protocol:
                faults += check_faithful(program, client, path, counts)
            for fault in faults:
                failures += 1
                print(f"{name} as {client.protocol}: {fault[:3000]}")
        print(f"{client.protocol}: {dict(counts)}")
    server.shutdown()
    print(f"{failures} faults")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
