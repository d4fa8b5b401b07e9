"""The cases of the library run through Python, and agree byte for byte."""

import json
from pathlib import Path
from random import Random

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


def span(event):
    source = event.get("source", {"start": 0, "end": 0})
    return source["start"], source["end"]


def joined(lines):
    """The lines of events, those of adjacent pieces of one text joined, as the expected files have them."""
    merged = []
    for line in lines:
        event = json.loads(line)
        if merged and event["type"] in ("delta", "markup"):
            last = json.loads(merged[-1])
            (start, end), (following, end_of_it) = span(last), span(event)
            is_next = event["type"] == "delta" or end == following or following == end_of_it
            if last["type"] == event["type"] and last.get("block") == event.get("block") and is_next:
                last["text"] += event["text"]
                if start < end or following < end_of_it:
                    source = {"start": start if start < end else following, "end": max(end, end_of_it)}
                    last = {"choice": last["choice"], "source": source, **{**last, "source": source}}
                merged[-1] = json.dumps(last, ensure_ascii=False, separators=(",", ":"))
                continue
        merged.append(line)
    return "".join(f"{line}\n" for line in merged)


def read(decoder, pieces):
    """The lines of the events, and the first error."""
    lines, problem = [], None
    for take in [*(lambda piece=piece: decoder.push(piece) for piece in pieces), decoder.finish]:
        if problem is not None and take != decoder.finish:
            continue
        try:
            events = take()
        except callweave.CallweaveError as error:
            events, problem = error.events, problem or error
        lines += [event.to_json() for event in events]
    return lines, problem


def cut(data, seed):
    """Pieces of many lengths."""
    random, pieces, at = Random(seed), [], 0
    while at < len(data):
        length = random.choice([1, 2, 3, 10, 100, 1400])
        pieces.append(data[at : at + length])
        at += length
    return pieces


@pytest.mark.parametrize("case", cases("protocol"))
def test_protocol(case):
    data = input_of(case)
    for pieces in [[data], cut(data, 1), cut(data, 2), [memoryview(data)]]:
        decoder = callweave.Decoder(protocol=case.parent.name)
        lines, problem = read(decoder, pieces)
        told = "" if problem is None else f"# {problem}\n"
        assert joined(lines) + told == (case / "expected.events.jsonl").read_bytes().decode()
        messages = [*decoder.take_earlier(), decoder.message]
        expected = (case / "expected.message.json").read_bytes().decode()
        assert "".join(message.to_json(indent=True) + "\n" for message in messages) == expected
    if problem is None:
        assert callweave.decode_all(data, protocol=case.parent.name) == messages
        fed = callweave.Decoder(protocol=case.parent.name)
        for piece in cut(data, 3):
            fed.feed(piece)
        fed.finish()
        assert fed.message == messages[-1]


@pytest.mark.parametrize("case", cases("dialect"))
def test_dialect(case):
    text = (case / "input.txt").read_bytes().decode()
    tools = case / "tools.json"
    tools = json.loads((tools if tools.exists() else DATA / "dialect/tools.json").read_text())
    start = case / "starting_in.txt"
    is_reasoning = start.read_text().strip() == "reasoning" if start.exists() else None
    extractor = callweave.Extractor(case.parent.name, tools=tools, starts_in_reasoning=is_reasoning)
    events = extractor.push(text) + extractor.finish()
    assert joined([event.to_json() for event in events]) == (case / "events.jsonl").read_bytes().decode()


def folders(layer):
    found = sorted(path for path in (DATA / layer).iterdir() if path.is_dir())
    assert len(found) > 5, layer
    return [pytest.param(path, id=path.name) for path in found]


REPAIR_OPTIONS = {
    "prefix": {"prefix": True},
    "close-truncated": {"close_truncated": True},
    "drop-unfinished-strings": {"drop_unfinished_strings": True},
    "without-prose": {"allow_prose": False},
    "lossless-only": {"allow": "lossless"},
    "no-guesses": {"allow": "structural"},
}


@pytest.mark.parametrize("case", folders("json/repair"))
def test_repair(case):
    path = case / "options"
    options = {}
    for word in path.read_text().split() if path.exists() else []:
        options.update(REPAIR_OPTIONS[word])
    repaired = callweave.repair((case / "input").read_bytes().decode(), **options)
    [verdict, *rest] = (case / "expected").read_bytes().decode().split("\n")
    if repaired.verdict == "hopeless":
        assert verdict == f"hopeless at {repaired.offset}: {repaired.problem}"
        with pytest.raises(callweave.JSONError):
            repaired.value
    else:
        assert verdict == repaired.verdict.capitalize()
    text = "\n".join(rest)
    if repaired.closed is not None:
        assert text.startswith(repaired.closed + "\n")
        text = text[len(repaired.closed) + 1 :]
    # The strings of the changes are written in Rust's notation there.
    expected = [line for line in text.split("\n") if line]
    assert len(expected) == len(repaired.changes)
    for line, change in zip(expected, repaired.changes):
        assert line.startswith(f"{change.at} ")
        assert line.endswith(f"{change.kind} ({change.change_class.capitalize()})")


@pytest.mark.parametrize("case", folders("json/schema"))
def test_coerce(case):
    schema = json.loads((case / "schema.json").read_text())
    document = case / "input.json"
    value = json.loads(document.read_text()) if document.exists() else None
    coerced = callweave.coerce(value if document.exists() else (case / "input.txt").read_text().rstrip(), schema)
    if document.exists() and isinstance(value, str):
        pytest.skip("a text is read, not coerced, in Python")
    expected = json.loads((case / "expected.json").read_text())
    assert json.dumps(coerced.value) == json.dumps(expected["value"])
    changes = [
        {"path": change.path, "kind": change.kind, "from": change.before, "to": change.after}
        for change in coerced.changes
    ]
    assert json.dumps(changes) == json.dumps(expected["changes"])
    problems = [f"{path}: {detail}" for path, detail in coerced.problems]
    assert problems == expected["problems"]


@pytest.mark.parametrize("case", folders("json/partial"))
def test_partial(case):
    text = (case / "input.txt").read_bytes().decode()
    last = (case / "expected.txt").read_bytes().decode().rstrip("\n").rsplit("\n", 1)[-1]
    expected = last.split(": ", 1)[1]
    value = callweave.PartialJson(unfinished="strings")
    for letter in text:
        value.push(letter)
    found = value.finish()
    assert ("nothing" if found is None else json.dumps(found)) == (
        expected if expected == "nothing" else json.dumps(json.loads(expected))
    )
    assert value.is_complete == last.startswith("Complete")


def ordered(text):
    """A value in which the order of keys and the text of numbers count."""
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=list)


@pytest.mark.parametrize("case", cases("request"))
def test_request(case):
    body = (case / "input.json").read_bytes()
    expected = ordered((case / "expected.json").read_text())
    assert expected
    for to, told in expected:
        told = dict(told)
        converted = callweave.convert_request(body, to, protocol=case.parent.name)
        assert ordered(converted.to_json()) == told["body"], to
        assert [str(loss) for loss in converted.losses] == told["losses"], to
        for member in ("names", "namespaces"):
            assert getattr(converted, member) == [tuple(pair) for pair in told.get(member, [])], to
        assert converted.wrapped == told.get("wrapped", []), to
