"""Events of a source of bytes, by ``for`` and by ``async for``."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from callweave._callweave import Decoder, Message

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack, TypedDict

    from callweave._types import BytesLike, Event, ToolsLike

    class DecoderOptions(TypedDict, total=False):
        """The parameters of :class:`callweave.Decoder`."""

        protocol: str | None
        dialect: str | None
        tools: ToolsLike | None
        repair: bool
        coerce: bool
        validate: bool
        id_seed: str | None
        max_frame_bytes: int | None


class Stream:
    """The events of a source of bytes: iterate it by ``for``, or by ``async for`` if the source is asynchronous.

    When the iteration ends, for whatever reason, the source is closed if it can be. ``message`` is the message so far.
    """

    def __init__(self, source: Iterable[BytesLike] | AsyncIterable[BytesLike], decoder: Decoder) -> None:
        self._source = source
        #: The decoder of the bytes.
        self.decoder = decoder

    @property
    def message(self) -> Message:
        """The message so far."""
        return self.decoder.message

    def __iter__(self) -> Iterator[Event]:
        if not isinstance(self._source, Iterable):
            raise TypeError("the source is asynchronous: iterate by `async for`")
        push = self.decoder.push
        try:
            for data in self._source:
                yield from push(data)
            yield from self.decoder.finish()
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if not isinstance(self._source, AsyncIterable):
            raise TypeError("the source is not asynchronous: iterate by `for`")
        push = self.decoder.push
        try:
            async for data in self._source:
                for event in push(data):
                    yield event
            for event in self.decoder.finish():
                yield event
        finally:
            await self.aclose()

    def collect(self) -> Message:
        """Read the source to its end; return the message. Cheaper than an iteration: nobody looks at the events."""
        if not isinstance(self._source, Iterable):
            raise TypeError("the source is asynchronous: use `await stream.acollect()`")
        feed = self.decoder.feed
        try:
            for data in self._source:
                feed(data)
            self.decoder.finish()
        finally:
            self.close()
        return self.decoder.message

    async def acollect(self) -> Message:
        """Read an asynchronous source to its end; return the message."""
        if not isinstance(self._source, AsyncIterable):
            raise TypeError("the source is not asynchronous: use `stream.collect()`")
        feed = self.decoder.feed
        try:
            async for data in self._source:
                feed(data)
            self.decoder.finish()
        finally:
            await self.aclose()
        return self.decoder.message

    def close(self) -> None:
        """Close the source, if it can be closed."""
        close: Any = getattr(self._source, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        """Close an asynchronous source, if it can be closed."""
        close: Any = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def stream(source: Iterable[BytesLike] | AsyncIterable[BytesLike], **options: Unpack[DecoderOptions]) -> Stream:
    """The events of a source of bytes: a file, a response of an HTTP library, anything that can be iterated.

    The options are those of :class:`callweave.Decoder`.

    >>> import callweave
    >>> pieces = [b'data: {"choices":[{"delta":{"content":"Hel', b'lo"}}]}\\n\\ndata: [DONE]\\n\\n']
    >>> events = callweave.stream(pieces)
    >>> [event.text for event in events if isinstance(event, callweave.DeltaEvent)]
    ['Hello']
    >>> events.message.text
    'Hello'
    """
    return Stream(source, Decoder(**options))
