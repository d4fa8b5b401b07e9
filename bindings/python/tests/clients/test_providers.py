"""The clients of other providers: google-genai, mistralai, groq, cohere, ollama."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from conftest import client
from upstream import CALL, SCHEMA, Refuses, Says, Server

TOOLS: Any = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}]
MESSAGES: Any = [{"role": "user", "content": "Look."}]
LOOK = ("look", {"at": "sky", "n": 7})


def opened(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else dict(arguments)


@pytest.mark.parametrize("policy", [{}, {"protocol": "openai-chat"}])
def test_google_genai(upstream: Server, policy: Any) -> None:
    genai = client("google.genai", "google-genai")
    own = client("callweave.httpx2", "google-genai")
    options = genai.types.HttpOptions(
        base_url=upstream.url, httpx_client=own.Client(**policy), httpx_async_client=own.AsyncClient(**policy)
    )
    google = genai.Client(api_key="k", http_options=options)
    declared = genai.types.FunctionDeclaration(name="look", parameters_json_schema=SCHEMA)
    config = genai.types.GenerateContentConfig(
        tools=[genai.types.Tool(function_declarations=[declared])],
        automatic_function_calling=genai.types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked: Any = {"model": "m", "contents": "Look.", "config": config}

    def look(answers: list[Any]) -> Any:
        [call] = [call for answer in answers for call in answer.function_calls or []]
        return call.name, call.args

    assert look([google.models.generate_content(**asked)]) == LOOK
    assert look(list(google.models.generate_content_stream(**asked))) == LOOK

    async def run() -> None:
        assert look([await google.aio.models.generate_content(**asked)]) == LOOK
        stream = await google.aio.models.generate_content_stream(**asked)
        assert look([answer async for answer in stream]) == LOOK

    asyncio.run(run())
    if policy:
        assert upstream.requests[0].headers["authorization"] == "Bearer k"
    upstream.will(Refuses(429))
    with pytest.raises(genai.errors.ClientError) as caught:
        google.models.generate_content(**asked)
    assert caught.value.code == 429


@pytest.mark.parametrize("policy", [{}, {"protocol": "anthropic-messages"}])
def test_mistralai(upstream: Server, policy: Any) -> None:
    mistralai = client("mistralai.client", "mistralai")
    own = client("callweave.httpx2", "mistralai")
    mistral = mistralai.Mistral(
        api_key="k", server_url=upstream.url, client=own.Client(**policy), async_client=own.AsyncClient(**policy)
    )
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS}

    def look(message: Any) -> Any:
        [call] = message.tool_calls
        return call.function.name, opened(call.function.arguments)

    assert look(mistral.chat.complete(**asked).choices[0].message) == LOOK
    deltas = [event.data.choices[0].delta for event in mistral.chat.stream(**asked) if event.data.choices]
    assert look_of_pieces([call for delta in deltas for call in delta.tool_calls or []]) == LOOK

    async def run() -> None:
        assert look((await mistral.chat.complete_async(**asked)).choices[0].message) == LOOK
        stream = await mistral.chat.stream_async(**asked)
        deltas = [event.data.choices[0].delta async for event in stream if event.data.choices]
        assert look_of_pieces([call for delta in deltas for call in delta.tool_calls or []]) == LOOK

    asyncio.run(run())


def look_of_pieces(pieces: list[Any]) -> Any:
    arguments = [piece.function.arguments or "" for piece in pieces]
    if not all(isinstance(piece, str) for piece in arguments):
        return pieces[0].function.name, arguments[-1]
    return pieces[0].function.name, json.loads("".join(arguments))


@pytest.mark.parametrize("policy", [{}, {"protocol": "gemini-generatecontent"}])
def test_groq(upstream: Server, policy: Any) -> None:
    groq = client("groq")
    own = client("callweave.httpx", "groq")
    made = groq.Groq(api_key="k", base_url=upstream.url, http_client=own.Client(**policy), max_retries=1)
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS}
    [call] = made.chat.completions.create(**asked).choices[0].message.tool_calls
    assert (call.function.name, opened(call.function.arguments)) == LOOK
    chunks = [chunk for chunk in made.chat.completions.create(**asked, stream=True) if chunk.choices]
    assert look_of_pieces([call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]) == LOOK

    async def run() -> None:
        http = own.AsyncClient(**policy)
        async with groq.AsyncGroq(api_key="k", base_url=upstream.url, http_client=http) as made:
            [call] = (await made.chat.completions.create(**asked)).choices[0].message.tool_calls
            assert (call.function.name, opened(call.function.arguments)) == LOOK

    asyncio.run(run())
    upstream.will(Refuses(429, retry_after_ms="10"), Says(CALL))
    made.chat.completions.create(**asked)
    upstream.will(Refuses(429, retry_after_ms="10"))
    with pytest.raises(groq.RateLimitError):
        made.chat.completions.create(**asked)


@pytest.mark.parametrize("policy", [{}, {"protocol": "openai-chat"}])
def test_cohere(upstream: Server, policy: Any) -> None:
    cohere = client("cohere")
    own = client("callweave.httpx", "cohere")
    made = cohere.ClientV2(api_key="k", base_url=upstream.url, httpx_client=own.Client(**policy))
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS}

    def look(answer: Any) -> Any:
        [call] = answer.message.tool_calls
        assert answer.finish_reason == "TOOL_CALL"
        return call.function.name, opened(call.function.arguments)

    def look_of_events(events: list[Any]) -> Any:
        [start] = [event for event in events if event.type == "tool-call-start"]
        deltas = [event for event in events if event.type == "tool-call-delta"]
        call = start.delta.message.tool_calls
        rest = "".join(event.delta.message.tool_calls.function.arguments for event in deltas)
        return call.function.name, json.loads((call.function.arguments or "") + rest)

    assert look(made.chat(**asked)) == LOOK
    assert look_of_events(list(made.chat_stream(**asked))) == LOOK

    async def run() -> None:
        http = own.AsyncClient(**policy)
        made = cohere.AsyncClientV2(api_key="k", base_url=upstream.url, httpx_client=http)
        assert look(await made.chat(**asked)) == LOOK
        assert look_of_events([event async for event in made.chat_stream(**asked)]) == LOOK

    asyncio.run(run())
    upstream.will(Refuses(429))
    with pytest.raises(cohere.TooManyRequestsError):
        made.chat(**asked, request_options={"max_retries": 0})


@pytest.mark.parametrize("policy", [{}, {"protocol": "openai-chat"}])
def test_ollama(upstream: Server, policy: Any) -> None:
    """Its keywords go to httpx, so it takes a transport."""
    ollama = client("ollama")
    own = client("callweave.httpx", "ollama")
    made = ollama.Client(host=upstream.url, transport=own.Transport(**policy))
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS}

    def look(answers: list[Any]) -> Any:
        [call] = [call for answer in answers for call in answer.message.tool_calls or []]
        return call.function.name, dict(call.function.arguments)

    assert look([made.chat(**asked)]) == LOOK
    assert look(list(made.chat(**asked, stream=True))) == LOOK

    async def run() -> None:
        made = ollama.AsyncClient(host=upstream.url, transport=own.AsyncTransport(**policy))
        assert look([await made.chat(**asked)]) == LOOK
        assert look([answer async for answer in await made.chat(**asked, stream=True)]) == LOOK

    asyncio.run(run())
    upstream.will(Refuses(429))
    with pytest.raises(ollama.ResponseError) as caught:
        made.chat(**asked)
    assert caught.value.status_code == 429
