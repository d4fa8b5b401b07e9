"""anthropic, and langchain-anthropic as far as it lets us."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import client
from upstream import CALL, SCHEMA, Refuses, Says, Server, messages

anthropic = client("anthropic")

import callweave.httpx2 as own  # noqa: E402

ASKED: Any = {
    "model": "m",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "Look."}],
    "tools": [{"name": "look", "input_schema": SCHEMA}],
}
LOOK = ("look", {"at": "sky", "n": 7})
POLICIES: Any = [{}, {"protocol": "openai-chat"}, {"protocol": "ollama"}]


def made(upstream: Server, **policy: Any) -> Any:
    http = own.Client(**policy)
    return anthropic.Anthropic(base_url=upstream.url, api_key="k", http_client=http, max_retries=1)


def call(message: Any) -> tuple[str, Any]:
    [call] = [block for block in message.content if block.type == "tool_use"]
    assert message.stop_reason == "tool_use" and call.id
    return call.name, call.input


@pytest.mark.parametrize("policy", POLICIES)
def test_messages(upstream: Server, policy: Any) -> None:
    assert call(made(upstream, **policy).messages.create(**ASKED)) == LOOK
    with made(upstream, **policy).messages.stream(**ASKED) as stream:
        assert call(stream.get_final_message()) == LOOK
    if policy.get("protocol") == "openai-chat":
        assert upstream.requests[0].path == "/v1/chat/completions"
        assert upstream.requests[0].headers["authorization"] == "Bearer k"
        assert "x-api-key" not in upstream.requests[0].headers


@pytest.mark.parametrize("policy", POLICIES)
def test_messages_async(upstream: Server, policy: Any) -> None:
    async def run() -> None:
        http = own.AsyncClient(**policy)
        async with anthropic.AsyncAnthropic(base_url=upstream.url, api_key="k", http_client=http) as client:
            assert call(await client.messages.create(**ASKED)) == LOOK
            async with client.messages.stream(**ASKED) as stream:
                assert call(await stream.get_final_message()) == LOOK

    asyncio.run(run())


def test_the_clients_own_retries_work(upstream: Server) -> None:
    upstream.will(Refuses(429, retry_after_ms="10"), Says(CALL))
    assert call(made(upstream).messages.create(**ASKED)) == LOOK
    upstream.will(Refuses(429, retry_after_ms="10"))
    with pytest.raises(anthropic.RateLimitError, match="Slow down"):
        made(upstream).messages.create(**ASKED)


def test_a_cut_stream_is_the_clients_error(upstream: Server) -> None:
    upstream.will(Says("Well, I would say", then="cut"))
    errors = (anthropic.APIConnectionError, client("httpx2").RemoteProtocolError)
    with pytest.raises(errors), made(upstream).messages.stream(**ASKED) as stream:
        stream.get_final_message()
    upstream.will(Says("Well, I would say", lambda text: ({}, messages(text)[1][:-2])))
    with pytest.raises(anthropic.APIError), made(upstream).messages.stream(**ASKED) as stream:
        stream.get_final_message()


def test_langchain(upstream: Server) -> None:
    """It takes no HTTP client; its own clients are cached properties, which can be set."""
    langchain = client("langchain_anthropic", "langchain-anthropic")
    model = langchain.ChatAnthropic(model="m", api_key="k", base_url=upstream.url)
    model.__dict__["_client"] = made(upstream)
    http = own.AsyncClient()
    asynchronous = anthropic.AsyncAnthropic(base_url=upstream.url, api_key="k", http_client=http)
    model.__dict__["_async_client"] = asynchronous
    bound = model.bind_tools([{"name": "look", "description": "Looks.", "input_schema": SCHEMA}])
    [made_call] = bound.invoke("Look.").tool_calls
    assert (made_call["name"], made_call["args"]) == LOOK
    whole = None
    for chunk in bound.stream("Look."):
        whole = chunk if whole is None else whole + chunk
    [made_call] = whole.tool_calls  # type: ignore[attr-defined]
    assert (made_call["name"], made_call["args"]) == LOOK

    async def run() -> None:
        [made_call] = (await bound.ainvoke("Look.")).tool_calls
        assert (made_call["name"], made_call["args"]) == LOOK

    asyncio.run(run())
