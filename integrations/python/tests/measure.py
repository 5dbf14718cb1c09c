"""What the package costs beside the command line: python integrations/python/tests/measure.py [MODEL] [-n REQUESTS]

Answers many requests by `run --batch FILE -o FILE` and by Model.batch, in turns, and compares bytes, time and memory;
then the time to the first token of a warm model, beside that of the bare program. Fails if a promise of docs/python.md
does not hold."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from verbatim_lm import Model, find_program  # noqa: E402

WORDS = ("cat", "dog", "king", "tree", "river", "girl", "boy", "house", "bird", "boat")


def requests(n, tokens):
    for i in range(n):
        text = f"The {WORDS[i % 10]} and the {WORDS[i // 10 % 10]}"
        yield {"id": f"r{i}", "prompt": text, "max_tokens": tokens, "seed": i}


def resident(pid):
    """KiB that belong to a process alone."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def by_program(command, source, output):
    begun = time.perf_counter()
    subprocess.run([*command, "--batch", source, "-o", output], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def by_package(path, output, n, tokens):
    """Seconds, the opening included, and how memory grew from the first tenth to the end (KiB: here, the program)."""
    begun = time.perf_counter()
    sizes = []
    with Model(path) as model:
        for i, _ in enumerate(model.batch(requests(n, tokens), output=output)):
            if i in (n // 10, n - 1):
                sizes.append((resident("self"), resident(model.pid)))
        seconds = time.perf_counter() - begun
    return seconds, [b - a for a, b in zip(*sizes)]


def first_token_of_program(command, prompts):
    child = subprocess.Popen(
        [*command, "--batch", "-", "--live"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    seconds = []
    for prompt in prompts:
        line = json.dumps({"prompt": prompt, "max_tokens": 2, "ignore_eos": True, "stream": True}).encode()
        begun = time.perf_counter()
        os.write(child.stdin.fileno(), line + b"\n")
        child.stdout.readline()
        seconds.append(time.perf_counter() - begun)
        while b'"delta"' in child.stdout.readline():
            pass
    child.stdin.close()
    child.wait()
    child.stdout.close()
    return seconds


def first_token_of_package(path, prompts):
    seconds = []
    with Model(path) as model:
        for prompt in prompts:
            begun = time.perf_counter()
            with model.complete(prompt, max_tokens=2, ignore_eos=True, stream=True) as stream:
                next(stream)
                seconds.append(time.perf_counter() - begun)
                stream.result
    return seconds


def compare(command, path, folder, n, tokens):
    """One run of each: seconds, and whether all is as it should be."""
    source, one, other = (os.path.join(folder, name) for name in ("requests", "one", "other"))
    with open(source, "w") as file:
        file.writelines(json.dumps(r) + "\n" for r in requests(n, tokens))
    theirs = by_program(command, source, one)
    ours, grown = by_package(path, other, n, tokens)
    lines = [sorted(pathlib.Path(path).read_bytes().splitlines()) for path in (one, other)]
    same = lines[0] == lines[1] and len(lines[0]) == n
    for path in (one, other):
        os.unlink(path)
    return theirs, ours, grown, same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="stories")
    parser.add_argument("-n", type=int, default=10000)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--pairs", type=int, default=20, help="of runs with a fifth of the requests, for the speed")
    given = parser.parse_args()
    command = [find_program(), *([] if given.model == "stories" else [given.model])]
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours, grown, same = compare(command, given.model, folder, given.n, given.tokens)
        failed = not same or max(grown) > 4096
        print(f"{given.n} requests: --batch {theirs:.2f} s, Model.batch {ours:.2f} s, "
              f"{'the same bytes' if same else 'OTHER BYTES'}, grown by {grown[0]} KiB here, {grown[1]} in the program")
        pairs = [compare(command, given.model, folder, given.n // 5, given.tokens)[:2] for _ in range(given.pairs)]
    median = statistics.median(theirs / ours for theirs, ours in pairs)
    best = min(one for one, _ in pairs) / min(one for _, one in pairs)
    print(f"throughput beside the command line's: {median:.3f} (median of {given.pairs} pairs), {best:.3f} (of the fastest)")
    prompts = [f"Once upon a time there were {i} {WORDS[i % 10]}s" for i in range(100)]
    times = [first_token_of_program(command, prompts), first_token_of_package(given.model, prompts)]
    own, ours = (statistics.median(one[10:]) * 1000 for one in times)
    print(f"first token: the program {own:.2f} ms, the package {ours:.2f} ms")
    return failed or max(median, best) < 0.95 or ours - own > 10


if __name__ == "__main__":
    sys.exit(main())
