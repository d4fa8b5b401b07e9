"""Rows per second of our function and of the engines around it, side by side in one run.

    python tests/bulk/figures.py [ROWS]

Every engine runs twice over the same rows: once with a function that gives back the length of each response, which costs
nothing, and once with ours. Times are of the processor where the work is in this process, and of the clock for Spark.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import callweave.arrow
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).parent))


def timed(clock, work):
    """The shortest of three runs."""
    times = []
    for _ in range(3):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def show(name, rows, plain, ours):
    print(f"| {name} | {plain:.2f} | {ours:.2f} | {rows / ours:,.0f} | {rows / max(ours - plain, 1e-9):,.0f} |", flush=True)


def lengths(data):
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    return pa.compute.binary_length(data.cast(pa.large_binary())).cast(pa.int64())


def outcomes(data):
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    return pa.compute.list_value_length(pa.record_batch(callweave.arrow.decode(data))["calls"]).cast(pa.int64())


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    folder = Path(tempfile.mkdtemp())
    path = folder / "rows.parquet"
    reader = pa.RecordBatchReader.from_stream(callweave.arrow.demo(rows))
    with pa.parquet.ParquetWriter(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    table = pa.parquet.read_table(path)
    print(f"{rows:,} rows, {table['data'].nbytes / 1e6:,.0f} MB, {len(os.sched_getaffinity(0))} processors\n")
    print("| engine | plain s | ours s | rows/s | rows/s without the engine |")
    print("|---|---|---|---|---|", flush=True)
    cpu = time.process_time
    batches = table.to_batches(4096)
    show(
        "pyarrow",
        rows,
        timed(cpu, lambda: [lengths(batch["data"]) for batch in batches]),
        timed(cpu, lambda: [outcomes(batch["data"]) for batch in batches]),
    )
    none = lambda: [callweave.arrow.decode(batch["data"], dialect="none") for batch in batches]  # noqa: E731
    show("pyarrow, no dialect", rows, 0.0, timed(cpu, none))
    polars_figures(path, rows, cpu)
    duckdb_figures(path, rows, cpu)
    datafusion_figures(path, rows, cpu)
    memory(path, rows)
    if "--no-spark" not in sys.argv:
        for executors in (1, 2):
            spark_figures(path, rows, executors)


def polars_figures(path, rows, clock):
    import polars

    def run(function):
        column = polars.col("data").map_batches(lambda data: polars.Series(function(pa.array(data))), return_dtype=polars.Int64)
        polars.scan_parquet(path).select(column.sum()).collect()

    show("Polars", rows, timed(clock, lambda: run(lengths)), timed(clock, lambda: run(outcomes)))


def duckdb_figures(path, rows, clock):
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads to 1")
    for name, function in [("plain", lengths), ("ours", outcomes)]:
        connection.create_function(name, function, ["BLOB"], "BIGINT", type="arrow")
    run = lambda name: connection.sql(f"select sum({name}(data)) from '{path}'").fetchall()  # noqa: E731
    show("DuckDB", rows, timed(clock, lambda: run("plain")), timed(clock, lambda: run("ours")))


def datafusion_figures(path, rows, clock):
    import datafusion

    context = datafusion.SessionContext()
    context.register_parquet("rows", str(path))
    for name, function in [("plain", lengths), ("ours", outcomes)]:
        context.register_udf(datafusion.udf(function, [pa.binary_view()], pa.int64(), "stable", name=name))
    run = lambda name: context.sql(f"select sum({name}(data)) from rows").collect()  # noqa: E731
    show("DataFusion", rows, timed(clock, lambda: run("plain")), timed(clock, lambda: run("ours")))


def memory(path, rows):
    """The memory of decoding a file to a file, by batches."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pid = os.fork()
    if pid == 0:
        source = pa.parquet.ParquetFile(path)
        batches = pa.RecordBatchReader.from_batches(source.schema_arrow, source.iter_batches(4096))
        reader = pa.RecordBatchReader.from_stream(callweave.arrow.decode(batches, column="data"))
        with pa.parquet.ParquetWriter(str(path) + ".decoded", reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        os._exit(0)
    _, _, usage = os.wait4(pid, 0)
    print(f"\nfile to file: {usage.ru_maxrss / 1024:,.0f} MB at most ({before / 1024:,.0f} MB before)\n", flush=True)


def spark_figures(path, rows, executors):
    import pyspark
    import spark_rows
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.addPyFile(spark_rows.__file__)
    frame = session.read.parquet(str(path)).repartition(8).cache()
    assert frame.count() == rows

    def identity(batches):
        yield from batches

    def run(function, schema):
        return lambda: frame.mapInArrow(function, schema).write.format("noop").mode("overwrite").save()

    run(identity, spark_rows.ROWS)()
    plain = timed(time.monotonic, run(identity, spark_rows.ROWS))
    ours = timed(time.monotonic, run(spark_rows.decode, spark_rows.DECODED))
    show(f"Spark, {executors} executor{'s' if executors > 1 else ''}", rows, plain, ours)
    session.stop()


if __name__ == "__main__":
    main()
