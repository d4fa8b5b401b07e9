"""JSON texts of Python objects, for the library."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """The JSON text of a value.

    Objects of the official clients are taken as the JSON that they came from. Texts with half a surrogate pair are
    escaped, since they are no UTF-8.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"), default=_plain)
    return text


def _plain(value: Any) -> Any:
    """An object as dictionaries and lists."""
    if hasattr(value, "model_dump"):  # pydantic, and the clients that are made with it
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for method in ("to_dict", "dict"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"an object of type {type(value).__name__} has no JSON form")
