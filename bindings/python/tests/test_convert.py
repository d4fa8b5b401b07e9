"""Responses and requests in other protocols."""

import json

import callweave
import pytest

BODY = json.dumps(
    {
        "id": "c1",
        "model": "m",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Looking.",
                    "tool_calls": [
                        {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{'at': 'sky'}"}}
                    ],
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
).encode()

WRITTEN = ["openai-chat", "openai-responses", "anthropic-messages", "gemini-generatecontent", "ollama", "cohere-v2"]


@pytest.mark.parametrize("to", WRITTEN)
@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_written_in_every_protocol(to, stream):
    written = callweave.convert(BODY, to, stream=stream, normalize=True, id="r1", created=5)
    message = callweave.decode(written, protocol=to)
    assert message.text == "Looking."
    [call] = message.tool_calls
    assert (call.name, call.object()) == ("look", {"at": "sky"})
    assert message.finish_reason == "tool_calls"


def test_the_own_protocol_is_written_as_it_was():
    assert json.loads(callweave.convert(BODY, "openai-chat")) == json.loads(BODY)
    normalized = json.loads(callweave.convert(BODY, "openai-chat", normalize=True))
    assert normalized["choices"][0]["finish_reason"] == "tool_calls"


def test_a_converter_writes_while_it_reads():
    stream = callweave.convert(BODY, "openai-chat", stream=True, normalize=True)
    for size in (1, 7, 1000):
        converter = callweave.Converter("anthropic-messages", id="msg_1")
        out, early = b"", 0
        for at in range(0, len(stream), size):
            out += converter.push(stream[at : at + size])
            early = early or (at if b"Looking." in out else 0)
        out += converter.finish()
        assert out.startswith(b"event: message_start\n") and early < len(stream) / 2 + size
        assert callweave.decode(out).tool_calls[0].object() == {"at": "sky"}


def test_a_message_is_written():
    message = callweave.decode(BODY)
    body = json.loads(message.encode("anthropic-messages", id="msg_1", model="n"))
    assert (body["id"], body["stop_reason"]) == ("c1", "tool_use")


def test_unknown_protocols_are_named():
    with pytest.raises(callweave.UnknownError, match="no protocol is called"):
        callweave.convert(BODY, "klingon")
    with pytest.raises(callweave.UnknownError):
        callweave.convert_request({}, "openai-chat", protocol="nothing")


REQUEST = {
    "model": "qwen2.5:7b",
    "messages": [{"role": "user", "content": "The sky?"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "seed": 5,
}


def test_requests_take_dictionaries_and_text():
    for body in (REQUEST, json.dumps(REQUEST), json.dumps(REQUEST).encode()):
        converted = callweave.convert_request(body, "anthropic-messages", protocol="openai-chat")
        assert converted.body["tools"][0]["name"] == "look"
        assert [loss.what for loss in converted.losses] == ["seed"]


def test_requests_are_taught():
    taught = callweave.convert_request(REQUEST, "ollama", protocol="openai-chat", dialect="auto")
    assert taught.dialect == "hermes" and "tools" not in taught.body
    with pytest.raises(callweave.UnknownError, match="no dialect is known"):
        callweave.teach({**REQUEST, "model": "unheard-of"})
    with pytest.raises(callweave.JSONError):
        callweave.teach("{")
