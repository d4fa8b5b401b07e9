"""Opens a page of another origin in a real browser and lets its script ask the gateway, as a web application or a hostile
page would: refused by default, answered where the page's origin is allowed.

usage: browser.py CALLWEAVE CHROMIUM
"""

import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

QUESTION = {
    "model": "demo/hermes",
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
}

# What the page does. Each case tells the status, or the error that the browser shows to the script.
PAGE = """<!doctype html><script>
const gateway = GATEWAY, question = QUESTION, key = KEY;
async function told(work) {
  try { return await work(); } catch (error) { return {error: error.name}; }
}
async function ask(path, options) {
  const answer = await fetch(gateway + path, options);
  return {status: answer.status, id: answer.headers.get("x-request-id"), text: await answer.text()};
}
// A content type that needs no question beforehand.
const simple = (body) => ({method: "POST", headers: {"content-type": "text/plain"}, body: JSON.stringify(body)});
const usual = (body) => ({method: "POST", body: JSON.stringify(body),
  headers: {"content-type": "application/json", "authorization": `Bearer ${key}`, "x-own": "1"}});
async function streamed() {
  const answer = await fetch(gateway + "/v1/chat/completions", usual({...question, stream: true}));
  const reader = answer.body.getReader();
  let text = "", pieces = 0;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return {status: answer.status, pieces, text};
    pieces += 1;
    text += new TextDecoder().decode(value);
  }
}
// A page without an origin, as a sandboxed frame is.
function nobody() {
  return new Promise((resolve) => {
    addEventListener("message", (event) => resolve(event.data), {once: true});
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = "<script>fetch(" + JSON.stringify(gateway + "/v1/models") +
      ").then((it) => ({status: it.status}), (error) => ({error: error.name})).then((it) => parent.postMessage(it, '*'))</" + "script>";
    document.body.append(frame);
  });
}
addEventListener("load", async () => {
  const report = {
    simple: await told(() => ask("/v1/chat/completions", simple(question))),
    usual: await told(() => ask("/v1/chat/completions", usual(question))),
    streamed: await told(streamed),
    models: await told(() => ask("/v1/models", {headers: {"authorization": `Bearer ${key}`}})),
    wrong: await told(() => ask("/v1/messages", usual({model: "nobody", max_tokens: 1, messages: []}))),
    forgotten: await told(() => ask("/v1/responses/none", {method: "DELETE", headers: {"authorization": `Bearer ${key}`}})),
    nobody: await told(nobody),
  };
  await fetch("/report", {method: "POST", body: JSON.stringify(report)});
});
</script><body></body>"""


class Pages:
    """Serves the page, and takes what it reports."""

    def __init__(self):
        self.html, self.reported, self.done = "", None, threading.Event()
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = pages.html.encode()
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                pages.reported = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(204)
                self.end_headers()
                pages.done.set()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Gateway:
    def __init__(self, program, folder, config):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        path = os.path.join(folder, f"{port}.toml")
        with open(path, "w") as file:
            file.write(f'listen = "127.0.0.1:{port}"\ndemo = true\n{config}')
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.child = subprocess.Popen([program, "serve", "--config", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=1).read()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the gateway does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def browse(chromium, folder, url, *options, done=None):
    """Opens a page without a window, until it is done or has shown itself; what it shows."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", *options)
    child = subprocess.Popen([chromium, *options, url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if done:
            if not done.wait(60):
                raise SystemExit("the page reported nothing within a minute")
            return ""
        return child.communicate(timeout=60)[0]
    finally:
        child.kill()
        child.wait()


def report(program, chromium, folder, config, key=""):
    """What a page is told by a gateway of that configuration, in which PAGE stands for the page's origin."""
    pages = Pages()
    with Gateway(program, folder, config.replace("PAGE", pages.origin)) as gateway:
        page = PAGE.replace("GATEWAY", json.dumps(gateway.url)).replace("QUESTION", json.dumps(QUESTION))
        pages.html = page.replace("KEY", json.dumps(key))
        browse(chromium, folder, pages.origin + "/", done=pages.done)
    pages.server.shutdown()
    return pages.reported


def main():
    program, chromium = sys.argv[1:3]
    wrong, count = [], 0

    def expect(name, is_so, seen):
        nonlocal count
        count += 1
        if not is_so:
            wrong.append(f"{name}: {json.dumps(seen)[:300]}")

    with tempfile.TemporaryDirectory() as folder:
        for name, config, key in (
            ("a page that was not allowed", "", ""),
            ("another page than the allowed one", 'allowed_origins = ["https://app.example"]\n', ""),
        ):
            for case, seen in report(program, chromium, folder, config, key).items():
                # The browser shows nothing of an answer to a page that may not read it.
                expect(f"{name}, {case}", "error" in seen, seen)
        digest = "sha256:2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"  # of "key"
        for name, config, key in (
            ("an allowed page", 'allowed_origins = ["PAGE"]\n', ""),
            ("an allowed page with a key", f'allowed_origins = ["PAGE"]\nclient_keys = ["{digest}"]\n', "key"),
        ):
            seen = report(program, chromium, folder, config, key)
            calls = '"name":"get_weather"'
            expect(f"{name}, simple", seen["simple"].get("status") == (401 if key else 200), seen["simple"])
            expect(f"{name}, usual", seen["usual"].get("status") == 200 and calls in seen["usual"]["text"], seen["usual"])
            expect(f"{name}, request id", bool(seen["usual"].get("id")), seen["usual"])
            end = seen["streamed"].get("text", "").rstrip().endswith("data: [DONE]")
            expect(f"{name}, streamed", end and calls in seen["streamed"]["text"], seen["streamed"])
            expect(f"{name}, models", "demo/hermes" in seen["models"].get("text", ""), seen["models"])
            refusal = seen["wrong"].get("status") == 404 and "not_found_error" in seen["wrong"]["text"]
            expect(f"{name}, an error", refusal, seen["wrong"])
            expect(f"{name}, delete", seen["forgotten"].get("status") == 404, seen["forgotten"])
            expect(f"{name}, a frame without an origin", "error" in seen["nobody"], seen["nobody"])
        # A page's own name that was pointed at this machine: the browser takes the gateway for the page's server.
        with Gateway(program, folder, "") as gateway:
            rule = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
            for host, is_answered in (("rebound.example", False), ("localhost", True)):
                shown = browse(chromium, folder, f"http://{host}:{gateway.port}/v1/models", rule, "--dump-dom")
                expect(f"asked as {host}", ("demo/hermes" in shown) == is_answered, shown)
                expect(f"told as {host}", ("allowed_hosts" in shown) != is_answered, shown)
    print(f"{count} cases in {os.path.basename(chromium)}, {len(wrong)} wrong")
    for line in wrong:
        print("  " + line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
