"""The official client of each protocol, through a running gateway, while the upstream says nothing: before its first words
and in their middle, for several of the gateway's keep-alives. Nobody may break, and nobody may get anything but the words.

usage: silence.py URL PORT SECONDS: the gateway's upstream `silent` is at that port of this machine
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from answers import Matrix
from gateway import Chat, Gemini, Messages, Ollama, Responses

WORDS = ("It is ", "warm in ", "Paris.")


class Silent(BaseHTTPRequestHandler):
    """Speaks chat, and takes its time before each of its first two words."""

    seconds = 0.0

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_streamed = asked.get("stream") is True
        kind = "text/event-stream" if is_streamed else "application/json"
        head = {"id": "c1", "model": asked["model"], "created": 1}
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        if not is_streamed:
            time.sleep(self.seconds)
            message = {"role": "assistant", "content": "".join(WORDS)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.wfile.write(json.dumps(head | {"object": "chat.completion", "choices": [choice]}).encode())
            return
        for number, word in enumerate(WORDS):
            if number < 2:
                time.sleep(self.seconds)
            self.say(head, {"delta": {"role": "assistant", "content": word}, "finish_reason": None})
        self.say(head, {"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, head, choice):
        chunk = head | {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


def fault(client, streamed):
    try:
        text, calls, _ = client.ask("silent/m", streamed)
    except Exception as error:  # Each client has errors of its own.
        return f"{type(error).__name__}: {error}"
    return None if text == "".join(WORDS) and not calls else f"{text!r} {calls}"


def main():
    url, port, Silent.seconds = sys.argv[1].rstrip("/"), int(sys.argv[2]), float(sys.argv[3])
    server = ThreadingHTTPServer(("127.0.0.1", port), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # All wait at the same time.
    asked = [(make(url), streamed) for make in (Chat, Responses, Messages, Gemini, Ollama) for streamed in (True, False)]
    faults = [None] * len(asked)

    def ask(number):
        faults[number] = fault(*asked[number])

    waiting = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    matrix = Matrix("python, through the gateway")
    for (client, streamed), wrong in zip(asked, faults, strict=True):
        way = f"a silent upstream, {'streamed' if streamed else 'whole'}"
        matrix.add(type(client).__name__, way, None, [wrong] if wrong else [], f"{sys.argv[3]} s")
    matrix.conclude()


if __name__ == "__main__":
    main()
