"""Writes a checkpoint of train.py as a Hugging Face directory, and checks it with transformers.

    python to_hf.py last.pt DATA OUTDIR

DATA holds the tokenizer files of make_tokenizer.py. The logits of transformers'
LlamaForCausalLM on a held-out row must equal those of model.py.
"""

import argparse
import json
import pathlib
import shutil

import numpy
import torch
from safetensors.torch import save_file

from model import Shape, build


def load(path):
    state = torch.load(path, weights_only=False, map_location="cpu")
    model = build(Shape(**state["shape"]))
    model.load_state_dict(state["model"])
    return model.eval(), state


def config_of(s):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": s.vocab,
        "hidden_size": s.dim,
        "intermediate_size": s.hidden,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": s.eps,
        "rope_theta": s.theta,
        "rope_scaling": None,
        "max_position_embeddings": s.context,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "use_cache": True,
    }
    if s.positions != "rope":
        config["model_type"] = "llama_" + s.positions  # a type that only verbatim knows
    return config


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("checkpoint"), p.add_argument("data"), p.add_argument("out")
    args = p.parse_args()
    data, out = pathlib.Path(args.data), pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    model, state = load(args.checkpoint)
    shape = model.shape
    save_file(model.hf_state(), str(out / "model.safetensors"), metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config_of(shape), indent=2) + "\n")
    (out / "generation_config.json").write_text(
        json.dumps(
            {
                "bos_token_id": 0,
                "eos_token_id": [0, 2],
                "pad_token_id": 0,
                "do_sample": True,
                "temperature": 0.7,
                "top_p": 0.95,
            },
            indent=2,
        )
        + "\n"
    )
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(data / name, out / name)
    print(
        f"step {state['step']}, {state['seen']} tokens, "
        f"{sum(t.numel() for t in model.parameters())} parameters"
    )
    if shape.positions == "rope":
        from transformers import AutoModelForCausalLM

        theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
        ids = torch.from_numpy(numpy.load(data / "heldout.npy")[:300].astype(numpy.int64))[None]
        with torch.no_grad():
            gap = (theirs(ids).logits - model(ids)).abs().max().item()
        print(f"largest difference to transformers' logits: {gap:.2g}")
        assert gap < 1e-3


if __name__ == "__main__":
    main()
