"""Plays our errors to the providers' official clients: each must raise the exception that its users catch, with our
message in it.

usage: errors.py CALLWEAVE DATA
"""

import json
import pathlib
import sys
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from answers import Matrix


class Failing(BaseHTTPRequestHandler):
    """Answers every request with the error that is being played."""

    row = {}

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps(self.row["body"]).encode()
        self.send_response(self.row["status"])
        for name, value in self.row["headers"].items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def openai_chat(url):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])


def openai_responses(url):
    import openai

    openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0).responses.create(model="m", input="?")


def anthropic_messages(url):
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}])


def gemini(url):
    from google import genai

    client = genai.Client(api_key="none", http_options={"base_url": url})
    client.models.generate_content(model="m", contents="?")


def ollama(url):
    import ollama

    ollama.Client(host=url).chat(model="m", messages=[{"role": "user", "content": "?"}])


def cohere(url):
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=url)
    client.chat(
        model="m",
        messages=[{"role": "user", "content": "?"}],
        request_options={"max_retries": 0},
    )


def converse(url):
    runtime(url).converse(modelId="m", messages=[{"role": "user", "content": [{"text": "?"}]}])


def invoke(url):
    runtime(url).invoke_model(modelId="m", body="{}")


@cache
def runtime(url):
    import botocore.config
    import botocore.session

    return botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )


# How each is asked, and what it raises for a class; the last is for all others.
BY_STATUS = {
    "authentication": "AuthenticationError",
    "permission": "PermissionDeniedError",
    "rate_limit": "RateLimitError",
    "invalid_request": "BadRequestError",
    "context_too_long": "BadRequestError",
    "not_found": "NotFoundError",
    None: "InternalServerError",
}
ANTHROPIC = {
    **BY_STATUS,
    "context_too_long": "ContentTooLargeError",
    "overloaded": "OverloadedError",
    "transport": "GatewayTimeoutError",
}
GOOGLE = {
    **dict.fromkeys(["overloaded", "server", "transport", "other"], "ServerError"),
    None: "ClientError",
}
COHERE = {
    "authentication": "UnauthorizedError",
    "permission": "ForbiddenError",
    "rate_limit": "TooManyRequestsError",
    "overloaded": "ServiceUnavailableError",
    "invalid_request": "BadRequestError",
    "context_too_long": "BadRequestError",
    "not_found": "NotFoundError",
    "transport": "GatewayTimeoutError",
    None: "InternalServerError",
}
AMAZON = {
    "authentication": "ClientError",
    "permission": "AccessDeniedException",
    "rate_limit": "ThrottlingException",
    "overloaded": "ServiceUnavailableException",
    "invalid_request": "ValidationException",
    "context_too_long": "ValidationException",
    "not_found": "ResourceNotFoundException",
    "transport": "ModelTimeoutException",
    None: "InternalServerException",
}
CLIENTS = {
    "openai-chat": (openai_chat, BY_STATUS),
    "openai-responses": (openai_responses, BY_STATUS),
    "anthropic-messages": (anthropic_messages, ANTHROPIC),
    "gemini-generatecontent": (gemini, GOOGLE),
    "ollama": (ollama, {None: "ResponseError"}),
    "cohere-v2": (cohere, COHERE),
    "bedrock-converse": (converse, AMAZON),
    "bedrock-invoke": (invoke, AMAZON),
}


def fault_of(row, url):
    """What the client made of the error, if it is not what its users catch."""
    ask, expected = CLIENTS[row["protocol"]]
    expected = expected.get(row["class"], expected[None])
    Failing.row = row
    try:
        ask(url)
    except Exception as error:  # noqa: BLE001 (which one it is, is the question)
        name = type(error).__name__
        if name != expected:
            return f"raised {name}, not {expected}: {error}"
        return None if "It went wrong" in str(error) else f"the message is not told: {error}"
    return "raised nothing"


def main():
    data = pathlib.Path(sys.argv[2]).parent / "error" / "written.jsonl"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    matrix = Matrix("python, raised as users catch it")
    for row in map(json.loads, data.read_text().splitlines()):
        fault = fault_of(row, url)
        matrix.add(row["protocol"], "errors", None, [fault] if fault else [], row["class"])
    matrix.conclude()


if __name__ == "__main__":
    main()
