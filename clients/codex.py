"""A real `codex app-server` behind a running gateway, its model played by the scripted models of another gateway: tool
loops of the official clients, many requests at once, a process that is killed, a client that leaves, and a soak.

usage: codex.py URL PID REQUESTS SECONDS
       the gateway, its process, the folder with the requests that Codex's model got, and how long the soak is
"""

import concurrent.futures
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

import anthropic
import ollama
import openai
from answers import Matrix

URL, GATEWAY, REQUESTS, SECONDS = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
# Two upstreams: one stops at the first call, as is usual; the other collects parallel ones.
FIRST, ALL = "codex/demo", "codex-all/demo"
# Two rounds: of one call each, or of two.
GIVEN = ((1, 20), (300, 4000), (50000, 600000), (7000000, 80000000))
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ABOUT = "The sum of two numbers."


def question(given):
    return "\n".join(["Add them.", *(f'call add {{"a": {a}, "b": {b}}}' for a, b in given)])


class Tool:
    """A tool that remembers what it was given."""

    def __init__(self):
        self.rounds = []

    def run(self, arguments):
        results = [f"sum={given['a'] + given['b']}" for given in arguments]
        self.rounds.append([(given["a"], given["b"]) for given in arguments])
        return results


def chat(model, streamed, given, tool):
    client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    messages = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": question(given)}]
    declared = [{"type": "function", "function": {"name": "add", "description": ABOUT, "parameters": SCHEMA}}]
    while True:
        asked = {"model": model, "messages": messages, "tools": declared}
        if streamed:
            with client.chat.completions.stream(**asked) as stream:
                stream.until_done()
                choice = stream.get_final_completion().choices[0]
        else:
            choice = client.chat.completions.create(**asked).choices[0]
        calls = choice.message.tool_calls or []
        assert choice.finish_reason == ("tool_calls" if calls else "stop"), choice.finish_reason
        if not calls:
            return choice.message.content
        assert choice.message.content is None, choice.message.content
        kept = [{"id": call.id, "type": "function", "function": {"name": call.function.name,
                 "arguments": call.function.arguments}} for call in calls]
        messages.append({"role": "assistant", "content": None, "tool_calls": kept})
        results = tool.run([json.loads(call.function.arguments) for call in calls])
        messages += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, results)]


def responses(model, streamed, given, tool):
    client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    items = [{"role": "user", "content": question(given)}]
    declared = [{"type": "function", "name": "add", "description": ABOUT, "parameters": SCHEMA}]
    while True:
        asked = {"model": model, "instructions": "Be exact.", "input": items, "tools": declared, "store": False}
        if streamed:
            with client.responses.stream(**asked) as stream:
                answer = stream.get_final_response()
        else:
            answer = client.responses.create(**asked)
        assert answer.status == "completed", answer.status
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        items += [{"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
                  for call in calls]
        results = tool.run([json.loads(call.arguments) for call in calls])
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": text}
                  for call, text in zip(calls, results)]


def messages(model, streamed, given, tool):
    client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
    history = [{"role": "user", "content": question(given)}]
    declared = [{"name": "add", "description": ABOUT, "input_schema": SCHEMA}]
    while True:
        asked = {"model": model, "max_tokens": 500, "system": "Be exact.", "messages": history, "tools": declared}
        if streamed:
            with client.messages.stream(**asked) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(**asked)
        calls = [block for block in answer.content if block.type == "tool_use"]
        assert answer.stop_reason == ("tool_use" if calls else "end_turn"), answer.stop_reason
        if not calls:
            return "".join(block.text for block in answer.content if block.type == "text")
        kept = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in calls]
        history.append({"role": "assistant", "content": kept})
        results = tool.run([call.input for call in calls])
        history.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in zip(calls, results)]})


def of_ollama(model, streamed, given, tool):
    client = ollama.Client(host=URL)
    history = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": question(given)}]
    declared = [{"type": "function", "function": {"name": "add", "description": ABOUT, "parameters": SCHEMA}}]
    while True:
        answer = client.chat(model=model, messages=history, tools=declared, stream=streamed)
        parts = list(answer) if streamed else [answer]
        calls = [call for part in parts for call in part.message.tool_calls or []]
        if not calls:
            assert parts[-1].done_reason == "stop", parts[-1].done_reason
            return "".join(part.message.content or "" for part in parts)
        history.append({"role": "assistant", "content": "", "tool_calls": [call.model_dump() for call in calls]})
        results = tool.run([call.function.arguments for call in calls])
        history += [{"role": "tool", "tool_name": "add", "content": text} for text in results]


CLIENTS = {"openai Chat": chat, "openai Responses": responses, "anthropic": messages, "ollama": of_ollama}


def loop(client, model, streamed, given, per_round):
    """Leads a client through two rounds, and returns what was wrong."""
    tool = Tool()
    said = CLIENTS[client](model, streamed, given, tool)
    wanted = [sorted(given[at:at + per_round]) for at in range(0, len(given), per_round)]
    # Codex asks for parallel calls at the same time, in any order.
    called = [sorted(calls) for calls in tool.rounds]
    faults = [] if called == wanted else [f"the tool was given {called}, not {wanted}"]
    if f"sum={sum(tool.rounds[-1][-1])}" not in (said or ""):
        faults.append(f"the last result is not in {said!r}")
    return faults


def tried(work, *given):
    try:
        return work(*given)
    except Exception as error:  # whatever a client makes of it
        return [f"{type(error).__name__}: {error}"]


def post(body, timeout=30):
    """Asks without a client: the status, and the response that is still to be read."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(URL + "/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, answer


def plain(model, streamed=False):
    return {"model": model, "stream": streamed, "messages": [{"role": "user", "content": "hello"}]}


def children():
    """The processes that the gateway has started."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == GATEWAY:
            found.append(int(entry))
    return found


def killed():
    """Every stream of a killed process ends with an error, and the next request works."""
    streams = [post(plain(f"{FIRST}/slow", True)) for _ in range(3)]
    begun = [answer.readline() for _, answer in streams]
    for child in children():
        os.kill(child, signal.SIGKILL)
    rest = [answer.read().decode() for _, answer in streams]
    faults = [f"no beginning: {line!r}" for line in begun if not line.startswith(b"data:")]
    faults += [f"no error: {text[-300:]}" for text in rest if '"error"' not in text or "[DONE]" in text]
    status, answer = post(plain(f"{FIRST}/openai-chat"))
    return faults + ([] if status == 200 else [f"then {status}: {answer.read()}"])


def left():
    """A client that leaves ends its turn: the model's side is closed long before the text is over."""
    before = requests_under_way()
    status, answer = post(plain(f"{FIRST}/slow", True))
    answer.readline()
    during = requests_under_way()
    answer.close()
    start = time.time()
    while requests_under_way() > before and time.time() - start < 5:
        time.sleep(0.05)
    faults = [] if during > before else [f"nothing was under way: {before} {during}"]
    return faults + ([] if requests_under_way() <= before else ["the model still speaks after 5 s"])


def requests_under_way():
    """The connections of Codex to its model."""
    count = 0
    for child in children():
        try:
            fds = os.listdir(f"/proc/{child}/fd")
            with open(f"/proc/{child}/net/tcp") as table:
                established = {line.split()[9] for line in table if line.split()[3] == "01"}
            links = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in fds]
        except OSError:
            continue
        count += sum(link[8:-1] in established for link in links if link.startswith("socket:["))
    return count


def failing(model, status):
    got, answer = post(plain(f"{FIRST}/{model}"), 60)
    return [] if got == status else [f"{got} in place of {status}: {answer.read()}"]


def listed():
    """The models that Codex lists."""
    with urllib.request.urlopen(URL + "/v1/models", timeout=30) as answer:
        names = [model["id"] for model in json.load(answer)["data"]]
    return [name for name in names if name.startswith("codex/")]


def bare(model):
    """A model that Codex knows gets the client's tools and prompt, and no others but one that Codex cannot leave out."""
    before = set(os.listdir(REQUESTS))
    asked = {**plain(model), "tools": [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]}
    asked["messages"].insert(0, {"role": "system", "content": "Be exact."})
    status, answer = post(asked)
    said = answer.read()
    new = [name for name in set(os.listdir(REQUESTS)) - before if name.endswith(".request.json")]
    if status != 200 or len(new) != 1:
        return [f"{status} {said} with {len(new)} requests"]
    with open(os.path.join(REQUESTS, new[0])) as file:
        got = json.load(file)
    tools = sorted(tool["name"].removeprefix("functions__") for tool in got["tools"])
    faults = [] if tools == ["add", "request_user_input"] else [f"it has the tools {tools}"]
    prompt = [got.get("instructions")] + [part["text"] for item in got["input"] for part in item["content"]]
    own = [text for text in prompt if text and text not in ("Be exact.", "hello")]
    return faults + [f"it is told {text[:200]!r}" for text in own]


def memory(process):
    try:
        with open(f"/proc/{process}/status") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0


def soak():
    """Turns for some time, four at once: memory grows at the beginning, and then no more."""
    rounds, samples = 0, []
    end = time.time() + SECONDS
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        while time.time() < end:
            asked = [pool.submit(tried, loop, client, f"{FIRST}/openai-responses", at % 2 == 0, GIVEN[:2], 1)
                     for at, client in enumerate(CLIENTS)]
            faults = [fault for one in asked for fault in one.result()]
            if faults:
                return faults
            rounds += len(asked)
            samples.append((memory(GATEWAY), sum(map(memory, children()))))
    middle = samples[len(samples) // 2]
    last = samples[-1]
    print(f"note: {rounds} loops of three turns in {SECONDS:.0f} s; MB of the gateway and of Codex: first "
          f"{samples[0]}, middle {middle}, last {last}")
    grown = [f"{name}: {before} to {after} MB in the second half" for name, before, after
             in zip(("gateway", "codex"), middle, last) if after > before * 1.3 + 10]
    return grown


def main():
    matrix = Matrix("Codex behind the gateway")
    for client in CLIENTS:
        for streamed in (False, True):
            form = "streamed" if streamed else "complete"
            one = tried(loop, client, f"{FIRST}/openai-responses", streamed, GIVEN[:2], 1)
            matrix.add(client, "two rounds", None, one, form)
            two = tried(loop, client, f"{ALL}/parallel", streamed, GIVEN, 2)
            matrix.add(client, "parallel calls", None, two, form)
    names = list(CLIENTS)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(tried, loop, names[at % 4], f"{FIRST}/openai-chat", at % 8 < 4, GIVEN[:2], 1)
                 for at in range(20)]
        for at, one in enumerate(asked):
            matrix.add(names[at % 4], "twenty at once", None, one.result(), str(at))
    for model in listed() or ["none"]:
        matrix.add("plain HTTP", "models that Codex knows", None, tried(bare, model), model)
    for model, status in (("status-401", 401), ("status-429", 429), ("status-400", 400), ("no-such-model", 404)):
        matrix.add("plain HTTP", "errors", None, tried(failing, model, status), model)
    matrix.add("plain HTTP", "a client that leaves", None, tried(left), "left")
    matrix.add("plain HTTP", "kill -9", None, tried(killed), "killed")
    matrix.add("all", "soak", None, tried(soak), "soak")
    matrix.conclude()


main()
