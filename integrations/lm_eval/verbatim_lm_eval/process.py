"""One `run MODEL --batch -`, which answers requests as long as its stdin is open."""

import json
import os
import shutil
import subprocess
import threading


class Process:
    """A running batch. `answer` may be called any number of times, from one thread."""

    def __init__(self, program, model, of_model, options):
        """of_model: the options that say which weights; options: the others."""
        found = shutil.which(program) or (program if os.path.exists(program) else None)
        if found is None:
            raise FileNotFoundError(
                f"{program}: not found; give the path of verbatim's program: run=/path/to/run"
            )
        self._opening = [found, model, *of_model]
        self.command = [*self._opening, *options, "--batch", "-"]
        self._child = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._next = 0

    def _write(self, lines):
        try:
            for line in lines:
                self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # the reader will see the end of stdout

    def answer(self, requests, show=None):
        """The results of the requests, in their order. Requests are dicts without "id";
        `show`, if given, is called after each result."""
        first, results, left = self._next, [None] * len(requests), len(requests)
        self._next += len(requests)
        lines = [json.dumps({"id": first + i, **r}) for i, r in enumerate(requests)]
        # The program reads ahead only so far: written here, a full pipe would stop us both.
        writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        while left > 0:
            line = self._child.stdout.readline()
            if not line:
                raise RuntimeError(
                    f"{' '.join(self.command)} ended with status {self._child.wait()}: "
                    "what it said stands above"
                )
            result = json.loads(line)
            # A line that the program cannot read has no id: its result tells its number, from 1.
            index = result.get("id", result.get("line", 0) - 1) - first
            if index < 0:
                continue  # of requests that were given up when another of theirs failed
            if "error" in result:
                raise RuntimeError(
                    f"{result['error']['message']} (request: {lines[index][:500]})"
                )
            results[index] = result
            left -= 1
            if show:
                show()
        writer.join()
        return results

    def info(self):
        """What --info says of the model."""
        text = subprocess.run(
            [*self._opening, "--info", "--json"], capture_output=True, text=True, encoding="utf-8"
        )
        if text.returncode != 0:
            raise RuntimeError(text.stderr.strip())
        return json.loads(text.stdout)

    def close(self):
        if self._child.stdin and not self._child.stdin.closed:
            self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()
