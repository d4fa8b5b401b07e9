"""Bytes in pieces, events out."""

import asyncio
import gc
import pickle
import sys
import threading

import callweave
import pytest

CHUNKS = [
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Loo"}}]}\n\n',
    b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"king."}}]}\n\n',
    b'data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function",'
    b'"function":{"name":"look","arguments":"{\\"at\\": \\"the s"}}]}}]}\n\n',
    b'data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":'
    b'{"arguments":"ky\\", \\"times\\": 2}"}}]}}]}\n\n',
    b'data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n',
    b"data: [DONE]\n\n",
]


def test_events_have_a_class_for_each_kind():
    decoder = callweave.Decoder()
    seen = []
    for chunk in CHUNKS:
        for event in decoder.push(chunk):
            match event:
                case callweave.StartEvent(id, model):
                    seen.append(("start", id, model))
                case callweave.DeltaEvent("text", text):
                    seen.append(("text", text))
                case callweave.BlockStartEvent(block, "tool_call"):
                    seen.append(("call", event.id, event.name, event.call_kind))
                case callweave.DeltaEvent("arguments", text):
                    seen.append(("arguments", text, decoder.partial_arguments(event.block)))
                case callweave.UsageEvent(usage):
                    seen.append(("usage", usage.input_tokens, usage.output_tokens))
                case callweave.FinishEvent(reason):
                    seen.append(("finish", reason))
    decoder.finish()
    assert seen == [
        ("start", "c1", "m"),
        ("text", "Loo"),
        ("text", "king."),
        ("call", "t1", "look", "function"),
        ("arguments", '{"at": "the s', {"at": "the s"}),
        ("arguments", 'ky", "times": 2}', {"at": "the sky", "times": 2}),
        ("usage", 3, 4),
        ("finish", "tool_calls"),
    ]
    assert decoder.protocol == "openai-chat"


def test_the_message_is_there_at_any_time():
    decoder = callweave.Decoder()
    assert decoder.message.text == ""
    decoder.push(CHUNKS[0])
    first = decoder.message
    assert first.text == "Loo" and decoder.message is first
    decoder.push(CHUNKS[1])
    assert (first.text, decoder.message.text) == ("Loo", "Looking.")
    assert decoder.message.tool_calls == [] and decoder.message.finish_reason is None
    for chunk in CHUNKS[2:]:
        decoder.feed(chunk)
    decoder.finish()
    [call] = decoder.message.tool_calls
    assert (call.id, call.name, call.object()) == ("t1", "look", {"at": "the sky", "times": 2})
    assert decoder.message.usage is not None and decoder.message.usage.total_tokens == 7


def test_events_are_frozen_and_compare():
    [start, *_] = callweave.Decoder().push(CHUNKS[0])
    [same, *_] = callweave.Decoder().push(CHUNKS[0])
    assert start == same and start != callweave.Decoder().push(CHUNKS[1])[0]
    with pytest.raises(AttributeError):
        start.id = "c2"
    assert start.to_dict()["type"] == "start"


def test_a_damaged_stream_keeps_the_events_before_the_damage():
    decoder = callweave.Decoder(max_frame_bytes=200)
    with pytest.raises(callweave.LimitError) as raised:
        decoder.push(CHUNKS[0] + b"data: " + b"x" * 400)
    assert [type(event).__name__ for event in raised.value.events][0] == "StartEvent"
    assert not raised.value.is_retryable
    assert decoder.message.text == "Loo"


def test_bytes_that_are_none_are_refused():
    for wrong in ("text", 5, None, [1, 2]):
        with pytest.raises(TypeError):
            callweave.Decoder().push(wrong)


def test_errors_can_be_pickled():
    error = callweave.UpstreamError("Busy", "overloaded", 529, "busy", 2.5, "r1", {"a": 1}, True)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.error_class, copy.status, copy.retry_after, copy.is_retryable) == ("overloaded", 529, 2.5, True)


def test_an_error_event_can_be_raised():
    stream = callweave.stream([CHUNKS[0], b'data: {"error":{"message":"Busy","code":429}}\n\n'])
    errors = [event.error for event in stream if isinstance(event, callweave.ErrorEvent)]
    assert [error.error_class for error in errors] == ["rate_limit"]
    with pytest.raises(callweave.UpstreamError):
        raise errors[0]


def test_a_stream_is_iterated():
    stream = callweave.stream(CHUNKS)
    texts = [event.text for event in stream if isinstance(event, callweave.DeltaEvent) and event.kind == "text"]
    assert texts == ["Loo", "king."]
    assert stream.message.tool_calls[0].name == "look"
    assert callweave.stream(CHUNKS).collect() == stream.message


def test_a_stream_is_iterated_asynchronously():
    async def source():
        for chunk in CHUNKS:
            await asyncio.sleep(0)
            yield chunk

    async def main():
        stream = callweave.stream(source())
        count = 0
        async for event in stream:
            count += isinstance(event, callweave.DeltaEvent)
        assert count == 4
        return stream.message, await callweave.stream(source()).acollect()

    iterated, collected = asyncio.run(main())
    assert iterated == collected and iterated.finish_reason == "tool_calls"


def test_the_wrong_iteration_is_named():
    async def source():
        yield b""

    with pytest.raises(TypeError, match="async for"):
        list(callweave.stream(source()))

    async def main():
        async for _ in callweave.stream(CHUNKS):
            pass

    with pytest.raises(TypeError, match="by `for`"):
        asyncio.run(main())


def test_a_dropped_iteration_closes_its_source():
    closed = []

    def source():
        try:
            yield from CHUNKS
        finally:
            closed.append("sync")

    for _ in callweave.stream(source()):
        break
    gc.collect()
    assert closed == ["sync"]

    async def asource():
        try:
            for chunk in CHUNKS:
                yield chunk
        finally:
            closed.append("async")

    async def main():
        async with callweave.stream(asource()) as stream:
            async for _ in stream:
                break
        assert closed == ["sync", "async"]

    asyncio.run(main())


def test_a_cancelled_task_closes_its_source():
    closed = []

    async def source():
        try:
            yield CHUNKS[0]
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def consume():
        async for _ in callweave.stream(source()):
            pass

    async def main():
        task = asyncio.create_task(consume())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]

    asyncio.run(main())


def test_dialects_repair_and_coercion_work_in_streams():
    tools = {"look": {"type": "object", "properties": {"at": {"type": "string"}, "times": {"type": "integer"}}}}
    text = "<tool_call>{'name': 'look', 'arguments': {'at': 'sky', 'times': '2'}}</tool_call>"
    chunks = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text[at : at + 7].encode()
        for at in range(0, len(text), 7)
    ]
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    stream = callweave.stream([*chunks, end], dialect="auto", tools=tools, repair=True, coerce=True, validate=True)
    message = stream.collect()
    assert message.text == "" and message.finish_reason == "tool_calls"
    assert message.tool_calls[0].object() == {"at": "sky", "times": 2}
    assert stream.decoder.dialect == "hermes"


@pytest.mark.parametrize("method", ["feed", "push"])
def test_other_threads_run_during_a_large_push(method):
    chunk = b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"a word "}}]}\n\n'
    data = chunk * 200_000
    decoder = callweave.Decoder()
    take = getattr(decoder, method)
    go, ran = threading.Lock(), []
    go.acquire()

    def run():
        with go:
            ran.append(True)

    thread = threading.Thread(target=run)
    interval = sys.getswitchinterval()
    try:
        thread.start()
        # A thread loses its turn only where it gives it away.
        sys.setswitchinterval(1_000)
        go.release()
        before = list(ran)
        take(data)
        during = list(ran)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert (before, during) == ([], [True])
    assert len(decoder.message.text) == 7 * 200_000


def test_memory_is_flat_over_many_responses():
    resource = pytest.importorskip("resource")
    decoder = callweave.Decoder()
    response = b"".join(CHUNKS)
    count = 0
    peaks = []
    for turn in range(20_000):
        count += len(decoder.push(response))
        decoder.take_earlier()
        if turn % 5_000 == 4_999:
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert count > 200_000
    assert peaks[-1] - peaks[0] < 2_000, peaks  # KiB
