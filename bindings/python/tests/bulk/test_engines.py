"""The same function in engines that people run, with the same rows."""

import callweave.arrow
import pyarrow as pa
import pytest

pytestmark = pytest.mark.filterwarnings("default")

RESULT = pa.struct(
    list(pa.record_batch(callweave.arrow.decode(pa.array([], pa.binary()))).schema)
)


def structs(data):
    """Our function as most engines want it: an array in, an array of structs out."""
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    return pa.array(callweave.arrow.decode(data))


def by_id(table):
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def expected(decoded):
    return by_id(decoded.drop_columns(["time"]))


def unnested(table):
    """A table of ``id`` and one struct as the columns of the struct."""
    rows = []
    for row in table.to_pylist():
        rows.append({"id": row["id"]} | row["result"])
    return sorted(rows, key=lambda row: row["id"])


def test_polars_takes_tables_and_series(samples, decoded):
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(samples)
    table = polars.DataFrame(callweave.arrow.decode(frame, column="data")).drop("time")
    assert by_id(table.to_arrow()) == expected(decoded)
    series = polars.DataFrame(callweave.arrow.decode(frame["data"]))
    assert series["text"].to_list() == decoded["text"].to_pylist()


def test_polars_maps_batches(samples, decoded):
    polars = pytest.importorskip("polars")
    lazy = polars.from_arrow(samples).lazy()
    kind = polars.from_arrow(pa.array([], RESULT)).dtype
    decode = polars.col("data").map_batches(lambda data: polars.Series(callweave.arrow.decode(data)), return_dtype=kind)
    table = lazy.select("id", decode.alias("result")).collect()
    assert unnested(table.to_arrow()) == expected(decoded)


def test_duckdb_calls_a_function(samples, decoded, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.parquet

    pyarrow.parquet.write_table(samples, tmp_path / "rows.parquet")
    connection = duckdb.connect()
    kind = connection.from_arrow(pa.table({"result": pa.array([], RESULT)})).types[0]
    connection.create_function("decode_response", structs, ["BLOB"], kind, type="arrow")
    table = connection.sql(
        f"select id, decode_response(data) as result from '{tmp_path / 'rows.parquet'}'"
    ).to_arrow_table()
    assert unnested(table) == expected(decoded)


def test_duckdb_reads_a_stream(samples, decoded):
    duckdb = pytest.importorskip("duckdb")
    stream = pa.RecordBatchReader.from_stream(callweave.arrow.decode(samples, column="data"))
    counts = duckdb.sql("select protocol, count(*) from stream group by protocol").fetchall()
    protocols = decoded["protocol"].to_pylist()
    assert dict(counts) == {name: protocols.count(name) for name in set(protocols)}


def test_datafusion_calls_a_function(samples, decoded):
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    context.from_arrow(samples, name="rows")
    function = datafusion.udf(structs, [pa.binary()], RESULT, "stable", name="decode_response")
    context.register_udf(function)
    frame = context.sql("select id, decode_response(data) as result from rows")
    assert unnested(pa.Table.from_batches(frame.collect(), schema=frame.schema())) == expected(decoded)


def test_pandas_takes_frames(samples, decoded):
    pandas = pytest.importorskip("pandas")
    frame = samples.to_pandas(types_mapper=pandas.ArrowDtype)
    table = pa.table(callweave.arrow.decode(frame, column="data"))
    assert by_id(table.drop_columns(["time"])) == expected(decoded)
