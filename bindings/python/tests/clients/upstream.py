"""An upstream on this machine that misbehaves as models and servers do, in the protocols of the clients."""

from __future__ import annotations

import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: A call as text: in a dialect, its JSON in single quotes, a number as a text.
CALL = "<tool_call>{'name': 'look', 'arguments': {'at': 'sky', 'n': '7'}}</tool_call>"
#: The same of another thing.
SECOND_CALL = CALL.replace("sky", "sea")
#: A call that no repair makes valid.
BAD_CALL = CALL.replace("'7'", "'seven'")

SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["at", "n"],
}


def chat(text: str) -> tuple[Any, list[Any]]:
    """A complete body and the frames of a stream."""
    head = {"id": "c1", "created": 1, "model": "m"}
    body = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }
    head["object"] = "chat.completion.chunk"
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces(text)), {}]
    frames = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    frames[-1]["choices"][0]["finish_reason"] = "stop"
    return body, [*frames, "[DONE]"]


def native_chat(arguments: str) -> tuple[Any, list[Any]]:
    """Native calls without an id, whose arguments are not quite JSON."""
    body, frames = chat("")
    call = {"type": "function", "function": {"name": "look", "arguments": arguments}}
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
    first = {"function": {"name": "look", "arguments": ""}}
    rest = [{"function": {"arguments": piece}} for piece in pieces(arguments)]
    deltas = [{"tool_calls": [{"index": 0, **piece}]} for piece in [first, *rest]]
    calls = [{**frames[0], "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return body, [frames[0], *calls, *frames[-2:]]


def messages(text: str) -> tuple[Any, list[Any]]:
    """The same in Anthropic's protocol."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 3, "output_tokens": 5}
    body = {**head, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in pieces(text)
    ]
    frames = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return body, frames


def responses(text: str) -> tuple[Any, list[Any]]:
    """The same in the protocol of OpenAI's Responses."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 3,
        "output_tokens": 5,
        "total_tokens": 8,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    head = {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    body = {**head, "status": "completed", "output": [item], "usage": usage}
    place = {"item_id": "i1", "output_index": 0, "content_index": 0}
    frames = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces(text)),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": body},
    ]
    return body, [{**frame, "sequence_number": at} for at, frame in enumerate(frames)]


def gemini(text: str) -> tuple[Any, list[Any]]:
    """The same in Gemini's protocol."""

    def response(piece: str, **more: str) -> Any:
        candidate = {"content": {"role": "model", "parts": [{"text": piece}]}, "index": 0, **more}
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "g1"}

    frames = [response(piece) for piece in pieces(text)]
    return response(text, finishReason="STOP"), [*frames, response("", finishReason="STOP")]


def ollama(text: str) -> tuple[Any, list[Any]]:
    """The same in Ollama's protocol."""

    def response(piece: str, **more: Any) -> Any:
        head = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": False}
        return {**head, "message": {"role": "assistant", "content": piece}, **more}

    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 5}
    return response(text, **end), [*map(response, pieces(text)), response("", **end)]


def cohere(text: str) -> tuple[Any, list[Any]]:
    """The same in Cohere's protocol."""
    usage = {"tokens": {"input_tokens": 3, "output_tokens": 5}}
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    body = {"id": "c1", "finish_reason": "COMPLETE", "message": message, "usage": usage}
    start = {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}
    deltas = [
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}}
        for piece in pieces(text)
    ]
    frames = [
        {"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}},
        start,
        *deltas,
        {"type": "content-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}},
    ]
    return body, frames


def pieces(text: str) -> list[str]:
    """A text as a model writes it: a few letters at a time, whatever they are."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


PROTOCOLS: dict[str, Callable[[str], tuple[Any, list[Any]]]] = {
    "/chat/completions": chat,
    "/messages": messages,
    "/responses": responses,
    "generateContent": gemini,
    "streamGenerateContent": gemini,
    "/api/chat": ollama,
    "/v2/chat": cohere,
}


class Says:
    """A response with a text, or with anything else that a protocol's function makes."""

    def __init__(
        self,
        text: str,
        make: Callable[[str], tuple[Any, list[Any]]] | None = None,
        *,
        then: str = "end",
        headers: dict[str, str] | None = None,
        cut_at: int = 7,
    ) -> None:
        self.text, self.make, self.then, self.headers, self.cut_at = text, make, then, headers or {}, cut_at

    def answer(self, handler: Handler) -> None:
        make = self.make or next(make for end, make in PROTOCOLS.items() if handler.place().endswith(end))
        body, frames = make(self.text)
        is_lines = handler.place().endswith("/api/chat")
        default = is_lines or "streamGenerateContent" in handler.place()
        is_streamed = handler.asked.get("stream", default)
        kind = "application/x-ndjson" if is_lines else "text/event-stream" if is_streamed else "application/json"
        handler.begin(200, {"content-type": kind, "x-request-id": "upstream-1", **self.headers})
        data = written(frames, is_lines=is_lines) if is_streamed else json.dumps(body).encode()
        if self.then in ("cut", "hang"):
            # Up to the middle of the text, and of a frame.
            data = data[: data.rindex(json.dumps(pieces(self.text)[-1]).encode()) if is_streamed else len(data) // 2]
        elif self.then == "silence":
            # Everything but the end.
            data = data[: data.rindex(b'"stop"') - 200]
            data = data[: data.rindex(b"\n\n") + 2]
        # Cuts fall anywhere, and differ between the pieces.
        at, number = 0, 0
        while at < len(data):
            size = self.cut_at + number % 3
            handler.chunk(data[at : at + size])
            at, number = at + size, number + 1
        if self.then == "end":
            handler.chunk(b"")
        elif self.then == "cut":
            handler.close_connection = True
        else:
            handler.wait_for_the_client()


class Refuses:
    """An error."""

    def __init__(self, status: int, **headers: str) -> None:
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(self, handler: Handler) -> None:
        error = {"type": "rate_limit_error", "message": "Slow down."}
        handler.begin(self.status, {"content-type": "application/json", "x-request-id": "upstream-0", **self.headers})
        handler.chunk(json.dumps({"type": "error", "error": error}).encode())
        handler.chunk(b"")


class SaysNothing:
    """A server that takes a request, and never answers."""

    def answer(self, handler: Handler) -> None:
        handler.wait_for_the_client()


def written(frames: list[Any], *, is_lines: bool) -> bytes:
    if is_lines:
        return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
    return b"".join(map(event, frames))


def event(frame: Any) -> bytes:
    if isinstance(frame, str):
        return f"data: {frame}\n\n".encode()
    name = f"event: {frame['type']}\n" if "type" in frame else ""
    return f"{name}data: {json.dumps(frame)}\n\n".encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    asked: Any = {}

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1
            self.server.open += 1

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass
        with self.server.lock:
            self.server.open -= 1

    def place(self) -> str:
        path = self.path.partition("?")[0]
        return path.rpartition(":")[2] if ":" in path else path

    def do_GET(self) -> None:
        self.begin(200, {"content-type": "application/json"})
        self.chunk(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())
        self.chunk(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.asked = json.loads(body)
        with self.server.lock:
            self.server.requests.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, self.asked))
            plan = self.server.plan
            answer = plan.pop(0) if len(plan) > 1 else plan[0]
        try:
            answer.answer(self)
        except OSError:
            self.server.left.set()
            self.close_connection = True

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def wait_for_the_client(self) -> None:
        """Says nothing more until the client leaves."""
        self.close_connection = True
        for _ in range(400):
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable and self.connection.recv(1) == b"":
                self.server.left.set()
                return
            if self.server.is_over:
                return

    def log_message(self, *_: Any) -> None:
        pass


class Asked:
    """A request that the upstream got."""

    def __init__(self, path: str, headers: dict[str, str], body: Any) -> None:
        self.path, self.headers, self.body = path, headers, body


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.requests: list[Asked] = []
        self.plan: list[Any] = [Says(CALL)]
        #: Whether a client has left before the end.
        self.left = threading.Event()
        self.connections = self.open = 0
        self.is_over = False

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def use_tls(self, certificate: str) -> None:
        """Speaks TLS from now on, with a file that holds a certificate and its key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def will(self, *plan: Any) -> None:
        """Answers one request after the other like this; all further ones like the last."""
        self.plan = list(plan)

    def sees_the_client_leave(self) -> bool:
        return self.left.wait(5)

    def is_quiet(self) -> bool:
        """Whether no connection stays open."""
        for _ in range(100):
            if self.open == 0:
                return True
            time.sleep(0.05)
        return False

    def handle_error(self, *_: Any) -> None:
        pass


def served() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.is_over = True
    server.shutdown()
    server.server_close()
    thread.join()
