"""Reads a model.bin of this directory back as a checkpoint of train.py and its tokenizer.

    python from_bin.py ../stories.bin OUT

OUT/last.pt is for `train.py --from` and `--teacher`; OUT/tokenizer.json is for
`make_tokenizer.py --tokenizer`. Matrices of q8 and f32 are read: `export MODEL OTHER.bin --type f32`
writes any other type as f32. docs/format.md and docs/tokenizer-section.md describe what is read.
"""

import argparse
import dataclasses
import json
import pathlib
import struct

import numpy
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from make_tokenizer import SPECIAL, assemble
from model import Shape, build

METADATA, TENSORS, TOKENIZER = 1, 2, 3  # kinds of sections
VECTOR, F32, Q8 = 0, 1, 4  # types of tensors


def sections(data):
    (n,) = struct.unpack_from("<I", data, 12)
    table = [struct.unpack_from("<IIQQQ", data, 32 + 32 * i) for i in range(n)]
    return {kind: data[offset : offset + size] for kind, _, offset, size, _ in table}


def metadata(section):
    """The whole numbers, floats and texts by their keys."""
    at, out = 0, {}
    while at < len(section):
        k, kind, count = struct.unpack_from("<HHI", section, at)
        key = section[at + 8 : at + 8 + k].decode()
        at += (8 + k + 7) // 8 * 8
        if kind == 5:
            out[key] = section[at : at + count].decode()
        elif kind in (1, 3):
            out[key] = struct.unpack_from("<Q" if kind == 1 else "<d", section, at)[0]
        at += (count * (8 if kind < 4 else 1) + 7) // 8 * 8
    return out


def unpack_q8(raw, rows, cols):
    """The matrix [rows][cols] of panels: lines of 4 inputs of 16 rows, then scales of 32 inputs."""
    groups, panels = (cols + 31) // 32, (rows + 15) // 16
    panel = numpy.frombuffer(raw, numpy.uint8).reshape(panels, -1)
    lines = panel[:, : groups * 8 * 64].view(numpy.int8).reshape(panels, groups * 8, 16, 4)
    scales = panel[:, groups * 8 * 64 :].copy().view(numpy.float16)[:, : groups * 16]
    scales = scales.reshape(panels, groups, 16).transpose(0, 2, 1).astype(numpy.float32)
    values = lines.transpose(0, 2, 1, 3).reshape(panels, 16, groups, 32) * scales[..., None]
    return values.reshape(panels * 16, groups * 32)[:rows, :cols]


def unpack_f32(raw, rows, cols):
    """The matrix [rows][cols] of panels: lines of 1 input of 16 rows."""
    panels = numpy.frombuffer(raw, numpy.float32).reshape((rows + 15) // 16, cols, 16)
    return panels.transpose(0, 2, 1).reshape(-1, cols)[:rows].copy()


def tensors(data, directory):
    out = {}
    for at in range(0, len(directory), 128):
        name = directory[at : at + 64].rstrip(b"\0").decode()
        kind, _, rows, cols, offset, size = struct.unpack_from("<IIQQQQ", directory, at + 64)
        raw = data[offset : offset + size]
        if kind == VECTOR:
            value = numpy.frombuffer(raw[: rows * cols * 4], numpy.float32).copy()
        elif kind == F32:
            value = unpack_f32(raw, rows, cols)
        elif kind == Q8:
            value = unpack_q8(raw, rows, cols)
        else:
            raise SystemExit(f"{name}: type {kind} is not read here: export it with --type f32")
        out[name] = torch.from_numpy(value)
    return out


def paper_state_of(weights, layers):
    """The tensors under the names of paper.py."""
    names = dict(wq="wq", wk="wk", wv="wv", wo="wo", w1="w_up", w2="w_down")
    names.update(norm1="attention_norm", norm2="ffn_norm")
    out = {"embed.weight": weights["token_embedding"]}
    if "position_embedding" in weights:
        out["position_embed.weight"] = weights["position_embedding"]
    for i in range(layers):
        for ours, stored in names.items():
            out[f"blocks.{i}.{ours}.weight"] = weights[f"layers.{i}.{stored}"]
            out[f"blocks.{i}.{ours}.bias"] = weights[f"layers.{i}.{stored}.bias"]
    return out


def state_of(weights, layers):
    """The tensors under the names of model.py."""
    out = {"embed.weight": weights["token_embedding"], "norm.weight": weights["final_norm"]}
    for i in range(layers):
        w = {k.split(".")[2]: v for k, v in weights.items() if k.startswith(f"layers.{i}.")}
        out[f"blocks.{i}.norm1.weight"] = w["attention_norm"]
        out[f"blocks.{i}.norm2.weight"] = w["ffn_norm"]
        out[f"blocks.{i}.qkv.weight"] = torch.cat([w["wq"], w["wk"], w["wv"]])
        out[f"blocks.{i}.out.weight"] = w["wo"]
        out[f"blocks.{i}.gate_up.weight"] = torch.cat([w["w_gate"], w["w_up"]])
        out[f"blocks.{i}.down.weight"] = w["w_down"]
    return out


def tokenizer_of(section):
    """make_tokenizer.py's tokenizer with the vocabulary and the merges of the section."""
    (n_tokens,) = struct.unpack_from("<I", section, 24)
    parts = [struct.unpack_from("<QQ", section, 80 + 16 * i) for i in range(19)]
    text, keys, merge_slots = (section[o : o + n] for o, n in (parts[0], parts[1], parts[4]))
    ranges = [struct.unpack_from("<II", keys, 12 * i) for i in range(n_tokens)]
    plain = [text[offset : offset + size] for offset, size in ranges]
    # Byte b of the text is letter letters[b] of ByteLevel's alphabet.
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(other)}
    assert set(letters.values()) == set(level.alphabet())
    names = [
        key.decode() if key.decode("utf-8", "replace") in SPECIAL else "".join(letters[b] for b in key)
        for key in plain
    ]
    pairs = numpy.frombuffer(merge_slots, numpy.uint32).reshape(-1, 4)
    pairs = pairs[pairs[:, 2] != 0xFFFFFFFF]
    pairs = pairs[numpy.argsort(pairs[:, 2], kind="stable")]
    merges = [(names[a], names[b]) for a, b, _, _ in pairs.tolist()]
    vocab = {name: i for i, name in enumerate(names)}
    assert len(vocab) == n_tokens
    tok = assemble(Tokenizer(models.BPE(vocab, merges)))
    tok.add_special_tokens(SPECIAL)
    return tok


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model"), p.add_argument("out")
    args = p.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(args.model).read_bytes()
    part = sections(data)
    meta = metadata(part[METADATA])
    shape = Shape(
        vocab=meta["vocab_size"],
        dim=meta["dim"],
        layers=meta["n_layers"],
        heads=meta["n_heads"],
        kv_heads=meta["n_kv_heads"],
        hidden=meta["ffn_dim"],
        context=meta["context"],
        eps=float(f"{meta['norm_eps']:.6g}"),  # the file has it as a float32
        positions=meta["position"],
        decoder="paper" if meta["norm"] == "layer" else "llama",
    )
    model = build(shape)
    state_of_decoder = paper_state_of if shape.decoder == "paper" else state_of
    model.load_state_dict(state_of_decoder(tensors(data, part[TENSORS]), shape.layers))
    state = {"model": model.state_dict(), "shape": dataclasses.asdict(shape), "step": 0, "seen": 0}
    torch.save(state, out / "last.pt")
    tokenizer_of(part[TOKENIZER]).save(str(out / "tokenizer.json"))
    print(json.dumps(state["shape"]))


if __name__ == "__main__":
    main()
