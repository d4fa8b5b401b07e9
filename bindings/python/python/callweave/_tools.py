"""Tools, as people declare them in Python, as a list of JSON Schemas."""

from __future__ import annotations

from typing import Any

from callweave import _json


def declare(tools: Any) -> str:
    """The JSON text of a list of tools."""
    return _json.dumps(tools)
