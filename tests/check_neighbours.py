#!/usr/bin/env python3
"""Compares our logits with transformers' on sources as its neighbours write them by default.

    make all build/tests/print_logits
    tests/check_neighbours.py [MODEL_TYPE ...]

For each small random model with tied embeddings:

    save_model   safetensors.torch.save_model, which keeps one name of what is tied
    again        save_pretrained in shards, then other weights with save_pretrained in one file, so that
                 the old index and the old shards stay beside it (they are copied back where it deletes them)
    peft         a LoRA on the embedding and the output head, saved by peft as it does by default, so that
                 the base's own matrices are in the adapter

and a line is printed, with the largest difference in standard deviations of the logits. Exit status 1
when one is above LIMIT or our program refuses a source. Needs torch, transformers, safetensors and peft."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import numpy as np
import peft
import safetensors.torch
import torch
import transformers

transformers.logging.set_verbosity_error()
BUILD = pathlib.Path(__file__).parents[1] / os.environ.get("VERBATIM_BUILD", "build")
LIMIT = 5e-5
IDS = [3, 17, 5, 40, 2, 33, 21, 9]
SIZES = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)
# By model type: changes of SIZES, and the embedding's and the head's name.
MODELS = {
    "llama": (dict(num_key_value_heads=2), "embed_tokens"),
    "qwen2": (dict(num_key_value_heads=2), "embed_tokens"),
    "gemma2": (dict(num_key_value_heads=2, head_dim=16, sliding_window=16), "embed_tokens"),
    "gpt2": (dict(n_positions=64), "wte"),
    "opt": (dict(ffn_dim=96, word_embed_proj_dim=64), "embed_tokens"),
    "bloom": (dict(n_head=4, n_layer=2), "word_embeddings"),
}


def make(model_type, seed):
    torch.manual_seed(seed)
    changes, _ = MODELS[model_type]
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **changes, "tie_word_embeddings": True})
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.15 if p.dim() > 1 else 0.5)
    return model


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0].numpy()


def ours(source, adapter=None):
    lora = ["--lora", f"a={adapter}"] if adapter else []
    run = subprocess.run([BUILD / "tests" / "print_logits", *lora, source, "0", "0", *map(str, IDS)],
                         capture_output=True)
    if run.returncode:
        return run.stderr.decode().strip()
    return np.frombuffer(run.stdout, np.float32).reshape(len(IDS), -1)


def report(what, expected, got):
    if isinstance(got, str):
        print(f"{what:24} refused: {got}")
        return False
    worst = float(np.abs(expected - got[:, :expected.shape[1]]).max() / expected.std())
    print(f"{what:24} {worst:.1e}")
    return worst <= LIMIT


def check_save_model(model_type, top):
    model = make(model_type, 1)
    model.config.save_pretrained(top)
    safetensors.torch.save_model(model, top + "/model.safetensors")
    kept = sorted(safetensors.torch.load_file(top + "/model.safetensors"))[0]
    return report(f"{model_type} save_model ({kept.split('.')[-2]})", logits(model), ours(top))


def check_again(model_type, top):
    make(model_type, 2).save_pretrained(top, max_shard_size="40KB")
    old = [p for p in pathlib.Path(top).iterdir() if "safetensors" in p.name]
    assert len(old) > 2, old
    for p in old:
        shutil.copy(p, f"{top}/kept-{p.name}")
    model = make(model_type, 3)
    model.save_pretrained(top)
    good = True
    for what in "index", "index and shards":
        for p in old:
            kept = pathlib.Path(f"{top}/kept-{p.name}")
            if not p.exists() and (what != "index" or p.suffix == ".json"):
                shutil.copy(kept, p)
        loaded = logits(transformers.AutoModelForCausalLM.from_pretrained(top).float().eval())
        assert np.array_equal(loaded, logits(model)), "transformers reads something else"
        good &= report(f"{model_type} {what}", loaded, ours(top))
    return good


def check_peft(model_type, top):
    base, adapter = top + "/base", top + "/adapter"
    model = make(model_type, 4)
    model.save_pretrained(base)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(
        r=3, lora_alpha=6, target_modules=[MODELS[model_type][1], "lm_head"], init_lora_weights=False))
    wrapped.eval().save_pretrained(adapter)
    held = safetensors.torch.load_file(adapter + "/adapter_model.safetensors")
    n = sum("base_layer" in name for name in held)
    good = report(f"{model_type} peft ({n} of the base)", logits(wrapped), ours(base, adapter))
    for name in held:
        if "base_layer" in name:
            held[name] = held[name].clone()
            held[name][0, 0] += 1
            safetensors.torch.save_file(held, adapter + "/adapter_model.safetensors")
            said = ours(base, adapter)
            refused = isinstance(said, str) and "is not that of this model" in said
            print(f"{model_type + ' changed':24} {said if isinstance(said, str) else 'is taken'}"[:150])
            return good and refused
    return good


good = True
for model_type in sys.argv[1:] or MODELS:
    for check in check_save_model, check_again, check_peft:
        with tempfile.TemporaryDirectory() as top:
            good &= check(model_type, top)
sys.exit(0 if good else 1)
