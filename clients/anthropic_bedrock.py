"""Plays what callweave writes to the official clients of Anthropic and Amazon, and compares what they understand with
what they understand of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original.
Mended: the client reads answers of every protocol; every event is of a type that it declares, and text, calls, the reason
to finish and the token counts are those that callweave has.

usage: anthropic_bedrock.py CALLWEAVE DATA...
"""

import base64
import json
import sys
from collections import Counter

import anthropic
import botocore.session
from answers import NOT_SINGLE, UNREADABLE, Callweave, Matrix, answers, filled, misread, parsed, play, serve
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
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
    "bedrock-invoke/whole-cohere-command-r": "older shapes of a vendor are written in another of its shapes",
    "bedrock-invoke/whole-cohere-generations": "older shapes of a vendor are written in another of its shapes",
    "bedrock-invoke/whole-jurassic": "older shapes of a vendor are written in another shape",
    "bedrock-converse/whole-body-cut-inside-the-input": "the client does not read a body that is cut off",
}


# Our reasons to finish that theirs stand for. What is not said to be whole was cut by a limit.
REASONS = {
    "end_turn": {"stop"},
    "stop_sequence": {"stop"},
    "tool_use": {"tool_calls"},
    "max_tokens": {"length", "other", "error"},
    "model_context_window_exceeded": {"length"},
    "refusal": {"content_filter"},
    "guardrail_intervened": {"content_filter"},
    "content_filtered": {"content_filter"},
    "malformed_model_output": {"error"},
    "malformed_tool_use": {"error"},
    "pause_turn": {"other"},
    "compaction": {"other"},
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
        content, usage = dump["content"], dump["usage"]
        text = "".join(block["text"] for block in content if block["type"] == "text")
        calls = [(block["name"], block["input"]) for block in content if block["type"] == "tool_use"]
        cache = ("cache_creation_input_tokens", "cache_read_input_tokens")
        counted = usage["input_tokens"] + sum(usage.get(key) or 0 for key in cache)
        return text, calls, dump["stop_reason"], [counted, usage["output_tokens"]]

    def reasons(self, finish):
        return REASONS.get(finish, set())


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
        message = gathered(dump) if isinstance(dump, list) else whole_converse(dump)
        usage, cache = message["usage"], ("cacheReadInputTokens", "cacheWriteInputTokens")
        # The end of the stream may be missing.
        counted = usage and [
            usage["inputTokens"] + sum(usage.get(key, 0) for key in cache),
            usage["outputTokens"],
        ]
        return message["text"], message["calls"], message["stop"], counted

    def reasons(self, finish):
        return REASONS.get(finish, set())


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
        """Claude's, as by the Messages API. Other vendors have shapes of their own, which `dumped` compares."""
        message = whole_message(dump) if isinstance(dump, list) else dump
        return Anthropic.essence(self, message) if message.get("type") == "message" else None

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


# Calls that Amazon has run.
SERVER = "server_tool_use"


def whole_converse(dump):
    message = {"text": "", "thinking": "", "calls": [], "stop": dump["stopReason"], "usage": dump["usage"]}
    for block in dump["output"]["message"]["content"]:
        message["text"] += block.get("text", "")
        for part in block.get("citationsContent", {}).get("content", []):
            message["text"] += part.get("text", "")
        message["thinking"] += block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
        if (call := block.get("toolUse")) and call.get("type") != SERVER:
            message["calls"].append((call["name"], call["input"]))
    return message


def gathered(events):
    """What the events of a ConverseStream amount to."""
    message = {"text": "", "thinking": "", "calls": [], "stop": None, "usage": None}
    calls, inputs = {}, Counter()
    for event in events:
        start = event.get("contentBlockStart", {}).get("start", {}).get("toolUse")
        if start and start.get("type") != SERVER:
            calls[event["contentBlockStart"]["contentBlockIndex"]] = start["name"]
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        message["text"] += delta.get("text", "")
        message["thinking"] += delta.get("reasoningContent", {}).get("text", "")
        if "toolUse" in delta:
            index = event["contentBlockDelta"]["contentBlockIndex"]
            inputs[index] = (inputs[index] or "") + delta["toolUse"]["input"]
        message["stop"] = event.get("messageStop", {}).get("stopReason", message["stop"])
        message["usage"] = event.get("metadata", {}).get("usage", message["usage"])
    for index, name in calls.items():
        message["calls"].append((name, parsed(inputs[index])))
    return message


def whole_message(events):
    """What the events of the Messages API amount to."""
    message, inputs = {}, {}
    for event in events:
        index, delta = event.get("index"), event.get("delta", {})
        if event.get("type") == "message_start":
            message = event["message"]
        elif event.get("type") == "content_block_start":
            message["content"].append(event["content_block"])
        elif event.get("type") == "message_delta":
            message.update(delta)
            message["usage"].update(event["usage"])
        elif "partial_json" in delta:
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        elif "text" in delta:
            message["content"][index]["text"] += delta["text"]
    for index, text in inputs.items():
        message["content"][index]["input"] = parsed(text)
    return message


def faults_of(validate, value):
    try:
        validate(value)
    except ValidationError as error:
        return [f"{value.get('type')}: {error}"]
    return []


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


def played(client, form, body, status=200):
    return play(lambda: client.read(form), body, client.types[form], status)


def check_faithful(callweave, client, answer):
    """Why it is skipped, if it is, and what differs."""
    form, body = client.original(answer.path)
    if form is None or body.count(client.start) > 1:
        return NOT_SINGLE if form else "recorded in another form than the wire's", []
    theirs = played(client, form, body)
    written = callweave.convert(answer, client.protocol, form, "faithful")
    if isinstance(theirs, str) or written is None:
        return UNREADABLE, []
    ours = played(client, form, written)
    if client.dumped(theirs) != client.dumped(ours):
        return None, [f"the client has of the original\n  {client.dumped(theirs)}\nof ours\n  {client.dumped(ours)}"]
    return None, []


def check_mended(callweave, client, answer):
    if not callweave.is_single(answer, client.protocol):
        return NOT_SINGLE, []
    message, faults = callweave.message(answer), []
    has_failed = bool(message.get("errors"))
    for form in ("stream", "whole"):
        body = callweave.convert(answer, client.protocol, form, "mended")
        theirs = played(client, form, body)
        # What only one protocol knows is passed on to its own clients as it came.
        if answer.protocol not in client.own:
            faults += client.strange(form, body)
        if isinstance(theirs, str):
            faults += [] if has_failed or is_cut(theirs, message) else [f"mended {form}: {theirs}"]
        elif has_failed and form == "stream":
            faults.append(f"mended: a failure that does not show: {theirs}")
        elif not has_failed and (essence := client.essence(theirs)):
            told = misread(message, essence, client.reasons, form, answer.name)
            faults += [f"mended {form}: {fault}" for fault in told]
    return None, faults


def is_cut(theirs, message):
    """Whether the client gives up where the answer was cut off."""
    return any(notice["code"] == "truncated" for notice in message.get("notices", [])) and "rror" in theirs


def is_failure(body):
    """Whether a whole body tells of a failure."""
    return any(key in ("error", "__type") or key.endswith("Exception") for key in body)


def main():
    url, kinds = serve(), (Anthropic, Converse, Invoke)
    callweave = Callweave(sys.argv[1], answers(sys.argv[2:]), [kind.protocol for kind in kinds])
    matrix = Matrix("python anthropic, botocore")
    for client in [kind(url) for kind in kinds]:
        for answer in callweave.answers:
            if str(answer) in ASIDE:
                matrix.add(client.protocol, answer.protocol, ASIDE[str(answer)])
                continue
            if answer.protocol == client.protocol:
                skipped, faults = check_faithful(callweave, client, answer)
                matrix.add(client.protocol, "as it came", skipped, faults, answer)
            skipped, faults = check_mended(callweave, client, answer)
            matrix.add(client.protocol, answer.protocol, skipped, faults, answer)
    matrix.conclude()


if __name__ == "__main__":
    main()
