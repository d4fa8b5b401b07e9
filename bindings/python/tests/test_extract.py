"""Text and complete bodies."""

import callweave
import pytest

TOOLS = [
    {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["at"],
        },
    }
]


def test_extract_finds_calls_and_reasoning_in_text():
    message = callweave.extract("<think>Up.</think>Sure. [look(at='sky', times='2')]", tools=TOOLS)
    assert (message.text, message.reasoning) == ("Sure. ", "Up.")
    [call] = message.tool_calls
    assert (call.name, call.object(), call.invalid) == ("look", {"at": "sky", "times": 2}, None)


def test_extract_checks_calls_against_their_schemas():
    [call] = callweave.extract("[look(times=2)]", tools=TOOLS).tool_calls
    assert call.invalid is not None and call.invalid.reason == "schema_mismatch"
    assert call.error_result is not None and call.error_result.startswith("error: ")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: data.decode()])
def test_decode_takes_bytes_likes_and_text(kind):
    body = b'{"id": "c1", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}'
    message = callweave.decode(kind(body))
    assert (message.id, message.text, message.finish_reason) == ("c1", "Hello", "stop")
    assert message.protocol == "openai-chat"


def test_an_error_of_the_upstream_is_an_exception_with_its_class():
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    message = callweave.decode(body)
    with pytest.raises(callweave.UpstreamError, match="Overloaded") as raised:
        message.raise_for_error()
    assert (raised.value.error_class, raised.value.is_retryable) == ("overloaded", True)
    assert raised.value.raw["type"] == "overloaded_error"


def test_an_unknown_name_is_an_error_that_lists_the_known():
    with pytest.raises(callweave.UnknownError, match="openai-chat"):
        callweave.decode(b"{}", protocol="openai-chatter")
    with pytest.raises(LookupError):
        callweave.extract("", dialect="klingon")
