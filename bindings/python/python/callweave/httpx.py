"""Clients and transports of ``httpx`` whose requests to models go through an exchange.

>>> from callweave.httpx import Client
>>> client = Client(dialect="auto", timeout=60)

It is a client of ``httpx``, and goes wherever one goes: ``openai.OpenAI(http_client=client)``.
"""

from __future__ import annotations

import httpx

from callweave import _transport
from callweave._transport import Policy

__all__ = ["AsyncClient", "AsyncTransport", "Client", "Policy", "Transport"]


class _Driver(_transport.SyncDriver, httpx.SyncByteStream):
    hx = httpx


class _AsyncDriver(_transport.AsyncDriver, httpx.AsyncByteStream):
    hx = httpx


class Transport(_transport.Transport, httpx.BaseTransport):
    """A transport with an exchange before another transport, by default the usual one."""

    hx = httpx
    _driver = _Driver


class AsyncTransport(_transport.AsyncTransport, httpx.AsyncBaseTransport):
    """An asynchronous transport with an exchange before another transport, by default the usual one."""

    hx = httpx
    _driver = _AsyncDriver


class Client(_transport.Client, httpx.Client):
    """A client with an exchange: it takes the settings of ``Policy`` and those of ``httpx.Client``."""

    _transport_class = Transport


class AsyncClient(_transport.Client, httpx.AsyncClient):
    """An asynchronous client with an exchange: it takes the settings of ``Policy`` and those of ``httpx.AsyncClient``."""

    _transport_class = AsyncTransport
