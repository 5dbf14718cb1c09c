"""The model class. Tokens, truncation and windows are those of the harness' `hf` backend, so that
scores can be compared; tokenizer, chat template and numbers are verbatim's."""

import atexit

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from verbatim_lm_eval.process import Process

# Fields of requests that a task's generation_kwargs may have.
SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)
ARGUMENTS = "integrations/lm_eval/README.md lists what there is"
# The types of weights that `hf` calls by torch's names.
DTYPES = {
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
}
# Marks the end of a message that is to be continued; a template that trims messages takes the space.
END_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
# Of transformers, without effect here.
IGNORED = ("do_sample", "num_return_sequences", "use_cache", "pad_token_id")


def type_of(type, dtype):
    """The program's --type; None: the weights as they are stored, which "auto" means as well."""
    if dtype in (None, "auto"):
        return type
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"model_args: dtype={dtype} is none of {', '.join(['auto', *DTYPES])}")
    if type is not None:
        raise ValueError("model_args: give type or dtype, not both")
    return DTYPES[name]


@register_model("verbatim")
class VerbatimLM(TemplateLM):
    def __init__(
        self,
        model=None,
        run="verbatim",
        threads=None,
        batch_size=None,
        max_batch_size=None,
        device=None,
        max_length=None,
        max_gen_toks=256,
        type=None,
        kv_type=None,
        isa=None,
        kv_memory=None,
        tokenizer=None,
        chat_template=None,
        enable_thinking=None,
        add_bos_token=None,
        prefix_token_id=None,
        cache_dir=None,
        stats=False,
        pretrained=None,
        dtype=None,
        **unknown,
    ):
        """pretrained, dtype: model and type, by the names of the harness' `hf` backend. model: what `run` takes: a model.bin, a .gguf, a directory, a name.
        run: the program. batch_size: texts at a time (default: as many as fit; no result depends
        on it). max_length: as the model has it. The others are options of `run`."""
        super().__init__()
        if unknown:
            raise ValueError(f"model_args: verbatim has no {', '.join(sorted(unknown))}; {ARGUMENTS}")
        if (model is None) == (pretrained is None):
            raise ValueError("model_args: give the model once, as pretrained=DIR or model=FILE")
        model = model or pretrained
        type = type_of(type, dtype)
        # Those that say which weights are also for --info, the others for the batch alone.
        of_model = {"--type": type, "-z": tokenizer, "--cache-dir": cache_dir}
        given = {
            "-t": 0,
            "-j": threads,
            "-c": max_length,
            "--max-concurrent": None if batch_size in (None, "auto") else batch_size,
            "--kv-type": kv_type,
            "--isa": isa,
            "--kv-memory": kv_memory,
            "--chat-template": chat_template,
        }
        self._model, self._max_gen_toks = model, int(max_gen_toks)
        self._add_bos_token, self._thinking = add_bos_token, enable_thinking
        options = self._options(given) + (["--stats"] if stats else [])
        self._process = Process(run, model, self._options(of_model), options)
        atexit.register(self._process.close)
        self._info = self._process.info()
        self._max_length = int(max_length or self._info["config"]["context"])
        self._fingerprint = None
        self._encoded = {}
        self._eot, self._prefix = self._special_tokens(prefix_token_id)
        self._prefix_text = self._text_of(self._prefix)
        self._eot_text = self._text_of(self._eot)

    @classmethod
    def create_from_arg_string(cls, arg_string, additional_config=None):
        return cls.create_from_arg_obj(utils.simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(cls, arg_dict, additional_config=None):
        """Arguments of the model win over the harness' own, whose --batch_size is 1 when nobody gives
        it: as many texts as fit, here."""
        others = {k: v for k, v in (additional_config or {}).items() if v is not None}
        if others.get("batch_size") in (1, "1"):
            del others["batch_size"]
        return cls(**{**others, **arg_dict})

    @staticmethod
    def _options(given):
        words = []
        for name, value in given.items():
            if value is not None:
                words += [name, str(value)]
        return words

    # ---- Tokens ----

    def _ask(self, requests, what=None, disable_tqdm=False):
        bar = tqdm(total=len(requests), desc=what, disable=disable_tqdm or what is None)
        results = self._process.answer(requests, lambda: bar.update(1))
        bar.close()
        if results:
            self._fingerprint = results[0]["system_fingerprint"]
        return results

    @staticmethod
    def _encode_request(string, add_special_tokens):
        request = {
            "prompt": string,
            "max_tokens": 0,
            "return_token_ids": True,
            "parse_special": True,
        }
        if add_special_tokens is not None:
            request["add_special_tokens"] = add_special_tokens
        return request

    def _special_tokens(self, prefix_token_id):
        """The token that ends a text, and the one that a text without context begins with."""
        metadata, config = self._info["metadata"], self._info["config"]
        texts = [metadata.get("template.eos_token"), metadata.get("template.bos_token")]
        known = [i for i, text in enumerate(texts) if text]
        answers = self._ask([self._encode_request(texts[i], False) for i in known])
        ids = [None, None]
        for i, answer in zip(known, answers, strict=True):
            if len(answer["prompt_token_ids"]) == 1:
                ids[i] = answer["prompt_token_ids"][0]
        eot, bos = ids
        if eot is None:
            eot = next(iter(config.get("eos_id", [])), None)
        if bos is None and config.get("bos_id", -1) >= 0 and not texts[0]:
            bos = config["bos_id"]
        if prefix_token_id is not None:
            bos = int(prefix_token_id)
        if eot is None and bos is None:
            raise ValueError("no token of this model ends a text: give prefix_token_id=ID")
        return (bos if eot is None else eot), (eot if bos is None else bos)

    def _text_of(self, token):
        """A token's text, that of a special one included."""
        request = {"prompt": [token, token], "max_tokens": 0, "echo": True, "logprobs": 0}
        return self._ask([request])[0]["prompt_logprobs"][0]["token"]

    def _key(self, string, add_special_tokens=None):
        if add_special_tokens is None and string.startswith(self._prefix_text):
            add_special_tokens = False
        if add_special_tokens is None:
            add_special_tokens = self._add_bos_token
        return string, add_special_tokens

    def _encode_all(self, keys, what=None, disable_tqdm=True):
        """Encodes what is not yet known, in one go."""
        new = [key for key in dict.fromkeys(keys) if key[0] and key not in self._encoded]
        requests = [self._encode_request(*key) for key in new]
        for key, result in zip(new, self._ask(requests, what, disable_tqdm), strict=True):
            self._encoded[key] = result["prompt_token_ids"]

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        key = self._key(string, add_special_tokens)
        if not string:
            return []
        self._encode_all([key])
        return self._encoded[key]

    @property
    def eot_token_id(self):
        return self._eot

    @property
    def prefix_token_id(self):
        return self._prefix

    @property
    def max_length(self):
        return self._max_length

    @property
    def max_gen_toks(self):
        return self._max_gen_toks

    # ---- Scoring ----

    def loglikelihood(self, requests, disable_tqdm=False):
        keys = []
        for context, continuation in (request.args for request in requests):
            if context == "":
                keys.append(self._key(continuation, False))
                continue
            bare = context.rstrip()
            keys += [self._key(context + continuation)] + ([self._key(bare)] if bare else [])
        self._encode_all(keys, "Tokenizing", disable_tqdm)
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _score_request(self, context, continuation):
        """The tokens behind `context` are scored; what they share with others is computed once."""
        if not continuation:
            raise ValueError("it has no token of its own")
        if len(continuation) > self.max_length:
            raise ValueError(f"{len(continuation)} tokens are more than the context holds")
        tokens = (context + continuation)[-(self.max_length + 1) :]
        return {
            "prompt": tokens,
            "max_tokens": 0,
            "echo": True,
            "logprobs": 1,
            "logprob_start_len": len(tokens) - len(continuation),
        }

    def _scored(self, key, context, continuation):
        """The request of a choice. One without a token of its own is refused, as --eval-tasks and `hf`
        refuse it: nothing would score 0, better than any other choice."""
        try:
            return self._score_request(context, continuation)
        except ValueError as error:
            if key is None:
                raise
            raise ValueError(f"the choice {key[1]!r} behind {key[0][-80:]!r}: {error}") from None

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, **kwargs):
        results = self._ask(
            [self._scored(*request) for request in requests],
            "Running loglikelihood requests",
            disable_tqdm,
        )
        answers = []
        for (key, _, _), result in zip(requests, results, strict=True):
            scores = result["prompt_logprobs"]
            greedy = all(score["top_logprobs"][0]["id"] == score["id"] for score in scores)
            answers.append((sum(score["logprob"] for score in scores), greedy))
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answers[-1])
        return answers

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        strings = [request.args[0] for request in requests]
        self._encode_all([self._key(s) for s in strings], "Tokenizing", disable_tqdm)
        windows, counts = [], []
        for string in strings:
            own = [
                (None, *utils.make_disjoint_window(window))
                for window in utils.get_rolling_token_windows(
                    token_list=self.tok_encode(string),
                    prefix_token=self.prefix_token_id,
                    max_seq_len=self.max_length,
                    context_len=1,
                )
            ]
            windows += own
            counts.append(len(own))
        scores = iter(self._loglikelihood_tokens(windows, disable_tqdm=disable_tqdm))
        answers = []
        for string, count in zip(strings, counts, strict=True):
            answers.append(sum(next(scores)[0] for _ in range(count)))
            self.cache_hook.add_partial("loglikelihood_rolling", (string,), answers[-1])
        return answers

    # ---- Generating ----

    def _generate_request(self, context, kwargs):
        until = [stop for stop in kwargs.pop("until", []) if stop]
        most = int(kwargs.pop("max_gen_toks"))
        room = self.max_length - most
        if room <= 0:
            raise ValueError(
                f"{most} tokens to generate leave no room in a context of {self.max_length}"
            )
        tokens = self.tok_encode(context)[-room:] or [self.prefix_token_id]
        request = {"prompt": tokens, "max_tokens": most, "stop": until}
        for name, value in kwargs.items():
            if name in SAMPLING:
                request[name] = value
            elif name not in IGNORED:
                raise ValueError(f"generation_kwargs: '{name}' is not supported")
        return request

    def generate_until(self, requests, disable_tqdm=False):
        contexts = [request.args[0] for request in requests]
        self._encode_all([self._key(c) for c in contexts], "Tokenizing", disable_tqdm)
        asked, untils = [], []
        for context, gen_kwargs in (request.args for request in requests):
            kwargs = normalize_gen_kwargs(gen_kwargs, self.max_gen_toks)
            if isinstance(kwargs.get("until"), str):
                kwargs["until"] = [kwargs["until"]]
            kwargs["until"] = [*(kwargs.get("until") or []), self._eot_text]
            untils.append(kwargs["until"])
            asked.append(self._generate_request(context, kwargs))
        results = self._ask(asked, "Running generate_until requests", disable_tqdm)
        answers = []
        for request, until, result in zip(requests, untils, results, strict=True):
            text = postprocess_generated_text(result["text"], until, None)
            answers.append(text)
            self.cache_hook.add_partial("generate_until", request.args, text)
        return answers

    # ---- Chats ----

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        variables = {"add_generation_prompt": add_generation_prompt}
        if self._thinking is not None:
            variables["enable_thinking"] = self._thinking
        messages = list(chat_history)
        if not add_generation_prompt:
            last = messages[-1]["content"]
            messages[-1] = {**messages[-1], "content": last + END_TAG}
        request = {
            "messages": messages,
            "max_tokens": 0,
            "return_prompt": True,
            "chat_template_kwargs": variables,
        }
        text = self._ask([request])[0]["prompt"]
        if add_generation_prompt:
            return text
        # The last message is to be continued: what the template writes behind it goes, as
        # continue_final_message of transformers has it.
        end = text.rfind(END_TAG.strip())
        if end < 0 or last.strip() not in text:
            raise ValueError(f"the chat template does not write {last!r}, which is to be continued")
        kept = text[:end]
        return kept if text.startswith(END_TAG, end) else kept.rstrip()

    def chat_template(self, chat_template=False):
        return self._info.get("chat_template", "") if chat_template else ""

    @property
    def tokenizer_name(self):
        return self._fingerprint or self._model

    def get_model_info(self):
        """For the harness' results: what repeats them."""
        return {
            "model_num_parameters": self._info.get("parameters"),
            "verbatim_command": " ".join(self._process.command),
            "verbatim_fingerprint": self._fingerprint,
        }
