"""What an exchange inside a client costs: a client of httpx and the official client of OpenAI, bare and with callweave.

All read the same streamed chat, one chunk in a piece, from a transport in memory, in one process. The times are processor
time for each chunk, the best of several rounds, without those of an empty response.

    pip install callweave -r requirements.txt
    python transport.py
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import callweave.httpx2
import httpx2
import openai
from accumulate import irregular, same_shaped

TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Look."}], "tools": TOOLS, "stream": True}
URL = "http://test/v1/chat/completions"


class Pieces(httpx2.SyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


class Memory(httpx2.BaseTransport):
    """A server in memory."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Pieces(self.pieces))


def read_bytes(transport: httpx2.BaseTransport) -> str:
    """The text, from bytes that a client of httpx reads; parsed outside the time of the others."""
    with httpx2.Client(transport=transport) as client, client.stream("POST", URL, json=ASKED) as response:
        return b"".join(response.iter_raw()).decode()


def read_chunks(transport: httpx2.BaseTransport) -> str:
    """The text, from chunks that the client of OpenAI reads."""
    http = httpx2.Client(transport=transport)
    with openai.OpenAI(api_key="k", base_url="http://test/v1", http_client=http) as client:
        stream = client.chat.completions.create(**ASKED)
        return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


def text(stream: str) -> str:
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", []))


def best(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    policies: dict[str, Any] = {
        "everything (the default)": {},
        "nothing: bytes pass through": {"dialect": "none", "repair": False, "schema": "off"},
    }
    for make in (same_shaped, irregular):
        frames, pieces = make(options.chunks)
        _, few = make(10)
        print(f"{make.__name__}: {len(frames)} chunks in {len(pieces)} pieces; µs per chunk")
        for read in (read_bytes, read_chunks):
            rounds = options.rounds if read is read_bytes else max(3, options.rounds // 3)

            def cost(wrap: Callable[[httpx2.BaseTransport], httpx2.BaseTransport]) -> float:
                own, none = (best(lambda: read(wrap(Memory(data))), rounds) for data in (pieces, few))
                return (own - none) / len(frames) * 1e6

            bare = cost(lambda inner: inner)
            print(f"  {read.__name__:12} {'bare':32} {bare:8.3f}")
            for name, policy in policies.items():
                engine = callweave.ExchangeEngine(**policy)
                expected, given = (
                    read(transport)
                    for transport in (Memory(pieces), callweave.httpx2.Transport(Memory(pieces), engine=engine))
                )
                if read is read_bytes:
                    expected, given = text(expected), text(given)
                if expected != given:
                    sys.exit(f"{name}: another text")
                own = cost(lambda inner: callweave.httpx2.Transport(inner, engine=engine))
                print(f"  {read.__name__:12} {name:32} {own:8.3f}   {own - bare:+.3f}")


if __name__ == "__main__":
    main()
