"""An exchange, driven by hand."""

import json

import callweave

REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "Look at the sky."}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
}
ANSWER = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "<tool_call>{'name': 'look', 'arguments': {'at': 'sky'}}</tool_call>",
            },
            "finish_reason": "stop",
        }
    ]
}


def test_a_call_in_text_becomes_a_call():
    engine = callweave.ExchangeEngine(upstream="http://127.0.0.1:8000")
    exchange = engine.open("/chat/completions", json.dumps(REQUEST).encode(), id="1")
    assert exchange.next() == ("send", None)
    request = exchange.take_outgoing()
    assert request is not None and request.url == "http://127.0.0.1:8000/v1/chat/completions"
    exchange.accept([("content-type", "application/json")])
    exchange.push(json.dumps(ANSWER).encode())
    exchange.finish()
    assert exchange.next() == ("over", None)
    assert exchange.head().status == 200
    body = json.loads(exchange.take_bytes())
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    assert [outcome.outcome for outcome in exchange.outcomes] == ["repaired"]


def test_a_refusal_is_the_clients_error():
    engine = callweave.ExchangeEngine(upstream="http://127.0.0.1:8000")
    exchange = engine.open("/chat/completions", json.dumps(REQUEST).encode(), id="1")
    exchange.take_outgoing()
    exchange.refuse(429, [("retry-after", "7")], b'{"error": {"message": "Too many requests."}}')
    assert exchange.failure is not None and exchange.failure.error_class == "rate_limit"
    assert exchange.head().status == 429
