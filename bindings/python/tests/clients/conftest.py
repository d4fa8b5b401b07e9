"""Clients and frameworks run for real, each in the environment that has it: ``requirements-a.txt``,
``requirements-b.txt``. Elsewhere their tests are skipped, unless ``CALLWEAVE_CLIENTS`` names the file that was installed."""

from __future__ import annotations

import gc
import importlib
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import upstream as upstream_module  # noqa: E402


def required() -> set[str]:
    """The packages that must be there."""
    name = os.environ.get("CALLWEAVE_CLIENTS")
    if name is None:
        return set()
    lines = (HERE / name).read_text().splitlines()
    return {re.split(r"[\[=<>~ ]", line)[0] for line in lines if line and not line.startswith("#")}


def client(module: str, package: str | None = None) -> Any:
    """A client's module; tests without it are skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (package or module) in required():
            return importlib.import_module(module)
        return pytest.importorskip(module, exc_type=ImportError)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            # Their warnings are not ours.
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture
def upstream() -> Iterator[upstream_module.Server]:
    yield from upstream_module.served()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Clients that tests leave open, some on purpose, do not outlive them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_PROXY", "_proxy", "_BASE_URL")):
            monkeypatch.delenv(name)
    # No test leaves this machine.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
