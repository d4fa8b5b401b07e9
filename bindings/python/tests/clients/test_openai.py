"""openai, of either major version, with either HTTP library that it takes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from conftest import client
from upstream import BAD_CALL, CALL, SCHEMA, Refuses, Says, SaysNothing, Server, chat, native_chat

openai = client("openai")

import callweave.httpx  # noqa: E402

TOOLS: Any = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}]
FLAT: Any = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Look."}], "tools": TOOLS}
LOOK = ("look", {"at": "sky", "n": 7})

MODULES = [callweave.httpx]
if int(openai.__version__.split(".")[0]) >= 3:
    import callweave.httpx2

    MODULES.append(callweave.httpx2)


@pytest.fixture(params=MODULES, ids=lambda module: module.__name__)
def own(request: pytest.FixtureRequest) -> Any:
    return request.param


def made(own: Any, upstream: Server, retries: int = 0, **policy: Any) -> Any:
    http = own.Client(**policy)
    return openai.OpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=http, max_retries=retries)


def made_async(own: Any, upstream: Server, **policy: Any) -> Any:
    http = own.AsyncClient(**policy)
    return openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=http, max_retries=0)


def call(message: Any) -> tuple[str, Any]:
    [call] = message.tool_calls
    assert call.id
    return call.function.name, json.loads(call.function.arguments)


def folded(chunks: list[Any]) -> tuple[str, Any]:
    pieces = [piece for chunk in chunks for choice in chunk.choices for piece in choice.delta.tool_calls or []]
    assert pieces[0].id
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "tool_calls"
    return pieces[0].function.name, json.loads("".join(piece.function.arguments or "" for piece in pieces))


def test_the_client_alone_sees_no_call(upstream: Server) -> None:
    plain = openai.OpenAI(base_url=f"{upstream.url}/v1", api_key="k")
    assert plain.chat.completions.create(**ASKED).choices[0].message.tool_calls is None


@pytest.mark.parametrize("says", [Says(CALL), Says("{'at': 'sky', 'n': '7'}", native_chat)])
def test_chat(own: Any, upstream: Server, says: Says) -> None:
    upstream.will(says)
    answer = made(own, upstream).chat.completions.create(**ASKED)
    assert call(answer.choices[0].message) == LOOK and answer.choices[0].finish_reason == "tool_calls"
    assert answer._request_id == "upstream-1"
    assert folded(list(made(own, upstream).chat.completions.create(**ASKED, stream=True))) == LOOK


def test_chat_stream_helper(own: Any, upstream: Server) -> None:
    with made(own, upstream).chat.completions.stream(**ASKED) as stream:
        stream.until_done()
        assert call(stream.get_final_completion().choices[0].message) == LOOK


def test_chat_async(own: Any, upstream: Server) -> None:
    async def run() -> None:
        async with made_async(own, upstream) as client:
            answer = await client.chat.completions.create(**ASKED)
            assert call(answer.choices[0].message) == LOOK
            stream = await client.chat.completions.create(**ASKED, stream=True)
            assert folded([chunk async for chunk in stream]) == LOOK

    asyncio.run(run())


@pytest.mark.parametrize("policy", [{}, {"protocol": "openai-chat"}, {"protocol": "anthropic-messages"}])
def test_responses(own: Any, upstream: Server, policy: dict[str, str]) -> None:
    client = made(own, upstream, **policy)
    answer = client.responses.create(model="m", input="Look.", tools=FLAT)
    [item] = [item for item in answer.output if item.type == "function_call"]
    assert (item.name, json.loads(item.arguments)) == LOOK
    events = list(client.responses.create(model="m", input="Look.", tools=FLAT, stream=True))
    assert events[-1].type == "response.completed"
    [item] = [item for item in events[-1].response.output if item.type == "function_call"]
    assert (item.name, json.loads(item.arguments)) == LOOK


def test_responses_async(own: Any, upstream: Server) -> None:
    async def run() -> None:
        async with made_async(own, upstream) as client:
            async with client.responses.stream(model="m", input="Look.", tools=FLAT) as stream:
                answer = await stream.get_final_response()
            [item] = [item for item in answer.output if item.type == "function_call"]
            assert (item.name, json.loads(item.arguments)) == LOOK

    asyncio.run(run())


def test_a_response_that_the_upstream_keeps_is_followed(own: Any, upstream: Server) -> None:
    made(own, upstream).responses.create(model="m", input="Look.", tools=FLAT, previous_response_id="resp_1")
    assert upstream.requests[0].body["previous_response_id"] == "resp_1"


def test_the_clients_own_retries_work(own: Any, upstream: Server) -> None:
    refusal = Refuses(429, retry_after_ms="10")
    upstream.will(refusal, Says(CALL))
    assert call(made(own, upstream, retries=2).chat.completions.create(**ASKED).choices[0].message) == LOOK
    assert len(upstream.requests) == 2
    upstream.will(refusal, refusal, Says(CALL))
    assert folded(list(made(own, upstream, retries=2).chat.completions.create(**ASKED, stream=True))) == LOOK
    assert len(upstream.requests) == 5


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_the_clients_error(own: Any, upstream: Server, stream: bool) -> None:
    upstream.will(Refuses(429, retry_after="7"))
    with pytest.raises(openai.RateLimitError, match="Slow down") as caught:
        made(own, upstream).chat.completions.create(**ASKED, stream=stream)
    assert caught.value.response.headers["retry-after"] == "7" and caught.value.request_id == "upstream-0"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_time_out_is_the_clients_error(own: Any, upstream: Server, stream: bool) -> None:
    upstream.will(SaysNothing())
    with pytest.raises(openai.APITimeoutError):
        made(own, upstream).chat.completions.create(**ASKED, stream=stream, timeout=0.3)
    assert upstream.sees_the_client_leave() and upstream.is_quiet()


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_time_out_in_a_stream_is_as_without_us(own: Any, upstream: Server, is_bare: bool) -> None:
    upstream.will(Says("Well, I would say", then="hang"))
    library = client(own.__name__.removeprefix("callweave."))
    http = library.Client() if is_bare else own.Client()
    made = openai.OpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=http, max_retries=0)
    # Newer versions have their own exception for it, but only for the library's.
    with pytest.raises((openai.APITimeoutError, library.ReadTimeout)):
        list(made.chat.completions.create(**ASKED, stream=True, timeout=0.5))


def test_a_cut_stream_is_the_clients_error(own: Any, upstream: Server) -> None:
    upstream.will(Says("Well, I would say", then="cut"))
    text = ""
    library = client(own.__name__.removeprefix("callweave."))
    with pytest.raises((openai.APIConnectionError, library.RemoteProtocolError)):
        for chunk in made(own, upstream).chat.completions.create(**ASKED, stream=True):
            text += chunk.choices[0].delta.content or ""
    assert text.startswith("Well")
    upstream.will(Says("Well, I would say", lambda text: ({}, chat(text)[1][:-2])))
    with pytest.raises(openai.APIError):
        list(made(own, upstream).chat.completions.create(**ASKED, stream=True))


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_is_asked_again(own: Any, upstream: Server, stream: bool) -> None:
    upstream.will(Says(BAD_CALL), Says(CALL))
    answer = made(own, upstream, invalid_calls="reask").chat.completions.create(**ASKED, stream=stream)
    assert (folded(list(answer)) if stream else call(answer.choices[0].message)) == LOOK


def test_a_stream_is_left_early(own: Any, upstream: Server) -> None:
    upstream.will(Says("Words " * 2000, then="hang", cut_at=400))
    client = made(own, upstream)
    with client.chat.completions.create(**ASKED, stream=True) as stream:
        next(iter(stream))
    assert upstream.sees_the_client_leave() and upstream.is_quiet()


def test_a_task_is_cancelled(own: Any, upstream: Server) -> None:
    upstream.will(Says("Words " * 2000, then="hang", cut_at=400))

    async def run() -> None:
        async with made_async(own, upstream) as client:

            async def read() -> None:
                async for _ in await client.chat.completions.create(**ASKED, stream=True):
                    pass

            task = asyncio.create_task(read())
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(upstream.sees_the_client_leave)

    asyncio.run(run())
    assert upstream.is_quiet()


def test_requests_beside_those_to_models(own: Any, upstream: Server) -> None:
    assert [model.id for model in made(own, upstream).models.list()] == ["m"]
