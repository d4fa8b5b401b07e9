"""Clients of httpx and httpx2 themselves: what holds for every client above them."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import client
from upstream import BAD_CALL, CALL, SCHEMA, SECOND_CALL, Refuses, Says, SaysNothing, Server, chat, native_chat

import callweave

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]


@pytest.fixture(params=["httpx", "httpx2"])
def hx(request: pytest.FixtureRequest) -> Any:
    return client(request.param)


class Ways:
    """A client's two ways, written once: every method returns what it is called on in the end."""

    def __init__(self, hx: Any, is_async: bool) -> None:
        self.hx, self.is_async = hx, is_async
        self.own = importlib.import_module(f"callweave.{hx.__name__}")

    def post(self, server: Server, *, stream: bool = False, path: str = "/v1/chat/completions", **options: Any) -> Any:
        """A response that was read to its end."""
        request = asked(stream)
        options.setdefault("timeout", 5)

        async def run() -> Any:
            async with self.own.AsyncClient(**options) as client:
                return await client.post(server.url + path, json=request, headers=HEADERS)

        if self.is_async:
            return asyncio.run(run())
        with self.own.Client(**options) as client:
            return client.post(server.url + path, json=request, headers=HEADERS)


HEADERS = {"authorization": "Bearer k", "x-own": "own"}


@pytest.fixture(params=["sync", "async"])
def ways(hx: Any, request: pytest.FixtureRequest) -> Ways:
    return Ways(hx, request.param == "async")


def asked(stream: bool) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Look."}]
    return {"model": "m", "messages": messages, "tools": TOOLS, **({"stream": True} if stream else {})}


def calls(response: Any) -> list[tuple[str, Any]]:
    """The calls of a response, streamed or not."""
    if "event-stream" not in response.headers["content-type"]:
        made = response.json()["choices"][0]["message"].get("tool_calls") or []
        return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made]
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    found: dict[int, list[str]] = {}
    for line in lines:
        for choice in json.loads(line).get("choices", []):
            for call in choice["delta"].get("tool_calls") or []:
                own = found.setdefault(call["index"], ["", ""])
                own[0] += call["function"].get("name") or ""
                own[1] += call["function"].get("arguments") or ""
    return [(name, json.loads(arguments)) for name, arguments in found.values()]


LOOK = [("look", {"at": "sky", "n": 7})]


@pytest.mark.parametrize("stream", [False, True])
def test_text_becomes_a_call(ways: Ways, upstream: Server, stream: bool) -> None:
    response = ways.post(upstream, stream=stream)
    assert response.status_code == 200
    assert calls(response) == LOOK
    assert response.headers["x-request-id"] == "upstream-1"
    [request] = upstream.requests
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["x-own"] == "own" and request.headers["authorization"] == "Bearer k"


@pytest.mark.parametrize("cut_at", [1, 3, 100_000])
def test_frames_are_split_anywhere(ways: Ways, upstream: Server, cut_at: int) -> None:
    upstream.will(Says(CALL, cut_at=cut_at))
    assert calls(ways.post(upstream, stream=True)) == LOOK


@pytest.mark.parametrize("stream", [False, True])
def test_native_calls_are_repaired_and_get_ids(ways: Ways, upstream: Server, stream: bool) -> None:
    upstream.will(Says("{'at': 'sky', 'n': '7'}", native_chat))
    response = ways.post(upstream, stream=stream)
    assert calls(response) == LOOK
    assert '"id":"call_' in response.text.replace(" ", "")


def test_other_requests_pass_through(ways: Ways, upstream: Server) -> None:
    url = f"{upstream.url}/v1/models"

    async def run() -> Any:
        async with ways.own.AsyncClient() as client:
            return await client.get(url)

    response = asyncio.run(run()) if ways.is_async else ways.own.Client().get(url)
    assert response.json()["data"][0]["id"] == "m"
    upstream.will(Says(CALL, lambda text: ({"input": text}, [])))
    response = ways.post(upstream, path="/v1/embeddings")
    assert response.json() == {"input": CALL}


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_keeps_its_status_and_headers(ways: Ways, upstream: Server, stream: bool) -> None:
    upstream.will(Refuses(429, retry_after="7", x_ratelimit_remaining_requests="0"))
    response = ways.post(upstream, stream=stream)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7" and response.headers["x-ratelimit-remaining-requests"] == "0"
    assert response.json()["error"]["message"] == "Slow down."
    assert len(upstream.requests) == 1


def test_a_request_that_cannot_be_read_is_an_error_in_the_clients_protocol(ways: Ways, upstream: Server) -> None:
    async def run() -> Any:
        async with ways.own.AsyncClient() as client:
            return await client.post(f"{upstream.url}/v1/messages", content=b"{")

    url = f"{upstream.url}/v1/messages"
    response = asyncio.run(run()) if ways.is_async else ways.own.Client().post(url, content=b"{")
    assert response.status_code == 400 and response.json()["type"] == "error"
    assert upstream.requests == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_is_asked_again(ways: Ways, upstream: Server, stream: bool) -> None:
    upstream.will(Says(BAD_CALL), Says(CALL))
    assert calls(ways.post(upstream, stream=stream, invalid_calls="reask")) == LOOK
    first, second = upstream.requests
    assert len(first.body["messages"]) == 1 and len(second.body["messages"]) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_second_request_is_an_error(ways: Ways, upstream: Server, stream: bool) -> None:
    upstream.will(Says(BAD_CALL), Refuses(429, retry_after="7"))
    response = ways.post(upstream, stream=stream, invalid_calls="reask")
    # Nothing of the first response was shown, so the error keeps its status.
    assert response.status_code == 429 and response.headers["retry-after"] == "7"
    assert response.json()["error"]["message"] == "Slow down."
    assert len(upstream.requests) == 2


def test_tools_are_taught_in_the_prompt(ways: Ways, upstream: Server) -> None:
    assert calls(ways.post(upstream, teaching="prompt")) == LOOK
    [request] = upstream.requests
    assert "tools" not in request.body
    assert request.body["messages"][0]["role"] == "system" and "look" in request.body["messages"][0]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_another_protocol_behind(ways: Ways, upstream: Server, stream: bool) -> None:
    response = ways.post(
        upstream, stream=stream, upstream=upstream.url, protocol="anthropic-messages", model="claude", timeout=5
    )
    assert calls(response) == LOOK
    [request] = upstream.requests
    assert request.path == "/v1/messages" and request.body["model"] == "claude"
    assert request.headers["x-api-key"] == "k" and "authorization" not in request.headers
    assert "x-own" not in request.headers


def test_another_protocol_of_the_same_server(ways: Ways, upstream: Server) -> None:
    assert calls(ways.post(upstream, path="/base/v1/chat/completions", protocol="ollama", api_key="own")) == LOOK
    [request] = upstream.requests
    assert request.path == "/base/api/chat" and request.headers["authorization"] == "Bearer own"


@pytest.mark.parametrize("then", ["end", "silence"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_response_ends_after_calls(ways: Ways, upstream: Server, stream: bool, then: str) -> None:
    upstream.will(Says(CALL + SECOND_CALL, then=then) if stream else Says(CALL + SECOND_CALL))
    before = time.monotonic()
    response = ways.post(upstream, stream=stream, stop="all", stop_grace=0.2, timeout=5)
    assert calls(response) == [*LOOK, ("look", {"at": "sea", "n": 7})]
    assert time.monotonic() - before < 3
    if stream and then == "silence":
        assert response.text.rstrip().endswith("data: [DONE]")
        assert upstream.sees_the_client_leave()
        assert upstream.is_quiet()


def test_a_response_ends_after_the_first_call(ways: Ways, upstream: Server) -> None:
    upstream.will(Says(CALL + SECOND_CALL, then="silence"))
    assert calls(ways.post(upstream, stream=True, stop="first")) == LOOK
    assert upstream.sees_the_client_leave()


def test_grace_with_tls(ways: Ways, upstream: Server, tmp_path: pathlib.Path) -> None:
    openssl = shutil.which("openssl") or pytest.skip("there is no openssl")
    key, certificate, both = (tmp_path / name for name in ("key.pem", "certificate.pem", "both.pem"))
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    subprocess.run([openssl, *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    upstream.use_tls(str(both))
    upstream.will(Says(CALL + SECOND_CALL, then="silence"))
    before = time.monotonic()
    response = ways.post(upstream, stream=True, stop="all", stop_grace=0.2, verify=False)
    assert calls(response) == [*LOOK, ("look", {"at": "sea", "n": 7})]
    assert time.monotonic() - before < 4
    assert upstream.sees_the_client_leave()


def test_grace_without_a_connection_of_its_own(hx: Any, upstream: Server) -> None:
    """A transport that hides its connection cannot be interrupted: the client's time-out takes its place."""

    class Hidden(hx.BaseTransport):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.inner = hx.HTTPTransport()

        def handle_request(self, request: Any) -> Any:
            response = self.inner.handle_request(request)
            response.extensions.pop("network_stream")
            return response

    upstream.will(Says(CALL, then="silence"))
    ways = Ways(hx, False)
    response = ways.post(upstream, stream=True, stop="all", stop_grace=0.01, transport=Hidden(), timeout=0.5)
    assert calls(response) == LOOK


@pytest.mark.parametrize("stream", [False, True])
def test_a_time_out_is_the_librarys(ways: Ways, upstream: Server, stream: bool) -> None:
    upstream.will(SaysNothing())
    with pytest.raises(ways.hx.ReadTimeout):
        ways.post(upstream, stream=stream, timeout=0.3)
    assert upstream.sees_the_client_leave()
    assert upstream.is_quiet()


def test_a_time_out_in_a_stream_is_the_librarys(ways: Ways, upstream: Server) -> None:
    upstream.will(Says("Well, I would say", then="hang"))
    with pytest.raises(ways.hx.ReadTimeout):
        ways.post(upstream, stream=True, timeout=0.3)
    assert upstream.sees_the_client_leave()
    assert upstream.is_quiet()


def test_no_server_is_the_librarys_error(ways: Ways, upstream: Server) -> None:
    with pytest.raises(ways.hx.ConnectError):
        ways.post(upstream, upstream="127.0.0.1:1")


def test_a_cut_body_is_the_librarys_error(ways: Ways, upstream: Server) -> None:
    upstream.will(Says("Well, I would say", then="cut"))
    with pytest.raises(ways.hx.RemoteProtocolError):
        ways.post(upstream)


def test_a_cut_stream_is_the_librarys_error(ways: Ways, upstream: Server) -> None:
    upstream.will(Says("Well, I would say", then="cut"))
    seen: list[bytes] = []

    async def run() -> None:
        async with (
            ways.own.AsyncClient() as client,
            client.stream("POST", f"{upstream.url}/v1/chat/completions", json=asked(True)) as response,
        ):
            async for data in response.aiter_raw():
                seen.append(data)

    with pytest.raises(ways.hx.RemoteProtocolError):
        if ways.is_async:
            asyncio.run(run())
        else:
            with (
                ways.own.Client() as client,
                client.stream("POST", f"{upstream.url}/v1/chat/completions", json=asked(True)) as response,
            ):
                seen.extend(response.iter_raw())
    text = b"".join(seen).decode()
    assert "Well" in text and "[DONE]" not in text


def test_a_stream_without_its_end_is_an_error(ways: Ways, upstream: Server) -> None:
    """The server closes it in good order, but the model has not finished."""
    upstream.will(Says("Well, I would say", lambda text: ({}, chat(text)[1][:-2])))
    text = ways.post(upstream, stream=True).text
    assert "Well" in text and '"error"' in text


def test_nothing_goes_out_before_the_first_words(ways: Ways, upstream: Server) -> None:
    """The upstream says 200, then nothing, then an error."""
    frame = {"error": {"message": "Overloaded.", "type": "overloaded_error", "code": 503}}
    upstream.will(Says(CALL, lambda _: ({}, [frame])))
    response = ways.post(upstream, stream=True)
    assert response.status_code >= 500 and "Overloaded." in response.text


LONG = "Words " * 2000


def test_a_stream_is_closed_early(ways: Ways, upstream: Server) -> None:
    upstream.will(Says(LONG, then="hang", cut_at=400))
    url = f"{upstream.url}/v1/chat/completions"

    async def run() -> None:
        async with (
            ways.own.AsyncClient() as client,
            client.stream("POST", url, json=asked(True)) as response,
        ):
            async for _ in response.aiter_raw():
                break

    if ways.is_async:
        asyncio.run(run())
    else:
        with ways.own.Client() as client, client.stream("POST", url, json=asked(True)) as response:
            for _ in response.iter_raw():
                break
    assert upstream.sees_the_client_leave()
    assert upstream.is_quiet()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_stream_is_dropped(ways: Ways, upstream: Server, is_read: bool) -> None:
    upstream.will(Says(LONG, then="hang", cut_at=400))
    url = f"{upstream.url}/v1/chat/completions"

    async def run(client: Any) -> None:
        async def part() -> None:
            request = client.build_request("POST", url, json=asked(True))
            response = await client.send(request, stream=True)
            if is_read:
                chunks = response.aiter_raw()
                await chunks.__anext__()

        await part()
        gc.collect()
        for _ in range(100):
            if upstream.left.is_set():
                return
            await asyncio.sleep(0.05)

    def part(client: Any) -> None:
        request = client.build_request("POST", url, json=asked(True))
        response = client.send(request, stream=True)
        if is_read:
            next(response.iter_raw())

    # The clients stay open.
    if ways.is_async:
        asyncio.run(run(ways.own.AsyncClient()))
    else:
        own = ways.own.Client()
        part(own)
        gc.collect()
    assert upstream.sees_the_client_leave()


@pytest.mark.parametrize("plan", [SaysNothing(), Says(LONG, then="hang", cut_at=400)])
@pytest.mark.parametrize("stream", [False, True])
def test_a_task_is_cancelled(hx: Any, upstream: Server, plan: Any, stream: bool) -> None:
    upstream.will(plan)
    own = importlib.import_module(f"callweave.{hx.__name__}")
    url = f"{upstream.url}/v1/chat/completions"

    async def run() -> None:
        async with own.AsyncClient(timeout=30) as client:
            task = asyncio.create_task(client.post(url, json=asked(stream)))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(upstream.sees_the_client_leave)

    asyncio.run(run())
    assert upstream.is_quiet()


@pytest.mark.parametrize("plan", [SaysNothing(), Says(LONG, then="hang", cut_at=400)])
def test_ctrl_c(hx: Any, upstream: Server, plan: Any) -> None:
    upstream.will(plan)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        try:
            Ways(hx, False).post(upstream, stream=True, timeout=30)
        finally:
            timer.join()
    assert time.monotonic() - before < 10
    assert upstream.sees_the_client_leave() and upstream.is_quiet()


def test_connections_are_used_again(ways: Ways, upstream: Server) -> None:
    url = f"{upstream.url}/v1/chat/completions"

    async def run() -> None:
        async with ways.own.AsyncClient() as client:
            for at in range(4):
                assert calls(await client.post(url, json=asked(at % 2 == 0))) == LOOK

    if ways.is_async:
        asyncio.run(run())
    else:
        with ways.own.Client() as client:
            for at in range(4):
                assert calls(client.post(url, json=asked(at % 2 == 0))) == LOOK
    assert upstream.connections == 1


def test_many_at_once(hx: Any, upstream: Server) -> None:
    own = importlib.import_module(f"callweave.{hx.__name__}")
    url = f"{upstream.url}/v1/chat/completions"
    with own.Client(timeout=30) as client:
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(calls(client.post(url, json=asked(True))))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [LOOK] * 8


def test_redirects_are_the_clients(ways: Ways, upstream: Server) -> None:
    upstream.will(Refuses(307, location=f"{upstream.url}/other/v1/chat/completions"), Says(CALL))
    assert calls(ways.post(upstream, follow_redirects=True)) == LOOK
    assert [request.path for request in upstream.requests] == ["/v1/chat/completions", "/other/v1/chat/completions"]


def test_mounts_are_chosen_by_the_address_that_is_asked(hx: Any, upstream: Server) -> None:
    def unreachable(_: Any) -> Any:
        raise AssertionError("the client's own address is not asked")

    own = importlib.import_module(f"callweave.{hx.__name__}")
    with own.Client(upstream=upstream.url, mounts={"https://": hx.MockTransport(unreachable)}) as client:
        assert calls(client.post("https://api.example.com/v1/chat/completions", json=asked(False))) == LOOK


def test_a_compressed_body_is_read(hx: Any) -> None:
    """Nobody asked for it."""
    import gzip

    body = gzip.compress(json.dumps({"choices": [{"message": {"content": CALL}, "finish_reason": "stop"}]}).encode())
    own = importlib.import_module(f"callweave.{hx.__name__}")
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    inner = hx.MockTransport(lambda _: hx.Response(200, headers=headers, stream=hx.ByteStream(body)))
    with hx.Client(transport=own.Transport(inner)) as client:
        response = client.post("http://test/v1/chat/completions", json=asked(False))
    assert calls(response) == LOOK and "content-encoding" not in response.headers


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_that_fails_in_its_own_way_is_closed(ways: Ways, is_begun: bool) -> None:
    """Other exceptions than the library's are passed on."""
    hx = ways.hx
    frame = b'data: {"choices": [{"index": 0, "delta": {"content": "Well"}}]}\n\n'

    class Stream(hx.SyncByteStream, hx.AsyncByteStream):  # type: ignore[name-defined,misc]
        closed = 0

        def __iter__(self) -> Any:
            if is_begun:
                yield frame
            raise ZeroDivisionError

        async def __aiter__(self) -> Any:
            if is_begun:
                yield frame
            raise ZeroDivisionError

        def close(self) -> None:
            self.closed += 1

        async def aclose(self) -> None:
            self.closed += 1

    stream = Stream()
    inner = hx.MockTransport(lambda _: hx.Response(200, stream=stream))
    url = "http://test/v1/chat/completions"

    async def run() -> None:
        async with hx.AsyncClient(transport=ways.own.AsyncTransport(inner)) as client:
            await client.post(url, json=asked(True))

    with pytest.raises(ZeroDivisionError):
        if ways.is_async:
            asyncio.run(run())
        else:
            hx.Client(transport=ways.own.Transport(inner)).post(url, json=asked(True))
    assert stream.closed == 1


def test_http_2(hx: Any, upstream: Server) -> None:
    client("h2")
    own = importlib.import_module(f"callweave.{hx.__name__}")
    with own.Client(http2=True) as plain:
        assert calls(plain.post(f"{upstream.url}/v1/chat/completions", json=asked(True))) == LOOK


def test_settings_are_checked(hx: Any) -> None:
    own = importlib.import_module(f"callweave.{hx.__name__}")
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"dialect": "nonsense"}, callweave.UnknownError),
        ({"protocol": "nonsense"}, callweave.UnknownError),
        ({"invalid_calls": "nonsense"}, callweave.InvalidError),
        ({"stop": "nonsense"}, callweave.InvalidError),
        ({"stop_grace": -1}, callweave.InvalidError),
        ({"nonsense": 1}, TypeError),
    ]
    makers: list[Callable[..., Any]] = [own.Client, own.AsyncClient, own.Transport, own.AsyncTransport]
    for make in makers:
        for options, error in wrong:
            with pytest.raises(error):
                make(**options)
        with pytest.raises(TypeError, match="dialect"):
            make(engine=callweave.ExchangeEngine(), dialect="none")
