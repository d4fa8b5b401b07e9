"""How people use the package: type checkers read this file, nobody runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import callweave
from callweave.compat.aggregator import ToolCallAggregator
from callweave.compat.prompty import PromptAgent, process, process_async


@dataclass
class Look:
    at: str
    times: int = 1


class Weather(TypedDict):
    city: str


def look(at: str, times: int = 1) -> str:
    return at * times


def text(message: callweave.Message) -> str:
    for call in message.tool_calls:
        parsed: Look = call.parse(Look)
        weather: Weather = call.parse(Weather)
        if call.invalid is not None and call.invalid.reason == "not_json":
            return call.error_result or ""
        members: dict[str, Any] = call.object()
        print(parsed.at, weather["city"], members["at"])
    reason: Literal["stop", "length", "tool_calls", "content_filter", "error", "other"] | None = message.finish_reason
    usage = message.usage
    return f"{reason} {usage.total_tokens if usage else 0}"


def kinds(events: Iterator[callweave.Event]) -> Iterator[str]:
    for event in events:
        match event:
            case callweave.DeltaEvent("text" | "reasoning", piece):
                yield piece
            case callweave.BlockStartEvent(block, "tool_call"):
                yield f"{block} {event.name}"
            case callweave.FinishEvent(reason):
                yield reason
            case callweave.ErrorEvent(error):
                if error.error_class == "rate_limit":
                    yield f"{error.retry_after} {error.code}"
                raise error
            case _:
                pass


def decoded(pieces: list[bytes]) -> callweave.Message:
    decoder = callweave.Decoder(dialect="auto", tools=[Look, look, {"name": "x"}], repair=True, coerce=True)
    for piece in pieces:
        for event in decoder.push(memoryview(piece)):
            if isinstance(event, callweave.DeltaEvent) and event.kind == "arguments":
                print(decoder.partial_arguments(event.block))
    decoder.finish()
    try:
        return decoder.message.raise_for_error()
    except callweave.UpstreamError as error:
        print(error.status, error.raw)
        raise
    except callweave.CallweaveError as error:
        print(error.offset, error.events)
        raise


async def streamed(source: AsyncIterator[bytes]) -> callweave.Message:
    stream = callweave.stream(source, dialect="auto", tools=callweave.Tools([Look]), validate=True)
    async for event in stream:
        print(event.to_json(), event.choice)
    return stream.message


def others() -> None:
    message = callweave.extract("text", tools={"look": Look})
    body: bytes = message.encode("anthropic-messages", id="m")
    body += callweave.convert(body, "openai-chat", stream=True)
    request = callweave.convert_request({"messages": []}, "ollama", protocol="openai-chat")
    print(request.body, [loss.what for loss in request.losses], callweave.teach({}, "hermes").dialect)
    repaired = callweave.repair("{a: 1}", close_truncated=True)
    verdict: Literal["valid", "repaired", "incomplete", "hopeless"] = repaired.verdict
    print(verdict, repaired.value, callweave.partial("{"), callweave.coerce("5", {"type": "integer"}).value)
    aggregator = ToolCallAggregator()
    print(aggregator.ingest_delta({})["updated"], aggregator.snapshot())
    print(process(PromptAgent("openai"), {}), asyncio.run(process_async(PromptAgent("openai"), {})))
    engine = callweave.ExchangeEngine(protocol="openai-chat", invalid_calls="reask")
    exchange = engine.open("/chat/completions", b"{}", id="1")
    step, silence = exchange.next()
    if step == "read" and silence:
        exchange.silence()
    head = exchange.head()
    print(head.status, head.headers, exchange.take_bytes())
