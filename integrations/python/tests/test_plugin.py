"""The pytest plugin on a small project."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

import verbatim_lm

root = pathlib.Path(__file__).resolve().parents[3]

TALK = """
import pytest
from verbatim_lm.testing import snapshot

@pytest.mark.parametrize("n", range(50))
def test_sum(verbatim, n):
    assert verbatim(f"What is {n % 10} plus {n // 10}?", temperature=0) == snapshot
"""

TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant

"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_talk.py").write_text(TALK)
    return tmp_path


def run(project, *words):
    environment = {**os.environ, "PYTHONPATH": str(root / "integrations" / "python")}
    installed = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; m.distribution('verbatim-lm')"],
        capture_output=True,
        env=environment,  # a build leaves its metadata in the package's folder
    )
    plugin = [] if installed.returncode == 0 else ["-p", "verbatim_lm.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_fifty_answers_are_checked_in_three_seconds_on_two_instruction_sets(project):
    code, said = run(project, "--verbatim-update")
    assert code == 0, said
    before = (project / "__verbatim__" / "test_talk.jsonl").read_bytes()
    for isa in ("--isa avx2 -j 1", "-j 2"):
        begun = os.times()
        code, said = run(project, f"--verbatim-options={isa}")
        used = os.times()
        if "avx2" in isa and "instruction set" in said:
            continue
        assert code == 0 and "50 passed" in said, said
        seconds = used.children_user + used.children_system - begun.children_user - begun.children_system
        assert seconds < 3  # of the processor: other programs may take their time
    run(project, "--verbatim-update", "--verbatim-options=--isa reference")
    assert (project / "__verbatim__" / "test_talk.jsonl").read_bytes() == before
    assert not list(project.glob("__verbatim__/tmp*"))


def test_nothing_is_recorded_by_itself(project):
    code, said = run(project, "-x")
    assert code == 1 and "--verbatim-update records it" in said
    assert not (project / "__verbatim__").exists()


def test_what_changed_is_named(project):
    talk = project / "test_talk.py"
    talk.write_text(TALK.replace("range(50)", "range(6)"))
    run(project, "--verbatim-update")
    code, said = run(project, f"--verbatim-model={root}/models/stories-draft.bin")
    assert "the model's weights changed (tensors" in said
    (project / "template").write_text(TEMPLATE)
    code, said = run(project, "--verbatim-options=--chat-template template")
    assert "the chat template changed" in said
    if code == 1:
        assert "the prompt as the template writes it differs at byte" in said
    code, said = run(project, "--verbatim-options=-p 0.5")
    assert code == 0 and "the setting top-p changed from 0.95 to 0.5" in said
    talk.write_text(TALK.replace("range(50)", "range(6)").replace("What is", "Tell me a story about"))
    code, said = run(project)
    assert code == 1 and "the prompt (messages[0].content) changed at byte 0" in said
    assert "the answer differs at byte" in said


def test_an_answer_that_was_edited_is_found(project):
    run(project, "--verbatim-update", "-k", "test_sum")
    path = project / "__verbatim__" / "test_talk.jsonl"
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if json.loads(line)["id"] == "test_sum[49]/1")
    record = json.loads(lines[at])
    lines[at] = json.dumps({**record, "text": record["text"].replace(record["text"][-3:], "xyz")})
    path.write_text("\n".join(lines) + "\n")
    code, said = run(project)
    assert code == 1 and "1 failed, 49 passed" in said and "the answer differs at byte" in said


# A program that replays a receipt by the rule of an earlier numeric revision, and finds all answers the same; the lines are
# those of --replay of tests/fixtures/revision_3.receipt. All else the real program does.
REPLAYS_BY_AN_OLD_RULE = """#!/bin/sh
case " $* " in
*" --replay "*)
    echo '{"part": "numeric_revision", "expected": 3, "got": 4, "made_by_version": "0.1", "repeated": true, "same": true}'
    echo '{"part": "item", "number": 1, "same": true}'
    ;;
*) exec %s "$@" ;;
esac
"""


def test_answers_of_an_earlier_numeric_revision_are_asked_again(project, monkeypatch):
    (project / "test_talk.py").write_text(TALK.replace("range(50)", "range(3)"))
    assert run(project, "--verbatim-update")[0] == 0
    program = project / "old-rule"
    program.write_text(REPLAYS_BY_AN_OLD_RULE % shlex.quote(verbatim_lm.find_program()))
    program.chmod(0o755)
    monkeypatch.setenv("VERBATIM_PROGRAM", str(program))
    code, said = run(project)
    assert code == 0 and "3 passed" in said, said  # the revision is another, the answers are not
    path = project / "__verbatim__" / "test_talk.jsonl"
    first, *others = path.read_text().splitlines()
    record = json.loads(first)
    path.write_text("\n".join([json.dumps({**record, "text": "x" + record["text"]}), *others]) + "\n")
    code, said = run(project)
    assert code == 1 and "1 failed, 2 passed" in said, said
    assert "the program's numeric revision changed" in said and "the answer differs at byte 0" in said


EVERYTHING = """
from verbatim_lm.testing import snapshot

def test_all(verbatim):
    answer = verbatim("What does a cow say?", temperature=0, n=2, logprobs=1, max_tokens=4)
    assert len(answer.choices) == 2 and answer == answer.choices[0] and answer.finish_reason == "length"
    assert answer == snapshot
"""


def test_every_field_of_a_record_is_compared(project):
    (project / "test_talk.py").write_text(EVERYTHING)
    code, said = run(project, "--verbatim-update")
    assert code == 0, said
    code, said = run(project)
    assert code == 0 and "1 passed" in said, said
    path = project / "__verbatim__" / "test_talk.jsonl"
    whole = path.read_text()

    def edit(change):
        record = json.loads(whole)
        change(record["choices"][1])
        path.write_text(json.dumps(record) + "\n")
        return run(project)

    for change in (
        lambda r: r.update(prompt=r["prompt"] + "x"),
        lambda r: r["logprobs"][0].update(logprob=-0.5),
        lambda r: r.update(text="Moo"),
        lambda r: r.update(completion_tokens=5),
        lambda r: r.pop("logprobs"),
        lambda r: r.update(more=1),
    ):
        code, said = edit(change)
        assert code == 1 and "choices differs at byte" in said and "test_talk.jsonl was edited" in said, said
    path.write_text(whole)
    assert run(project)[0] == 0


def test_an_update_keeps_what_was_not_run_and_drops_what_is_gone(project):
    run(project, "--verbatim-update")
    talk = project / "test_talk.py"
    talk.write_text(TALK.replace("range(50)", "range(10)"))
    code, said = run(project, "--verbatim-update", "-k", "sum and 3")
    assert "50 answers recorded" in said
    code, said = run(project, "--verbatim-update")
    assert "10 answers recorded" in said
    assert run(project)[0] == 0


def test_answers_can_be_looked_at(project):
    (project / "test_talk.py").write_text(
        """
import pytest
from verbatim_lm.testing import snapshot

pytestmark = pytest.mark.verbatim(temperature=0)

def test_several(verbatim):
    one, two = verbatim("What does a cow say?"), verbatim.complete("Once upon a", max_tokens=2)
    assert one == snapshot and two == snapshot and "moo" in one and one.finish_reason == "stop"
    assert verbatim.complete("x", schema={"enum": [1]}).parsed == 1
    assert verbatim.model.tokenize("a")
    with pytest.raises(TypeError):
        "a text" == snapshot
"""
    )
    assert run(project, "--verbatim-update")[0] == 0
    code, said = run(project)
    assert code == 0, said
