"""JSON texts of Python objects, for the library."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """The JSON text of a value; texts with half a surrogate pair are escaped, since they are no UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text
