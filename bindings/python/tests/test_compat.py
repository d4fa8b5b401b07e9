"""Other systems' interfaces."""

import asyncio
import json

import callweave
import pytest
from callweave.compat.aggregator import ToolCallAggregator
from callweave.compat.prompty import PromptAgent, process, process_async

AGENT = PromptAgent("openai", model="m")
CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
    {"choices": [{"index": 0, "delta": {"content": "lo"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **CALL}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]
ITEMS = [
    {"kind": "text", "value": "Hel"},
    {"kind": "text", "value": "lo"},
    {"kind": "tool", "id": "t1", "name": "look", "arguments": "{}"},
]


class Dumped:
    """A chunk as the official clients have it."""

    def __init__(self, value):
        self.value = value

    def model_dump(self, **options):
        return self.value


def test_complete_responses():
    assert process(AGENT, {"choices": [{"message": {"content": "Hello"}}]}) == "Hello"
    calls = process(AGENT, {"choices": [{"message": {"tool_calls": [CALL]}}]})
    assert calls == [{"id": "t1", "name": "look", "arguments": "{}"}]
    structured = PromptAgent("openai", outputs=True)
    assert process(structured, Dumped({"choices": [{"message": {"content": '{"a": 1}'}}]})) == {"a": 1}
    assert process(AGENT, {"object": "list", "data": [{"embedding": [1, 2.5]}]}) == [1.0, 2.5]
    with pytest.raises(callweave.CallweaveError, match="unknown provider"):
        process(PromptAgent("nobody"), {})


@pytest.mark.parametrize("kind", ["chunks", "objects", "bytes"])
def test_streams(kind):
    chunks = {
        "chunks": CHUNKS,
        "objects": [Dumped(chunk) for chunk in CHUNKS],
        "bytes": [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in CHUNKS],
    }[kind]
    assert list(process(AGENT, iter(chunks))) == ITEMS

    async def source():
        for chunk in chunks:
            yield chunk

    async def main():
        items = await process_async(AGENT, source())
        return [item async for item in items]

    assert asyncio.run(main()) == ITEMS
    assert asyncio.run(process_async(AGENT, {"choices": [{"message": {"content": "Hi"}}]})) == "Hi"


def test_a_failing_stream_has_its_text():
    chunks = [*CHUNKS[:2], {"error": {"message": "Busy", "code": 429}}]
    items = process(AGENT, iter(chunks))
    assert [next(items), next(items)] == ITEMS[:2]
    with pytest.raises(callweave.UpstreamError, match="Busy") as raised:
        next(items)
    assert raised.value.partial == "Hello"


def test_the_aggregator():
    aggregator = ToolCallAggregator()
    first = aggregator.ingest_delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]})
    assert first["updated"] and first["deltas"][0]["arguments"] == "{"
    aggregator.ingest_delta({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]})
    assert aggregator.tool_calls() == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert aggregator.function_call() == {"name": "f", "arguments": "{}"}
    assert aggregator.has_calls() and not aggregator.has_calls(1) and aggregator.choices == [0]
    assert aggregator.supports_parallel_calls
    aggregator.reset_turn()
    assert aggregator.snapshot() == []
    text = {"content": "<use_tool><name>look</name><args>{}</args></use_tool>"}
    assert aggregator.ingest_message(text, emit_if_missing=True)["deltas"][0]["function"] == {"name": "look"}
