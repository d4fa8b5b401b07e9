"""The recipes of docs/bulk.md and the notebook beside it run as they are written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[4] / "docs"


def blocks(language):
    text = (DOCS / "bulk.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(command, folder):
    bin = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": bin + os.pathsep + os.environ["PATH"],
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_recipes_run_one_after_the_other(tmp_path):
    outputs = []
    for block in blocks("python"):
        if "pyspark" in block and shutil.which("java") is None:
            continue
        outputs.append(run([sys.executable, "-c", block], tmp_path))
    assert (tmp_path / "decoded.parquet").exists() and (tmp_path / "report.html").exists()
    assert any("repaired" in output for output in outputs)


def test_commands_run(tmp_path):
    commands = next(block for block in blocks("sh") if "rows.jsonl" in block)
    assert "10000 responses" in run(["sh", "-ec", commands], tmp_path)
    assert (tmp_path / "report.html").exists()


def test_the_notebook_runs(tmp_path):
    notebook = json.loads((DOCS / "bulk.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    run([sys.executable, "-c", "\n".join(cells)], tmp_path)


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_the_schema_for_spark_is_the_one_of_the_recipe():
    from . import spark_rows

    [recipe] = [block for block in blocks("python") if "pyspark" in block]
    names = {}
    exec(recipe.split("def decode")[0].split("from pyspark")[1].split("\n", 1)[1], names)
    assert names["DECODED"] == spark_rows.DECODED
