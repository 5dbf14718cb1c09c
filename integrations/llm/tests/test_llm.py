"""The plugin with PyPI's llm, by its command line."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("llm")
root = pathlib.Path(__file__).resolve().parents[3]

SCRIPT = """
import sys, llm, llm.plugins
llm.plugins.load_plugins()
import llm_verbatim
if not any(name == "llm_verbatim" or plugin is llm_verbatim for name, plugin in llm.plugins.pm.list_name_plugin()):
    llm.plugins.pm.register(llm_verbatim)
from llm.cli import cli
cli(sys.argv[1:])
"""


@pytest.fixture
def run(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "small.bin").write_bytes((root / "models" / "stories-draft.bin").read_bytes())
    environment = {
        **os.environ,
        "LLM_USER_PATH": str(tmp_path / "llm"),
        "VERBATIM_MODELS": str(models),
        "PYTHONPATH": os.pathsep.join(str(root / "integrations" / one) for one in ("python", "llm")),
    }

    def call(*words, fails=False):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *words], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + (done.stderr if fails else "")

    return call


def test_models_are_those_of_this_machine(run):
    said = run("models")
    assert "verbatim/stories" in said and "verbatim/small" in said


def test_answers_conversations_and_the_log(run):
    assert run("-m", "verbatim/stories", "What is 9 plus 4?", "-o", "temperature", "0").strip() == "9 plus 4 is 13."
    assert run("-m", "verbatim/stories", "--no-stream", "What does a cow say?", "-o", "temperature", "0", "-o", "seed", "7",
               "-s", "Be kind").strip()
    assert run("-c", "And a cat?", "-o", "temperature", "0").strip()
    log = json.loads(run("logs", "--json", "-n", "0"))
    ours = [entry["response_json"] for entry in log]
    ours = [json.loads(one) if isinstance(one, str) else one for one in ours]
    assert {one["seed"] for one in ours} == {0, 7} and all(one["system_fingerprint"].startswith("fp_") for one in ours)


def test_schemas_and_refusals(run):
    said = run("-m", "verbatim/stories", "x", "--schema", '{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"],'
               '"additionalProperties":false}')
    assert json.loads(said)["a"] in (1, 2)
    assert "temperature" in run("-m", "verbatim/stories", "x", "-o", "temperature", "-1", fails=True)
    assert "template" in run("-m", "verbatim/stories", "x", "-T", "llm_time", fails=True)


def test_embeddings(run):
    vector = json.loads(run("embed", "-m", "verbatim/stories", "-c", "a text"))
    assert len(vector) == 256 and abs(sum(x * x for x in vector) - 1) < 1e-4
