"""Reports about decoded columns."""

import json
import subprocess
import sys

import callweave
import callweave.arrow
import pyarrow as pa
import pytest


def test_the_report_counts_every_response_and_call(decoded):
    report = callweave.report(decoded, time="time")
    outcomes = [call["outcome"] for calls in decoded["calls"].to_pylist() for call in calls]
    assert (report.responses, report.calls) == (decoded.num_rows, len(outcomes))
    counted = {}
    for group in report.groups():
        counted[group["outcome"]] = counted.get(group["outcome"], 0) + group["calls"]
    assert {name: count for name, count in counted.items() if name} == {
        name: outcomes.count(name) for name in set(outcomes)
    }


def test_the_report_is_that_of_the_program(decoded, tmp_path):
    rows = subprocess.run(
        [sys.executable, "-m", "callweave", "demo", "--rows", str(decoded.num_rows)], capture_output=True, check=True
    )
    path = tmp_path / "rows.jsonl"
    path.write_bytes(rows.stdout)
    command = [sys.executable, "-m", "callweave", "report", "--as", "jsonl", str(path)]
    done = subprocess.run(command, capture_output=True, check=True)
    groups = [json.loads(line) for line in done.stdout.splitlines()]
    assert callweave.report(decoded, time="time").groups() == groups


def test_raw_columns_are_decoded_first(samples, decoded):
    raw = callweave.report(samples, column="data", time="time")
    assert raw.groups() == callweave.report(decoded, time="time").groups()
    assert callweave.report(decoded.drop_columns(["time"])).groups()[0]["first"] is None


def test_nulls_are_no_responses():
    table = pa.table(callweave.arrow.decode(pa.table({"data": pa.array([None], pa.string())}), column="data"))
    assert callweave.report(table).responses == 0


def test_the_page_needs_nothing_else(decoded):
    page = callweave.report(decoded, time="time").html()
    assert "hazel-hermes-14b" in page and "<svg" in page
    assert "src=" not in page and "href=" not in page and "@import" not in page


def test_other_tables_are_refused(samples):
    with pytest.raises(ValueError, match="no column"):
        callweave.report(samples)
