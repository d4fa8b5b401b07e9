"""Frameworks above the clients: litellm, langchain-openai, pydantic-ai, instructor, llama-index, openai-agents."""

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


def test_litellm(upstream: Server) -> None:
    litellm = client("litellm")
    own, openai = client("callweave.httpx", "litellm"), client("openai", "litellm")
    base = f"{upstream.url}/v1"
    asked: Any = {"model": "openai/m", "messages": MESSAGES, "tools": TOOLS, "num_retries": 0}

    def look(message: Any) -> Any:
        [call] = message.tool_calls
        return call.function.name, json.loads(call.function.arguments)

    synchronous = openai.OpenAI(base_url=base, api_key="k", http_client=own.Client())
    assert look(litellm.completion(**asked, client=synchronous).choices[0].message) == LOOK
    chunks = list(litellm.completion(**asked, client=synchronous, stream=True))
    assert look(litellm.stream_chunk_builder(chunks).choices[0].message) == LOOK

    async def run() -> None:
        asynchronous = openai.AsyncOpenAI(base_url=base, api_key="k", http_client=own.AsyncClient())
        answer = await litellm.acompletion(**asked, client=asynchronous)
        assert look(answer.choices[0].message) == LOOK
        chunks = [chunk async for chunk in await litellm.acompletion(**asked, client=asynchronous, stream=True)]
        assert look(litellm.stream_chunk_builder(chunks).choices[0].message) == LOOK
        await asynchronous.close()

    asyncio.run(run())
    # The session of all its clients.
    litellm.client_session = own.Client()
    try:
        answer = litellm.completion(**asked, api_base=base, api_key="k")
        assert look(answer.choices[0].message) == LOOK
    finally:
        litellm.client_session = None
    upstream.will(Refuses(429))
    with pytest.raises(litellm.RateLimitError):
        litellm.completion(**asked, client=synchronous, max_retries=0)


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
@pytest.mark.parametrize("is_responses", [False, True])
def test_langchain_openai(upstream: Server, module: str, is_responses: bool) -> None:
    langchain = client("langchain_openai", "langchain-openai")
    own = client(f"callweave.{module}", "langchain-openai")
    model = langchain.ChatOpenAI(
        model="m",
        api_key="k",
        base_url=f"{upstream.url}/v1",
        http_client=own.Client(),
        http_async_client=own.AsyncClient(),
        use_responses_api=is_responses,
        max_retries=2,
    ).bind_tools(TOOLS)

    def look(message: Any) -> Any:
        [call] = message.tool_calls
        return call["name"], call["args"]

    assert look(model.invoke("Look.")) == LOOK
    whole: Any = None
    for chunk in model.stream("Look."):
        whole = chunk if whole is None else whole + chunk
    assert look(whole) == LOOK

    async def run() -> None:
        assert look(await model.ainvoke("Look.")) == LOOK
        whole: Any = None
        async for chunk in model.astream("Look."):
            whole = chunk if whole is None else whole + chunk
        assert look(whole) == LOOK

    asyncio.run(run())
    upstream.will(Refuses(429, retry_after_ms="10"), Says(CALL))
    assert look(model.invoke("Look.")) == LOOK


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_pydantic_ai(upstream: Server, kind: str) -> None:
    """An agent's whole loop: the call, the tool, the last words."""
    pydantic_ai = client("pydantic_ai", "pydantic-ai-slim")
    own = client("callweave.httpx2", "pydantic-ai-slim")
    http = own.AsyncClient()
    if kind == "openai":
        models = client("pydantic_ai.models.openai", "pydantic-ai-slim")
        providers = client("pydantic_ai.providers.openai", "pydantic-ai-slim")
        provider = providers.OpenAIProvider(base_url=f"{upstream.url}/v1", api_key="k", http_client=http)
        model = models.OpenAIChatModel("m", provider=provider)
    else:
        models = client("pydantic_ai.models.anthropic", "pydantic-ai-slim")
        providers = client("pydantic_ai.providers.anthropic", "pydantic-ai-slim")
        provider = providers.AnthropicProvider(base_url=upstream.url, api_key="k", http_client=http)
        model = models.AnthropicModel("m", provider=provider)
    agent = pydantic_ai.Agent(model)
    looked: list[Any] = []

    @agent.tool_plain
    def look(at: str, n: int) -> str:
        looked.append(("look", {"at": at, "n": n}))
        return "blue"

    async def run() -> None:
        upstream.will(Says(CALL), Says("It is blue."))
        assert (await agent.run("Look.")).output == "It is blue."
        upstream.will(Says(CALL), Says("It is blue."))
        async with agent.run_stream("Look.") as answer:
            assert await answer.get_output() == "It is blue."
        await http.aclose()

    asyncio.run(run())
    assert looked == [LOOK, LOOK]


def test_instructor(upstream: Server) -> None:
    instructor, pydantic = client("instructor"), client("pydantic", "instructor")
    own, openai = client("callweave.httpx", "instructor"), client("openai", "instructor")

    look = pydantic.create_model("look", at=(str, ...), n=(int, ...))
    made = openai.OpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=own.Client())
    answer = instructor.from_openai(made).create(
        model="m", messages=MESSAGES, response_model=look, max_retries=0
    )
    assert (answer.at, answer.n) == ("sky", 7)

    async def run() -> None:
        made = openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=own.AsyncClient())
        answer = await instructor.from_openai(made).create(
            model="m", messages=MESSAGES, response_model=look, max_retries=0
        )
        assert (answer.at, answer.n) == ("sky", 7)
        await made.close()

    asyncio.run(run())


def test_llama_index(upstream: Server) -> None:
    llama = client("llama_index.llms.openai", "llama-index-llms-openai")
    tools = client("llama_index.core.tools", "llama-index-llms-openai")
    own = client("callweave.httpx", "llama-index-llms-openai")

    def look(at: str, n: int) -> str:
        """Looks."""
        return "blue"

    tool = tools.FunctionTool.from_defaults(look)
    model = llama.OpenAI(
        model="gpt-4o",
        api_key="k",
        api_base=f"{upstream.url}/v1",
        http_client=own.Client(),
        async_http_client=own.AsyncClient(),
        max_retries=0,
    )

    def found(answer: Any) -> Any:
        [call] = model.get_tool_calls_from_response(answer)
        return call.tool_name, call.tool_kwargs

    assert found(model.chat_with_tools([tool], user_msg="Look.")) == LOOK
    last: Any = None
    for last in model.stream_chat_with_tools([tool], user_msg="Look."):
        pass
    assert found(last) == LOOK

    async def run() -> None:
        assert found(await model.achat_with_tools([tool], user_msg="Look.")) == LOOK

    asyncio.run(run())


@pytest.mark.parametrize("is_responses", [False, True])
def test_openai_agents(upstream: Server, is_responses: bool) -> None:
    """An agent's whole loop."""
    agents, openai = client("agents", "openai-agents"), client("openai", "openai-agents")
    own = client("callweave.httpx2", "openai-agents")
    looked: list[Any] = []

    @agents.function_tool  # type: ignore[untyped-decorator]
    def look(at: str, n: int) -> str:
        """Looks."""
        looked.append(("look", {"at": at, "n": n}))
        return "blue"

    async def run() -> None:
        # A Responses model over a server of Chat.
        policy: Any = {"protocol": "openai-chat"} if is_responses else {}
        made = openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="k", http_client=own.AsyncClient(**policy))
        kind = agents.OpenAIResponsesModel if is_responses else agents.OpenAIChatCompletionsModel
        agent = agents.Agent(name="a", model=kind(model="m", openai_client=made), tools=[look])
        config = agents.RunConfig(tracing_disabled=True)
        upstream.will(Says(CALL), Says("It is blue."))
        answer = await agents.Runner.run(agent, "Look.", run_config=config)
        assert answer.final_output == "It is blue."
        upstream.will(Says(CALL), Says("It is blue."))
        streamed = agents.Runner.run_streamed(agent, "Look.", run_config=config)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "It is blue."
        await made.close()

    asyncio.run(run())
    assert looked == [LOOK, LOOK]
    assert {request.path for request in upstream.requests} == {"/v1/chat/completions"}
