"""An exchange inside a client's program: transports and clients for httpx and httpx2.

The classes here are written once; ``callweave.httpx`` and ``callweave.httpx2`` join them to the classes of their library,
which is ``hx`` here. A driver moves bytes and keeps time; everything else is decided by the exchange. Exceptions of the
library pass through it at any time: the client knows them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from callweave._callweave import CompleteResponse, Exchange, ExchangeEngine

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The number of bytes that are read of an error.
_MAX_ERROR_BODY = 64 << 10
#: The seconds to wait for the end of a body when the response is over, so that its connection can be used again.
_LAST_BYTES = 0.05
#: The seconds that bytes which have come already may take to be read.
_SHORTEST_WAIT = 0.02


class Policy(TypedDict, total=False):
    """The settings of an exchange with an upstream, all of them optional."""

    #: The address of the upstream: ``https://host/v1``, ``localhost:8080``. Without it requests go where the client
    #: sends them.
    upstream: str
    #: The protocol that the upstream speaks: ``openai-chat``, ``anthropic-messages``, … Without it the client's own.
    protocol: str
    #: Other protocols that the upstream may speak; the client's own is preferred.
    other_protocols: list[str]
    #: The model that is asked. Without it the one that the client names.
    model: str
    #: The key of the upstream. Without it the client's own key is sent, in the header of the upstream's protocol.
    api_key: str
    #: Whether the client's own key is sent where there is no other.
    forwards_client_key: bool
    #: The provider whose rules requests must keep; by default the one whose address the upstream has.
    provider: str
    #: The name of the upstream in errors.
    name: str
    #: The dialect in which calls are read from text: ``auto``, a name, ``model`` for that of the model, or ``none``.
    dialect: str
    #: Whether reasoning is taken out of text; by default it is if the text is read at all.
    splits_reasoning: bool
    #: The way in which the model learns of tools: by its protocol, or in the prompt.
    teaching: Literal["native", "prompt"]
    #: Whether arguments that are not quite JSON are repaired.
    repair: bool
    #: The use of the schemas of tools.
    schema: Literal["off", "validate", "coerce"]
    #: The treatment of calls that stay invalid: passed on, an error, or the model is asked again.
    invalid_calls: Literal["pass", "error", "reask"]
    #: The maximum number of times that the model is asked again.
    max_reasks: int
    #: Ends responses after the first call, or after all calls of a burst.
    stop: Literal["first", "all"]
    #: The seconds to wait for another call of a burst.
    stop_grace: float
    #: Whether text after calls is left out; by default it is if responses end after calls.
    suppress_tail: bool
    #: Whether the model may call several tools at once.
    parallel_calls: bool
    #: The number of calls after which a response ends, with ``stop="all"``.
    max_calls: int
    #: Whether the upstream keeps its responses, so that it can be asked to follow one.
    keeps_responses: bool
    #: Whether seals of providers ride in the ids of calls.
    seals_in_ids: bool
    #: The maximum number of bytes of a response.
    max_response_bytes: int
    #: The maximum number of bytes of a call's arguments.
    max_argument_bytes: int


class _Driver:
    """One exchange under way, and the stream of the client's response: the parts that do no I/O."""

    #: The library.
    hx: Any

    def __init__(self, inner: Any, request: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._request = request
        self._exchange = exchange
        #: The upstream's response, while it is open, and the iterator over its bytes.
        self._upstream: Any = None
        self._source: Any = None
        #: The time at which no more calls are waited for.
        self._deadline: float | None = None
        #: Whether the connection was interrupted.
        self._is_interrupted = False
        #: A redirect, which the client follows.
        self._redirect: Any = None

    def _outgoing(self) -> Any:
        """The request that is due; ``None`` if it cannot be written."""
        outgoing = self._exchange.take_outgoing()
        if outgoing is None:
            return None
        self._is_kept = outgoing.is_kept
        own = self._request.extensions
        # What concerns the client's server does not concern another.
        extensions = own if outgoing.is_kept else {name: own[name] for name in ("timeout",) if name in own}
        return self.hx.Request(
            outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.body, extensions=extensions
        )

    def _take_head(self, response: Any) -> bool:
        """Takes the head of the upstream's response. Returns whether an error's body is to be read."""
        status = response.status_code
        if 200 <= status < 300:
            self._exchange.accept(response.headers.raw)
            return False
        if 300 <= status < 400 and "location" in response.headers and self._is_kept:
            self._redirect = response
            return False
        return True

    def _take(self, data: Any) -> None:
        """Takes the next bytes of the upstream, its end, or its silence."""
        if data is None:
            self._exchange.finish()
        elif data is _SILENCE:
            self._exchange.silence()
        else:
            self._exchange.push(data)

    def _refuse(self, response: Any, body: bytes, fault: Exception | None) -> None:
        what = None if fault is None else f"lost the connection in the middle of its answer: {fault}"
        self._exchange.refuse(response.status_code, response.headers.raw, b"" if fault else body, what)

    def _remaining(self, grace: float | None) -> float | None:
        """The seconds that are left to wait for another call."""
        if grace is None:
            self._deadline = None
            return None
        if self._deadline is None:
            self._deadline = time.monotonic() + grace
        return max(_SHORTEST_WAIT, self._deadline - time.monotonic())

    def _response(self, *, is_over: bool) -> Any:
        """The client's response: complete, or a stream that this driver is."""
        head = self._exchange.head()
        upstream = self._upstream
        extensions = {} if upstream is None else dict(upstream.extensions)
        extensions.pop("reason_phrase", None)
        if is_over:
            body = self._exchange.take_bytes()
            return self.hx.Response(head.status, headers=head.headers, content=body, extensions=extensions)
        return self.hx.Response(head.status, headers=head.headers, stream=self, extensions=extensions)


class SyncDriver(_Driver):
    """The driver for synchronous clients."""

    def respond(self) -> Any:
        """Waits until the model has said anything, or its response is over: the status is known then."""
        try:
            while not self._exchange.is_ready:
                self._advance()
                if self._redirect is not None:
                    return self._redirect
            is_over = self._exchange.next()[0] == "over"
            if is_over:
                self._drain()
            response = self._response(is_over=is_over)
        except BaseException:
            self.close()
            raise
        if is_over:
            self.close()
        else:
            self._chunks = self._read_on()
        return response

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        """Closes the upstream's response."""
        upstream, self._upstream, self._source = self._upstream, None, None
        if upstream is not None:
            upstream.close()

    def _read_on(self) -> Iterator[bytes]:
        exchange, feed = self._exchange, self._exchange.feed
        try:
            while True:
                if data := exchange.take_bytes():
                    yield data
                step, grace = exchange.next()
                if step == "over":
                    break
                if step != "read" or grace is not None:
                    self._advance()
                    continue
                self._deadline = None
                for data in self._source:
                    if (written := feed(data)) is None:
                        break
                    if written:
                        yield written
                else:
                    self._source = None
                    exchange.finish()
            self._drain()
        finally:
            self.close()

    def _advance(self) -> None:
        """Does the next step."""
        exchange = self._exchange
        step, grace = exchange.next()
        if step == "send":
            self._send()
        elif step == "interrupt":
            self.close()
            exchange.interrupt()
        elif step == "read":
            try:
                data = self._next(self._remaining(grace))
            except self.hx.TimeoutException:
                # The client's own time-out is the grace time where the connection cannot be interrupted.
                if grace is None:
                    raise
                data = _SILENCE
            self._take(data)

    def _send(self) -> None:
        self.close()
        self._is_interrupted = False
        request = self._outgoing()
        if request is None:
            return
        response = self._inner.handle_request(request)
        self._upstream = response
        self._source = iter(response.iter_bytes() if _is_coded(response) else response.stream)
        if self._take_head(response):
            body, fault = bytearray(), None
            try:
                for data in self._source:
                    body += data
                    if len(body) >= _MAX_ERROR_BODY:
                        break
            except self.hx.TransportError as error:
                fault = error
            self._refuse(response, bytes(body[:_MAX_ERROR_BODY]), fault)
            self.close()
        elif self._redirect is not None:
            self._upstream = self._source = None

    def _next(self, seconds: float | None) -> Any:
        """The next bytes, ``None`` at the end, or ``_SILENCE`` if nothing came within so many seconds."""
        if self._source is None:
            return None
        connection = None if seconds is None else _connection(self._upstream)
        if seconds is None or connection is None:
            data = next(self._source, None)
        else:
            interruption = _Interruption(connection, seconds)
            try:
                data = next(self._source, None)
            except self.hx.TransportError:
                if not (interruption.end() or self._is_interrupted):
                    raise
                return _SILENCE
            finally:
                # Bytes that came at the last moment are read; the end that follows them is silence.
                self._is_interrupted = interruption.end() or self._is_interrupted
            if data is None and self._is_interrupted:
                return _SILENCE
        if data is None:
            self._source = None
        return data

    def _drain(self) -> None:
        """Reads the last bytes of the upstream, so that its connection can serve the next request. A response that is
        over ends with its end marker, and the end of the body follows at once, or never."""
        if self._source is None or self._exchange.error is not None or _connection(self._upstream) is None:
            return
        until = time.monotonic() + _LAST_BYTES
        try:
            while (left := until - time.monotonic()) > 0:
                if self._next(left) in (None, _SILENCE):
                    break
        except self.hx.TransportError:
            pass


class AsyncDriver(_Driver):
    """The driver for asynchronous clients."""

    async def respond(self) -> Any:
        """Waits until the model has said anything, or its response is over: the status is known then."""
        try:
            while not self._exchange.is_ready:
                await self._advance()
                if self._redirect is not None:
                    return self._redirect
            is_over = self._exchange.next()[0] == "over"
            if is_over:
                await self._drain()
            response = self._response(is_over=is_over)
        except BaseException:
            await self._close_shielded()
            raise
        if is_over:
            await self.aclose()
        else:
            self._chunks = self._read_on()
        return response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def aclose(self) -> None:
        """Closes the upstream's response."""
        upstream, self._upstream, self._source = self._upstream, None, None
        if upstream is not None:
            await upstream.aclose()

    async def _close_shielded(self) -> None:
        import anyio

        with anyio.CancelScope(shield=True):
            await self.aclose()

    async def _read_on(self) -> AsyncIterator[bytes]:
        exchange, feed = self._exchange, self._exchange.feed
        try:
            while True:
                if data := exchange.take_bytes():
                    yield data
                step, grace = exchange.next()
                if step == "over":
                    break
                if step != "read" or grace is not None:
                    await self._advance()
                    continue
                self._deadline = None
                async for data in self._source:
                    if (written := feed(data)) is None:
                        break
                    if written:
                        yield written
                else:
                    self._source = None
                    exchange.finish()
            await self._drain()
        finally:
            await self._close_shielded()

    async def _advance(self) -> None:
        """Does the next step."""
        exchange = self._exchange
        step, grace = exchange.next()
        if step == "send":
            await self._send()
        elif step == "interrupt":
            await self.aclose()
            exchange.interrupt()
        elif step == "read":
            self._take(await self._next(self._remaining(grace)))

    async def _send(self) -> None:
        await self.aclose()
        request = self._outgoing()
        if request is None:
            return
        response = await self._inner.handle_async_request(request)
        self._upstream = response
        self._source = (response.aiter_bytes() if _is_coded(response) else response.stream).__aiter__()
        if self._take_head(response):
            body, fault = bytearray(), None
            try:
                async for data in self._source:
                    body += data
                    if len(body) >= _MAX_ERROR_BODY:
                        break
            except self.hx.TransportError as error:
                fault = error
            self._refuse(response, bytes(body[:_MAX_ERROR_BODY]), fault)
            await self.aclose()
        elif self._redirect is not None:
            self._upstream = self._source = None

    async def _next(self, seconds: float | None) -> Any:
        """The next bytes, ``None`` at the end, or ``_SILENCE`` if nothing came within so many seconds."""
        if self._source is None:
            return None
        if seconds is None:
            data = await _next_piece(self._source)
        else:
            import anyio

            data = _SILENCE
            with anyio.move_on_after(seconds):
                data = await _next_piece(self._source)
        if data is None or data is _SILENCE:
            self._source = None
        return data

    async def _drain(self) -> None:
        """Reads the last bytes of the upstream, so that its connection can serve the next request. A response that is
        over ends with its end marker, and the end of the body follows at once, or never."""
        if self._source is None or self._exchange.error is not None:
            return
        until = time.monotonic() + _LAST_BYTES
        try:
            while (left := until - time.monotonic()) > 0:
                if await self._next(left) in (None, _SILENCE):
                    break
        except self.hx.TransportError:
            pass


#: Nothing came for so long.
_SILENCE: Any = object()


async def _next_piece(source: Any) -> Any:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        return None


def _is_coded(response: Any) -> bool:
    """Whether a body is compressed, which was not asked for."""
    return bool(response.headers.get("content-encoding", "identity") != "identity")


def _connection(response: Any) -> socket.socket | None:
    """The connection of a response, where it is the response's alone and can be interrupted."""
    if response is None or response.extensions.get("http_version") == b"HTTP/2":
        return None
    stream = response.extensions.get("network_stream")
    connection = None if stream is None else stream.get_extra_info("socket")
    return connection if isinstance(connection, socket.socket) else None


class _Interruption:
    """Interrupts a read after some seconds, unless it is over by then: the connection has nothing more to read."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._is_over = self._has_happened = False
        self._timer = threading.Timer(seconds, self._interrupt)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> bool:
        """Ends the wait. Returns whether the read was interrupted."""
        with self._lock:
            self._is_over = True
        self._timer.cancel()
        return self._has_happened

    def _interrupt(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._has_happened = True
            try:
                # Not the method of a TLS socket, which would forget its state under the reader.
                socket.socket.shutdown(self._connection, socket.SHUT_RD)
            except OSError:
                pass


def _engine(engine: ExchangeEngine | None, policy: Policy) -> ExchangeEngine:
    if engine is None:
        return ExchangeEngine(**policy)
    if policy:
        raise TypeError(f"an engine has its settings already: {', '.join(policy)}")
    return engine


def _opened(engine: ExchangeEngine, request: Any, body: bytes) -> Exchange | CompleteResponse:
    return engine.open_request(
        request.method,
        str(request.url),
        request.headers.raw,
        body,
        id=os.urandom(16).hex(),
        created=int(time.time()),
    )


def _asks_model(request: Any) -> bool:
    path = request.url.raw_path.partition(b"?")[0].decode("ascii", "replace")
    return ExchangeEngine.asks_model(request.method, path)


class Transport:
    """Puts an exchange between a synchronous client and another transport."""

    hx: Any
    _driver: type[SyncDriver]

    def __init__(self, inner: Any = None, *, engine: ExchangeEngine | None = None, **policy: Unpack[Policy]) -> None:
        self._engine = _engine(engine, policy)
        self._inner = self.hx.HTTPTransport() if inner is None else inner

    def handle_request(self, request: Any) -> Any:
        """Sends a request: with an exchange if it asks a model, and else as it is."""
        if not _asks_model(request):
            return self._inner.handle_request(request)
        opened = _opened(self._engine, request, request.read())
        if isinstance(opened, CompleteResponse):
            return self.hx.Response(opened.status, headers=opened.headers, content=opened.body)
        return self._driver(self._inner, request, opened).respond()

    def close(self) -> None:
        """Closes the inner transport."""
        self._inner.close()


class AsyncTransport:
    """Puts an exchange between an asynchronous client and another transport."""

    hx: Any
    _driver: type[AsyncDriver]

    def __init__(self, inner: Any = None, *, engine: ExchangeEngine | None = None, **policy: Unpack[Policy]) -> None:
        self._engine = _engine(engine, policy)
        self._inner = self.hx.AsyncHTTPTransport() if inner is None else inner

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request: with an exchange if it asks a model, and else as it is."""
        if not _asks_model(request):
            return await self._inner.handle_async_request(request)
        opened = _opened(self._engine, request, await request.aread())
        if isinstance(opened, CompleteResponse):
            return self.hx.Response(opened.status, headers=opened.headers, content=opened.body)
        return await self._driver(self._inner, request, opened).respond()

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()


class Client:
    """A client whose requests to models go through an exchange: the settings of ``Policy``, and those of the library's
    own client."""

    _transport_class: type[Any]

    def __init__(self, *, engine: ExchangeEngine | None = None, **options: Any) -> None:
        policy: Any = {name: options.pop(name) for name in Policy.__annotations__ if name in options}
        # The client's transports know the proxies, so the address that is really asked chooses among them.
        by_address = _ByAddress(super()._transport_for_url)  # type: ignore[misc]
        self._exchange_transport = self._transport_class(by_address, engine=engine, **policy)
        super().__init__(**options)

    def _transport_for_url(self, url: Any) -> Any:
        return self._exchange_transport


class _ByAddress:
    """The transports of a client, each for its addresses."""

    def __init__(self, transport_for_url: Any) -> None:
        self._transport_for_url = transport_for_url

    def handle_request(self, request: Any) -> Any:
        return self._transport_for_url(request.url).handle_request(request)

    async def handle_async_request(self, request: Any) -> Any:
        return await self._transport_for_url(request.url).handle_async_request(request)
