"""The examples of docs/python.md run."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[3]
blocks = re.findall(r"```python\n(.*?)```", (root / "docs" / "python.md").read_text(), re.S)


@pytest.mark.parametrize("number", range(len(blocks)))
def test_example(number, tmp_path):
    block = blocks[number]
    if "pydantic" in block:
        pytest.importorskip("pydantic")
    if "logits" in block:
        pytest.importorskip("numpy")
    environment = {**os.environ, "PYTHONPATH": str(root / "integrations" / "python")}
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert "False" not in run.stdout
    if number == 0:
        assert "9 plus 4 is 13." in run.stdout and "A cow says moo." in run.stdout
