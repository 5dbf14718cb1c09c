"""Recorded answers of tests: what the pytest plugin keeps beside a test file, and how it checks them.

For test_talk.py there are __verbatim__/test_talk.receipt, a receipt (docs/receipts.md) that holds the requests and the
digests of model, template and answers, and __verbatim__/test_talk.jsonl, the answers. Both are written by the program
and can be checked without pytest: run MODEL --replay test_talk.receipt --check test_talk.jsonl
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Sequence

FOLDER = "__verbatim__"

# Parts of a replay by the words that a tester knows.
_PARTS = {
    "weights": "the model's weights",
    "config": "the model's configuration",
    "tokenizer": "the model's tokenizer",
    "template": "the chat template",
    "adapters": "the adapters",
    "numeric_revision": "the program's numeric revision",
}


# Fields of a result that name the run or the request, and those that say how a template wrote the prompt.
_OF_THE_RUN = ("id", "line", "line_hash", "system_fingerprint")
_OF_THE_PROMPT = ("prompt", "prompt_tokens")


class SnapshotError(Exception):
    """The records cannot be used; the message says why."""


def first_difference(a: bytes, b: bytes) -> int:
    """The first byte at which they differ."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)


def excerpt(text: bytes, at: int) -> str:
    return repr(text[at : at + 40].decode(errors="replace"))


def differs(name: str, recorded: Any, now: Any) -> str:
    """Where two values differ first, in words."""
    if isinstance(recorded, str) and isinstance(now, str):
        a, b = recorded.encode(), now.encode()
    else:
        a, b = (json.dumps(one, ensure_ascii=False, sort_keys=True).encode() for one in (recorded, now))
    at = first_difference(a, b)
    return f"{name} at byte {at}: recorded {excerpt(a, at)}, now {excerpt(b, at)}"


def answer_of(result: Dict[str, Any], with_prompt: bool) -> Dict[str, Any]:
    """What of a result must be as it was recorded."""
    left_out = _OF_THE_RUN if with_prompt else _OF_THE_RUN + _OF_THE_PROMPT
    kept = {key: value for key, value in result.items() if key not in left_out}
    if isinstance(kept.get("choices"), list):
        kept["choices"] = [answer_of(one, with_prompt) if isinstance(one, dict) else one for one in kept["choices"]]
    return kept


def compare_requests(recorded: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """How a request differs from the one that was recorded."""
    lines = []
    for key in sorted(set(recorded) | set(now)):
        a, b = recorded.get(key), now.get(key)
        if a == b:
            continue
        if key == "messages" and isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for i, (one, other) in enumerate(zip(a, b)):
                for part in sorted(set(one) | set(other)):
                    if one.get(part) != other.get(part):
                        lines.append(
                            differs(f"the prompt (messages[{i}].{part}) changed", one.get(part), other.get(part))
                        )
        else:
            what = "the prompt" if key in ("prompt", "messages") else f"the request's {key}"
            lines.append(differs(f"{what} changed", a, b))
    return lines


class Book:
    """The records of one test file."""

    def __init__(self, test_file: pathlib.Path, command: Sequence[str]):
        """`command`: the program, the model and its options."""
        folder = test_file.parent / FOLDER
        self.receipt, self.results = folder / f"{test_file.stem}.receipt", folder / f"{test_file.stem}.jsonl"
        self.command = list(command)
        self.requests: Dict[str, Dict[str, Any]] = {}  # by id, as recorded
        self.recorded: Dict[str, Dict[str, Any]] = {}  # results
        self.wrong: Dict[str, Dict[str, Any]] = {}  # what the check says of those that differ
        self.changes: List[str] = []  # what is not as it was recorded, in words
        self.asked: Dict[str, Dict[str, Any]] = {}  # in this run
        self._checked = False
        self._prompts_differ = False  # the model, template or settings are others, and so prompts may be

    @property
    def exists(self) -> bool:
        return self.receipt.exists() and self.results.exists()

    def load(self) -> None:
        """Reads the records and checks them all, at the speed of a prompt."""
        if self._checked:
            return
        self._checked = True
        if not self.exists:
            return
        try:
            receipt = json.loads(self.receipt.read_text())
            for item in receipt["items"]:
                request = json.loads(item["prompt"]["text"])
                self.requests[request["id"]] = request
            for line in self.results.read_text().splitlines():
                result = json.loads(line)
                self.recorded[result["id"]] = result
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(f"{self.receipt}: not the records of tests: {error}") from None
        self._check()

    def _run(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        run = subprocess.run([*self.command, *words], capture_output=True, stdin=subprocess.DEVNULL)
        if run.returncode not in (0, 3):
            raise SnapshotError(run.stderr.decode(errors="replace").strip() or f"{self.command[0]} failed")
        return run

    def _check(self) -> None:
        run = self._run("--replay", str(self.receipt), "--check", str(self.results))
        parts = [json.loads(line) for line in run.stdout.splitlines()]
        for part in parts:
            # A record without some of its fields is not the one that was recorded.
            if part.get("same") is False or (part["part"] == "recorded" and part.get("same") is None):
                self._note(part)
        # A replay repeats nothing with other weights, and answers of an earlier numeric revision by the rule of that revision:
        # whether the program still gives the answers, a batch says.
        replayed = any(part["part"] == "item" or part["part"].startswith(("item.", "recorded")) for part in parts)
        by_old_rule = any(part["part"] == "numeric_revision" and part.get("repeated") is True for part in parts)
        if by_old_rule:
            self.changes.append(f"{_PARTS['numeric_revision']} changed")
        if by_old_rule or not replayed:
            self._check_answers()

    def _note(self, part: Dict[str, Any]) -> None:
        name = part["part"]
        if name == "recorded":
            if "id" in part:
                self.wrong[part["id"]] = part
        elif name.startswith("settings."):
            setting = name.split(".", 1)[1]
            self._prompts_differ = True
            self.changes.append(f"the setting {setting} changed from {part['expected']!r} to {part['got']!r}")
        elif name == "seal":
            self.changes.append(f"{self.receipt.name} was edited by hand")
        elif name in _PARTS:
            self._prompts_differ = True
            tensors = part.get("tensors")
            some = f" (tensors {', '.join(tensors[:3])}{' ...' if len(tensors) > 3 else ''})" if tensors else ""
            self.changes.append(f"{_PARTS[name]} changed{some}")

    def _check_answers(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(request) + "\n" for request in self.requests.values())
            file.flush()
            run = self._run("--batch", file.name, "--check", str(self.results))
        for line in run.stdout.splitlines():
            part = json.loads(line)
            if part.get("same") is not True and "id" in part:
                self.wrong[part["id"]] = part

    def find(self, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The recorded result, if the request is the same and the model still gives it."""
        self.load()
        key = request["id"]
        if self.requests.get(key) != request or key in self.wrong:
            return None
        return self.recorded.get(key)

    def explain(self, request: Dict[str, Any], result: Dict[str, Any]) -> List[str]:
        """Why an answer is not the recorded one, what changed first."""
        key = request["id"]
        before = self.recorded.get(key)
        if before is None:
            return ["no answer is recorded for this test: pytest --verbatim-update records it"]
        lines = compare_requests(self.requests.get(key, {}), request) + self.changes
        first = ("prompt", "reasoning_content", "text", "tool_calls", "finish_reason")
        for field in (*first, *sorted((set(before) | set(result)).difference(first, _OF_THE_RUN))):
            if before.get(field) != result.get(field):
                name = {"prompt": "the prompt as the template writes it", "text": "the answer"}.get(field, field)
                lines.append(differs(f"{name} differs", before.get(field), result.get(field)))
        if not self._may_have_another_prompt(request):
            lines.append(f"{self.results.name} was edited, or recorded by a program with other results")
        return lines + ["pytest --verbatim-update accepts the new answers"]

    def same(self, request: Dict[str, Any], result: Dict[str, Any]) -> bool:
        """Whether the answer is the recorded one, in all its fields. The prompt as a template writes it is compared unless
        the request, the model, its template or the settings are others than those of the record."""
        before = self.recorded.get(request["id"])
        with_prompt = not self._may_have_another_prompt(request)
        return before is not None and answer_of(before, with_prompt) == answer_of(result, with_prompt)

    def _may_have_another_prompt(self, request: Dict[str, Any]) -> bool:
        return self._prompts_differ or self.requests.get(request["id"]) != request

    def write(self, keep: Sequence[str]) -> int:
        """Records what was asked in this run, and of the old records those whose ids are in `keep`. Returns how many."""
        requests = {key: self.requests[key] for key in self.requests if key in keep}
        requests.update(self.asked)
        if not requests:
            for path in (self.receipt, self.results):
                path.unlink(missing_ok=True)
            return 0
        self.receipt.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.receipt.parent) as folder:
            source = pathlib.Path(folder) / "requests.jsonl"
            source.write_text("".join(json.dumps(requests[key]) + "\n" for key in sorted(requests)))
            results, receipt = pathlib.Path(folder) / "results", pathlib.Path(folder) / "receipt"
            self._run("--batch", str(source), "-o", str(results), "--ordered", "--receipt", str(receipt))
            os.replace(results, self.results)
            os.replace(receipt, self.receipt)
        return len(requests)
