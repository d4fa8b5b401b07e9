"""Arrays, tables and streams in, columns out."""

import callweave.arrow
import pyarrow as pa
import pytest

from .conftest import program, shortened

CHAT = '{"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": %s}}]}'
TOOLS = [{"name": "look", "parameters": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}]


def chat(text):
    import json

    return CHAT % json.dumps(text)


def rows(data, **options):
    return pa.record_batch(callweave.arrow.decode(pa.array(data), **options)).to_pylist()


def outcome(text, **options):
    [row] = rows([chat(text)], **options)
    [call] = row["calls"]
    return call["outcome"], call["invalid"], call["arguments"]


def test_rows_are_those_of_the_program(samples, decoded):
    assert shortened(decoded) == program(samples)


def test_rows_of_ten_protocols_are_mixed(decoded):
    assert len(set(decoded["protocol"].to_pylist()) - {None}) == 10


def test_the_schema_is_the_documented_one(decoded):
    call = pa.struct([(name, pa.string()) for name in ["id", "name", "arguments", "outcome", "invalid"]])
    names = ["text", "reasoning", "calls", "finish", "model", "protocol", "dialect"]
    tokens = ["input_tokens", "output_tokens", "total_tokens"]
    tokens += ["cached_tokens", "cache_write_tokens", "reasoning_tokens"]
    assert decoded.schema.names == ["id", "time", *names, *tokens, "error_class", "error"]
    assert decoded.schema.field("calls").type == pa.list_(call)
    assert {decoded.schema.field(name).type for name in tokens} == {pa.int64()}


def test_a_bad_row_is_an_error_in_its_row():
    bad, null, good = rows(["no response", None, chat("Hi")])
    assert (bad["error_class"], bad["calls"]) == ("unknown", [])
    assert "no response" in bad["error"]
    assert set(null.values()) == {None}
    assert (good["text"], good["error_class"], good["error"]) == ("Hi", None, None)


def test_every_call_says_what_became_of_it():
    quoted = "<tool_call>{'name': 'look', 'arguments': {'n': 1}}</tool_call>"
    assert outcome(quoted) == ("repaired", None, '{"n": 1}')
    assert outcome(quoted.replace("'", '"'))[0] == "from_text"
    comma = '<tool_call>{"name": "look", "arguments": {"n": 1},}</tool_call>'
    assert outcome(comma)[0] == "repaired"
    inside = '<tool_call>{"name": "look", "arguments": {"n": 1,}}</tool_call>'
    assert outcome(inside)[0] == "repaired"
    text = '<tool_call>{"name": "look", "arguments": {"n": "1"}}</tool_call>'
    assert outcome(text, tools=TOOLS) == ("coerced", None, '{"n": 1}')
    missing = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    assert outcome(missing, tools=TOOLS)[0] == "invalid"
    assert outcome(missing, tools=TOOLS)[1]
    cut = '<tool_call>{"name": "look", "arguments": {"n":'
    assert outcome(cut)[0] == "truncated"


def test_native_calls_say_so_too():
    call = '{"id": "c", "type": "function", "function": {"name": "look", "arguments": "%s"}}'
    body = '{"object": "chat.completion", "choices": [{"index": 0, "message": {"tool_calls": [%s]}}]}'
    native, repaired = rows([body % (call % "{}"), body % (call % "{'n': 1}")])
    assert [row["calls"][0]["outcome"] for row in (native, repaired)] == ["native", "repaired"]
    [unrepaired] = rows([body % (call % "{'n': 1}")], repair=False)
    assert unrepaired["calls"][0]["outcome"] == "invalid"


def test_a_row_of_fifty_megabytes_is_one_row():
    text = "word " * 10_000_000
    large, small = rows([chat(text), chat("Hi")])
    assert len(large["text"]) == len(text) and small["text"] == "Hi"


def test_arrays_of_all_types_and_streams_give_the_same(samples, decoded):
    columns = decoded.drop_columns(["id", "time"]).combine_chunks().to_batches()[0]
    data = samples["data"].combine_chunks()
    for kind in [pa.binary(), pa.large_binary(), pa.binary_view()]:
        assert pa.record_batch(callweave.arrow.decode(data.cast(kind))).equals(columns), kind
    assert pa.table(callweave.arrow.decode(samples["data"])).combine_chunks().to_batches()[0].equals(columns)


def test_a_stream_is_read_as_it_is_taken(samples):
    taken = []

    def batches():
        for batch in samples.to_batches():
            taken.append(batch.num_rows)
            yield batch

    source = pa.RecordBatchReader.from_batches(samples.schema, batches())
    stream = callweave.arrow.decode(source, column="data")
    reader = pa.RecordBatchReader.from_stream(stream)
    assert taken == []
    first = reader.read_next_batch()
    assert taken == [first.num_rows] and len(samples.to_batches()) > 1
    with pytest.raises(ValueError, match="read before"):
        pa.RecordBatchReader.from_stream(stream)


def test_an_error_of_the_source_is_the_error_of_the_stream(samples):
    def batches():
        yield samples.to_batches()[0]
        raise OSError("the disk is gone")

    source = pa.RecordBatchReader.from_batches(samples.schema, batches())
    reader = pa.RecordBatchReader.from_stream(callweave.arrow.decode(source, column="data"))
    reader.read_next_batch()
    with pytest.raises(Exception, match="the disk is gone"):
        reader.read_next_batch()


def test_texts_are_extracted():
    texts = pa.array(["<think>Hm.</think>Yes. [look(n='2')]", None, "No."])
    first, null, last = pa.record_batch(callweave.arrow.extract(texts, tools=TOOLS)).to_pylist()
    assert (first["text"], first["reasoning"]) == ("Yes. ", "Hm.")
    assert [(call["name"], call["arguments"], call["outcome"]) for call in first["calls"]] == [
        ("look", '{"n":2}', "coerced")
    ]
    assert set(null.values()) == {None} and last["text"] == "No."


def test_json_is_repaired():
    texts = pa.array(['{"a": 1}', "{a: 'b',}", '{"a": [1', None, ""])
    valid, repaired, cut, null, hopeless = pa.record_batch(callweave.arrow.repair(texts)).to_pylist()
    assert (valid["json"], valid["verdict"], valid["changes"]) == ('{"a": 1}', "valid", [])
    assert (repaired["json"], repaired["verdict"]) == ('{"a": "b"}', "repaired")
    assert "quote at byte 1" in repaired["changes"]
    assert (cut["json"], cut["verdict"]) == ('{"a": [1]}', "incomplete") and cut["error"]
    assert set(null.values()) == {None}
    assert (hopeless["json"], hopeless["verdict"]) == (None, "hopeless") and hopeless["error"]


def test_responses_are_converted(samples, decoded):
    bodies = pa.table(callweave.arrow.convert(samples, "anthropic-messages", column="data"))
    assert bodies.schema.names == ["id", "time", "data", "losses", "error_class", "error"]
    back = pa.table(callweave.arrow.decode(bodies.select(["id", "data"]), column="data"))
    for body, before, after in zip(bodies.to_pylist(), decoded.to_pylist(), back.to_pylist(), strict=True):
        if body["data"] is not None and before["error_class"] is None:
            assert after["protocol"] == "anthropic-messages"
            assert after["text"] == before["text"]
            assert [call["name"] for call in after["calls"]] == [call["name"] for call in before["calls"]]


def test_wrong_columns_are_refused(samples):
    with pytest.raises(TypeError, match="column"):
        callweave.arrow.decode(samples)
    with pytest.raises(ValueError, match="id, time, data"):
        callweave.arrow.decode(samples, column="body")
    with pytest.raises(ValueError, match="Int64"):
        callweave.arrow.decode(pa.array([1]))
    with pytest.raises(ValueError, match="rename"):
        callweave.arrow.decode(samples.rename_columns(["model", "time", "data"]), column="data")
    with pytest.raises(ValueError, match="only read"):
        callweave.arrow.convert(samples, "codex-appserver-v2", column="data")


def test_generated_rows_are_the_same_in_any_part(samples):
    part = pa.table(callweave.arrow.demo(10, start=4321))
    assert part.equals(samples.slice(4321, 10).combine_chunks()) or part.to_pylist() == samples.slice(4321, 10).to_pylist()
