"""Calls that stay invalid, with the official client of each protocol, streamed and whole: nobody breaks on the mark, the
client has the call as the model made it, and the mark is where the manual says.

usage: invalid_calls.py URL
"""

import http.client
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from answers import Matrix
from gateway import QUESTION, SCHEMA, Chat, Gemini, Messages, Ollama, Responses, parsed

# What comes of the call of each model: its name, its arguments, and why it cannot be run.
MODELS = {
    "lacking-arguments": ("get_weather", {}, "do not fit its schema"),
    "empty-arguments": ("get_weather", {}, "do not fit its schema"),
    "unknown-tool": ("get_weather_of_mine", {"city": "Paris", "days": 3}, "was not declared"),
}
# A call that reached the limit is told by the protocol's own word for that.
TRUNCATED = "truncated"
PIECE = '{"city":"Paris","days":'
HEADER = "x-callweave-invalid-calls"
COMMENT = ": callweave: the call "


class Between(BaseHTTPRequestHandler):
    """Stands between a client and the gateway, and remembers the last response."""

    gateway = ""
    headers_seen = {}
    text = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        connection = http.client.HTTPConnection(Between.gateway)
        own = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request("POST", self.path, body, own)
        response = connection.getresponse()
        data = response.read()
        Between.headers_seen = {name.lower(): value for name, value in response.getheaders()}
        Between.text = data.decode()
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class ChatChunks(Chat):
    """OpenAI's helper for streams raises where a limit was reached, whoever answers; here the chunks themselves."""

    def ask(self, model, streamed):
        if not streamed:
            return super().ask(model, streamed)
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
        asked = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "tools": tools}
        calls, end = [], None
        for chunk in self.client.chat.completions.create(**asked, stream=True):
            choice = chunk.choices[0]
            for delta in choice.delta.tool_calls or []:
                if delta.index == len(calls):
                    calls.append((delta.function.name, ""))
                tool, text = calls[delta.index]
                calls[delta.index] = (tool, text + (delta.function.arguments or ""))
            end = choice.finish_reason or end
        return "", calls, end == "tool_calls"


class ResponsesEvents(Responses):
    """Its other helper wants `response.completed`; here the events themselves."""

    def ask(self, model, streamed):
        if not streamed:
            return super().ask(model, streamed)
        tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
        events = list(self.client.responses.create(model=model, input=QUESTION, tools=tools, stream=True))
        items = [event.item for event in events if event.type == "response.output_item.done"]
        calls = [(item.name, item.arguments) for item in items if item.type == "function_call"]
        return "", calls, events[-1].type == "response.completed"


def faults(client, name, streamed):
    try:
        _, calls, is_good = client.ask(f"demo/{name}", streamed)
    except Exception as error:  # Each client has errors of its own.
        yield f"{type(error).__name__}: {error}"
        return
    count = int(Between.headers_seen.get(HEADER, 0))
    comments = [line for line in Between.text.splitlines() if line.startswith(":")]
    if name == TRUNCATED:
        # A text that is no JSON stays one where arguments are text, and stands under a name where they are objects.
        given = [arguments.get("INVALID_JSON", arguments) if isinstance(arguments, dict) else arguments for _, arguments in calls]
        # Streams of Anthropic's have no place for it; its client reads as far as the text goes.
        wanted = [[PIECE], [{"city": "Paris"}]] if isinstance(client, Messages) and streamed else [[PIECE]]
        if given not in wanted or is_good:
            yield f"{calls}, good end: {is_good}"
        if count or comments:
            yield f"marked, though its end says it: {count} {comments}"
        return
    tool, arguments, why = MODELS[name]
    if [(own, parsed(given)) for own, given in calls] != [(tool, arguments)] or not is_good:
        yield f"{calls}, good end: {is_good}"
    has_comments = streamed and not isinstance(client, (Gemini, Ollama))
    if count != (0 if streamed else 1):
        yield f"{HEADER}: {count}"
    if [line.startswith(COMMENT) and why in line for line in comments] != ([True] if has_comments else []):
        yield f"comments: {comments}"


def main():
    Between.gateway = urlsplit(sys.argv[1]).netloc
    server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    matrix = Matrix("python, through the gateway")
    for make in (Chat, ChatChunks, Responses, ResponsesEvents, Messages, Gemini, Ollama):
        client = make(url)
        for name in (*MODELS, TRUNCATED):
            for streamed in (True, False):
                way = f"invalid calls, {'streamed' if streamed else 'whole'}"
                if name == TRUNCATED and make in (Chat, Responses) and streamed:
                    matrix.add(make.__name__, way, "its helper raises where a limit was reached, whoever answers")
                    continue
                matrix.add(make.__name__, way, None, list(faults(client, name, streamed)), f"{name}, {way}")
    matrix.conclude()


if __name__ == "__main__":
    main()
