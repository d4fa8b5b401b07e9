"""Functions that run inside executors of Spark."""

from __future__ import annotations

import os
import time

ROWS = "id long, time timestamp, data binary"
CALL = "struct<id: string, name: string, arguments: string, outcome: string, invalid: string>"
TOKENS = ["input_tokens", "output_tokens", "total_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"]
DECODED = (
    f"id long, time timestamp, text string, reasoning string, calls array<{CALL}>, finish string, model string, "
    "protocol string, dialect string, " + ", ".join(f"{name} long" for name in TOKENS) + ", error_class string, error string"
)

LARGE_ROW = 1234
LARGE_TEXT = 50_000_000


def is_null(number):
    return number % 1000 == 7


def generate(batches):
    """Numbers → generated rows, some of them null, one of fifty megabytes."""
    import callweave.arrow
    import pyarrow as pa

    for batch in batches:
        numbers = batch["id"].to_pylist()
        for start in range(0, len(numbers), 4096):
            part = numbers[start : start + 4096]
            [rows] = pa.table(callweave.arrow.demo(len(part), start=part[0])).combine_chunks().to_batches()
            data = [None if is_null(number) else value for number, value in zip(part, rows["data"].to_pylist(), strict=True)]
            if part[0] <= LARGE_ROW <= part[-1]:
                text = b"word " * (LARGE_TEXT // 5)
                body = b'{"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "%s"}}]}'
                data[LARGE_ROW - part[0]] = body % text
            yield rows.set_column(2, "data", pa.array(data, pa.binary()))


def decode(batches):
    """Responses → columns."""
    import callweave.arrow
    import pyarrow as pa

    for batch in batches:
        yield pa.record_batch(callweave.arrow.decode(batch, column="data"))


def failing_once(marker):
    """The same, in a partition that fails in the middle of its first attempt."""

    def run(batches):
        from pyspark import TaskContext

        task = TaskContext.get()
        for number, batch in enumerate(decode(batches)):
            if task.partitionId() == 1 and number == 1 and task.attemptNumber() == 0:
                with open(marker, "a") as file:
                    file.write("failed\n")
                raise RuntimeError("this attempt was meant to fail")
            yield batch

    return run


def waiting(marker):
    """The same, slowly, leaving word of the process that works."""

    def run(batches):
        for batch in decode(batches):
            with open(marker, "a") as file:
                file.write(f"{os.getppid()}\n")
            time.sleep(0.05)
            yield batch

    return run
