"""The words that annotations list are those of the library."""

import json
from pathlib import Path
from typing import get_args

import callweave
import pytest
from callweave import _callweave, _types

SCHEMAS = Path(__file__).parents[3] / "schemas"


def words(node, key):
    """All values that the schemas allow for a member."""
    found = set()
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "properties" and key in value:
                found |= listed(value[key])
            found |= words(value, key)
    elif isinstance(node, list):
        for value in node:
            found |= words(value, key)
    return found


def listed(node):
    found = set(node.get("enum", []))
    if "const" in node:
        found.add(node["const"])
    for several in ("anyOf", "oneOf"):
        for part in node.get(several, []):
            found |= listed(part)
    return {word for word in found if isinstance(word, str)}


@pytest.mark.skipif(not SCHEMAS.exists(), reason="the schemas are not here")
@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        ("reason", [_types.FinishReason]),
        ("completion", [_types.BlockCompletion]),
        ("form", [_types.ReasoningForm]),
        ("runner", [_types.CallKind]),
        ("code", [_types.NoticeCode]),
        ("class", [_types.ErrorClass]),
        ("kind", [_types.BlockKind, _types.DeltaKind, _types.AttachmentKind]),
    ],
)
def test_words_are_those_of_the_schema(key, kinds):
    schema = json.loads((SCHEMAS / "event.schema.json").read_text())
    expected = {word for kind in kinds for word in get_args(kind)}
    assert words(schema, key) == expected


@pytest.mark.skipif(not SCHEMAS.exists(), reason="the schemas are not here")
def test_every_kind_of_event_has_a_class():
    kinds = words(json.loads((SCHEMAS / "event.schema.json").read_text()), "type")
    names = {"".join(word.capitalize() for word in kind.split("_")) + "Event" for kind in kinds}
    assert names == {kind.__name__ for kind in get_args(callweave.Event)}


def test_every_event_is_one_of_the_union():
    classes = {name for name in vars(_callweave) if name.endswith("Event")}
    assert {kind.__name__ for kind in get_args(callweave.Event)} == classes


def test_everything_public_is_exported():
    hidden = {"run_program", "process_response", "ProcessStream", "PromptAgent", "ToolCallAggregator"}
    # The functions of `callweave.arrow` have other names there.
    hidden |= {"Batch", "Stream"} | {name for name in vars(_callweave) if name.startswith("arrow_")}
    public = {name for name in vars(_callweave) if not name.startswith("_")} - hidden
    assert public <= set(callweave.__all__)
    assert all(hasattr(callweave, name) for name in callweave.__all__)
