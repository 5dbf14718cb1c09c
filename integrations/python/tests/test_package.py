"""The package beside the command line: the same bytes, and clear exceptions."""

import asyncio
import gc
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import verbatim_lm
from verbatim_lm import (
    AsyncModel,
    Cancelled,
    Model,
    ModelClosed,
    ModelError,
    OptionError,
    ProgramEnded,
    RequestError,
    find_model,
)
from verbatim_lm import _schemas


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, seconds=5):
    end = time.monotonic() + seconds
    while running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not running(pid)


# ---- The same bytes ----


def test_a_completion_has_the_bytes_of_the_command_line(model, run):
    text = subprocess.run([run, "-i", "Once upon a time", "-n", "40", "-s", "5"], capture_output=True).stdout
    assert model.complete("Once upon a time", max_tokens=40, seed=5).bytes + b"\n" == text


def test_a_batch_writes_the_bytes_of_the_command_line(model, run, tmp_path):
    requests = [{"id": f"r{i}", "prompt": f"The {w}", "max_tokens": 12, "seed": i} for i, w in enumerate("abcdefgh")]
    requests += [{"id": "bad", "prompt": "x", "temprature": 1}, {"id": "m", "messages": [{"role": "user", "content": "Hi"}]}]
    requests += [{"prompt": "no id", "max_tokens": 3}]
    source, output = tmp_path / "requests.jsonl", tmp_path / "results.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in requests[:-1]))
    subprocess.run([run, "--batch", source, "-o", output, "--ordered"], stderr=subprocess.DEVNULL)
    mine = tmp_path / "mine.jsonl"
    results = list(model.batch(requests[:-1], output=mine, ordered=True))
    assert sorted(mine.read_bytes().splitlines()) == sorted(output.read_bytes().splitlines())
    assert isinstance(results[8], RequestError) and results[8].id == "bad"
    one = json.loads(subprocess.run([run, "--batch", "-"], input=json.dumps(requests[-1]).encode(), capture_output=True).stdout)
    assert next(model.batch(requests[-1:])).raw == {k: v for k, v in one.items() if k != "line"}


def test_a_stream_adds_up(model):
    whole = model.chat("What does a cow say?", temperature=0)
    stream = model.chat("What does a cow say?", temperature=0, stream=True)
    chunks = list(stream)
    assert "".join(c.text for c in chunks) == whole.text == str(stream.result)
    assert len(chunks) > 2


def test_tokens_templates_and_scores(model, run):
    ids = model.tokenize("Once upon a time")
    printed = subprocess.run([run, "--tokenize", "-i", "Once upon a time"], capture_output=True, text=True).stdout
    assert [int(line.split()[0]) for line in printed.splitlines() if line.split()[0].isdigit()] == ids or str(ids[1]) in printed
    assert model.detokenize(ids) == "Once upon a time"
    prompt = model.apply_template("Hi", system="Be kind")
    assert "Be kind" in prompt and prompt.endswith("assistant\n")
    assert model.tokenize(prompt, special=True, add_special=False)[-2:] == model.apply_template("Hi", tokenize=True)[-2:]
    assert not model.apply_template("Hi", add_generation_prompt=False).endswith("assistant\n")
    score = model.score(" time", context="Once upon a")
    assert len(score.tokens) == 1 and score.greedy and -0.1 < score.logprob < 0
    assert model.score("Once upon a time").perplexity > 1
    assert model.info()["context"] == model.context == 1024


def test_a_system_prompt_is_its_text(model, run):
    # On the command line @NAME is a file; a program's text may be a stranger's.
    for text in ("@LICENSE", "@", "@@LICENSE", "@/no/such"):
        with Model(program=run, system=text) as other:
            mine = other.chat("Hello", temperature=0, max_tokens=4)
        given = model.chat("Hello", system=text, temperature=0, max_tokens=4)
        assert (mine.prompt_tokens, mine.text) == (given.prompt_tokens, given.text)


def test_logits_are_those_of_the_logprobs(model):
    numpy = pytest.importorskip("numpy")
    answer = model.complete("Once upon", max_tokens=4, logprobs=1, echo=True, logits=True)
    assert answer.logits.shape == (4, 2048) and answer.prompt_logits.shape == (2, 2048)
    for row, entry in zip([*answer.prompt_logits, *answer.logits], [*answer.prompt_logprobs, *answer.logprobs]):
        row = row.astype("f8")
        assert abs(row[entry.id] - numpy.log(numpy.exp(row).sum()) - entry.logprob) < 1e-4
    every = model.logits("Once upon", every=True)
    assert every.shape == (3, 2048) and (every[-1] == model.logits("Once upon")).all()
    for _ in range(300):
        model.logits("Once upon a time there was a fox", every=True)
    assert os.fstat(model._child.logits.fd).st_blocks * 512 < 1 << 20


def test_samples_and_choices(model):
    answer = model.complete("The king", n=3, max_tokens=5)
    assert len({c.text for c in answer.choices}) > 1 and answer.text == answer.choices[0].text
    assert model.complete("Yes or no? ", choice=["yes", "no"]).text in ("yes", "no")


def test_schemas(model):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    assert model.complete("x", schema=schema).parsed["a"] in (1, 2)
    pydantic = pytest.importorskip("pydantic")
    animal = pydantic.create_model("Animal", legs=(bool, ...))
    assert isinstance(model.complete("x", schema=animal).parsed, animal)
    with pytest.raises(ValueError):
        model.complete("x").parsed


def test_tools_are_described_by_their_hints():
    def add(a: int, b: "list[str]", c: float = 1.0) -> str:
        """Adds."""

    tool = _schemas.of_tool(add)["function"]
    assert tool["name"] == "add" and tool["description"] == "Adds."
    assert tool["parameters"]["required"] == ["a", "b"]
    assert tool["parameters"]["properties"]["b"] == {"type": "array", "items": {"type": "string"}}
    with pytest.raises(TypeError):
        _schemas.of_tool(3)


def test_tools_of_a_template_that_knows_none_are_refused(model):
    def f(a: int) -> str:
        """F."""

    with pytest.raises(RequestError, match="template"):
        model.chat("Hi", tools=[f])


def test_prefixes_and_conversations(model):
    with model.prefix("Once upon a time there was a") as prefix:
        fork = prefix.fork(" fox")
        whole = model.complete("Once upon a time there was a fox who", max_tokens=9)
        assert fork.complete(" who", max_tokens=9).text == whole.text
        fork.close()
        fork.close()
    chat = model.conversation("Be kind", temperature=0)
    first = chat.say("What does a cow say?")
    other = chat.fork()
    "".join(c.text for c in chat.say("What is 2 plus 2?", stream=True))
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert other.messages[-1] == first.message and len(other.messages) == 3


def test_embeddings(run, tmp_path):
    numpy = pytest.importorskip("numpy")
    (tmp_path / "texts").write_text("one\ntwo\n")
    lines = subprocess.run([run, "--embed", tmp_path / "texts", "--pooling", "mean"], capture_output=True).stdout
    wanted = numpy.array([json.loads(line)["embedding"] for line in lines.splitlines()], dtype="f4")
    with Model(pooling="mean") as model:
        got = model.embed(["one", "two"])
        assert (got == wanted).all() and (model.embed("two") == wanted[1]).all()


# ---- Batches ----


def test_a_batch_is_lazy_and_goes_on(model, tmp_path):
    taken = []

    def source():
        for i in range(1000):
            taken.append(i)
            yield f"Number {i}"

    path = tmp_path / "out.jsonl"
    answers = model.batch(source(), max_tokens=4, output=path)
    first = [next(answers) for _ in range(5)]
    answers.close()
    assert len(taken) < 700
    with open(path, "ab") as file:
        file.write(b'{"id": "cut')
    before = len(path.read_bytes().splitlines()) - 1
    seen = []
    again = list(model.batch((f"Number {i}" for i in range(300)), max_tokens=4, output=path, progress=lambda n, t: seen.append(n)))
    assert [a.text for a in again[:5]] == [a.text for a in first] and before >= 5
    assert seen == list(range(1, 301)) and len(again) == 300
    assert len({json.loads(line)["id"] for line in path.read_bytes().splitlines()}) == len(path.read_bytes().splitlines())
    with Model(temperature=0.1) as other, pytest.raises(RequestError, match="another model"):
        list(other.batch(["a"], output=path))


def test_a_file_that_is_not_ours_is_left_as_it_is(model, run, tmp_path):
    """What Model.batch refuses is what `run --resume -o` refuses: the program judges both."""
    ours = tmp_path / "ours.jsonl"
    assert len(list(model.batch(["a", "b"], max_tokens=3, output=ours))) == 2
    results = ours.read_bytes()
    cut = results.rindex(b"{")
    (tmp_path / "requests").write_text('{"prompt": "c", "max_tokens": 3}\n')
    cases = [
        (b"a note of mine", False),
        (b"a note of mine\n", False),
        (results + b"a note behind the results", False),
        (results + b'{"id": 1, "prompt": "a request"}', False),
        (results.replace(b'"id": ', b'"id":')[:-1], False),  # written by another program: no line's end
        (results[: cut + 9], True),  # torn
        (results + bytes(100), True),  # torn by a power cut
        (b"", True),
    ]
    for held, good in cases:
        mine, its = tmp_path / "mine", tmp_path / "its"
        mine.write_bytes(held)
        its.write_bytes(held)
        said = subprocess.run([run, "--batch", tmp_path / "requests", "-o", its, "--resume"], capture_output=True)
        assert (said.returncode == 0) == good, said.stderr
        if good:
            with warnings.catch_warnings(record=True) as said_here:
                warnings.simplefilter("always")
                assert len(list(model.batch(["a", "b", "c"], max_tokens=3, output=mine))) == 3
            dropped = ["is not whole" in str(w.message) for w in said_here]
            assert dropped == ([True] if held else []), held
            assert mine.read_bytes().startswith(results[:cut] if held else b"{")
        else:
            with pytest.raises(RequestError, match="line"):
                list(model.batch(["a"], max_tokens=3, output=mine))
            assert mine.read_bytes() == its.read_bytes() == held
    # more than is judged at a time
    many = b"".join(results.replace(b'"id": "', b'"id": "%d-' % i, 1).splitlines(True)[0] for i in range(9000))
    ours.write_bytes(many + b"note")
    with pytest.raises(RequestError, match="line 9001: "):
        list(model.batch(["a"], output=ours))
    assert ours.read_bytes() == many + b"note"
    ours.write_bytes(many + b'{"id": "to')
    assert len(list(model.batch(["a"], max_tokens=3, output=ours))) == 1
    assert ours.read_bytes().startswith(many) and len(ours.read_bytes().splitlines()) == 9001


def test_a_batch_into_a_device_or_a_pipe(model, tmp_path):
    with pytest.raises(OSError, match="No space"):
        list(model.batch(["a"], max_tokens=3, output="/dev/full"))
    assert len(list(model.batch(["a", "b"], max_tokens=3, output="/dev/null"))) == 2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert len(list(model.batch(["a", "b"], max_tokens=3, output=pipe))) == 2
        assert len(reader.stdout.read().splitlines()) == 2
    if os.geteuid() == 0:  # only root can make another's links
        (tmp_path / "victim").write_bytes(b"")
        (tmp_path / "link").symlink_to(tmp_path / "victim")
        os.lchown(tmp_path / "link", 12345, 12345)
        with pytest.raises(RequestError, match="a link or a pipe of another user"):
            list(model.batch(["a"], output=tmp_path / "link"))


def test_a_batch_raises_when_asked(model):
    with pytest.raises(RequestError):
        list(model.batch([{"prompt": "a", "x": 1}], errors="raise"))
    assert isinstance(list(model.batch([{"prompt": "a", "x": 1}]))[0], RequestError)


# ---- asyncio ----


def test_async_twins():
    async def main():
        async with AsyncModel() as model:
            answers = await asyncio.gather(*(model.complete("The king", max_tokens=5, seed=i) for i in range(9)))
            assert [a.text async for a in model.batch(["The king"] * 3, max_tokens=5, seed=2)] == [answers[2].text] * 3
            stream = model.stream("The king", max_tokens=5, seed=2)
            assert "".join([c.text async for c in stream]) == answers[2].text == stream.result.text
            task = asyncio.ensure_future(model.complete("a", max_tokens=900, ignore_eos=True, n=50))
            await asyncio.sleep(0.05)
            task.cancel()
            begun = time.monotonic()
            assert (await model.chat("What does a cow say?", temperature=0)).text == "A cow says moo."
            assert time.monotonic() - begun < 5
            assert await model.detokenize(await model.tokenize("a b")) == "a b"
            with pytest.raises(RequestError):
                await model.complete("a", x=1)
        return model.pid

    assert gone(asyncio.run(main()))


# ---- What goes wrong ----


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        Model(tmp_path / "none.bin")
    (tmp_path / "bad.bin").write_bytes(b"x" * 5000)
    with pytest.raises(ModelError):
        Model(tmp_path / "bad.bin")
    with pytest.raises(OptionError, match="--temprature"):
        Model(temprature=1)
    with pytest.raises(OptionError):
        Model(program="/none")
    with pytest.raises(ModelError, match="hf download"):
        Model.from_pretrained("Nobody/Nothing-at-all")


def test_a_hub_name_on_this_machine(tmp_path, monkeypatch):
    import verbatim_lm

    folder = tmp_path / "models--Org--Tiny"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert find_model("Org/Tiny") == str(snapshot)
    for name in ("a-Q8_0.gguf", "a-Q4_0.gguf"):
        (snapshot / name).write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="filename"):
        find_model("Org/Tiny")
    assert find_model("Org/Tiny", filename="*Q8_0*").endswith("a-Q8_0.gguf")
    with pytest.raises(ModelError, match="revision"):
        find_model("Org/Tiny", "other")


def test_a_model_that_is_deleted_stays_open(tmp_path):
    path = tmp_path / "stories.bin"
    root = os.path.join(os.path.dirname(__file__), "..", "..", "..", "models", "stories.bin")
    shutil.copy(root, path)
    with Model(path) as model:
        before = model.complete("The king", max_tokens=5).text
        path.unlink()
        assert model.complete("The king", max_tokens=5).text == before
        with pytest.raises(ModelError):
            model.restart()


def test_a_request_that_is_refused_names_the_nearest(model):
    with pytest.raises(RequestError, match="temperature") as caught:
        model.complete("a", temprature=1)
    assert caught.value.code == "invalid_request"
    with pytest.raises(RequestError):
        model.complete("a", temperature=float("nan"))


def test_a_killed_program_is_an_exception_and_can_be_restarted():
    with Model() as model:
        timer = threading.Timer(0.2, os.kill, (model.pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(ProgramEnded, match="SIGKILL") as caught:
            model.complete("a", max_tokens=1000, n=400, ignore_eos=True)
        assert caught.value.status == -9
        with pytest.raises(ProgramEnded):
            model.complete("a")
        model.restart()
        assert model.complete("a", max_tokens=2).text


def test_closing_ends_who_waits_and_the_program():
    model, errors = Model(), []

    def wait():
        try:
            model.complete("a", max_tokens=1000, n=400, ignore_eos=True)
        except ModelClosed as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    model.close()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 4 and gone(model.pid)
    with pytest.raises(ModelClosed):
        model.complete("a")
    model.close()


def test_a_model_that_is_forgotten_ends():
    pid = Model().pid
    gc.collect()
    assert gone(pid)


def test_leaving_a_stream_cancels_it(model):
    with model.complete("a", max_tokens=1000, n=200, ignore_eos=True, stream=True) as stream:
        next(stream)
    begun = time.monotonic()
    model.complete("b", max_tokens=2)
    assert time.monotonic() - begun < 3
    stream = model.complete("a", max_tokens=500, ignore_eos=True, stream=True)
    next(stream)
    model._child.cancel(stream._ticket)
    with pytest.raises(Cancelled):
        list(stream)


def test_threads_share_a_model(model):
    wanted = [model.complete("The king", max_tokens=8, seed=i).text for i in range(20)]
    got = [None] * 20

    def one(i):
        got[i] = model.complete("The king", max_tokens=8, seed=i).text

    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == wanted


def test_a_forked_process_is_told_and_keeps_nothing_open():
    model = Model()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            model.complete("a")
        except ModelClosed as error:
            os.write(write, str(error).encode())
        try:
            with Model() as own:
                os.write(write, b" own: " + own.complete("a", max_tokens=1).bytes)
            time.sleep(3)
        finally:
            os._exit(0)
    os.close(write)
    time.sleep(0.3)
    model.complete("a", max_tokens=1)
    model.close()
    assert gone(model.pid, 2)  # the forked process does not hold its pipe
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    said = os.read(read, 1000)
    os.close(read)
    assert b"forked" in said and b"own: " in said


def test_ctrl_c_leaves_the_model_usable():
    script = """
import os, signal, threading, verbatim_lm
model = verbatim_lm.Model()
threading.Timer(0.5, lambda: os.killpg(os.getpgid(0), signal.SIGINT)).start()
try:
    model.complete("a", max_tokens=1000, n=400, ignore_eos=True)
except KeyboardInterrupt:
    print(model.complete("The king", max_tokens=2, seed=4).text, model.pid)
"""
    environment = {**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "..")}
    run = subprocess.run(
        [os.sys.executable, "-c", script], capture_output=True, text=True, env=environment, start_new_session=True
    )
    words = run.stdout.split()
    assert words[:2] == ["and", "a"], run.stderr
    assert gone(int(words[-1]))


def test_a_parent_that_is_killed_leaves_no_program():
    script = "import verbatim_lm, time; m = verbatim_lm.Model(); print(m.pid, flush=True)\n"
    script += "m.complete('a', max_tokens=1000, n=400, ignore_eos=True)"
    environment = {**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "..")}
    parent = subprocess.Popen([os.sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    pid = int(parent.stdout.readline())
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


# ---- What must not go wrong by itself ----


def test_a_program_that_answers_nonsense_is_ended(tmp_path):
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("#!/bin/sh\nexec yes\n")
    nonsense.chmod(0o755)
    with pytest.raises(ModelError, match="does not answer as it should"):
        Model(program=nonsense)
    with pytest.raises(OptionError, match="null byte"):
        Model("a\0b")


def test_a_name_is_never_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="No such file"):
        Model("-oresults")
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_held_stops_no_cancelling(model):
    """The garbage collector ends streams wherever it happens to run."""
    stream = model.complete("a", max_tokens=300, ignore_eos=True, stream=True)
    next(stream)
    done = threading.Event()

    def collect():
        with model._child.work:
            stream.close()
        done.set()

    threading.Thread(target=collect, daemon=True).start()
    assert done.wait(5)


def test_logits_are_right_after_a_restart():
    numpy = pytest.importorskip("numpy")
    with Model(context=64) as model:
        wanted = model.logits("Once upon a", every=True)
        old = model._child.logits
        model.restart()
        assert old.fd == -1 and (model.logits("Once upon a", every=True) == wanted).all()
        memory = model._child.logits
        memory._give_back(0, 100)  # a page that is taken in part
        assert memory.partly
        model.restart()
        assert not model._child.logits.partly
        assert numpy.isfinite(wanted).all()


def test_prompts_that_are_none(model):
    for prompt in (b"Once", ["a", "b"], [{"role": "user", "content": "a"}]):
        with pytest.raises(TypeError, match="batch"):
            model.complete(prompt)
    with pytest.raises(RequestError, match="JSON"):
        model.complete("a", stop={1, 2})
    with pytest.raises(TypeError, match="a prompt is a text"):
        model.complete(3)
    with pytest.raises(TypeError, match="messages are a text"):
        model.chat(None)
    with pytest.raises(TypeError, match="a list of token ids"):
        model.detokenize("12")
    with pytest.raises(TypeError, match="several requests"):
        list(model.batch("hello"))
    with pytest.raises(TypeError, match="a request is a prompt"):
        list(model.batch([5]))


def test_the_package_has_a_version_and_runs_as_a_module():
    assert isinstance(verbatim_lm.__version__, str) and verbatim_lm.__version__
    with pytest.raises(AttributeError, match="no_such_name"):
        verbatim_lm.no_such_name
    said = subprocess.run([sys.executable, "-m", "verbatim_lm", "--version"], capture_output=True, text=True)
    assert said.stdout.startswith("verbatim "), said.stderr


def test_an_id_that_comes_twice_is_refused(model, tmp_path):
    with pytest.raises(RequestError, match="comes twice"):
        list(model.batch([{"id": "a", "prompt": "a"}, {"id": "a", "prompt": "b"}], output=tmp_path / "out", max_tokens=1))


def test_an_id_that_is_no_id_is_told_apart_from_1(model, tmp_path):
    """True, 1 and 1.0 are one key of a Python dict; the program takes only a text or a whole number (docs/batch.md)."""
    ids = [1, True, 1.0, "1", [1], [1]]
    for _ in range(2):  # the second call finds the results of 1 and "1"
        answers = list(model.batch([{"id": i, "prompt": "a"} for i in ids], output=tmp_path / "out", ordered=True, max_tokens=1))
        assert [isinstance(answer, RequestError) for answer in answers] == [False, True, True, False, True, True]
        assert all("must be a text or a whole number" in str(answers[i]) for i in (1, 2, 4, 5))
    assert (tmp_path / "out").read_text().count('"id": ') == 2


def test_a_failed_stream_says_why_again(model):
    stream = model.complete("a", stream=True, temprature=1)
    for _ in range(2):
        with pytest.raises(RequestError, match="temprature"):
            stream.result


def test_an_async_batch_can_be_left(tmp_path):
    async def numbers():
        for i in range(10**9):
            yield f"Number {i}"

    async def main():
        async with AsyncModel() as model:
            answers = model.batch(numbers(), max_tokens=4)
            first = [await answers.__anext__() for _ in range(3)]
            await answers.aclose()

            async def long():
                async for _ in model.batch(["a"] * 8, max_tokens=900, ignore_eos=True, n=20):
                    pass

            task = asyncio.ensure_future(long())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            begun = time.monotonic()
            again = await model.complete("Number 0", max_tokens=4)
            assert again.text == first[0].text and time.monotonic() - begun < 5

    asyncio.run(main())


def test_rounds_of_tools_end(model, monkeypatch):
    from verbatim_lm import Completion

    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    answer = Completion(
        {"text": "", "tool_calls": [call], "finish_reason": "tool_calls", "prompt_tokens": 1, "completion_tokens": 1}
    )
    called = []
    monkeypatch.setattr(model, "chat", lambda messages, **fields: answer, raising=False)
    chat = model.conversation()

    def f():
        called.append(1)
        if len(called) == 20:
            raise OSError("no weather")
        return {"a": 1}

    assert chat.call_tools(answer, [f], most=3).tool_calls and len(called) == 3 and len(chat.messages) == 6
    with pytest.raises(OSError):
        chat.call_tools(answer, [f], most=30)
    assert chat.messages[-1]["role"] == "assistant"


def test_tools_take_objects():
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", a=(int, ...))
    outer = pydantic.create_model("Outer", inner=(inner, ...))

    def f(order, name: str):
        return order.inner.a

    f.__annotations__["order"] = outer
    parameters = _schemas.of_tool(f)["function"]["parameters"]
    assert "Inner" in parameters["$defs"] and "$defs" not in parameters["properties"]["order"]
    assert _schemas.call([f], "f", {"order": {"inner": {"a": 3}}, "name": "x"}) == 3


# ---- Tools, ranks and adapters ----

TEMPLATE = """{%- if tools %}<|im_start|>system
# Tools
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
For each call return <tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call><|im_end|>
{% endif %}{% for m in messages %}{% if m.role == "tool" %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content or "" }}{% for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_tools_are_called(run, tmp_path):
    from typing import Literal

    asked = []

    def weather(city, days):
        """The weather of a city."""
        asked.append((city, days))
        return {"sky": "clear"}

    weather.__annotations__.update({"city": Literal["Rome", "Paris"], "days": Literal[1, 2]})
    template = tmp_path / "template"
    template.write_text(TEMPLATE)
    with Model(chat_template=template) as model:
        chat = model.conversation(temperature=0)
        answer = chat.say("What is the weather?", tools=[weather], tool_choice="weather", max_tokens=200)
        (call,) = answer.tool_calls
        assert answer.finish_reason == "tool_calls" and call.name == "weather"
        streamed = model.chat(
            "What is the weather?", tools=[weather], tool_choice="weather", temperature=0, max_tokens=200, stream=True
        )
        assert streamed.result.tool_calls[0].arguments == call.arguments
        request = {"messages": chat.messages[:1], "tools": [_schemas.of_tool(weather)], "temperature": 0, "max_tokens": 200}
        request["tool_choice"] = {"type": "function", "function": {"name": "weather"}}
        batch = subprocess.run(
            [run, "--chat-template", template, "--batch", "-"], input=json.dumps(request).encode(), capture_output=True
        )
        assert json.loads(batch.stdout)["tool_calls"][0]["function"] == call.raw["function"]
        last = chat.call_tools(answer, [weather], max_tokens=20)
        assert asked == [(call.arguments["city"], call.arguments["days"])] and not last.tool_calls
        assert [m["role"] for m in chat.messages] == ["user", "assistant", "tool", "assistant"]
        assert '{"sky": "clear"}' in model.apply_template(chat.messages, tools=[weather])


def test_documents_are_ranked_as_the_reference_does(run, tmp_path):
    pytest.importorskip("numpy")
    fixtures = pathlib.Path(__file__).resolve().parents[3] / "tests" / "fixtures"
    spec = importlib.util.spec_from_file_location("weights", fixtures / "weights.py")
    weights = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(weights)
    fixture = json.loads((fixtures / "embeddings" / "qwen3-rerank.json").read_text())
    weights.write_safetensors(tmp_path / "model.safetensors", fixture["tensors"])
    (tmp_path / "config.json").write_text(json.dumps(fixture["config"]))
    tokenizer = json.loads((fixtures / "marks_tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["content"] = fixture["renamed"].get(token["content"], token["content"])
        token["special"] = token["special"] and token["content"] not in ("yes", "no")
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with Model(tmp_path, type="f32", cache_dir=tmp_path) as model:
        ranked = model.rank(fixture["query"], fixture["documents"], instruction=fixture["instruction"])
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    for one in ranked:
        assert abs(one.score - fixture["scores"][one.index]) < 1e-5 and one.document == fixture["documents"][one.index]


def write_adapter(folder, seed):
    """A low-rank adapter of the stories model's attention, as peft writes it."""
    numpy = pytest.importorskip("numpy")
    draw, header, data = numpy.random.default_rng(seed), {}, b""
    for layer in range(4):
        for part, shape in (("A", [4, 256]), ("B", [256, 4])):
            values = draw.standard_normal(shape).astype("<f4") * 0.2
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{part}.weight"
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + values.nbytes]}
            data += values.tobytes()
    head = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def test_adapters(model, run, tmp_path):
    for seed, name in enumerate(("fr", "law")):
        write_adapter(tmp_path / name, seed)
    with Model(lora={"fr": tmp_path / "fr", "law": tmp_path / "law"}) as both:
        texts = {name: both.complete("The king", max_tokens=20, model=name).bytes for name in ("fr", "law", "stories")}
        texts["all"] = both.complete("The king", max_tokens=20).bytes
        with both.prefix("The", model="fr") as prefix:
            assert prefix.complete(" king", max_tokens=20).bytes == texts["fr"]
        with pytest.raises(RequestError):
            both.complete("The king", model="none")
    assert len(set(texts.values())) == 4 and texts["stories"] == model.complete("The king", max_tokens=20).bytes
    for name, words in (("fr", ["fr"]), ("all", ["fr", "law"])):
        options = [word for one in words for word in ("--lora", f"{one}={tmp_path / one}")]
        alone = subprocess.run([run, "-i", "The king", "-n", "20", "-s", "0", *options], capture_output=True)
        assert alone.stdout == texts[name] + b"\n", alone.stderr
