"""Faults at random times, with a watch on what they must not do: python integrations/python/tests/faults.py [-n FAULTS]

Programs are killed and stopped, pipes closed, processes forked, models closed by other threads, tasks cancelled,
parents killed. After each fault: every call has returned a right answer or a VerbatimError in time, no program is left
that nobody has, no descriptor is left open, and a batch that was ended goes on to the bytes that one run writes."""

import argparse
import asyncio
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

here = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(here.parents[1]))

from verbatim_lm import AsyncModel, Model, VerbatimError, find_program  # noqa: E402

PROMPTS = [f"The {word}" for word in ("cat", "dog", "king", "tree", "river", "girl", "boy", "house")]
TOKENS = 12
MOST = 60  # seconds for anything: a hang, on a machine that does other things as well
wanted = {}  # the right answers


class Threads:
    """Threads that ask until they are told to stop; what they get is right or a VerbatimError."""

    def __init__(self, model, n):
        self.wrong, self.right, self.over = [], 0, False
        self.threads = [threading.Thread(target=self._ask, args=(model, i), daemon=True) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def _ask(self, model, i):
        while not self.over:
            prompt = PROMPTS[i % 8]
            try:
                if i % 3 == 0:
                    text = "".join(chunk.text for chunk in model.complete(prompt, max_tokens=TOKENS, stream=True))
                else:
                    text = model.complete(prompt, max_tokens=TOKENS).text
            except VerbatimError:
                return
            except BaseException as error:
                self.wrong.append(repr(error))
                return
            if text != wanted[prompt]:
                self.wrong.append(text)
            self.right += 1

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join(MOST)
            if thread.is_alive():
                self.wrong.append("a thread hangs")
        assert not self.wrong, self.wrong


def under_threads(fault):
    """A fault while threads ask; then the model is started again."""

    def run(draw):
        with Model(threads=1) as model:
            asking = Threads(model, draw.randrange(1, 9))
            time.sleep(draw.random() * 0.1)
            fault(model, draw)
            time.sleep(draw.random() * 0.05)
            asking.end()
            model.restart()
            assert model.complete(PROMPTS[0], max_tokens=TOKENS).text == wanted[PROMPTS[0]]

    run.__name__ = fault.__name__
    return run


@under_threads
def kill(model, draw):
    os.kill(model.pid, draw.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT)))


@under_threads
def close(model, draw):
    closing = [threading.Thread(target=model.close) for _ in range(3)]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(MOST)


@under_threads
def stop_and_close(model, draw):
    os.kill(model.pid, signal.SIGSTOP)
    timer = threading.Timer(draw.random() * 0.2, os.kill, (model.pid, signal.SIGCONT))
    timer.start()
    model.close()
    timer.join()


@under_threads
def break_pipe(model, draw):
    """A pipe becomes another file, as when somebody closes descriptors that are not theirs."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), model._child.process.stdin.fileno())


@under_threads
def fork(model, draw):
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                try:
                    model.complete("a")
                except VerbatimError:
                    status = 0
                    if draw.random() < 0.3:
                        with Model(threads=1) as own:
                            status = own.complete(PROMPTS[1], max_tokens=TOKENS).text != wanted[PROMPTS[1]]
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def batch_goes_on(draw):
    """Killed at a random time, again and again: at last the file has each result once, as one run writes them."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out")
        ends = 0
        while True:
            with Model(threads=1) as model:
                timer = threading.Timer(0.02 + draw.random() * 0.1, os.kill, (model.pid, signal.SIGKILL))
                if ends < 4:
                    timer.start()
                seen = 0
                try:
                    for answer in model.batch(PROMPTS * 30, max_tokens=TOKENS, output=output):
                        assert answer.text == wanted[PROMPTS[seen % 8]]
                        seen += 1
                except VerbatimError:
                    ends += 1
                timer.cancel()
                lines = pathlib.Path(output).read_bytes().splitlines() if os.path.exists(output) else []
                assert len(lines) >= seen
                if seen == 240:
                    assert len(lines) == len(set(lines)) == 240
                    return


def kill_parent(draw):
    """The program does not outlive the process that has it, whatever that was doing."""
    script = "import sys; sys.path.insert(0, sys.argv[1])\nfrom verbatim_lm import Model\nm = Model(threads=1)\n"
    script += "print(m.pid, flush=True)\n" + draw.choice(
        ("m.complete('a', max_tokens=1000, n=400, ignore_eos=True)", "import time; time.sleep(60)",
         "for _ in m.complete('a', max_tokens=1000, ignore_eos=True, stream=True): pass\nimport os; os.fork(); input()")
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(here.parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    pid = int(parent.stdout.readline())
    time.sleep(draw.random() * 0.3)
    parent.send_signal(draw.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
    parent.stdin.close()  # for a fork that reads
    parent.stdout.close()
    parent.wait(MOST)
    end = time.monotonic() + MOST
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}"), "an orphan"


def forget(draw):
    """Models and streams that nobody has any more, with cycles."""
    models = [Model(threads=1) for _ in range(3)]
    streams = [model.complete("a", max_tokens=500, ignore_eos=True, stream=True) for model in models]
    for stream in streams:
        next(stream)
        stream.itself = stream
    pids = [model.pid for model in models]
    del models, streams, stream
    gc.collect()
    end = time.monotonic() + MOST
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def cancel_tasks(draw):
    async def one(model, i):
        if i % 4 == 0:
            async for _ in model.batch(PROMPTS * 3, max_tokens=TOKENS):
                pass
        elif i % 4 == 1:
            async for _ in model.stream("a", max_tokens=900, ignore_eos=True):
                pass
        else:
            await model.complete("a", max_tokens=900, ignore_eos=True)

    async def main():
        async with AsyncModel(threads=1) as model:
            tasks = [asyncio.ensure_future(one(model, i)) for i in range(12)]
            await asyncio.sleep(draw.random() * 0.1)
            for task in tasks:
                task.cancel()
                await asyncio.sleep(draw.random() * 0.005)
            ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), MOST)
            assert all(one is None or isinstance(one, asyncio.CancelledError) for one in ended), ended
            got = await asyncio.wait_for(model.complete(PROMPTS[2], max_tokens=TOKENS), MOST)
            assert got.text == wanted[PROMPTS[2]]
            if draw.random() < 0.5:  # and leave with something under way
                left = asyncio.ensure_future(model.complete("a", max_tokens=900, ignore_eos=True))
                left.add_done_callback(lambda task: task.exception())
                await asyncio.sleep(0)

    asyncio.run(main())


FAULTS = [kill, kill, close, stop_and_close, break_pipe, fork, batch_goes_on, kill_parent, forget, cancel_tasks]


def programs():
    """Children of this process that run."""
    return pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def hundred_models(n=100):
    models = [Model(threads=1) for _ in range(n)]
    try:
        tickets = [model.complete(PROMPTS[i % 8], max_tokens=TOKENS, stream=True) for i, model in enumerate(models)]
        for i in range(0, n, 7):
            os.kill(models[i].pid, signal.SIGKILL)
        lost = 0
        for i, ticket in enumerate(tickets):
            try:
                assert ticket.result.text == wanted[PROMPTS[i % 8]]
            except VerbatimError:
                assert i % 7 == 0
                lost += 1
        return lost
    finally:
        for model in models:
            model.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    for prompt in PROMPTS:
        text = subprocess.run([find_program(), "-i", prompt, "-n", str(TOKENS), "-s", "0"], capture_output=True).stdout
        wanted[prompt] = text[:-1].decode()
    before, begun, counts, slowest = descriptors(), time.monotonic(), {}, 0.0
    for i in range(given.n):
        fault = FAULTS[i % len(FAULTS)]
        started = time.monotonic()
        fault(draw)
        gc.collect()
        slowest = max(slowest, time.monotonic() - started)
        counts[fault.__name__] = counts.get(fault.__name__, 0) + 1
        assert not programs(), (fault.__name__, programs())
        assert descriptors() <= before, fault.__name__
    hundred_models()
    gc.collect()
    assert not programs() and descriptors() <= before
    assert threading.active_count() == 1, threading.enumerate()
    print(", ".join(f"{n} {name}" for name, n in counts.items()), "and a hundred models at once")
    print(f"{given.n} faults in {time.monotonic() - begun:.0f} s, the slowest in {slowest:.1f} s: no hang, no program left, "
          "no descriptor left, no other answer")


if __name__ == "__main__":
    main()
