"""Tool loops of frameworks that others wrote, through a running gateway, against scripted models: two rounds, parallel
calls, streamed and whole. Every call must reach its tool with its arguments, and the last words must hold the results.

usage: tool_loops.py URL
"""

import asyncio
import gc
import json
import os
import sys
import warnings

os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false")
warnings.simplefilter("ignore")

import agents
import anthropic
import instructor
import langchain.agents
import litellm
import openai
import pydantic
from answers import Matrix
from google import genai
from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

# Models that write calls into their text, that speak each protocol as they should, and that make two calls in a turn.
MODELS = ("hermes", "qwen3-coder", "openai-chat", "openai-responses", "anthropic", "gemini", "parallel", "interleaved")
# Two rounds: of one call each, or of two.
GIVEN = ((1, 20), (300, 4000), (50000, 600000), (7000000, 80000000))
KEY = "none"
# One for all: clients that are shared outlive a loop of events.
EVENTS = asyncio.new_event_loop()


def given(model):
    return GIVEN if model in ("parallel", "interleaved") else GIVEN[:2]


def question(model, tool="add"):
    calls = [f'call {tool} {{"a": {a}, "b": {b}}}' for a, b in given(model)]
    return "\n".join(["Add them.", *calls])


class Tool:
    """A tool that remembers what it was given."""

    def __init__(self):
        self.calls = []

    def add(self, a: int, b: int) -> str:
        """The sum of two numbers."""
        self.calls.append((a, b))
        return f"sum={a + b}"


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def openai_agents(make):
    def loop(url, model, streamed, tool):
        async def run():
            client = openai.AsyncOpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0)
            declared = agents.function_tool(tool.add)
            agent = agents.Agent(name="adder", tools=[declared], model=make(f"demo/{model}", openai_client=client))
            if not streamed:
                return (await agents.Runner.run(agent, question(model))).final_output
            running = agents.Runner.run_streamed(agent, question(model))
            async for _ in running.stream_events():
                pass
            return running.final_output

        return EVENTS.run_until_complete(run())

    return loop


# So many steps at most: a model that calls for ever is found out.
LIMITED = {"recursion_limit": 20}


def langchain_agent(make):
    def loop(url, model, streamed, tool):
        agent = langchain.agents.create_agent(make(url, f"demo/{model}"), [tool.add])
        asked = {"messages": [{"role": "user", "content": question(model)}]}
        if streamed:
            state = None
            for kind, value in agent.stream(asked, LIMITED, stream_mode=["messages", "values"]):
                state = value if kind == "values" else state
        else:
            state = agent.invoke(asked, LIMITED)
        return state["messages"][-1].text

    return loop


def pydantic_agent(make):
    def loop(url, model, streamed, tool):
        async def drain(_, events):
            async for _ in events:
                pass

        async def run():
            agent = Agent(make(url, f"demo/{model}"), tools=[tool.add])
            return (await agent.run(question(model), event_stream_handler=drain if streamed else None)).output

        return EVENTS.run_until_complete(run())

    return loop


def litellm_loop(provider, path):
    def loop(url, model, streamed, tool):
        declared = {"name": "add", "description": "The sum of two numbers.", "parameters": SCHEMA}
        messages = [{"role": "user", "content": question(model)}]
        for _ in range(5):
            answer = litellm.completion(
                model=f"{provider}/demo/{model}",
                api_base=url + path,
                api_key=KEY,
                messages=messages,
                tools=[{"type": "function", "function": declared}],
                stream=streamed,
                num_retries=0,
            )
            if streamed:
                answer = litellm.stream_chunk_builder(list(answer), messages=messages)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                result = tool.add(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return "no end"

    return loop


class Sum(pydantic.BaseModel):
    """Two numbers."""

    a: int
    b: int


def instructor_rounds(make, **more):
    """It forces one call, and makes an object of it: a round is a request. Streamed, the object grows, or a list of them
    comes one after the other, and the tool that it declares has another name for each."""

    def loop(url, model, streamed, tool):
        completions, said = make(url).chat.completions, []

        def asked(name, arguments):
            content = f"call {name} {json.dumps(arguments)}"
            messages = [{"role": "user", "content": content}]
            return {"response_model": Sum, "model": f"demo/{model}", "messages": messages, "max_retries": 0, **more}

        pairs = [{"a": a, "b": b} for a, b in given(model)[:2]]
        for pair in pairs:
            if streamed:
                *growing, made = completions.create_partial(**asked("PartialSum", pair))
                if not all(getattr(part, key) in (None, pair[key]) for part in growing for key in pair):
                    return f"grew as {growing}"
            else:
                made = completions.create(**asked("Sum", pair))
            said.append(tool.add(made.a, made.b))
        if streamed:
            listed = [one.model_dump() for one in completions.create_iterable(**asked("IterableSum", {"tasks": pairs}))]
            if listed != pairs:
                return f"listed {listed}"
        return " ".join(said)

    return loop


def openai_client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0)


def anthropic_client(url):
    return anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)


def google_provider(url):
    return GoogleProvider(client=genai.Client(api_key=KEY, http_options={"base_url": url}))


def chat_provider(url):
    return OpenAIProvider(base_url=url + "/v1", api_key=KEY)


LOOPS = {
    ("openai-agents", "chat"): openai_agents(agents.OpenAIChatCompletionsModel),
    ("openai-agents", "responses"): openai_agents(agents.OpenAIResponsesModel),
    ("langchain", "chat"): langchain_agent(
        lambda url, model: ChatOpenAI(model=model, base_url=url + "/v1", api_key=KEY, max_retries=0)
    ),
    ("langchain", "responses"): langchain_agent(
        lambda url, model: ChatOpenAI(
            model=model, base_url=url + "/v1", api_key=KEY, max_retries=0, use_responses_api=True
        )
    ),
    ("langchain", "messages"): langchain_agent(
        lambda url, model: ChatAnthropic(model=model, base_url=url, api_key=KEY, max_retries=0, max_tokens=999)
    ),
    ("langchain", "gemini"): langchain_agent(
        lambda url, model: ChatGoogleGenerativeAI(model=model, base_url=url, api_key=KEY, max_retries=1)
    ),
    ("pydantic-ai", "chat"): pydantic_agent(lambda url, model: OpenAIChatModel(model, provider=chat_provider(url))),
    ("pydantic-ai", "responses"): pydantic_agent(
        lambda url, model: OpenAIResponsesModel(model, provider=chat_provider(url))
    ),
    ("pydantic-ai", "messages"): pydantic_agent(
        lambda url, model: AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key=KEY))
    ),
    ("pydantic-ai", "gemini"): pydantic_agent(lambda url, model: GoogleModel(model, provider=google_provider(url))),
    ("litellm", "chat"): litellm_loop("openai", "/v1"),
    ("litellm", "messages"): litellm_loop("anthropic", ""),
    ("litellm", "gemini"): litellm_loop("gemini", "/v1beta"),
    ("instructor", "chat"): instructor_rounds(lambda url: instructor.from_openai(openai_client(url))),
    ("instructor", "messages"): instructor_rounds(
        lambda url: instructor.from_anthropic(anthropic_client(url)), max_tokens=999
    ),
}


def fault(name, loop, url, model, streamed):
    """What is wrong with the calls that reached the tool, or with the last words."""
    # litellm leaves streams open. Collected while httpcore holds the lock of its pool, they wait for that lock for ever.
    gc.collect()
    tool = Tool()
    try:
        said = loop(url, model, streamed, tool)
    except Exception as error:  # Each framework has errors of its own.
        return f"{type(error).__name__}: {error}, after {tool.calls}"
    wanted = list(given(model)[:2] if name == "instructor" else given(model))
    # Frameworks run the calls of a round at the same time.
    rounds = [sorted(tool.calls[at : at + 2]) for at in range(0, len(tool.calls), 2)]
    if rounds != [wanted[at : at + 2] for at in range(0, len(wanted), 2)]:
        return f"the tool was given {tool.calls}"
    lacking = [a + b for a, b in wanted[-1:] if f"sum={a + b}" not in str(said)]
    return f"the last words are {said!r}" if lacking else None


def main():
    url = sys.argv[1].rstrip("/")
    matrix = Matrix("python, tool loops")
    gc.disable()
    for (name, protocol), loop in LOOPS.items():
        for model in MODELS:
            for streamed in (True, False):
                way = f"{protocol}, {'streamed' if streamed else 'whole'}"
                if name == "instructor" and model in ("parallel", "interleaved"):
                    matrix.add(name, way, "it wants one call")
                    continue
                wrong = fault(name, loop, url, model, streamed)
                matrix.add(name, way, None, [wrong] if wrong else [], f"{model}, {way}")
    matrix.conclude()


if __name__ == "__main__":
    main()
