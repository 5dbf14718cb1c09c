#!/usr/bin/env python3
"""Compares the model "verbatim" with the harness' own `hf` backend in float32: tiny random models
of three families, four tasks of our own making, the same answer to every item.

    python integrations/lm_eval/tests/test_lm_eval.py [--run build/run]

Skips itself where lm_eval, torch, transformers or tokenizers are missing. Needs no network."""

import argparse
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
RUN = os.path.join(ROOT, "build", "run")
NEEDED = ("lm_eval", "torch", "transformers", "tokenizers", "datasets")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, os.path.dirname(HERE))

WORDS = (
    "the a one red green old small river house door friend bird stone garden walks sings sees opens "
    "likes finds and but then slowly again today under over near with Tom Lily Ben Sara"
).split()
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' "
    "}}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
FAMILIES = ("llama", "qwen3", "gpt_neox")


def sentence(draw, least, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))


# ---- Models ----


def make_tokenizer(directory):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    draw = random.Random(1)
    special = ["<|text|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([sentence(draw, 5, 20) for _ in range(500)], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|text|>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=special[2:],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)
    return len(fast)


def make_model(family, directory):
    import torch
    import transformers

    vocab = make_tokenizer(directory)
    common = dict(
        vocab_size=vocab,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.25,
        tie_word_embeddings=False,
    )
    if family != "gpt_neox":
        common.update(num_key_value_heads=2, head_dim=16)
    config = transformers.AutoConfig.for_model(family, **common)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(directory)


# ---- Tasks ----

TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: {kind}
{rest}
metadata:
  version: 1
"""
TASKS = {
    "own_choices": (
        "multiple_choice",
        """doc_to_text: "{{context}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
  - metric: acc
  - metric: acc_norm
""",
    ),
    "own_rolling": (
        "loglikelihood_rolling",
        """doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
""",
    ),
    "own_generation": (
        "generate_until",
        """doc_to_text: "{{context}}"
doc_to_target: "{{word}}"
generation_kwargs:
  until: [" the", "."]
  max_gen_toks: 24
  do_sample: false
  temperature: 0.0
filter_list:
  - name: first-word
    filter:
      - function: regex
        regex_pattern: "([A-Za-z]+)"
      - function: take_first
metric_list:
  - metric: exact_match
""",
    ),
    "own_chat": (
        "multiple_choice",
        """doc_to_text: "{{context}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
description: "Finish the sentence."
num_fewshot: 2
fewshot_split: test
fewshot_config:
  sampler: first_n
metric_list:
  - metric: acc
  - metric: acc_norm
""",
    ),
}


def make_tasks(directory):
    draw = random.Random(2)
    choices = [
        {
            "context": sentence(draw, 8, 30),
            "choices": [" " + sentence(draw, 1, 4) for _ in range(4)],
            "answer": draw.randrange(4),
        }
        for _ in range(30)
    ]
    # Longer than the context as well, with punctuation, spaces and letters from elsewhere.
    texts = [
        {"text": sentence(draw, 4, 12) + ". Straße, 日本!  " + sentence(draw, 2, 120 * (i % 3) + 4)}
        for i in range(9)
    ]
    generation = [{"context": sentence(draw, 4, 9), "word": draw.choice(WORDS)} for _ in range(8)]
    rows = {
        "own_choices": choices,
        "own_rolling": texts,
        "own_generation": generation,
        "own_chat": choices[:10],
    }
    for name, (kind, rest) in TASKS.items():
        data = os.path.join(directory, name + ".jsonl")
        with open(data, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows[name])
        with open(os.path.join(directory, name + ".yaml"), "w", encoding="utf-8") as out:
            out.write(TASK.format(name=name, data=data, kind=kind, rest=rest))


# ---- Comparing ----


def evaluate(model, tasks, names, chat=False):
    import lm_eval
    from lm_eval.tasks import TaskManager

    return lm_eval.simple_evaluate(
        model=model,
        tasks=list(names),
        task_manager=TaskManager(include_path=tasks, include_defaults=False),
        apply_chat_template=chat,
        fewshot_as_multiturn=chat,
        bootstrap_iters=0,
        log_samples=True,
        verbosity="ERROR",
    )


def answers(result):
    """What the model answered to each item, and the scores."""
    items = {
        name: [(s["doc_id"], s["filtered_resps"]) for s in sorted(samples, key=lambda s: s["doc_id"])]
        for name, samples in result["samples"].items()
    }
    scores = {
        name: {k: v for k, v in values.items() if isinstance(v, float)}
        for name, values in result["results"].items()
    }
    return items, scores


def verbatim(directory, **options):
    from verbatim_lm_eval.model import VerbatimLM

    return VerbatimLM(model=directory, run=RUN, cache_dir=directory + "/cache", **options)


class Comparison(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise unittest.SkipTest("without " + ", ".join(missing))
        if not os.path.exists(RUN):
            raise unittest.SkipTest(f"without {RUN}: make first")
        cls.scratch = tempfile.TemporaryDirectory()
        cls.tasks = os.path.join(cls.scratch.name, "tasks")
        os.mkdir(cls.tasks)
        make_tasks(cls.tasks)
        cls.models = {}
        for family in FAMILIES:
            directory = os.path.join(cls.scratch.name, family)
            os.mkdir(directory)
            make_model(family, directory)
            cls.models[family] = directory

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def same(self, name, ours, theirs):
        """Texts and choices are equal, log-likelihoods within what float32 leaves open."""
        self.assertEqual(len(ours), len(theirs))
        for (doc, a), (other, b) in zip(ours, theirs, strict=True):
            self.assertEqual(doc, other)
            if name == "own_generation":
                self.assertEqual(a, b, f"{name}, item {doc}")
            elif name == "own_rolling":
                self.assertAlmostEqual(a[0], b[0], delta=2e-5 * abs(b[0]))
            else:
                likelihoods, others = [x[0] for x in a], [x[0] for x in b]
                best = max(range(len(a)), key=likelihoods.__getitem__)
                self.assertEqual(best, max(range(len(b)), key=others.__getitem__))
                for x, y in zip(a, b, strict=True):
                    self.assertAlmostEqual(x[0], y[0], delta=2e-5 * abs(y[0]))
                    self.assertEqual(x[1], y[1], f"{name}, item {doc}: greedy")

    def compare(self, family):
        import torch
        from lm_eval.models.huggingface import HFLM

        directory = self.models[family]
        lm = verbatim(directory)
        hf = HFLM(pretrained=directory, dtype="float32", device="cpu", batch_size=4)
        torch.set_num_threads(1)
        for chat, names in ((False, list(TASKS)[:3]), (True, ["own_chat"])):
            ours = answers(evaluate(lm, self.tasks, names, chat))
            theirs = answers(evaluate(hf, self.tasks, names, chat))
            for name in names:
                self.same(name, ours[0][name], theirs[0][name])
                self.assertEqual(sorted(ours[1][name]), sorted(theirs[1][name]))
                for metric, score in theirs[1][name].items():
                    self.assertAlmostEqual(
                        ours[1][name][metric], score, delta=2e-5 * abs(score), msg=metric
                    )
        lm._process.close()

    def test_llama(self):
        self.compare("llama")

    def test_qwen3(self):
        self.compare("qwen3")

    def test_gpt_neox(self):
        self.compare("gpt_neox")

    def test_one_hash_of_all_results(self):
        hashes = set()
        for threads, batch_size, isa in ((1, 1, None), (2, 7, None), (1, 64, "reference")):
            lm = verbatim(self.models["llama"], threads=threads, batch_size=batch_size, isa=isa)
            found = [
                answers(evaluate(lm, self.tasks, list(TASKS)[:3])),
                answers(evaluate(lm, self.tasks, ["own_chat"], True)),
            ]
            lm._process.close()
            hashes.add(hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest())
        self.assertEqual(len(hashes), 1)

    def test_arguments_of_the_hf_backend_on_the_command_line(self):
        scores = []
        for arguments in (
            f"pretrained={self.models['llama']},dtype=float32,batch_size=4",
            f"model={self.models['llama']},type=f32",
            f"pretrained={self.models['llama']},dtype=float8",
            f"pretrained={self.models['llama']},pretraned=x",
        ):
            words = ["--model", "verbatim", "--model_args", f"{arguments},run={RUN}"]
            words += ["--tasks", "own_choices", "--include_path", self.tasks, "--output_path", self.scratch.name]
            done = subprocess.run(
                [sys.executable, "-m", "verbatim_lm_eval", *words],
                cwd=os.path.dirname(HERE),
                capture_output=True,
                text=True,
            )
            lines = [line for line in done.stdout.splitlines() if "|acc" in line.replace(" ", "")]
            scores.append((done.returncode, lines))
            said = done.stderr
        self.assertEqual(scores[0], scores[1])
        self.assertEqual((scores[0][0], len(scores[0][1])), (0, 2), said)
        self.assertNotEqual(scores[2][0], 0)
        self.assertIn("verbatim has no pretraned", said)

    def test_a_choice_without_tokens_is_refused(self):
        from lm_eval.api.instance import Instance

        lm = verbatim(self.models["llama"])
        request = Instance("loglikelihood", {}, ("Tom sees", ""), 0)
        with self.assertRaisesRegex(ValueError, "the choice '' behind 'Tom sees': it has no token"):
            lm.loglikelihood([request], disable_tqdm=True)
        lm._process.close()

    def test_a_message_is_continued_as_transformers_continues_it(self):
        from transformers import AutoTokenizer

        theirs = AutoTokenizer.from_pretrained(self.models["llama"])
        trimmed = CHAT_TEMPLATE.replace("message['content']", "message['content'] | trim")
        for template in (CHAT_TEMPLATE, trimmed):
            path = os.path.join(self.scratch.name, "continued.jinja")
            with open(path, "w", encoding="utf-8") as out:
                out.write(template)
            lm = verbatim(self.models["llama"], chat_template=path)
            theirs.chat_template = template
            for prefix in ("Here:\n```python\n", "", "\n", " ", "<|end|>", "Tom", "Tom \n"):
                chat = [
                    {"role": "user", "content": "Tom?"},
                    {"role": "assistant", "content": prefix},
                ]
                wanted = theirs.apply_chat_template(
                    chat, tokenize=False, add_generation_prompt=False, continue_final_message=True
                )
                self.assertEqual(lm.apply_chat_template(chat, add_generation_prompt=False), wanted)
            lm._process.close()

    def test_errors_are_said(self):
        from lm_eval.api.registry import get_model

        import verbatim_lm_eval.hook

        verbatim_lm_eval.hook.register()
        self.assertEqual(get_model("verbatim").__name__, "VerbatimLM")
        with self.assertRaises(FileNotFoundError):
            get_model("verbatim")(model="m", run="/no/such/program")
        lm = verbatim(self.models["llama"])
        with self.assertRaisesRegex(RuntimeError, "not a token id"):
            lm._ask([{"prompt": [100000]}])
        self.assertEqual(lm.tok_encode("Tom"), lm.tok_encode("Tom"))
        lm._process.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--run", default=RUN)
    known, others = parser.parse_known_args()
    RUN = os.path.abspath(known.run)
    unittest.main(argv=[sys.argv[0], *others])
