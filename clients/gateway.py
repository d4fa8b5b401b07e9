"""Asks every scripted model through a running gateway with the providers' official clients, streamed and whole, and
looks at what they understand: the right call, or an error of the client's own kind.

usage: gateway.py URL
"""

import json
import sys

import anthropic
import ollama
import openai
from answers import Matrix
from google import genai
from google.genai import types

QUESTION = "What is the weather in Paris for 3 days?"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
RIGHT = ("get_weather", {"city": "Paris", "days": 3})

# What comes of a model that does not end with a call: an error, a text, or a call that nobody may run.
ERRORS = ("status-", "error-mid-stream", "abrupt-end", "cut-call", "garbage")
TEXTS = ("think-tags", "reasoning")
UNUSABLE = ("truncated", "empty-arguments", "lacking-", "unknown-tool")
SLOW = ("silence", "slow")


def parsed(arguments):
    """The arguments as a client would run them; none if it cannot."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None


class Chat:
    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    def ask(self, model, streamed):
        tool = {"type": "function", "function": {"name": "get_weather", "description": "It.", "parameters": SCHEMA}}
        asked = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "tools": [tool]}
        if streamed:
            with self.client.chat.completions.stream(**asked) as stream:
                choice = stream.get_final_completion().choices[0]
        else:
            choice = self.client.chat.completions.create(**asked).choices[0]
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        return choice.message.content or "", calls, choice.finish_reason == "tool_calls"


class Responses:
    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    def ask(self, model, streamed):
        tool = {"type": "function", "name": "get_weather", "description": "It.", "parameters": SCHEMA, "strict": False}
        asked = {"model": model, "input": QUESTION, "tools": [tool]}
        if streamed:
            with self.client.responses.stream(**asked) as stream:
                response = stream.get_final_response()
        else:
            response = self.client.responses.create(**asked)
        if response.status == "failed":
            raise openai.OpenAIError(response.error.message)
        calls = [(item.name, item.arguments) for item in response.output if item.type == "function_call"]
        return response.output_text, calls, response.status == "completed"


class Messages:
    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def ask(self, model, streamed):
        tool = {"name": "get_weather", "description": "It.", "input_schema": SCHEMA}
        asked = {"model": model, "max_tokens": 999, "messages": [{"role": "user", "content": QUESTION}], "tools": [tool]}
        if streamed:
            with self.client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(**asked)
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
        return text, calls, message.stop_reason == "tool_use"


class Gemini:
    def __init__(self, url):
        options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions(attempts=1))
        self.client = genai.Client(api_key="none", http_options=options)

    def ask(self, model, streamed):
        declared = types.FunctionDeclaration(name="get_weather", description="It.", parameters_json_schema=SCHEMA)
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[declared])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        asked = {"model": model, "contents": QUESTION, "config": config}
        models = self.client.models
        answers = list(models.generate_content_stream(**asked)) if streamed else [models.generate_content(**asked)]
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or []]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
        return text, calls, answers[-1].candidates[0].finish_reason == types.FinishReason.STOP


class Ollama:
    def __init__(self, url):
        self.client = ollama.Client(host=url)

    def ask(self, model, streamed):
        tool = {"type": "function", "function": {"name": "get_weather", "description": "It.", "parameters": SCHEMA}}
        asked = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "tools": [tool]}
        answer = self.client.chat(**asked, stream=streamed)
        parts = list(answer) if streamed else [answer]
        if not parts[-1].done:
            raise ollama.ResponseError("the stream has no end")
        calls = [(call.function.name, dict(call.function.arguments)) for part in parts for call in part.message.tool_calls or []]
        return "".join(part.message.content or "" for part in parts), calls, parts[-1].done_reason == "stop"


def fault(client, model, streamed):
    """What is wrong with what the client understands of the model; nothing if it is right."""
    name = model.split("/", 1)[1]
    try:
        text, calls, is_good = client.ask(model, streamed)
    except Exception as error:  # Each client has errors of its own; that there is one is what counts.
        is_wanted = name.startswith(ERRORS) or name.startswith(UNUSABLE)
        return None if is_wanted else f"{type(error).__name__}: {error}"
    if name.startswith(ERRORS):
        return f"no error: {text!r} {calls}"
    if name.startswith(TEXTS):
        is_right = text.strip().startswith("You said") and not calls
        return None if is_right else f"{text!r} {calls}"
    calls = [(tool, parsed(arguments)) for tool, arguments in calls]
    if name.startswith(UNUSABLE):
        return f"a call that could be run: {calls}" if RIGHT in calls else None
    is_right = calls and calls[0][0] == RIGHT[0] and RIGHT[1].items() <= (calls[0][1] or {}).items() and is_good
    return None if is_right else f"{text!r} {calls}, good end: {is_good}"


def main():
    url = sys.argv[1].rstrip("/")
    names = [model.id for model in openai.OpenAI(base_url=url + "/v1", api_key="none").models.list()]
    names = [name for name in names if name.startswith("demo/")]
    # The list is what is tried: a short one would try little.
    if len(names) < 50:
        sys.exit(f"only {len(names)} models are listed")
    matrix = Matrix("python, through the gateway")
    for make in (Chat, Responses, Messages, Gemini, Ollama):
        client = make(url)
        for name in names:
            for streamed in (True, False):
                way = f"scripted models, {'streamed' if streamed else 'whole'}"
                if name.split("/")[1].startswith(SLOW):
                    matrix.add(make.__name__, way, "slow: the gateway's own tests wait for it")
                    continue
                wrong = fault(client, name, streamed)
                matrix.add(make.__name__, way, None, [wrong] if wrong else [], name)
    matrix.conclude()


if __name__ == "__main__":
    main()
