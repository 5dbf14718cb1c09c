"""Writes the Hugging Face directory of to_hf.py as a GGUF file, with the gguf package.

    python to_gguf.py HFDIR stories.gguf

Float32 weights, as they are. llama.cpp reads it, and so does verbatim: an example of how a GGUF
file is made, and of what its reader has to undo (the order of the rows of q and k).
"""

import json
import pathlib
import sys

import gguf
from safetensors.numpy import load_file

hf, out = pathlib.Path(sys.argv[1]), sys.argv[2]
config = json.loads((hf / "config.json").read_text())
tokenizer = json.loads((hf / "tokenizer.json").read_text())
weights = load_file(hf / "model.safetensors")
heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]

w = gguf.GGUFWriter(out, "llama")
w.add_name("stories")
w.add_block_count(config["num_hidden_layers"])
w.add_context_length(config["max_position_embeddings"])
w.add_embedding_length(config["hidden_size"])
w.add_feed_forward_length(config["intermediate_size"])
w.add_head_count(heads)
w.add_head_count_kv(kv_heads)
w.add_layer_norm_rms_eps(config["rms_norm_eps"])
w.add_rope_dimension_count(config["head_dim"])
w.add_rope_freq_base(config["rope_theta"])
w.add_vocab_size(config["vocab_size"])

ids = {i: t for t, i in tokenizer["model"]["vocab"].items()}
special = {t["id"]: t["content"] for t in tokenizer["added_tokens"]}
ids.update(special)
w.add_tokenizer_model("gpt2")
w.add_tokenizer_pre("qwen2")
w.add_token_list([ids[i] for i in range(config["vocab_size"])])
kinds = gguf.TokenType
w.add_token_types(
    [kinds.CONTROL if i in special else kinds.NORMAL for i in range(config["vocab_size"])]
)
merges = tokenizer["model"]["merges"]
w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
w.add_bos_token_id(0)
w.add_eos_token_id(2)  # ends an answer; <|endoftext|> ends a story and begins one
w.add_eot_token_id(0)
w.add_add_bos_token(True)
w.add_chat_template((hf / "chat_template.jinja").read_text())


def meta_order(t, n):
    """llama.cpp's order of the rows of q and k: those of a rotated pair side by side."""
    rows, cols = t.shape
    return t.reshape(n, 2, rows // n // 2, cols).swapaxes(1, 2).reshape(rows, cols).copy()


NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
w.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
w.add_tensor("output_norm.weight", weights["model.norm.weight"])
for i in range(config["num_hidden_layers"]):
    for theirs, ours in NAMES.items():
        t = weights[f"model.layers.{i}.{theirs}.weight"]
        if ours == "attn_q":
            t = meta_order(t, heads)
        elif ours == "attn_k":
            t = meta_order(t, kv_heads)
        w.add_tensor(f"blk.{i}.{ours}.weight", t)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
