"""Routes that few clients take, with the official clients that take them: Azure's, Vertex AI's and Foundry's paths, kept
responses, embeddings, models, Ollama's prompts, functions of old. A scripted model answers, or a server of this script.

usage: odd_routes.py URL PORT: the gateway's upstreams `far` (Chat) and `far-responses` are at that port of this machine
"""

import base64
import json
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import ollama
import openai
from answers import Matrix
from gateway import QUESTION, RIGHT, SCHEMA
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

KEY = "none"
MODEL = "demo/hermes"
USER = [{"role": "user", "content": QUESTION}]
TOOL = {"name": "get_weather", "description": "It.", "parameters": SCHEMA}
TEXTS = ["one", "three"]
SAID = "Hello"


def vector(text):
    """As precise as four bytes are, so that every encoding of it is exact."""
    return [float(len(text)), 0.5, -1.25]


class Far(BaseHTTPRequestHandler):
    """What scripted models have not: embeddings, completions of a prompt, conversations in short."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = ANSWERS.get(self.path)
        body = json.dumps(answer(asked) if answer else {"error": {"message": f"no {self.path}"}}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def embedded(asked):
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    vectors = [vector(text) for text in texts]
    if asked.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack("<3f", *one)).decode() for one in vectors]
    data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(vectors)]
    return {"object": "list", "model": asked["model"], "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def completed(asked):
    choice = {"index": 0, "text": SAID, "finish_reason": "stop", "logprobs": None}
    return {"id": "c", "object": "text_completion", "created": 1, "model": asked["model"], "choices": [choice]}


def compacted(asked):
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": f"{asked['model']}: {asked['input']}"}
    return {"id": "r", "object": "response.compaction", "created_at": 1, "output": [item], "usage": usage | details}


ANSWERS = {"/v1/embeddings": embedded, "/v1/completions": completed, "/v1/responses/compact": compacted}


def same(said, wanted):
    assert said == wanted, f"{said!r}, and not {wanted!r}"


def called(name, arguments):
    same((name, json.loads(arguments) if isinstance(arguments, str) else dict(arguments)), RIGHT)


# OpenAI's client


def openai_at(path):
    return lambda url: openai.OpenAI(base_url=url + path, api_key=KEY, max_retries=0)


def azure(**more):
    return lambda url: openai.AzureOpenAI(azure_endpoint=url, api_version="2024-10-21", max_retries=0, **more)


def chat(client):
    tools = [{"type": "function", "function": TOOL}]
    choice = client.chat.completions.create(model=MODEL, messages=USER, tools=tools).choices[0]
    called(choice.message.tool_calls[0].function.name, choice.message.tool_calls[0].function.arguments)
    with client.chat.completions.stream(model=MODEL, messages=USER, tools=tools) as stream:
        choice = stream.get_final_completion().choices[0]
    called(choice.message.tool_calls[0].function.name, choice.message.tool_calls[0].function.arguments)


def functions(client):
    asked = {"model": MODEL, "messages": USER, "functions": [TOOL]}
    for more in ({}, {"function_call": "auto"}, {"function_call": {"name": "get_weather"}}):
        choice = client.chat.completions.create(**asked, **more).choices[0]
        same((choice.finish_reason, choice.message.tool_calls), ("function_call", None))
        called(choice.message.function_call.name, choice.message.function_call.arguments)
        name, arguments, ends = "", "", []
        for chunk in client.chat.completions.create(**asked, **more, stream=True):
            choice = chunk.choices[0]
            same(choice.delta.tool_calls, None)
            if choice.delta.function_call:
                name += choice.delta.function_call.name or ""
                arguments += choice.delta.function_call.arguments or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
        same(ends, ["function_call"])
        called(name, arguments)
    past = [
        {"role": "assistant", "content": None, "function_call": {"name": RIGHT[0], "arguments": json.dumps(RIGHT[1])}},
        {"role": "function", "name": RIGHT[0], "content": "21 degrees"},
    ]
    answer = client.chat.completions.create(**asked | {"messages": USER + past})
    assert "21 degrees" in answer.choices[0].message.content, answer


def openai_embeddings(client):
    for more in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        answer = client.embeddings.create(model="far/e", input=TEXTS, **more)
        vectors = [one.embedding for one in answer.data]
        if more.get("encoding_format") == "base64":
            vectors = [list(struct.unpack("<3f", base64.b64decode(one))) for one in vectors]
        same(vectors, [vector(text) for text in TEXTS])
        same((answer.usage.prompt_tokens, [one.index for one in answer.data]), (3, [0, 1]))
    same(client.embeddings.create(model="far/e", input=TEXTS[0]).data[0].embedding, vector(TEXTS[0]))


def openai_completions(client):
    same(client.completions.create(model="far/x", prompt="hi").choices[0].text, SAID)


def openai_models(client):
    names = [model.id for model in client.models.list()]
    assert MODEL in names, names
    same(client.models.retrieve(MODEL).id, MODEL)
    refused(openai.NotFoundError, client.models.retrieve, "nobody")


def refused(kind, ask, *words, **more):
    try:
        answer = ask(*words, **more)
    except kind:
        return
    raise AssertionError(f"not refused: {answer!r}")


def kept_responses(client):
    """A conversation that goes on by the id of its last response, and what can be asked of that."""
    tools = [{"type": "function", **TOOL, "strict": False}]
    first = client.responses.create(model=MODEL, input=QUESTION, tools=tools)
    call = next(item for item in first.output if item.type == "function_call")
    called(call.name, call.arguments)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    second = client.responses.create(model=MODEL, input=[result], tools=tools, previous_response_id=first.id)
    assert "21 degrees" in second.output_text, second
    same(second.previous_response_id, first.id)
    with client.responses.stream(model=MODEL, input=[result], tools=tools, previous_response_id=first.id) as stream:
        streamed = stream.get_final_response()
    same(streamed.output_text, second.output_text)
    same((streamed.previous_response_id, first.previous_response_id), (first.id, None))
    for response in (first, second, streamed):
        again = client.responses.retrieve(response.id)
        same(again.previous_response_id, response.previous_response_id)
        same((again.id, again.status, again.output_text), (response.id, "completed", response.output_text))
        same([item.type for item in again.output], [item.type for item in response.output])
    items = list(client.responses.input_items.list(first.id))
    same([(item.role, item.content[0].text) for item in items], [("user", QUESTION)])
    items = list(client.responses.input_items.list(second.id, order="asc"))
    same([item.type for item in items], ["message", "function_call", "function_call_output"])
    # One a page: the client turns the pages by the last id of each.
    paged = list(client.responses.input_items.list(second.id, order="asc", limit=1))
    same([item.id for item in paged], [item.id for item in items])
    newest = list(client.responses.input_items.list(second.id))
    same([item.id for item in newest], [item.id for item in items][::-1])
    refused(openai.BadRequestError, client.responses.cancel, second.id)
    client.responses.delete(first.id)
    refused(openai.NotFoundError, client.responses.retrieve, first.id)
    refused(openai.NotFoundError, client.responses.delete, first.id)
    refused(openai.NotFoundError, client.responses.cancel, first.id)
    refused(openai.NotFoundError, client.responses.input_items.list, first.id)
    refused(openai.BadRequestError, client.responses.create, model=MODEL, input="hi", previous_response_id=first.id)
    # What led to it is its own.
    same(client.responses.retrieve(second.id).output_text, second.output_text)
    refused(openai.BadRequestError, client.responses.create, model=MODEL, input="hi", conversation="conv_1")
    refused(openai.BadRequestError, client.responses.create, model=MODEL, input="hi", prompt={"id": "pmpt_1"})


def input_tokens(client):
    short, long = (client.responses.input_tokens.count(model=MODEL, input="hi " * n).input_tokens for n in (1, 500))
    assert 0 < short < 50 and 100 < long < 2000, (short, long)


def compaction(client):
    answer = client.responses.compact(model="far-responses/x", input="a long talk")
    same((answer.object, answer.output[0].encrypted_content), ("response.compaction", "x: a long talk"))
    refused(openai.APIStatusError, client.responses.compact, model=MODEL, input="a long talk")


# Anthropic's clients


def vertex_claude(url):
    more = {"region": "europe-west1", "project_id": "p", "access_token": KEY, "max_retries": 0}
    return anthropic.AnthropicVertex(base_url=url + "/v1", **more)


def foundry_claude(url):
    return anthropic.AnthropicFoundry(base_url=url + "/anthropic", api_key=KEY, max_retries=0)


def plain_claude(url):
    return anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)


def messages(client):
    tools = [{"name": "get_weather", "description": "It.", "input_schema": SCHEMA}]
    asked = {"model": MODEL, "max_tokens": 999, "messages": USER, "tools": tools}
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for message in (client.messages.create(**asked), streamed):
        block = next(block for block in message.content if block.type == "tool_use")
        called(block.name, block.input)
        same((message.stop_reason, message.model), ("tool_use", MODEL))


def claude_tokens(client):
    short, long = (
        client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hi " * n}]).input_tokens
        for n in (1, 500)
    )
    assert 0 < short < 50 and 100 < long < 2000, (short, long)


def claude_models(client):
    names = [model.id for model in client.models.list()]
    assert MODEL in names, names
    same(client.models.retrieve(MODEL).id, MODEL)
    refused(anthropic.NotFoundError, client.models.retrieve, "nobody")


# Google's client


def google(**more):
    def make(url):
        options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
        return genai.Client(http_options=options, **more)

    return make


def contents(*models):
    def ask(client):
        declared = types.FunctionDeclaration(name="get_weather", description="It.", parameters_json_schema=SCHEMA)
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[declared])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        for model in models:
            asked = {"model": model, "contents": QUESTION, "config": config}
            streamed = list(client.models.generate_content_stream(**asked))
            for answers in ([client.models.generate_content(**asked)], streamed):
                parts = [part for answer in answers for part in answer.candidates[0].content.parts or []]
                call = next(part.function_call for part in parts if part.function_call)
                called(call.name, call.args)

    return ask


def google_tokens(client):
    short, long = (client.models.count_tokens(model=MODEL, contents="hi " * n).total_tokens for n in (1, 500))
    assert 0 < short < 50 and 100 < long < 2000, (short, long)


def google_embeddings(*models):
    def ask(client):
        for model in models:
            answer = client.models.embed_content(model=model, contents=TEXTS[0])
            same([one.values for one in answer.embeddings], [vector(TEXTS[0])])

    return ask


def google_batches(client):
    answer = client.models.embed_content(model="far/e", contents=TEXTS)
    same([one.values for one in answer.embeddings], [vector(text) for text in TEXTS])


def google_models(client):
    names = [model.name for model in client.models.list()]
    assert f"models/{MODEL}" in names, names
    for name in (MODEL, f"models/{MODEL}"):
        same(client.models.get(model=name).name, f"models/{MODEL}")
    refused(genai.errors.ClientError, client.models.get, model="nobody")


# Ollama's client


def ollama_client(url):
    return ollama.Client(host=url)


def generated(client):
    whole = client.generate(model=MODEL, prompt="Good day.")
    assert "Good day." in whole.response and whole.done, whole
    parts = list(client.generate(model=MODEL, prompt="Good day.", stream=True))
    same("".join(part.response for part in parts), whole.response)
    same([part.done for part in parts], [False] * (len(parts) - 1) + [True])
    thinking = client.generate(model="demo/reasoning", prompt="Good day.", think=True)
    assert thinking.thinking and "Good day." in thinking.response, thinking
    shaped = client.generate(model=MODEL, prompt="Paris", system="Be brief.", format=SCHEMA)
    same(set(json.loads(shaped.response)), {"city", "days"})
    refused(ollama.ResponseError, client.generate, model=MODEL, prompt="a", suffix="b")
    # Without a prompt it only loads the model.
    assert client.generate(model=MODEL).done


def ollama_chat(client):
    tools = [{"type": "function", "function": TOOL}]
    whole = client.chat(model=MODEL, messages=USER, tools=tools)
    for answers in ([whole], list(client.chat(model=MODEL, messages=USER, tools=tools, stream=True))):
        calls = [call for answer in answers for call in answer.message.tool_calls or []]
        called(calls[0].function.name, calls[0].function.arguments)
        same((answers[-1].done, answers[-1].eval_count), (True, whole.eval_count))


def ollama_embeddings(client):
    same(client.embed(model="far/e", input=TEXTS).embeddings, [vector(text) for text in TEXTS])
    same(client.embed(model="far/e", input=TEXTS[0]).embeddings, [vector(TEXTS[0])])
    same(client.embeddings(model="far/e", prompt=TEXTS[0]).embedding, vector(TEXTS[0]))
    refused(ollama.ResponseError, client.embed, model=MODEL, input="a")


def ollama_models(client):
    listed = [model.model for model in client.list().models]
    assert MODEL in listed, listed
    assert MODEL in [model.model for model in client.ps().models]
    assert "tools" in client.show(MODEL).capabilities
    refused(ollama.ResponseError, client.show, "nobody")


CASES = [
    ("OpenAI", openai_at("/v1"), [functions, kept_responses, input_tokens, compaction]),
    ("OpenAI", openai_at("/v1"), [openai_embeddings, openai_completions, openai_models]),
    ("OpenAI, /v1beta/openai", openai_at("/v1beta/openai"), [chat, openai_embeddings, openai_models]),
    ("OpenAI, /openai/v1", openai_at("/openai/v1"), [chat, kept_responses, openai_embeddings, openai_models]),
    ("AzureOpenAI", azure(api_key=KEY), [chat, functions, openai_embeddings, openai_completions]),
    ("AzureOpenAI", azure(azure_ad_token=KEY), [chat, kept_responses, input_tokens, openai_models]),
    ("AzureOpenAI, a deployment", azure(api_key=KEY, azure_deployment=MODEL), [chat, kept_responses]),
    ("AzureOpenAI, a deployment", azure(api_key=KEY, azure_deployment="far/e"), [openai_embeddings]),
    ("Anthropic", plain_claude, [claude_tokens, claude_models]),
    ("AnthropicVertex", vertex_claude, [messages, claude_tokens]),
    ("AnthropicFoundry", foundry_claude, [messages, claude_tokens]),
    ("google-genai", google(api_key=KEY), [contents(MODEL, f"models/{MODEL}"), google_tokens, google_models]),
    ("google-genai", google(api_key=KEY), [google_embeddings("far/e", "models/far/e"), google_batches]),
    (
        "google-genai, a project of Vertex AI",
        google(vertexai=True, project="p", location="europe-west1", credentials=Credentials(KEY)),
        [
            contents(MODEL, f"publishers/google/models/{MODEL}"),
            google_tokens,
            # Its path is :embedContent for the one, and :predict for the other.
            google_embeddings("far/gemini-embedding-2", "far/text-embedding-005"),
        ],
    ),
    (
        "google-genai, Vertex AI with a key",
        google(vertexai=True, api_key=KEY),
        [contents(MODEL, f"publishers/google/models/{MODEL}"), google_tokens],
    ),
    ("Ollama", ollama_client, [generated, ollama_chat, ollama_embeddings, ollama_models]),
]


def fault(client, case):
    try:
        case(client)
    except Exception as error:  # Each client has errors of its own.
        return f"{type(error).__name__}: {error}"
    return None


def main():
    url, port = sys.argv[1].rstrip("/"), int(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", port), Far)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    matrix = Matrix("python, odd routes")
    for name, make, cases in CASES:
        client = make(url)
        for case in cases:
            wrong = fault(client, case)
            matrix.add(name, "odd routes", None, [wrong] if wrong else [], case.__qualname__.split(".")[0])
    matrix.conclude()


if __name__ == "__main__":
    main()
