"""Measures published models beside llama.cpp, ik_llama.cpp, transformers' tokenizers, jinja2 and llama2.c.

scripts/real-models runs it and says what the environment means. Each command prints tables in Markdown; what
it could not compare is named in a line that begins with "left out".
"""
import ctypes
import glob
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUN, EXPORT = (os.path.join(ROOT, "build", name) for name in ("run", "export"))
THREADS = os.environ.get("THREADS", str(os.cpu_count()))
LLAMA, IK = os.environ.get("LLAMA"), os.environ.get("IK")


def left_out(what, why):
    print(f"left out: {what}: {why}", flush=True)


def said(error):
    """The last line of what a failed program wrote, or the error itself."""
    written = getattr(error, "stderr", None) or getattr(error, "stdout", None) or ""
    if isinstance(written, bytes):
        written = written.decode(errors="replace")
    lines = [line for line in written.splitlines() if line.strip()]
    return lines[-1][:200] if lines else str(error)[:200]


def output(command):
    """What a program writes, with its line ends as they are."""
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return done.stdout.decode(errors="replace")


def table(head, rows):
    print("\n| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |")
    print(flush=True)


def named(path):
    return os.path.basename(path).split(".gguf")[0]


# verbatim

def batch(model, requests, *options):
    """The results of requests in the order of the requests."""
    lines = "".join(json.dumps({"id": i, **request}) + "\n" for i, request in enumerate(requests))
    done = subprocess.run([RUN, model, "--batch", "-", "--ordered", "-j", THREADS, *options], input=lines,
                          capture_output=True, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    for result in results:
        if "error" in result:
            raise RuntimeError(result["error"]["message"])
    if len(results) != len(requests):
        raise RuntimeError(said(done))
    return results


def our_ids(model, texts, special=False):
    requests = [{"prompt": t, "max_tokens": 0, "return_token_ids": True, "add_special_tokens": special} for t in texts]
    return [r["prompt_token_ids"] for r in batch(model, requests)]


def our_logits(model, ids, folder, *options):
    """Logits behind each of ids, float32 [len(ids)][vocab_size]."""
    import numpy
    path = os.path.join(folder, "logits")
    request = {"prompt": ids, "max_tokens": 1, "echo": True, "return_logits": True, "ignore_eos": True}
    result = batch(model, [request], "--logits", path, *options)[0]
    rows = numpy.fromfile(path, dtype=numpy.float32)
    os.unlink(path)
    assert len(result["logits_rows"]) == len(ids)
    return rows.reshape(len(ids), -1)[result["logits_rows"]]


# llama.cpp by the Python package llama-cpp-python

class Llama:
    """A model in llama.cpp's library: its tokenizer, and with weights its logits."""

    def __init__(self, path, weights=False, context=1024):
        import llama_cpp
        self.c = llama_cpp
        self.keep = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.keep, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = not weights
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError("llama.cpp does not load it")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.context = None
        if weights:
            params = llama_cpp.llama_context_default_params()
            params.n_ctx = params.n_batch = context
            params.n_threads = params.n_threads_batch = int(THREADS)
            self.context = llama_cpp.llama_init_from_model(self.model, params)

    def ids(self, text):
        data = text.encode()
        out = (self.c.llama_token * (len(data) + 16))()
        n = self.c.llama_tokenize(self.vocab, data, len(data), out, len(out), False, False)
        return list(out[:n])

    def logits(self, ids, first):
        """Logits behind ids[first] and all that follow, in one pass."""
        import numpy
        c = self.c
        c.llama_memory_clear(c.llama_get_memory(self.context), True)
        b = c.llama_batch_init(len(ids), 0, 1)
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, i, 1, i >= first
            b.seq_id[i][0] = 0
        if c.llama_decode(self.context, b):
            raise RuntimeError("llama_decode failed")
        rows = [numpy.ctypeslib.as_array(c.llama_get_logits_ith(self.context, i), shape=(self.vocab_size,)).copy()
                for i in range(first, len(ids))]
        c.llama_batch_free(b)
        return numpy.stack(rows)


# ids: tokens and chat templates

def texts(n=2000):
    """Prose and code of this tree, and what tokenizers get wrong: white space, numbers, marks, emoji, scripts."""
    lines = []
    for pattern in ("docs/*.md", "*.c", "tests/*.py", "scripts/*", "../shared/data/text/*.txt"):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="ignore") as file:
                    lines += [line for line in file.read().split("\n") if line.strip()]
    r = random.Random(1)
    chosen = r.sample(lines, n // 2)
    chosen += ["\n".join(lines[at:at + 6]) for at in r.sample(range(len(lines) - 6), n // 8)]
    alphabets = ["  \t\n\r\u00a0\u2003\u3000", "0123456789.,", "abcdeABCDE '’sdmtlrev", "😀👩‍👩‍👧🇩🇪👍🏽❤️🧑🏿‍🚀",
                 "日本語漢字かなカナ中文字", "한국어조선말", "العربيةمرحبا", "हिन्दीनमस्ते", "кириллицаПРИВЕТ", "äöüßéèñçÅŁőΩλ",
                 "{}[]()<>=+-*/\\|&^%$#@!~`\"';:_?", "e\u0301\u0308a\u030ao\u0328\u200d\u200b\ufeff", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢𐍈𒀀"]
    while len(chosen) < n:
        parts = [r.choice(alphabets) for _ in range(r.randint(1, 4))]
        chosen.append("".join(r.choice(r.choice(parts)) for _ in range(r.randint(1, 60))))
    return chosen


def differences(ours, theirs, chosen):
    wrong = [i for i in range(len(chosen)) if ours[i] != theirs[i]]
    if wrong:
        i = min(wrong, key=lambda k: len(chosen[k]))
        print(f"  differs: {chosen[i]!r}: {ours[i]} and {theirs[i]}")
    return f"{len(chosen) - len(wrong)} of {len(chosen)}"


def metadata(model):
    """The GGUF file's metadata as Python values."""
    from gguf import GGUFReader
    return {name: field.contents() for name, field in GGUFReader(model).fields.items() if not name.startswith("GGUF.")}


def converted_tokenizer(model):
    """Its makers' tokenizer.json where NAME.tokenizer.json lies beside NAME.gguf; else the tokenizer that
    transformers makes of the GGUF file's vocabulary. Both run in Hugging Face's library."""
    if os.path.exists(named_path := model[:-len("gguf")] + "tokenizer.json"):
        from tokenizers import Tokenizer
        return Tokenizer.from_file(named_path)
    from transformers.integrations.gguf import convert_gguf_tokenizer
    values = metadata(model)
    parts = {name[len("tokenizer.ggml."):]: value for name, value in values.items()
             if name.startswith("tokenizer.ggml.")}
    return convert_gguf_tokenizer(values["general.architecture"], {
        "tokenizer_type": parts.get("model"), "pre_tokenizer_type": parts.get("pre"), **parts})[0]


def command_ids(models):
    chosen, rows = texts(), []
    for model in models:
        ours = our_ids(model, chosen)
        row = [named(model), None, None, None]
        try:
            llama = Llama(model)
            row[1] = differences(ours, [llama.ids(t) for t in chosen], chosen)
        except (ImportError, RuntimeError, OSError) as error:
            left_out(f"llama.cpp's ids of {named(model)}", error)
        try:
            tokenizer = converted_tokenizer(model)
            row[2] = differences(ours, [tokenizer.encode(t, add_special_tokens=False).ids for t in chosen], chosen)
        except Exception as error:  # what a package does not know, it says by errors of many kinds
            left_out(f"transformers' ids of {named(model)}", said(error))
        row[3] = templates(model)
        rows.append(row)
    table(["the same", "ids: llama.cpp", "ids: tokenizers (Hugging Face)", "chat template: jinja2"], rows)


CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hello \n"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "<|im_end|> {{ x }} 日本 😀"},
     {"role": "assistant", "content": "```c\nint x;\n```\n"}, {"role": "user", "content": "\tand\r\nthen?"}],
]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a town <now>", "parameters": {
        "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}}]
CALLS = [{"role": "user", "content": "Weather in Bern?"},
         {"role": "assistant", "content": "", "tool_calls": [
             {"type": "function", "id": "abcdefghi", "function": {"name": "weather", "arguments": {"town": "Bern"}}}]},
         {"role": "tool", "content": "rain", "tool_call_id": "abcdefghi"}]


def templates(model):
    """How many conversations the model's own template makes the same prompt of here and in jinja2, as
    transformers sets it up."""
    try:
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        source = metadata(model).get("tokenizer.chat_template")
    except ImportError as error:
        left_out("chat templates", error)
        return None
    if source is None:
        return "the file has none"
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    template = environment.from_string(source)
    same = tried = 0
    for messages, tools in [(m, None) for m in CONVERSATIONS] + [(CONVERSATIONS[0], TOOLS), (CALLS, TOOLS)]:
        theirs = template.render(messages=messages, tools=tools, add_generation_prompt=True, bos_token="", eos_token="")
        request = json.dumps({"messages": messages, **({"tools": tools} if tools else {})})
        try:
            ours = output([RUN, model, "--render", "-i", request])
        except subprocess.CalledProcessError as error:
            print(f"  {named(model)}: {json.dumps(messages)[:80]}: {said(error)}")
            continue
        tried += 1
        same += ours.rstrip("\n") == theirs.rstrip("\n")
        if ours.rstrip("\n") != theirs.rstrip("\n"):
            print(f"  differs: {ours!r} and {theirs!r}")
    return f"{same} of {tried}"


# text: greedy decoding

PROMPTS = [
    "The capital of France is", "Once upon a time there was a dog who", "def fibonacci(n):\n", "Photosynthesis is",
    "The three laws of thermodynamics are", "Dear Sir or Madam,\n", "int main(void) {\n", "A recipe for bread:\n1.",
    "In 1969, two men", "SELECT name, COUNT(*) FROM", "Die Hauptstadt von Deutschland", "To be, or not to be,",
    "The quick brown fox", "import json\n\ndef load(path):\n", "Water boils at", "Chapter 1\n\nIt was a dark night",
    "Q: What is a prime number?\nA:", "class Stack:\n    def __init__(self):\n", "The difference between TCP and UDP",
    "List of planets:\n- Mercury\n"]


def parts(logits, ids, n_prompt):
    """The first place of ids behind the prompt where logits prefer another token, and by how much:
    (index, the other token's log-probability minus that of ids). None: nowhere."""
    for i in range(len(ids) - n_prompt):
        row = logits[i]
        other = int(row.argmax())
        if other != ids[n_prompt + i]:
            return i, other
    return None


def log_probability(row, token):
    import numpy
    row = row.astype(numpy.float64)
    top = row.max()
    return row[token] - top - numpy.log(numpy.exp(row - top).sum())


def command_text(models):
    n_new, n_prompts = int(os.environ.get("TOKENS", "200")), int(os.environ.get("PROMPTS", "20"))
    rows = []
    for model in models:
        prompts = our_ids(model, PROMPTS[:n_prompts], special=True)
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
            exact = os.path.join(folder, "f32.bin")
            subprocess.run([EXPORT, model, exact, "-q", "-t", "f32"], check=True)
            greedy = dict(max_tokens=n_new, temperature=0, ignore_eos=True, return_token_ids=True)
            written = [r["token_ids"] for r in batch(model, [{"prompt": p, **greedy} for p in prompts])]
            exactly = [r["token_ids"] for r in batch(exact, [{"prompt": p, **greedy} for p in prompts])]
        own = sum(a != b for a, b in zip(written, exactly))
        try:
            llama = Llama(model, weights=True)
        except (ImportError, RuntimeError, OSError) as error:
            left_out(f"llama.cpp's text of {named(model)}", error)
            rows.append([named(model), None, None, None, None, f"{own} of {len(prompts)}", None])
            continue
        equal, lines, theirs_leave = 0, [], 0
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
            for text, prompt, new, f32 in zip(PROMPTS, prompts, written, exactly):
                ids = prompt + new
                found = parts(llama.logits(ids, len(prompt) - 1), ids, len(prompt))
                ids_f32 = prompt + f32
                theirs_leave += parts(llama.logits(ids_f32, len(prompt) - 1), ids_f32, len(prompt)) is not None
                if not found:
                    equal += 1
                    continue
                at, other = found
                prefix, mine = ids[:len(prompt) + at], ids[len(prompt) + at]
                here = our_logits(model, prefix, folder)[-1]
                there = llama.logits(prefix, len(prefix) - 1)[-1]
                lines.append((text, at, here[mine] - here[other], there[other] - there[mine]))
        margins = sorted(line[2] for line in lines)
        others = sorted(line[3] for line in lines)
        print(f"\n{named(model)}: where the texts part, and by which margins of the two logits")
        table(["prompt", "token", "here", "llama.cpp"],
              [[json.dumps(t), at, f"{a:.3f}", f"{b:.3f}"] for t, at, a, b in lines])
        rows.append([named(model), f"{equal} of {len(prompts)}",
                     f"{statistics.median(line[1] for line in lines):.0f}" if lines else "-",
                     f"{margins[-1]:.3f}" if lines else "-", f"{others[-1]:.3f}" if lines else "-",
                     f"{own} of {len(prompts)}", f"{theirs_leave} of {len(prompts)}"])
    table([f"greedy text of {n_new} tokens", "the same as llama.cpp's", "median place of parting", "largest margin here",
           "largest margin there", "ours leaves that of its float32 weights", "llama.cpp's leaves it"], rows)


# quality: perplexity and divergence in windows of 512 tokens, the second half of each scored, as llama-perplexity does

def windows(model):
    """Token ids of the first WINDOWS windows, as llama-perplexity cuts them."""
    with open(text_file(), encoding="utf-8") as file:
        text = file.read()
    n = int(os.environ.get("WINDOWS", "6"))
    ids = our_ids(model, [text[:n * 4000]], special=True)[0]
    first = our_ids(model, [""], special=True)[0]
    cut = [ids[i * 512:(i + 1) * 512] for i in range(n)]
    return [first + w[1:] if first else w for w in cut if len(w) == 512]


def text_file():
    """The first 40,000 characters of TEXT, cut where a paragraph ends, in a file of their own."""
    source = os.environ.get("TEXT") or os.path.join(ROOT, "../shared/data/text/war-and-peace.txt")
    if not os.path.exists(source):
        sys.exit("scripts/real-models quality: set TEXT to a text of 40,000 characters or more")
    path = os.path.join(tempfile.gettempdir(), f"real-models.{os.getuid()}.txt")
    with open(source, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
        out.write(file.read()[20000:60000])
    return path


def log_probabilities(model, ids, folder, *options):
    import numpy
    rows = our_logits(model, ids, folder, *options)[256:511]
    rows -= rows.max(axis=1, keepdims=True)
    rows -= numpy.log(numpy.exp(rows).sum(axis=1, dtype=numpy.float64)).astype(numpy.float32)[:, None]
    return rows


def our_quality(reference, files, cut, folder):
    """{file: [perplexity, mean divergence, its 99th percentile, share of the same top token]}"""
    import numpy
    losses, divergences, same = ({f: [] for f in files} for _ in range(3))
    for ids in cut:
        exact = log_probabilities(reference, ids, folder, "--kv-type", "f32")
        weight, top = numpy.exp(exact), exact.argmax(axis=1)
        for name in files:
            rows = exact if name == reference else log_probabilities(name, ids, folder)
            losses[name] += [-float(rows[i, ids[257 + i]]) for i in range(255)]
            same[name] += list(rows.argmax(axis=1) == top)
            rows = exact - rows if rows is not exact else numpy.zeros_like(exact)
            rows *= weight
            divergences[name] += list(rows.sum(axis=1, dtype=numpy.float64))
    return {f: [float(numpy.exp(numpy.mean(losses[f]))), float(numpy.mean(divergences[f])),
                float(numpy.quantile(divergences[f], 0.99)), float(numpy.mean(same[f]))] for f in files}


def peer_quality(folder, reference, files, text, n, work):
    """The same by a peer's llama-perplexity."""
    tool, base = f"{folder}/llama-perplexity", os.path.join(work, "base")
    options = ["-f", text, "-c", "512", "--chunks", str(n), "-t", THREADS]
    subprocess.run([tool, "-m", reference, *options, "--kl-divergence-base", base], check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)
    found = {}
    for name in files:
        done = subprocess.run([tool, "-m", name, *options, "--kl-divergence-base", base, "--kl-divergence"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        said_all = done.stdout + done.stderr

        def figure(pattern):
            match = re.search(pattern + r"\s*:?\s*(-?[\d.]+|nan)", said_all)
            return float(match[1]) if match else float("nan")
        found[name] = [figure(r"Mean PPL\(Q\)"), figure(r"Mean\s+KLD"), figure(r"99\.0%\s+KLD"),
                       figure(r"Same top p") / 100]
    os.unlink(base)
    return found


THEIR_TYPES = {"q8": "Q8_0", "q6": "Q6_K", "q5": "Q5_K_M", "q4m": "Q4_K_M", "q4": "Q4_0", "q3": "Q3_K_M", "q2": "Q2_K"}


def command_quality(models):
    for model in models:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as work:
            quality_of(model, work)


def quality_of(model, work):
    cut, text = windows(model), text_file()
    print(f"\n## {named(model)}\n\n{len(cut)} windows of 512 tokens, the second half of each scored", flush=True)
    source = os.path.join(work, "f32.gguf")
    try:
        subprocess.run([f"{LLAMA}/llama-quantize", "--allow-requantize", model, source, "F32"], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        left_out("a GGUF file of the float32 weights, and the peers", said(error))
        source = None
    reference = os.path.join(work, "f32.bin")
    subprocess.run([EXPORT, source or model, reference, "-q", "-t", "f32"], check=True)
    files = {"as stored": os.path.join(work, "stored.bin")}
    subprocess.run([EXPORT, model, files["as stored"], "-q"], check=True)
    # --target-size takes some hundred passes: only where a pass is short, or by request.
    short = os.path.getsize(model) < 500e6
    wanted = os.environ.get("TYPES", " ".join(THEIR_TYPES) + (" 4.5b" if short else "")).split()
    for name in wanted:
        path = os.path.join(work, f"{name}.bin")
        how = ["-t", name]
        if name[0].isdigit():
            calibration = os.path.join(work, "calibration.txt")
            with open(text, encoding="utf-8") as file, open(calibration, "w", encoding="utf-8") as out:
                out.write(file.read()[-6000:])
            how = ["--target-size", name, "--calibrate", calibration]
        try:
            subprocess.run([EXPORT, reference, path, "-q", *how], check=True, capture_output=True)
            files[name] = path
        except subprocess.CalledProcessError as error:
            left_out(name, said(error))
    ours = our_quality(reference, [reference, *files.values()], cut, work)
    theirs, stored = {}, {}
    for peer, folder in (("llama.cpp", LLAMA), ("ik_llama.cpp", IK)):
        if not folder or not source:
            continue
        stored[peer] = {"as stored": model}
        for name in wanted:
            path = os.path.join(work, f"{peer}.{name}.gguf")
            if name not in THEIR_TYPES:
                continue
            try:
                subprocess.run([f"{folder}/llama-quantize", source, path, THEIR_TYPES[name], THREADS], check=True,
                               stdin=subprocess.DEVNULL, capture_output=True)
                stored[peer][name] = path
            except (OSError, subprocess.CalledProcessError) as error:
                left_out(f"{peer} {THEIR_TYPES[name]}", said(error))
        try:
            theirs[peer] = peer_quality(folder, source, stored[peer].values(), text, len(cut), work)
        except (OSError, subprocess.CalledProcessError) as error:
            left_out(peer, said(error))

    def line(name, kind, path, figures):
        size = f"{os.path.getsize(path) / 1e6:.1f}"
        perplexity, mean, high, top = figures
        return [name, kind, size, f"{perplexity:.3f}", f"{mean:.5f}", f"{high:.4f}", f"{100 * top:.1f}%"]

    rows = [line("verbatim", "f32", reference, ours[reference])]
    for name in ["as stored", *wanted]:
        if name in files:
            rows.append(line("verbatim", name, files[name], ours[files[name]]))
        for peer in theirs:
            if name in stored[peer]:
                kind = THEIR_TYPES.get(name, name)
                rows.append(line(peer, kind, stored[peer][name], theirs[peer][stored[peer][name]]))
    table(["program", "type", "MB", "perplexity", "mean divergence", "99%", "same top token"], rows)


# speed

def command_speed(models):
    print("```\n" + output(["lscpu"]).strip() + "\n```")
    for model in models:
        print(f"\n## {named(model)}", flush=True)
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
            target, seconds = os.path.join(folder, "model.bin"), []
            for _ in range(int(os.environ.get("ROUNDS", "3"))):
                start = time.monotonic()
                subprocess.run([EXPORT, "--force", model, target, "-q"], check=True)
                seconds.append(time.monotonic() - start)
            print(f"conversion {statistics.median(seconds):.2f} s; on disk {os.path.getsize(model) / 1e6:.1f} MB as GGUF, "
                  f"{os.path.getsize(target) / 1e6:.1f} MB converted", flush=True)
        if LLAMA or IK:
            print("tokens a second, first token as 1/s: the medians of the rounds; the ratio is to the better of the peers")
        rounds = int(os.environ.get("ROUNDS", "3"))
        wanted = os.environ.get("ONLY", "decode,prefill512,batch32,first,prefill4096").split(",")
        # A prompt of 4,096 of the largest takes the peers minutes (llama-bench reads it twice): one round.
        large = os.path.getsize(model) > 500e6
        parts_of = [([w for w in wanted if w != "prefill4096"], min(rounds, 2) if large else rounds),
                    ([w for w in wanted if w == "prefill4096"], 1 if large else rounds)]
        for names, n in parts_of:
            if names:
                compare(model, names, n)


def compare(model, names, rounds):
    command = [sys.executable, os.path.join(ROOT, "scripts/compare"), model, "--pairs", str(rounds),
               "--threads", THREADS, "--only", ",".join(names)]
    command += ["--llama", LLAMA] if LLAMA else []
    command += ["--ik", IK] if IK else []
    if subprocess.run(command, check=False).returncode:
        left_out(named(model), f"scripts/compare failed at one of {', '.join(names)}")


# stories: llama2.c's own shapes

SHAPES = {"stories15M": (288, 768, 6, 6, 6, 32000, 256), "stories110M": (768, 2048, 12, 12, 12, 32000, 1024)}


def write_checkpoint(path, shape):
    """A llama2.c checkpoint (version 0) of random weights."""
    import numpy
    dim, hidden, layers, heads, kv_heads, vocabulary, length = shape
    random_numbers = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        numpy.array([dim, hidden, layers, heads, kv_heads, vocabulary, length], dtype=numpy.int32).tofile(file)

        def write(*size, scale=None):
            values = random_numbers.standard_normal(size, dtype=numpy.float32) if scale is None else None
            (values * size[-1] ** -0.5 if scale is None else numpy.full(size, scale, numpy.float32)).tofile(file)
        write(vocabulary, dim)
        write(layers, dim, scale=1)
        for size in ((dim, dim), (dim, dim), (dim, dim), (dim, dim)):
            write(layers, *size)
        write(layers, dim, scale=1)
        for size in ((hidden, dim), (dim, hidden), (hidden, dim)):
            write(layers, *size)
        write(dim, scale=1)
        write(2, length, dim // heads // 2, scale=0)


def write_quantized(source, path, shape):
    """The same as runq takes it (version 2): 8-bit codes with a float32 scale for each 64 or 32 weights."""
    import numpy
    dim, hidden, layers, heads, kv_heads, vocabulary, length = shape
    group = 64
    while dim % group or hidden % group:
        group //= 2
    data = numpy.fromfile(source, dtype=numpy.float32, offset=28)
    sizes = [vocabulary * dim, layers * dim] + [layers * dim * dim] * 4 + [layers * dim] + [layers * dim * hidden] * 3
    sizes.append(dim)
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at:at + size])
        at += size
    embedding, attention_norm, wq, wk, wv, wo, ffn_norm, w1, w2, w3, last_norm = pieces
    with open(path, "wb") as file:
        file.write(b"24ka")
        numpy.array([2, dim, hidden, layers, heads, kv_heads, vocabulary, length], dtype=numpy.int32).tofile(file)
        file.write(b"\x01")
        numpy.array([group], dtype=numpy.int32).tofile(file)
        file.write(b"\0" * (256 - file.tell()))
        for norm in (attention_norm, ffn_norm, last_norm):
            norm.tofile(file)
        for tensor, n in ((embedding, 1), (wq, layers), (wk, layers), (wv, layers), (wo, layers), (w1, layers),
                          (w2, layers), (w3, layers)):
            for matrix in tensor.reshape(n, -1):
                groups = matrix.reshape(-1, group)
                scales = abs(groups).max(axis=1) / 127
                numpy.round(groups / scales[:, None]).astype(numpy.int8).tofile(file)
                scales.astype(numpy.float32).tofile(file)


def command_stories(programs):
    if len(programs) != 3:
        sys.exit("usage: scripts/real-models stories RUN RUNQ TOKENIZER.bin")
    run, runq, vocabulary = programs
    tokens, rows = 200, []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            plain, quantized = (os.path.join(folder, f"{name}.{kind}") for kind in ("bin", "q.bin"))
            write_checkpoint(plain, shape)
            write_quantized(plain, quantized, shape)
            files = {}
            for kind in ("f32", "q8"):
                files[kind] = os.path.join(folder, f"{name}.{kind}.bin")
                subprocess.run([EXPORT, plain, files[kind], "-q", "-z", vocabulary, "-t", kind], check=True)
            environment = {**os.environ, "OMP_NUM_THREADS": THREADS}

            def theirs(program, model):
                said_all = subprocess.run([program, model, "-z", vocabulary, "-n", str(tokens), "-t", "0"], check=True,
                                          capture_output=True, env=environment).stderr.decode(errors="replace")
                return float(re.search(r"tok/s: ([\d.]+)", said_all)[1])

            def ours(kind):
                said_all = subprocess.run([RUN, files[kind], "-n", str(tokens), "-t", "0", "-j", THREADS, "--draft", "none",
                                           "--ignore-eos", "--stats"], check=True, capture_output=True).stderr.decode()
                return float(re.search(r"^decode: .*? ([\d.]+) tokens/s", said_all, re.M)[1])
            measured = [[theirs(run, plain), ours("f32"), theirs(runq, quantized), ours("q8")]
                        for _ in range(int(os.environ.get("ROUNDS", "3")))]
            rows.append([name] + [f"{statistics.median(column):.0f}" for column in zip(*measured)])
    table(["tokens/s", "llama2.c run", "verbatim f32", "llama2.c runq", "verbatim q8"], rows)


if __name__ == "__main__":
    command = sys.argv[1]
    {"ids": command_ids, "text": command_text, "quality": command_quality, "speed": command_speed,
     "stories": command_stories}[command](sys.argv[2:])
