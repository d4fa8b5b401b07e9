"""Spark in local-cluster mode: executors are processes of their own, and fail on their own.

``CALLWEAVE_SPARK_ROWS`` sets the number of rows.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("there is no Java", allow_module_level=True)

from . import spark_rows
from .conftest import program, shortened

pytestmark = pytest.mark.filterwarnings("default")

ROWS = int(os.environ.get("CALLWEAVE_SPARK_ROWS", "20000"))
PARTITIONS = 8


@pytest.fixture(scope="module")
def spark():
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("callweave")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.addPyFile(spark_rows.__file__)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    """Generated rows in a file, made by the executors."""
    folder = str(tmp_path_factory.mktemp("spark") / "rows")
    numbers = spark.range(0, ROWS, numPartitions=PARTITIONS)
    numbers.mapInArrow(functions().generate, spark_rows.ROWS).write.parquet(folder)
    return folder


@pytest.fixture(scope="module")
def expected(rows):
    """The rows as they are decoded in this process."""
    import callweave.arrow

    raw = in_order(pa.parquet.read_table(rows))
    batches = [pa.record_batch(callweave.arrow.decode(batch, column="data")) for batch in raw.to_batches(1000)]
    return pa.Table.from_batches(batches)


def functions():
    """The functions under the name by which executors find them."""
    sys.path.insert(0, str(Path(__file__).parent))
    import importlib

    return importlib.import_module("spark_rows")


def in_order(table):
    return table.sort_by("id").combine_chunks()


def read_back(folder, expected):
    """What Spark wrote, with the types of the expected table: Spark names the items of lists otherwise."""
    table = in_order(pa.parquet.read_table(folder))
    return table.cast(expected.schema)


def decoded(spark, rows, function, folder):
    frame = spark.read.parquet(rows).repartition(PARTITIONS, "id")
    frame.mapInArrow(function, spark_rows.DECODED).write.parquet(folder)


def test_two_executors_give_the_same_rows(spark, rows, expected, tmp_path):
    folder = str(tmp_path / "decoded")
    decoded(spark, rows, functions().decode, folder)
    table = read_back(folder, expected)
    assert table.num_rows == ROWS
    assert table.equals(expected)
    texts = table.column("text")
    assert texts[spark_rows.LARGE_ROW].as_py() == "word " * (spark_rows.LARGE_TEXT // 5)
    assert all(texts[number].as_py() is None for number in range(7, ROWS, 1000))
    assert len(set(table["protocol"].to_pylist()) - {None}) == 10


def test_the_rows_are_those_of_the_program(rows, expected):
    raw = in_order(pa.parquet.read_table(rows, filters=[("id", "<", 3000)]))
    kept = [number for number in range(3000) if number != spark_rows.LARGE_ROW and not spark_rows.is_null(number)]
    assert shortened(expected.take(kept)) == program(raw.take(kept))


def test_a_partition_that_fails_is_retried_with_the_same_result(spark, rows, expected, tmp_path):
    marker = tmp_path / "failures"
    folder = str(tmp_path / "decoded")
    decoded(spark, rows, functions().failing_once(str(marker)), folder)
    assert marker.read_text() == "failed\n"
    assert read_back(folder, expected).equals(expected)


def test_an_executor_that_is_killed_changes_nothing(spark, rows, expected, tmp_path):
    marker, killed = tmp_path / "processes", []

    def kill():
        """Kills the executor that works, once it has begun."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            lines = marker.read_text().splitlines() if marker.exists() else []
            if len(lines) > 3:
                executor = executor_of(int(lines[0]))
                if executor is not None:
                    os.kill(executor, signal.SIGKILL)
                    killed.append(executor)
                    return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    folder = str(tmp_path / "decoded")
    decoded(spark, rows, functions().waiting(str(marker)), folder)
    killer.join()
    assert killed
    assert read_back(folder, expected).equals(expected)


def executor_of(process):
    """The executor that a process of Python belongs to: the Java above it, of our own."""
    while process > 1:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if any(b"CoarseGrainedExecutorBackend" in word for word in words):
            return process
        status = Path(f"/proc/{process}/stat").read_text()
        process = int(status.rpartition(")")[2].split()[1])
    return None
