"""Clients and transports of ``httpx2`` whose requests to models go through an exchange.

>>> from callweave.httpx2 import Client
>>> client = Client(dialect="auto", timeout=60)

It is a client of ``httpx2``, and goes wherever one goes: ``openai.OpenAI(http_client=client)``.
"""

from __future__ import annotations

import httpx2

from callweave import _transport
from callweave._transport import Policy

__all__ = ["AsyncClient", "AsyncTransport", "Client", "Policy", "Transport"]


class _Driver(_transport.SyncDriver, httpx2.SyncByteStream):
    hx = httpx2


class _AsyncDriver(_transport.AsyncDriver, httpx2.AsyncByteStream):
    hx = httpx2


class Transport(_transport.Transport, httpx2.BaseTransport):
    """A transport with an exchange before another transport, by default the usual one."""

    hx = httpx2
    _driver = _Driver


class AsyncTransport(_transport.AsyncTransport, httpx2.AsyncBaseTransport):
    """An asynchronous transport with an exchange before another transport, by default the usual one."""

    hx = httpx2
    _driver = _AsyncDriver


class Client(_transport.Client, httpx2.Client):
    """A client with an exchange: it takes the settings of ``Policy`` and those of ``httpx2.Client``."""

    _transport_class = Transport


class AsyncClient(_transport.Client, httpx2.AsyncClient):
    """An asynchronous client with an exchange: it takes the settings of ``Policy`` and those of ``httpx2.AsyncClient``."""

    _transport_class = AsyncTransport
