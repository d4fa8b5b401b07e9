"""What the scripts share: the answers that are played, what callweave makes of them, and the matrix of what came of it.

Each script takes the program and the folders of answers: our own cases (folders of protocols, of cases), and recordings
(a folder with an INDEX.jsonl).
"""

import base64
import json
import pathlib
import subprocess
import sys
import threading
import warnings
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPES = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson", ".json": "application/json"}


class Replay(BaseHTTPRequestHandler):
    """Answers every request with the case that is being played."""

    body = b""
    content_type = ""
    status = 200

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.status)
        self.send_header("content-type", self.content_type)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


def serve():
    """Starts to answer; the address."""
    warnings.simplefilter("ignore")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def play(read, body, content_type, status=200):
    """What the client reads, or the words in which it gives up."""
    Replay.body, Replay.content_type, Replay.status = body, content_type, status
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Answer:
    def __init__(self, protocol, name, path, is_own):
        self.protocol, self.name, self.path, self.is_own = protocol, name, path, is_own

    def __str__(self):
        return f"{self.protocol}/{self.name}"


def answers(folders):
    for folder in map(pathlib.Path, folders):
        index = folder / "INDEX.jsonl"
        if not index.exists():
            for path in sorted(folder.glob("*/*/input.*")):
                yield Answer(path.parent.parent.name, path.parent.name, path, True)
            continue
        for row in map(json.loads, index.read_text().splitlines()):
            protocol = {"mistral-chat": "openai-chat"}.get(row["protocol"], row["protocol"])
            yield Answer(protocol, pathlib.Path(row["file"]).name, folder / row["file"], False)


class Callweave:
    """What the program makes of many answers, asked at once."""

    def __init__(self, program, answers, targets):
        self.answers = [answer for answer in answers if answer.protocol in PROTOCOLS]
        rows = []
        for answer in self.answers:
            for target in targets:
                modes = ("faithful", "mended") if answer.protocol == target else ("mended",)
                rows += [
                    (str(answer.path), target, form, mode, answer.protocol)
                    for form in ("stream", "whole")
                    for mode in modes
                ]
        requests = [
            {"from": protocol, "to": to, "file": path, "stream": form == "stream", "normalize": mode == "mended"}
            for path, to, form, mode, protocol in rows
        ]
        written = run(program, "convert", requests)
        self.written = {row[:4]: data_of(line) for row, line in zip(rows, written, strict=True)}
        # As the wire has it: `convert` does not look for calls in text unless it is told to.
        requests = [
            {"protocol": answer.protocol, "file": str(answer.path), "dialect": "none"} for answer in self.answers
        ]
        messages = run(program, "decode", requests)
        self.messages = {str(answer.path): line for answer, line in zip(self.answers, messages, strict=True)}

    def convert(self, answer, target, form, mode):
        """What is written of an answer, however the program likes it; none if nothing is."""
        return self.written[str(answer.path), target, form, mode] or None

    def is_single(self, answer, target):
        """Whether it is one complete answer: clients read one at a time, and raise where one was cut off."""
        whole, stream = (self.convert(answer, target, form, "mended") for form in ("whole", "stream"))
        is_cut = any(CUT_OFF in (written or b"") for written in (whole, stream))
        return bool(whole) and b"\n" not in whole.strip() and not is_cut

    def message(self, answer):
        return self.messages[str(answer.path)]


# The error at the end of an answer that was cut off.
CUT_OFF = b"the response was cut off"

PROTOCOLS = {
    "anthropic-messages",
    "bedrock-converse",
    "bedrock-invoke",
    "codex-appserver-v2",
    "cohere-v2",
    "gemini-generatecontent",
    "gemini-interactions",
    "ollama",
    "openai-chat",
    "openai-responses",
}


def run(program, command, requests):
    """The program's replies. That something is wrong with an answer says nothing of the writing."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([program, command, "--jsonl", "-"], input=lines.encode(), capture_output=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def data_of(line):
    if "data_base64" in line:
        return base64.b64decode(line["data_base64"])
    return line.get("data", "").encode()


def filled(value):
    """The value without members that say nothing, bytes as text."""
    if isinstance(value, dict):
        members = {key: filled(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, [], {}, "")}
    if isinstance(value, (list, tuple)):
        return [filled(element) for element in value]
    return value.hex() if isinstance(value, bytes) else value


def parsed(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


# What a stream has told cannot be taken back.
CORRECTED = {"closing-restatements-differ-from-deltas", "arguments-placeholder-then-real", "id-comes-late"}


def misread(message, theirs, reasons, form, name):
    """In what the client's message differs from ours: text, calls, why it finished, tokens. `reasons` are ours that the
    client's reason may stand for; none where the wire counts nothing is none."""
    text, calls, finish, usage = theirs
    counts = message.get("usage") or {}
    counted = [counts.get("input_tokens") or 0, counts.get("output_tokens") or 0]
    own = [call for call in message["tool_calls"] if call["kind"] != "builtin"]
    if form == "stream" and name in CORRECTED:
        return
    wanted = (message.get("content") or "") + (message.get("refusal") or "")
    if text != wanted:
        yield f"text {text!r}, ours {wanted!r}"
    if usage is not None and usage != counted:
        yield f"usage {usage}, ours {counted}"
    # How what is no object is told is for the laws; here what clients can use.
    if calls is None:
        return
    if not any(call.get("invalid") for call in own):
        wanted = [(call["name"], expected(call)) for call in own]
        if filled(calls) != filled(wanted):
            yield f"calls {calls}, ours {wanted}"
        if message["finish_reason"] not in reasons(finish):
            yield f"finish {finish}, ours {message['finish_reason']}"
    elif all(call["name"] for call in own) and len(calls) != len(own):
        yield f"{len(calls)} calls, ours {len(own)}"


def expected(call):
    return {"input": call["arguments"]} if call["kind"] == "custom" else parsed(call["arguments"])


# Why nothing is compared.
NOT_SINGLE = "no answer, several, or one that was cut off: clients read one at a time, and raise"
UNREADABLE = "the client cannot read the original"


class Matrix:
    """What came of each client: passed, skipped for a reason, failed."""

    def __init__(self, title):
        self.title, self.rows, self.reasons = title, {}, Counter()

    def add(self, client, protocol, why_skipped, faults=(), answer=None):
        outcome = "failed" if faults else "skipped" if why_skipped else "passed"
        self.rows.setdefault((client, protocol), Counter())[outcome] += 1
        if outcome == "skipped":
            self.reasons[client, why_skipped] += 1
        for fault in faults:
            print(f"{answer} as {client}: {fault[:2000]}")

    def conclude(self):
        for (client, protocol), counts in sorted(self.rows.items()):
            cells = [str(counts[outcome]) for outcome in ("passed", "skipped", "failed")]
            print(f"matrix: {self.title} | {client} | {protocol} | {' | '.join(cells)}")
        for (client, why), count in sorted(self.reasons.items()):
            print(f"skipped: {self.title}, {client}: {count}, {why}")
        failed = sum(counts["failed"] for counts in self.rows.values())
        passed = sum(counts["passed"] for counts in self.rows.values())
        sys.exit(1 if failed or not passed else 0)
