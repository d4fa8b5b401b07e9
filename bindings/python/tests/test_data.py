"""The cases of the library run through Python, and agree byte for byte."""

import json
from pathlib import Path

import callweave
import pytest

DATA = Path(__file__).parents[3] / "crates/callweave/tests/data"
if not DATA.exists():
    pytest.skip("the cases of the library are not here", allow_module_level=True)


def cases(layer):
    found = sorted(path for path in DATA.glob(f"{layer}/*/*") if path.is_dir())
    assert len(found) > 10, layer
    return [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in found]


def input_of(case):
    [path] = case.glob("input*")
    return path.read_bytes()


def read(decoder, pieces):
    """The lines of the events, and the error, as the expected files have them."""
    lines = []
    try:
        for piece in pieces:
            lines += [event.to_json() for event in decoder.push(piece)]
    except callweave.CallweaveError as error:
        lines += [event.to_json() for event in error.events] + [f"# {error}"]
    try:
        ended = [event.to_json() for event in decoder.finish()]
    except callweave.CallweaveError as error:
        ended = [event.to_json() for event in error.events] + [f"# {error}"]
    # An error stands behind all events.
    told = [line for line in lines if line.startswith("# ")] or [line for line in ended if line.startswith("# ")]
    return [line for line in lines + ended if not line.startswith("# ")] + told[:1]


@pytest.mark.parametrize("case", cases("protocol"))
def test_protocol(case):
    data = input_of(case)
    decoder = callweave.Decoder(protocol=case.parent.name)
    lines = read(decoder, [data])
    assert "".join(f"{line}\n" for line in lines) == (case / "expected.events.jsonl").read_text()
    messages = [*decoder.take_earlier(), decoder.message]
    expected = (case / "expected.message.json").read_text()
    assert "".join(message.to_json(indent=True) + "\n" for message in messages) == expected
    if not any(line.startswith("# ") for line in lines):
        [first, *_] = callweave.decode_all(data, protocol=case.parent.name)
        assert first.to_json() == messages[0].to_json()


@pytest.mark.parametrize("case", cases("dialect"))
def test_dialect(case):
    text = (case / "input.txt").read_bytes().decode()
    tools = case / "tools.json"
    tools = json.loads((tools if tools.exists() else DATA / "dialect/tools.json").read_text())
    start = case / "starting_in.txt"
    is_reasoning = start.exists() and start.read_text().strip() == "reasoning"
    extractor = callweave.Extractor(case.parent.name, tools=tools, starts_in_reasoning=is_reasoning)
    events = extractor.push(text) + extractor.finish()
    lines = "".join(event.to_json() + "\n" for event in events)
    assert lines == (case / "events.jsonl").read_bytes().decode()


@pytest.mark.parametrize("case", cases("json/repair/..").__class__() or sorted((DATA / "json/repair").glob("*/")), ids=lambda case: case.name)
def test_repair(case):
    if not (case / "input").exists():
        pytest.skip("no case")
    words = (case / "options").read_text().split() if (case / "options").exists() else []
    options = {
        "prefix": "prefix" in words,
        "close_truncated": any(word.startswith("close") for word in words),
        "drop_unfinished_strings": any(word.startswith("drop") for word in words),
        "allow_prose": not any("prose" in word for word in words),
    }
    for word in words:
        if word in ("lossless", "structural", "guess"):
            options["allow"] = word
    repaired = callweave.repair((case / "input").read_bytes().decode(), **options)
    print(words, repaired, (case / "expected").read_text())
    assert 0
