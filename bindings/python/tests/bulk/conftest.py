"""Rows for the tests of engines, and what the program makes of them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest

try:
    import pyarrow as pa
except ImportError:
    # The engines are installed in an environment of their own.
    collect_ignore_glob = ["test_*.py"]

TOKENS = [
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
]


def program(rows):
    """What ``callweave decode --jsonl`` says of the rows of a table, as the columns have it."""
    lines = []
    for row in rows.to_pylist():
        encoded = base64.b64encode(row["data"]).decode()
        lines.append(json.dumps({"id": row["id"], "data_base64": encoded}))
    command = [sys.executable, "-m", "callweave", "decode", "--jsonl", "--repair", "--coerce"]
    done = subprocess.run(command, input="\n".join(lines).encode(), capture_output=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(lines), done.stderr.decode()
    return [as_columns(result) for result in results]


def as_columns(result):
    message = result.get("message", {}) if "error" in result else result
    usage = message.get("usage") or {}
    calls = message.get("tool_calls", [])
    return {
        "id": result["id"],
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning") or "",
        "calls": [(call["id"], call["name"], call["arguments"]) for call in calls],
        "finish": message.get("finish_reason"),
        "model": message.get("model"),
        **{name: usage.get(name) for name in TOKENS},
    }


def shortened(table):
    """The columns that the program prints, too."""
    rows = []
    for row in table.to_pylist():
        calls = [(call["id"], call["name"], call["arguments"]) for call in row["calls"]]
        names = ["id", "text", "reasoning", "finish", "model", *TOKENS]
        rows.append({name: row[name] for name in names} | {"calls": calls})
    return rows


@pytest.fixture(scope="session")
def samples():
    import callweave.arrow

    return pa.table(callweave.arrow.demo(5000))


@pytest.fixture(scope="session")
def decoded(samples):
    import callweave.arrow

    return pa.table(callweave.arrow.decode(samples, column="data"))
