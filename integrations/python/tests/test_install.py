"""What `make install` installs makes the package, without a checkout."""

import os
import pathlib
import subprocess
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[3]


def test_an_installed_copy_makes_the_package(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    if not (root / "build" / "run").exists():
        pytest.skip("nothing is built")
    words = ["make", "-s", "-o", "all", "install", "PREFIX=/usr", f"DESTDIR={tmp_path}"]
    subprocess.run(words, cwd=root, check=True, capture_output=True)
    installed = tmp_path / "usr" / "share" / "verbatim"
    server = installed / "integrations" / "openai" / "verbatim_server.py"
    bench = tmp_path / "usr" / "bin" / "verbatim-bench"
    for program in (server, bench):
        assert b"usage" in subprocess.run([program, "--help"], capture_output=True, check=True).stdout.lower()
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", place]
    subprocess.run([*pip, installed / "integrations" / "python"], check=True, capture_output=True)
    script = "import verbatim_lm; print(verbatim_lm.find_program()); print(verbatim_lm.Model().complete('a', max_tokens=3).text)"
    environment = {**os.environ, "PYTHONPATH": str(place)}
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env=environment, text=True, cwd=tmp_path
    )
    assert said.stdout.startswith(str(place / "verbatim_lm" / "bin"))
