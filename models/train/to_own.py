"""Writes a checkpoint of the decoder in paper.py as a directory that export reads (docs/your-own-model.md).

    python to_own.py last.pt DATA OUTDIR

DATA holds the tokenizer files of make_tokenizer.py.
"""

import json
import pathlib
import shutil
import sys

from safetensors.torch import save_file

from to_hf import load


def main():
    checkpoint, data, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    model, state = load(checkpoint)
    shape = model.shape
    tensors = {"token_embedding": "embed", "wo": "blocks.*.wo", "w_up": "blocks.*.w1"}
    tensors.update({"w_down": "blocks.*.w2", "attention_norm": "blocks.*.norm1"})
    tensors.update({f"w{x}": f"blocks.*.w{x}" for x in "qkv"}, ffn_norm="blocks.*.norm2")
    if shape.positions == "learned":
        tensors["position_embedding"] = "position_embed"
    config = {
        "model_type": "own_transformer",
        "tensors": tensors,
        "num_attention_heads": shape.heads,
        "max_position_embeddings": shape.context,
        "positions": shape.positions,
        "embedding_scale": "sqrt",
        "norm_eps": shape.eps,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, out / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(data / name, out / name)
    print(f"{sum(t.numel() for t in model.parameters())} parameters, {state['seen']} tokens")


if __name__ == "__main__":
    main()
