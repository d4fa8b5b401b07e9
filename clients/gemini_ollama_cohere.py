"""Plays what callweave writes as Gemini, Ollama and Cohere to the official clients of these, and compares what they
understand with what they understand of the original.

Faithful: the client's dump of our stream, or of our whole body, equals its dump of the original, however the pieces are
cut. Mended: the client reads answers of every protocol, streamed and whole, and has the text, the calls, the
reason to finish and the token counts that `callweave decode` has.

usage: gemini_ollama_cohere.py CALLWEAVE DATA...
"""

import sys

from answers import (
    NOT_SINGLE,
    TYPES,
    UNREADABLE,
    Callweave,
    Matrix,
    answers,
    filled,
    misread,
    parsed,
    play,
    serve,
)

# Cases that are written better than they came, or that say more than the client can keep.
ASIDE = {
    "cohere-v2/stream-cut-inside-text": "the end of what was cut off is written",
    "gemini-generatecontent/stream-call-beside-an-empty-text": "arguments in a text are written as the object they are",
    "gemini-generatecontent/stream-wrapped-by-code-assist": "written without the wrapper, the client can read it",
    "gemini-generatecontent/whole-sdk-dump-in-snake-case": "written as the wire spells it, the client can read it",
}

# How clients say that the provider reports an error.
REPORTED = ("ClientError", "ServerError", "ResponseError", "ApiError", "BadRequestError", "InternalServerError")


class Client:
    finish = {}

    def reasons(self, finish):
        """Ours that theirs stands for; filters have many words."""
        return self.finish.get(finish, {"content_filter"})


class Gemini(Client):
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

        options = {"base_url": url, "retry_options": {"attempts": 1}}
        self.client = genai.Client(api_key="none", http_options=options)

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


class Ollama(Client):
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


class Cohere(Client):
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
        self.asked = {
            "model": "m",
            "messages": [{"role": "user", "content": "?"}],
            "request_options": {"max_retries": 0},
        }

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
            calls = [(call.get("name", ""), parsed(call.get("arguments", ""))) for call in calls]
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
        calls = [(name, parsed(arguments)) for name, arguments in calls]
        return text, calls, end.get("finish_reason"), self.usage(end)

    def usage(self, end):
        if "finish_reason" not in end:
            return None
        counts = end.get("usage", {}).get("tokens") or end.get("usage", {}).get("billed_units", {})
        return [int(counts.get(key, 0)) for key in ("input_tokens", "output_tokens")]


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


def check_faithful(callweave, client, answer):
    """Why it is skipped, if it is, and what differs."""
    path = answer.path
    is_streamed = path.suffix != ".json" or path.read_bytes().lstrip()[:1] == b"["
    if str(answer) in ASIDE:
        return ASIDE[str(answer)], []
    if is_streamed and path.suffix == ".json":
        return "an array, where the client asks for server-sent events", []
    content_type = client.stream_type if is_streamed else TYPES[".json"]
    arguments = [is_streamed, *generate(client, path)]
    body = as_stream(client, path) if is_streamed else path.read_bytes()
    written = callweave.convert(answer, client.name, "stream" if is_streamed else "whole", "faithful") or b""
    theirs = play(lambda: client.dump(*arguments), body, content_type)
    ours = play(lambda: client.dump(*arguments), written, content_type)
    if isinstance(theirs, str) and not theirs.startswith(REPORTED[:3]):
        return UNREADABLE, []
    return None, [f"the client has {theirs} of the original, {ours} of ours"] if theirs != ours else []


def check_mended(callweave, client, answer):
    """Why it is skipped, if it is, and what is wrong with what the client has of our stream and of our whole body."""
    if not callweave.is_single(answer, client.name):
        return NOT_SINGLE, []
    message, faults = callweave.message(answer), []
    has_failed = bool(message.get("errors"))
    arguments = generate(client, answer.path) if answer.protocol == client.name else []
    for form in ("stream", "whole"):
        is_streamed = form == "stream"
        content_type, status = (client.stream_type, 200) if is_streamed else (TYPES[".json"], 500 * has_failed or 200)
        body = callweave.convert(answer, client.name, form, "mended")
        theirs = play(lambda: client.message(is_streamed, *arguments), body, content_type, status)
        if isinstance(theirs, str):
            faults += [] if has_failed and theirs.startswith(REPORTED) else [f"mended {form}: {theirs}"]
        elif not has_failed:
            told = misread(message, theirs, client.reasons, form, answer.name)
            faults += [f"mended {form}: {fault}" for fault in told]
        elif "error" not in client.reasons(theirs[2]):
            faults.append(f"mended {form}: a failure that does not show: {theirs}")
    return None, faults


def main():
    url = serve()
    clients = [Gemini(url), Ollama(url), Cohere(url)]
    callweave = Callweave(sys.argv[1], answers(sys.argv[2:]), [client.name for client in clients])
    matrix = Matrix("python google-genai, ollama, cohere")
    for client in clients:
        for answer in callweave.answers:
            if answer.protocol == client.name:
                skipped, faults = check_faithful(callweave, client, answer)
                matrix.add(client.name, "as it came", skipped, faults, answer)
            skipped, faults = check_mended(callweave, client, answer)
            matrix.add(client.name, answer.protocol, skipped, faults, answer)
    matrix.conclude()


if __name__ == "__main__":
    main()
