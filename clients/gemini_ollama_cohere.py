"""Plays what callweave writes as Gemini, Ollama and Cohere to the official clients of these, and compares what they
understand with what they understand of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original, however the pieces are
cut. Mended: the client reads answers of every protocol, streamed and whole, and has the text, the calls, the
reason to finish and the token counts that `callweave decode` has.

usage: gemini_ollama_cohere.py CALLWEAVE DATA [RECORDINGS]
"""

import json
import pathlib
import subprocess
import sys
import threading
import warnings
from http.server import ThreadingHTTPServer

from compare import TYPES, Replay

# Cases that are written better than they came, or that say more than the client can keep.
ASIDE = {
    "cohere-v2/stream-cut-inside-text": "the end of what was cut off is written",
    "gemini-generatecontent/stream-call-beside-an-empty-text": "arguments in a text are written as the object they are",
    "gemini-generatecontent/stream-wrapped-by-code-assist": "written without the wrapper, the client can read it",
    "gemini-generatecontent/whole-sdk-dump-in-snake-case": "written as the wire spells it, the client can read it",
}

# What a stream has told cannot be taken back.
CORRECTED = {"closing-restatements-differ-from-deltas", "arguments-placeholder-then-real"}

# How clients say that the provider reports an error.
REPORTED = ("ClientError", "ServerError", "ResponseError", "ApiError", "BadRequestError", "InternalServerError")


def filled(value):
    """The value without members that say nothing."""
    if isinstance(value, dict):
        members = {key: filled(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, [], {}, "")}
    if isinstance(value, (list, tuple)):
        return [filled(element) for element in value]
    return value


class Gemini:
    name = "gemini-generatecontent"
    stream_type = TYPES[".sse"]
    finish = {
        "STOP": {"stop", "tool_calls"},
        "MAX_TOKENS": {"length"},
        "FINISH_REASON_UNSPECIFIED": {"other"},
        "OTHER": {"error"},
        "MALFORMED_FUNCTION_CALL": {"error"},
        "UNEXPECTED_TOOL_CALL": {"error"},
        "TOO_MANY_TOOL_CALLS": {"error"},
        # What filters say has many words; a prompt that is blocked has no candidate.
        None: {"other", "content_filter"},
    }

    def __init__(self, url):
        from google import genai

        self.client = genai.Client(api_key="none", http_options={"base_url": url})

    def chunks(self, is_streamed):
        asked = {"model": "m", "contents": "?"}
        if is_streamed:
            answers = list(self.client.models.generate_content_stream(**asked))
        else:
            answers = [self.client.models.generate_content(**asked)]
        return [answer.model_dump(mode="json", exclude={"sdk_http_response", "parsed"}) for answer in answers]

    def dump(self, is_streamed):
        """All chunks as one: parts one after the other, texts joined, of the rest the newest."""
        whole, candidates = {}, {}
        for chunk in map(filled, self.chunks(is_streamed)):
            for candidate in chunk.pop("candidates", []):
                content = candidate.pop("content", {})
                number = candidate.pop("index", 0)
                own = candidates.setdefault(number, {"parts": []})
                for part in content.get("parts", []):
                    self.add(part, own["parts"])
                own.update(candidate)
            whole.update(chunk)
        for candidate in candidates.values():
            for part in candidate["parts"]:
                part.pop("is_open", None)
        return filled({**whole, "candidates": candidates})

    def add(self, part, parts):
        last = parts[-1] if parts else {}
        call = part.get("function_call")
        if call is not None and not call.get("name"):
            # More of the call that was announced.
            leaves = last.get("function_call", {}).setdefault("partial_args", [])
            for leaf in call.get("partial_args", []):
                leaf.pop("will_continue", None)
                same = [known for known in leaves if known.get("json_path") == leaf.get("json_path")]
                if same and "string_value" in leaf:
                    same[0]["string_value"] = same[0].get("string_value", "") + leaf["string_value"]
                elif not same:
                    leaves.append(leaf)
            return
        if call is not None:
            call.pop("will_continue", None)
        is_text = set(part) <= {"text", "thought"}
        if is_text and set(last) <= {"text", "thought"} and last.get("thought") == part.get("thought") and last:
            last["text"] = last.get("text", "") + part.get("text", "")
        elif part:
            parts.append(part)

    def message(self, is_streamed):
        whole = self.dump(is_streamed)
        parts = whole.get("candidates", {}).get(0, {}).get("parts", [])
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        calls = [part["function_call"] for part in parts if "function_call" in part]
        counts = whole.get("usage_metadata", {})
        usage = [
            counts.get("prompt_token_count", 0) + counts.get("tool_use_prompt_token_count", 0),
            counts.get("candidates_token_count", 0) + counts.get("thoughts_token_count", 0),
        ]
        finish = whole.get("candidates", {}).get(0, {}).get("finish_reason")
        return text, [(call.get("name", ""), call.get("args", {})) for call in calls], finish, usage


class Ollama:
    name = "ollama"
    stream_type = TYPES[".ndjson"]
    finish = {
        "stop": {"stop", "tool_calls"},
        "length": {"length"},
        "content_filter": {"content_filter"},
        "error": {"error"},
        "unknown": {"other"},
        "load": {"other"},
        None: {"other"},
    }

    def __init__(self, url):
        import ollama

        self.client = ollama.Client(host=url)

    def dump(self, is_streamed, is_generate=False):
        if is_generate:
            answer = self.client.generate(model="m", prompt="?", stream=is_streamed)
        else:
            answer = self.client.chat(model="m", messages=[{"role": "user", "content": "?"}], stream=is_streamed)
        whole = {"message": {}, "text": {}}
        for line in answer if is_streamed else [answer]:
            line = filled(line.model_dump(mode="json"))
            line.pop("created_at", None)
            for place, members in [("message", line.pop("message", {})), ("text", line)]:
                for key in ("content", "thinking", "response"):
                    if key in members:
                        whole[place][key] = whole[place].get(key, "") + members.pop(key)
                for key in ("tool_calls", "images"):
                    if key in members:
                        whole[place].setdefault(key, []).extend(members.pop(key))
                if place == "message":
                    whole[place].update(members)
            whole.update(line)
        return whole

    def message(self, is_streamed, is_generate=False):
        whole = self.dump(is_streamed, is_generate)
        message = whole["message"]
        calls = [call.get("function", {}) for call in message.get("tool_calls", [])]
        text = message.get("content", whole["text"].get("response", ""))
        calls = [(call.get("name", ""), call.get("arguments", {})) for call in calls]
        return text, calls, whole.get("done_reason"), [whole.get("prompt_eval_count", 0), whole.get("eval_count", 0)]


class Cohere:
    name = "cohere-v2"
    stream_type = TYPES[".sse"]
    finish = {
        "COMPLETE": {"stop"},
        "STOP_SEQUENCE": {"stop"},
        "TOOL_CALL": {"tool_calls"},
        "MAX_TOKENS": {"length", "other"},
        "ERROR_TOXIC": {"content_filter"},
        "ERROR": {"error"},
        "TIMEOUT": {"error"},
        None: {"other"},
    }

    def __init__(self, url):
        import cohere

        self.client = cohere.ClientV2(api_key="none", base_url=url)
        self.asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}

    def dump(self, is_streamed):
        if not is_streamed:
            return filled(self.client.chat(**self.asked).dict())
        events = []
        for event in self.client.chat_stream(**self.asked):
            event = filled(event.dict())
            last = events[-1] if events else {}
            if event.get("type", "").endswith("-delta") and self.place(event) == self.place(last):
                self.join(last["delta"]["message"], event["delta"]["message"])
            else:
                events.append(event)
        return events

    def place(self, event):
        """What an event continues, if it continues anything."""
        return event.get("type"), event.get("index"), "logprobs" in event

    def join(self, known, more):
        for key, value in more.items():
            if isinstance(value, dict):
                self.join(known.setdefault(key, {}), value)
            else:
                known[key] = known.get(key, "") + value

    def message(self, is_streamed):
        dump = self.dump(is_streamed)
        if not is_streamed:
            message = dump.get("message", {})
            text = "".join(part.get("text", "") for part in message.get("content", []))
            calls = [call.get("function", {}) for call in message.get("tool_calls", [])]
            calls = [(call.get("name", ""), loads(call.get("arguments", ""))) for call in calls]
            return text, calls, dump.get("finish_reason"), self.usage(dump)
        text, calls, end = "", [], {}
        for event in dump:
            message = event.get("delta", {}).get("message", {})
            if event["type"] == "content-delta":
                text += message.get("content", {}).get("text", "")
            if event["type"] == "tool-call-start":
                calls.append([message["tool_calls"].get("function", {}).get("name", ""), ""])
            if event["type"] == "tool-call-delta":
                calls[event["index"]][1] += message["tool_calls"]["function"]["arguments"]
            if event["type"] == "message-end":
                end = event["delta"]
        calls = [(name, loads(arguments)) for name, arguments in calls]
        return text, calls, end.get("finish_reason"), self.usage(end)

    def usage(self, end):
        if "finish_reason" not in end:
            return None
        counts = end.get("usage", {}).get("tokens") or end.get("usage", {}).get("billed_units", {})
        return [int(counts.get(key, 0)) for key in ("input_tokens", "output_tokens")]


def loads(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def played(read, body, content_type, status=200):
    """What the client reads, or the words in which it gives up."""
    Replay.body, Replay.content_type, Replay.status = body, content_type, status
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(program, *arguments):
    """What the program writes; that something is wrong with the answer says nothing of the writing."""
    return subprocess.run([program, *arguments], capture_output=True).stdout


def as_stream(client, path):
    """A recording as its provider streams it."""
    body = path.read_bytes()
    if client.stream_type == TYPES[".sse"] and path.suffix == ".jsonl":
        lines = [line for line in body.decode().splitlines() if line.strip()]
        return "".join(f"data: {line}\n\n" for line in lines).encode()
    return body


def generate(client, path):
    """Whether Ollama was asked to go on with a text, as the client wants to know it."""
    return [True] if client.name == "ollama" and b'"response":"' in path.read_bytes().replace(b": ", b":") else []


def faithful(client, program, path, case):
    is_streamed = path.suffix != ".json" or path.read_bytes().lstrip()[:1] == b"["
    if is_streamed and path.suffix == ".json":
        # The client asks for server-sent events.
        return None, []
    content_type = client.stream_type if is_streamed else TYPES[".json"]
    arguments = [is_streamed, *generate(client, path)]
    body = as_stream(client, path) if is_streamed else path.read_bytes()
    form = "--stream" if is_streamed else "--whole"
    ours = run(program, "convert", "--from", client.name, "--to", client.name, form, str(path))
    theirs = played(lambda: client.dump(*arguments), body, content_type)
    ours = played(lambda: client.dump(*arguments), ours, content_type)
    is_unread = isinstance(theirs, str) and not theirs.startswith(REPORTED[:3])
    if theirs != ours and not is_unread and f"{client.name}/{case}" not in ASIDE:
        return theirs, [f"the client has {theirs} of the original, {ours} of ours"]
    return theirs, []


def expected(call, is_text):
    """A call as clients get it where the wire wants an object, or its text."""
    text = call["arguments"]
    is_cut = call.get("invalid", {}).get("reason") == "incomplete"
    if call["kind"] == "custom" and not is_cut:
        return {"input": text}
    value = loads(text)
    if is_text:
        return value
    return {"INVALID_JSON": text} if is_cut or not isinstance(value, dict) else value


def mended(client, program, path, protocol):
    """What is wrong with what the client has of our stream and of our whole body."""
    answers = run(program, "decode", "--protocol", protocol, "--as", "message", str(path)).splitlines()
    # Several answers are no one client's.
    if len(answers) != 1:
        return []
    decoded = json.loads(answers[0])
    text = (decoded.get("content") or "") + (decoded.get("refusal") or "")
    calls = [call for call in decoded["tool_calls"] if call["kind"] != "builtin"]
    is_text = client.name == "cohere-v2"
    wanted = (text, [(call["name"], expected(call, is_text)) for call in calls])
    counts = decoded.get("usage") or {}
    counted = [counts.get("input_tokens") or 0, counts.get("output_tokens") or 0]
    # Repair and what was cut are for the laws; here only what every client can use.
    is_odd = any(call.get("invalid") for call in calls)
    has_failed, is_corrected = bool(decoded.get("errors")), path.parent.name in CORRECTED
    arguments = generate(client, path) if protocol == client.name else []
    faults = []
    for form in ("--stream", "--whole"):
        is_streamed = form == "--stream"
        content_type, status = (client.stream_type, 200) if is_streamed else (TYPES[".json"], 500 * has_failed or 200)
        body = run(program, "convert", "--from", protocol, "--to", client.name, form, "--mend", str(path))
        got = played(lambda: client.message(is_streamed, *arguments), body, content_type, status)
        if isinstance(got, str):
            is_right = has_failed and got.startswith(REPORTED)
        elif has_failed or is_corrected:
            is_right = True
        else:
            text_and_calls, finish, usage = got[:2], got[2], got[3]
            reasons = client.finish.get(finish, {"content_filter"})
            is_right = decoded["finish_reason"] in reasons and usage in (None, counted)
            is_right &= is_odd or filled(text_and_calls) == filled(wanted)
        if not is_right:
            faults.append(f"mended {form}: the client has {got}, callweave {wanted} {decoded['finish_reason']} {counted}")
    return faults


def samples(data, recordings):
    for path in sorted(data.glob("*/*/input.*")):
        yield path.parent.parent.name, path.parent.name, path
    if recordings:
        for line in (recordings / "INDEX.jsonl").read_text().splitlines():
            row = json.loads(line)
            protocol = {"mistral-chat": "openai-chat"}.get(row["protocol"], row["protocol"])
            yield protocol, pathlib.Path(row["file"]).name, recordings / row["file"]


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    recordings = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    warnings.simplefilter("ignore")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    clients = [Gemini(url), Ollama(url), Cohere(url)]
    matrix, failed = {}, 0
    for protocol, case, path in samples(data, recordings):
        for client in clients:
            faults, row = [], matrix.setdefault((protocol, client.name), [0, 0, 0])
            if protocol == client.name:
                theirs, faults = faithful(client, program, path, case)
                row[2] += isinstance(theirs, str)
            faults += mended(client, program, path, protocol)
            row[bool(faults)] += 1
            failed += bool(faults)
            for fault in faults:
                print(f"{protocol}/{case} as {client.name}: {fault[:1500]}")
    server.shutdown()
    print("from → to: passed, failed (not to be read as it came)")
    for (protocol, name), (passed, wrong, unread) in sorted(matrix.items()):
        print(f"{protocol} → {name}: {passed}, {wrong} ({unread})")
    return 1 if failed or not matrix else 0


if __name__ == "__main__":
    sys.exit(main())
