"""What it costs to turn the bytes of a streamed chat into a message: callweave beside the official client of OpenAI.

Both read the same bytes, cut at the same places, in one process; the client gets them from a transport in memory. The
times are processor time, the best of several rounds. Each way's text and calls are compared before it is timed.

    pip install callweave -r requirements.txt
    python accumulate.py
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from random import Random

import callweave
import httpx2
import openai

WORDS = "the sky is blue and “wide”, so\n\tlook at\\it: naïve 天気 🙂 of course 12.5 {not} <json>".split(" ")


def same_shaped(count: int) -> tuple[list[bytes], list[bytes]]:
    """Chunks that differ in a word each, one piece per chunk."""
    random = Random(1)
    chunks = []
    for _ in range(count):
        delta = {"content": random.choice(WORDS) + " "}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "service_tier": None}
        chunks.append({**head, "choices": [choice]})
    frames = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in [*chunks, *end("stop")]]
    frames.append(b"data: [DONE]\n\n")
    return frames, frames


def irregular(count: int) -> tuple[list[bytes], list[bytes]]:
    """Chunks with changing ids, pieces of text and of calls, padding and escapes; pieces of 1 to 1,400 bytes."""
    random = Random(2)
    chunks = []
    call = -1
    for number in range(count):
        kind = random.random()
        if kind < 0.6:
            delta = {"content": "".join(random.choice(WORDS) + " " for _ in range(random.randint(1, 4)))}
        elif kind < 0.65 or call < 0:
            call += 1
            arguments = '{"text": "'
            function = {"name": f"tool_{random.randint(0, 5)}", "arguments": arguments}
            delta = {"tool_calls": [{"index": call, "id": f"call_{number}", "type": "function", "function": function}]}
        else:
            piece = json.dumps(random.choice(WORDS), ensure_ascii=random.random() < 0.5)[1:-1]
            delta = {"tool_calls": [{"index": call, "function": {"arguments": piece}}]}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        if random.random() < 0.5:
            del choice["logprobs"]
        chunk = {
            "id": f"chatcmpl-{random.getrandbits(64):x}",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000 + number,
            "model": "m",
            "choices": [choice],
            "obfuscation": "x" * random.randint(0, 40),
        }
        if random.random() < 0.3:
            chunk["system_fingerprint"] = f"fp_{random.getrandbits(16):x}"
        chunks.append(chunk)
    for index in range(call + 1):
        function = {"arguments": '"}'}
        choice = {"index": 0, "delta": {"tool_calls": [{"index": index, "function": function}]}, "finish_reason": None}
        chunks.append({**chunks[0], "choices": [choice]})
    frames = [
        b"data: " + json.dumps(chunk, ensure_ascii=random.random() < 0.5).encode() + b"\n\n"
        for chunk in [*chunks, *end("tool_calls")]
    ]
    data = b"".join(frames) + b"data: [DONE]\n\n"
    pieces = []
    at = 0
    while at < len(data):
        length = random.randint(1, 1400)
        pieces.append(data[at : at + length])
        at += length
    return frames, pieces


def end(reason: str) -> list[dict[str, object]]:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return [{**head, "choices": [choice]}, {**head, "choices": [], "usage": usage}]


class Body(httpx2.SyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


def client(pieces: list[bytes]) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(pieces))

    return openai.OpenAI(
        api_key="k", base_url="http://local", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    )


Result = tuple[str, list[tuple[str, str]]]
QUESTION = [{"role": "user", "content": "?"}]


def official_create(pieces: list[bytes]) -> Callable[[], Result]:
    """`create(stream=True)`, with the least that has to be done by hand."""
    official = client(pieces)

    def run() -> Result:
        texts: list[str] = []
        calls: dict[int, list[str]] = {}
        names: dict[int, str] = {}
        for chunk in official.chat.completions.create(model="m", messages=QUESTION, stream=True):
            for choice in chunk.choices:
                if choice.delta.content:
                    texts.append(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    if call.function is not None:
                        if call.function.name:
                            names[call.index] = call.function.name
                        calls.setdefault(call.index, []).append(call.function.arguments or "")
        return "".join(texts), [(names[index], "".join(parts)) for index, parts in calls.items()]

    return run


def official_stream(pieces: list[bytes]) -> Callable[[], Result]:
    """`.stream()`, which accumulates by itself."""
    official = client(pieces)

    def run() -> Result:
        with official.chat.completions.stream(model="m", messages=QUESTION) as stream:
            message = stream.get_final_completion().choices[0].message
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return message.content or "", calls

    return run


def result(message: callweave.Message) -> Result:
    return message.text, [(call.name, call.arguments) for call in message.tool_calls]


def own_message(pieces: list[bytes]) -> Callable[[], Result]:
    """Pushes for the message alone."""

    def run() -> Result:
        decoder = callweave.Decoder()
        feed = decoder.feed
        for piece in pieces:
            feed(piece)
        decoder.finish()
        return result(decoder.message)

    return run


def own_events(pieces: list[bytes]) -> Callable[[], Result]:
    """Typed events, each looked at, and the message."""

    def run() -> Result:
        decoder = callweave.Decoder()
        push, texts = decoder.push, []
        for piece in pieces:
            for event in push(piece):
                if isinstance(event, callweave.DeltaEvent) and event.kind == "text":
                    texts.append(event.text)
        for event in decoder.finish():
            pass
        message = decoder.message
        assert "".join(texts) == message.text
        return result(message)

    return run


def own_whole(pieces: list[bytes]) -> Callable[[], Result]:
    """All bytes at once."""
    data = b"".join(pieces)
    return lambda: result(callweave.decode(data))


def best(run: Callable[[], Result], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


WAYS = {
    "callweave: decode(whole)": own_whole,
    "callweave: Decoder.feed, message": own_message,
    "callweave: Decoder.push, typed events": own_events,
    "openai: create(stream=True), joined by hand": official_create,
    "openai: .stream(), its own accumulation": official_stream,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="fail below 30x (message) and 20x (typed events)")
    options = parser.parse_args()
    print(f"callweave {callweave.__version__}, openai {openai.__version__}, Python {sys.version.split()[0]}")
    is_enough = True
    for title, make in (("irregular", irregular), ("same-shaped", same_shaped)):
        frames, pieces = make(options.chunks)
        print(f"\n{title}: {len(frames)} chunks in {len(pieces)} pieces, {sum(map(len, pieces))} bytes\n")
        print("| way | µs per chunk | create ÷ | .stream() ÷ |\n|---|---|---|---|")
        expected = own_whole(pieces)()
        times = {}
        for way, prepare in WAYS.items():
            run = prepare(pieces)
            assert run() == expected, way
            times[way] = best(run, options.rounds) / len(frames) * 1e6
        create, stream = [times[way] for way in WAYS if way.startswith("openai")]
        for way, spent in times.items():
            print(f"| {way} | {spent:.2f} | {create / spent:.1f}× | {stream / spent:.1f}× |")
        if title == "irregular":
            message, events = (times[way] for way in list(WAYS)[1:3])
            is_enough = create / message >= 30 and create / events >= 20
    return 0 if is_enough or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
