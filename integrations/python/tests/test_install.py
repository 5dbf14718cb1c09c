"""What `make install` installs makes the package, without a checkout."""

import os
import pathlib
import shutil
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


def test_the_package_is_installed_from_a_source_that_cannot_be_written_to(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    if not (root / "build" / "run").exists():
        pytest.skip("nothing is built")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", tmp_path / "site"]
    place = tmp_path / "tree"
    for name in ("integrations/python", "session/options.h", "models/stories.bin", "LICENSE"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, place / name)
    command = "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec".format(place)
    unshare = ["unshare", "--mount", "sh", "-c", f'{command} "$@"', "sh"]  # root may write to anything else
    if os.geteuid() != 0:
        unshare = []
        for folder in [p for p in place.rglob("*") if p.is_dir()]:
            folder.chmod(0o555)
    elif subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no mounts here")
    environment = {**os.environ, "VERBATIM_PROGRAMS": str(root / "build")}
    said = subprocess.run([*unshare, *pip, place / "integrations" / "python"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    for folder in [p for p in place.rglob("*") if p.is_dir()]:
        folder.chmod(0o755)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "site" / "verbatim_lm" / "LICENSE").exists()
