"""Prompty's processing: the final result of a response, as its caller wants it.

Tool calls beat text; where outputs are declared, text that is JSON is its value; embeddings are lists of numbers.

>>> response = {"choices": [{"message": {"content": "Hello"}}]}
>>> process(PromptAgent("openai"), response)
'Hello'
>>> chunks = [{"choices": [{"delta": {"content": "Hel"}}]}, {"choices": [{"delta": {"content": "lo"}}]}]
>>> [item["value"] for item in process(PromptAgent("openai"), iter(chunks))]
['Hel', 'lo']
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any

from callweave._callweave import ProcessStream, PromptAgent, process_response

__all__ = ["ProcessStream", "PromptAgent", "process", "process_async"]


def process(agent: PromptAgent, response: Any) -> Any:
    """The result of a complete response; of an iterator of chunks or bytes, an iterator of items.

    An item is ``{"kind": "text", "value": …}`` or ``{"kind": "tool", "id": …, "name": …, "arguments": …}``.
    """
    if isinstance(response, Iterator) or _is_stream(response):
        return _items(agent, response)
    return process_response(agent, response)


async def process_async(agent: PromptAgent, response: Any) -> Any:
    """The same for responses that come asynchronously: of an asynchronous iterator, an asynchronous iterator of items."""
    if isinstance(response, AsyncIterable):
        return _items_async(agent, response)
    return process(agent, response)


def _is_stream(response: Any) -> bool:
    """Whether it is the stream of an official client: those can be iterated, and have the response of an HTTP library."""
    return isinstance(response, Iterable) and hasattr(response, "response") and hasattr(response, "close")


def _items(agent: PromptAgent, chunks: Iterable[Any]) -> Iterator[Any]:
    stream = ProcessStream(agent)
    for chunk in chunks:
        items, failure = stream.push(chunk)
        yield from items
        if failure is not None:
            raise failure
    items, failure = stream.finish()
    yield from items
    if failure is not None:
        raise failure


async def _items_async(agent: PromptAgent, chunks: AsyncIterable[Any]) -> AsyncIterator[Any]:
    stream = ProcessStream(agent)
    async for chunk in chunks:
        items, failure = stream.push(chunk)
        for item in items:
            yield item
        if failure is not None:
            raise failure
    items, failure = stream.finish()
    for item in items:
        yield item
    if failure is not None:
        raise failure
