#!/usr/bin/env python3
"""Times the model "verbatim" beside the harness' `hf` backend on the same items.

    python integrations/lm_eval/compare.py HF_DIRECTORY [f32=f32.bin q8=q8.bin ...]
        [--run build/run] [--threads 2] [--hf-batch 1,4,16] [--pairs 3] [--under COMMAND]
        [--questions 12] [--documents 4] [--texts 8] [--tasks choices,rolling,generation]

hf loads HF_DIRECTORY in float32; NAME=MODEL are what `run` takes, made of the same directory. Each
measurement is a process of its own (behind COMMAND, if given) that loads the model, answers one
item, and then times the harness on all items; loading and imports do not count. Every round runs hf
with each batch size and then every MODEL. Prints medians, the ratios to hf at the batch size that
is best for the task, how many items have the same choice or text as hf (of documents: the largest
relative difference of a log-likelihood), and the tokens of prompts that were computed, hf's padding
and our one item before the measurement included. Needs lm_eval, torch and transformers."""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "tests")]

import test_lm_eval  # noqa: E402: its tasks and its words

KINDS = {"choices": "own_choices", "rolling": "own_rolling", "generation": "own_generation"}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory")
    parser.add_argument("models", nargs="*", help="NAME=MODEL")
    parser.add_argument("--run", default=test_lm_eval.RUN)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hf-batch", default="1,4,16")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--under", default="", help="a command that runs each measurement")
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--tasks", default=",".join(KINDS))
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # in a process of its own
    return parser.parse_args()


# ---- One measurement ----


def write_rows(directory, rows):
    for name, task in KINDS.items():
        data = os.path.join(directory, task + ".jsonl")
        with open(data, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows[name])
        form, rest = test_lm_eval.TASKS[task]
        rest = rest.replace("max_gen_toks: 24", "max_gen_toks: 16")
        rest = rest.replace('[" the", "."]', '["."]')
        with open(os.path.join(directory, task + ".yaml"), "w", encoding="utf-8") as out:
            out.write(test_lm_eval.TASK.format(name=task, data=data, kind=form, rest=rest))


def items(questions, documents, texts, seed):
    draw = random.Random(seed)

    def sentence(least, most):
        return test_lm_eval.sentence(draw, least, most)

    choices = [
        {
            "context": sentence(40, 60),
            "choices": [" " + sentence(1, 4) for _ in range(4)],
            "answer": draw.randrange(4),
        }
        for _ in range(questions)
    ]
    return {
        "choices": choices,
        "rolling": [{"text": sentence(150, 250)} for _ in range(documents)],
        "generation": [{"context": sentence(20, 40), "word": "the"} for _ in range(texts)],
    }


def hf_model(a, batch):
    import torch
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(a.threads)
    lm = HFLM(pretrained=a.directory, dtype="float32", device="cpu", batch_size=batch)
    lm.computed = 0
    call = lm._model_call

    def counted(inps, *args, **kwargs):
        lm.computed += inps.numel()
        return call(inps, *args, **kwargs)

    lm._model_call = counted
    return lm


def evaluate(lm, name, rows):
    with tempfile.TemporaryDirectory() as directory:
        write_rows(directory, rows)
        begin = time.perf_counter()
        result = test_lm_eval.evaluate(lm, directory, [KINDS[name]])
        seconds = time.perf_counter() - begin
    found = test_lm_eval.answers(result)[0][KINDS[name]]
    if name == "choices":
        likelihoods = [[x[0] for x in responses] for _, responses in found]
        found = [max(range(len(x)), key=x.__getitem__) for x in likelihoods]
    elif name == "generation":
        samples = result["samples"][KINDS[name]]
        found = [s["resps"] for s in sorted(samples, key=lambda s: s["doc_id"])]
    return seconds, found


def measure(a):
    """Prints, for one system and one task, seconds, answers and the tokens that hf computed."""
    system, name = a.measure.split("/", 1)
    of_hf = system.startswith("hf:")
    if of_hf:
        lm = hf_model(a, int(system[3:]))
    else:
        from verbatim_lm_eval.model import VerbatimLM

        model = dict(m.split("=", 1) for m in a.models)[system]
        lm = VerbatimLM(model=model, run=a.run, threads=a.threads, stats=True)
    evaluate(lm, name, items(1, 1, 1, seed=2))
    if of_hf:
        lm.computed = 0
    seconds, found = evaluate(lm, name, items(a.questions, a.documents, a.texts, seed=1))
    computed = getattr(lm, "computed", None)
    print(json.dumps({"seconds": seconds, "found": found, "computed": computed}))
    if not of_hf:
        lm._process.close()


# ---- All of them ----


def measured(a, system, name):
    command = [*a.under.split(), sys.executable, __file__, *sys.argv[1:]]
    command += ["--measure", f"{system}/{name}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{system}, {name}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    stats = re.search(r"prefill: (\d+) tokens computed", done.stderr)
    if stats:  # the item before the measurement included
        result["computed"] = int(stats.group(1))
    return result


def agreement(name, ours, theirs):
    pairs = list(zip(ours, theirs, strict=True))
    if name == "rolling":
        worst = max(abs(x[1][0] / y[1][0] - 1) for x, y in pairs)
        return f"log-likelihoods within {worst:.1e}"
    return f"{sum(x == y for x, y in pairs)} items the same"


def compare(a, name):
    batches = [f"hf:{b}" for b in a.hf_batch.split(",")]
    names = [m.split("=", 1)[0] for m in a.models]
    times, last = {s: [] for s in batches + names}, {}
    for _ in range(a.pairs):
        for system in batches + names:
            last[system] = measured(a, system, name)
            times[system].append(last[system]["seconds"])
    medians = {s: statistics.median(t) for s, t in times.items()}
    best = min(batches, key=medians.get)
    print(f"{name}, {len(last[best]['found'])} items")
    for system in batches + names:
        line = f"  {system:8} {medians[system]:8.2f} s"
        if system in names:
            pairs = zip(times[best], times[system], strict=True)
            ratio = statistics.median(x / y for x, y in pairs)
            line += f"  {ratio:5.2f} x {best}, "
            line += agreement(name, last[system]["found"], last[best]["found"])
        if last[system]["computed"]:
            line += f", {last[system]['computed']} tokens computed"
        print(line, flush=True)


if __name__ == "__main__":
    given = arguments()
    if given.measure:
        measure(given)
    else:
        for task in given.tasks.split(","):
            compare(given, task)
