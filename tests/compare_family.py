#!/usr/bin/env python3
"""Compares a model's family with transformers' class, step by step, and names the first that parts.

    make all build/tests/print_steps
    tests/compare_family.py DIR [PAGE]      [--tokens N] [--seed TEXT] [--tolerance T] [--all]

DIR has a config.json, and safetensors of it; without these, small random ones are made for this run, so
that a config.json with small sizes is all that a new family needs. PAGE is a page of a family
(docs/family-pages.md). Its family may have another name than the model_type that transformers knows,
because a page redefines no family of the program.

Both programs compute the same tokens in float32. Each step of each layer is compared: embedding, norm,
queries, keys and values, their rotation, attention and its output, feed-forward, what the layer leaves in
the residual stream, final norm and logits. A step parts when a value differs by more than the tolerance
times the standard deviation of transformers' values. Steps that one of both does not show are left out:
inside mixtures of experts and layers with a state only the residual stream is compared.

Exit status 0: no step parts; 1: one does, or a program refuses the model; 2: wrong usage.
It needs torch and transformers, as tests/fixtures/README.md names them.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "fixtures"))

import numpy as np

PRINT_STEPS = HERE.parent / os.environ.get("VERBATIM_BUILD", "build") / "tests" / "print_steps"

# Each step of print_steps: what people call it, and which lines of a page it depends on.
STEPS = {
    "embedding": ("the embedding", "embedding_scale, position, tensors token_embedding and embedding_norm"),
    "attention_input": ("the norm before attention", "norm, norm_eps, norm_place, the tensor attention_norm, plus_one"),
    "q": ("the queries", "the tensor wq and its bias"),
    "k": ("the keys", "the tensor wk and its bias"),
    "v": ("the values", "the tensor wv and its bias"),
    "qkv": ("queries, keys and values (one matrix)", "the tensor wq wk wv, its parts and its bias"),
    "q_shaped": ("the queries' norm and rotation", "qk_norm, rope_pairing, head_dim, `rope` (theta, part), query_scaling"),
    "k_shaped": ("the keys' norm and rotation", "qk_norm, rope_pairing, head_dim, `rope` (theta, part)"),
    "v_shaped": ("the values' final form", "qkv_clip, value_scale, the order of rows in wq wk wv (`by`)"),
    "attended": ("attention", "rotation where it is not compared, attention_scale, attention_softcap, windows, chunks, ALiBi, sinks, n_kv_heads, attention_gate"),
    "attention_output": ("the attention's output", "the tensor wo and its bias, inner_norm"),
    "residual_between": ("the residual stream after attention", "norm_place, post_attention_norm, residual_scale, parallel_block"),
    "ffn_input": ("the norm before the feed-forward", "norm_place, ffn_norm, parallel_block, plus_one"),
    "router": ("the router", "the tensor router"),
    "gate": ("the feed-forward's gate", "the order of w_gate and w_up, the bias"),
    "up": ("the feed-forward's up", "the order of w_gate and w_up, the bias"),
    "gate_up": ("the feed-forward's gate and up (one matrix)", "the tensor w_gate w_up, its parts and its bias"),
    "activated": ("the feed-forward's activation", "activation, gated, the order of w_gate and w_up"),
    "ffn_output": ("the feed-forward's output", "the tensor w_down and its bias"),
    "residual": ("the residual stream after the layer", "norm_place, post_ffn_norm, residual_scale; mixtures: the experts and routing"),
    "final_norm": ("the final norm", "the tensor final_norm, norm_eps"),
    "logits": ("the logits", "the tensor output, tied, logit_scale, logit_softcap"),
}
QUERIES, KEYS, VALUES, FUSED, ATTENTION_OUTPUT, GATE, UP, DOWN, BOTH = (re.compile(f"^({names})$") for names in (
    "q_proj|query|wq|q_lin", "k_proj|key|wk|k_lin", "v_proj|value|wv|v_lin",
    "qkv_proj|query_key_value|c_attn|Wqkv|wqkv|qkv", "o_proj|out_proj|dense|c_proj|wo|out_lin",
    "gate_proj|w1", "up_proj|w3|c_fc|fc1|dense_h_to_4h|fc_in", "down_proj|w2|c_proj|fc2|dense_4h_to_h|fc_out",
    "gate_up_proj"))
MOST_PARAMETERS = 50_000_000
# Some classes multiply queries by the scale of scores, or the last rows by that of logits. The next step shows
# a wrong one.
SCALED_EARLIER = ("q_shaped", "final_norm")
# The order of rows in these matrices is not known.
FUSED_STEPS = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}


class Refused(Exception):
    pass


# ---- The model's directory ----

def has_weights(directory):
    return any(directory.glob("*.safetensors"))


def make_weights(directory):
    """Fills the directory, which has a config.json, as random_configs.py does; the embedding is small, as in
    trained models, so that the epsilon of a norm is seen."""
    import make_logits
    import random_configs
    import torch
    import transformers
    import weights
    with open(directory / "config.json") as f:
        config = json.load(f)
    if "quantization_config" in config:
        raise Refused(f"{directory}: no safetensors, and random ones are not quantized")
    hf = transformers.AutoConfig.from_pretrained(directory)
    with torch.device("meta"):
        n = sum(p.numel() for p in model_class(hf).from_config(hf).parameters())
    if n > MOST_PARAMETERS:
        raise Refused(f"{directory}: no safetensors, and {n} parameters are too many for random ones: "
                      "write smaller sizes into config.json")
    auto = model_class(hf).__name__
    options = {"embedding": 0.03125, **random_configs.FILL.get(config["model_type"], {})}
    shapes = make_logits.names_and_shapes(config, dict(auto=auto), str(directory))
    shapes = {k: v for k, v in shapes.items() if not k.endswith(random_configs.COMPUTED)}
    weights.write_safetensors(str(directory / "model.safetensors"),
                              {k: make_logits.recipe(k, v, options) for k, v in sorted(shapes.items())})


def place(path, name):
    """Links a file under another name, or copies it where that cannot be; a symbolic link to elsewhere is
    refused in a model's directory."""
    if path.is_dir():
        return
    try:
        os.link(path, name)
    except OSError:
        shutil.copyfile(path, name)


def linked(source, target, model_type):
    """A directory like `source`, whose config.json has this model_type."""
    for path in source.iterdir():
        if path.name != "config.json":
            place(path.resolve(), target / path.name)
    with open(source / "config.json") as f:
        config = json.load(f)
    with open(target / "config.json", "w") as f:
        json.dump({**config, "model_type": model_type}, f)


def page_name(page):
    """The family's name in the page; None where it has none, which print_steps then says."""
    with open(page, encoding="utf-8", errors="replace") as f:
        found = re.search(r"^\s*family\s+(\S+)", f.read(), re.M)
    return found.group(1) if found else None


# ---- Our steps ----

def our_steps(directory, page, context, ids):
    """[(layer, name, values[rows][columns])], in the order in which they are computed."""
    command = [PRINT_STEPS] + (["--family", page] if page else []) + [directory, str(context)]
    try:
        done = subprocess.run(command + [str(i) for i in ids], capture_output=True)
    except OSError as e:
        sys.exit(f"{PRINT_STEPS}: {e.strerror}: make all build/tests/print_steps")
    if done.returncode:
        raise Refused("verbatim: " + done.stderr.decode(errors="replace").strip())
    steps, at = [], 0
    while at < len(done.stdout):
        end = done.stdout.index(b"\n", at)
        layer, name, rows, columns = done.stdout[at:end].decode().split()
        n = int(rows) * int(columns)
        values = np.frombuffer(done.stdout, "<f4", n, end + 1).reshape(int(rows), int(columns))
        steps.append((int(layer), name, values))
        at = end + 1 + 4 * n
    return steps


# ---- transformers' steps ----

def model_class(config):
    import transformers
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return (transformers.AutoModelForCausalLM if config.model_type in known
            else transformers.AutoModelForImageTextToText)


class Watch:
    """Remembers what the modules of a model of transformers read and give."""

    def __init__(self, model, config):
        self.values = {}   # (layer, name) -> [rows][columns]
        self.norms = []    # (input, output) of the norms of the layer that runs
        self.layer = -1
        self.n_layers = config.num_hidden_layers
        layers = self.find_layers(model)  # none: then the ends alone are compared
        for i, layer in enumerate(layers):
            self.watch_layer(i, layer)
        head = model.get_output_embeddings()
        if head is not None:
            self.on_input(head, lambda x: self.keep(self.n_layers, "final_norm", x))
        self.watch_interface(model, layers)

    def find_layers(self, model):
        import torch
        lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == self.n_layers
                 and not any(part in type(m[0]).__name__ for part in ("Vision", "Expert"))]
        return max(lists, key=lambda m: sum(p.numel() for p in m.parameters()), default=[])

    def keep(self, layer, name, x):
        """The first value counts: a module may run again."""
        if x is not None and x.ndim >= 2:
            flat = x.detach().float().reshape(-1, x.shape[-1]).numpy().copy()
            self.values.setdefault((layer, name), flat)

    def on_input(self, module, action):
        def hook(_, args, kwargs):
            x = args[0] if args else kwargs.get("hidden_states")
            if hasattr(x, "ndim"):
                action(x)
        module.register_forward_pre_hook(hook, with_kwargs=True)

    def on_output(self, module, action):
        def hook(_, args, output):
            x = output[0] if isinstance(output, (tuple, list)) else output
            if hasattr(x, "ndim"):
                action(x)
        module.register_forward_hook(hook)

    def watch_layer(self, i, layer):
        def begin(x):
            self.layer, self.norms = i, []
            if i == 0:
                self.keep(-1, "embedding", x)

        self.on_input(layer, begin)
        self.on_output(layer, lambda x: self.keep(i, "residual", x))
        for name, norm in layer.named_children():
            if "norm" in name or re.match(r"ln_?", name):
                norm.register_forward_hook(self.see_norm, with_kwargs=True)
        attention = self.inner(layer, (QUERIES, FUSED))
        network = self.inner(layer, (DOWN,), besides=attention)
        if attention is not None:
            self.watch_attention(i, attention)
        if network is not None:
            self.watch_network(i, network)

    def see_norm(self, _, args, kwargs, output):
        x = args[0] if args else next(iter(kwargs.values()), None)
        if hasattr(x, "ndim") and hasattr(output, "ndim"):
            self.norms.append((x, output))

    def inner(self, layer, leaves, besides=None):
        """The module of the layer that has one of these among its children; None unless there is one."""
        found = [m for m in layer.modules() if m is not besides and
                 any(p.match(name) and hasattr(leaf, "weight") for name, leaf in m.named_children() for p in leaves)]
        found = [m for m in found if not any(m is other for other in (besides.modules() if besides is not None else ()))]
        return found[0] if len(found) == 1 else None

    def watch_leaves(self, i, module, patterns):
        for name, leaf in module.named_children():
            for step, pattern in patterns.items():
                if pattern.match(name) and hasattr(leaf, "weight"):
                    self.on_output(leaf, lambda x, step=step: self.keep(i, step, x))

    def watch_attention(self, i, attention):
        self.on_input(attention, lambda x: self.keep(i, "attention_input", x))
        self.watch_leaves(i, attention, dict(q=QUERIES, k=KEYS, v=VALUES, qkv=FUSED, attention_output=ATTENTION_OUTPUT))
        for name, leaf in attention.named_children():
            if ATTENTION_OUTPUT.match(name):
                self.on_input(leaf, lambda x: self.keep(i, "attended", x))

    def watch_network(self, i, network):
        def begin(x):
            self.keep(i, "ffn_input", x)
            before = [a for a, b in self.norms if b is x or b.data_ptr() == x.data_ptr()]
            self.keep(i, "residual_between", before[-1] if before else x)

        first = [m for name, m in network.named_children() if any(p.match(name) for p in (GATE, UP, BOTH))]
        self.on_input(first[0] if first else network, begin)
        names = [name for name, _ in network.named_children()]
        patterns = dict(gate_up=BOTH, gate=GATE, up=UP, ffn_output=DOWN)
        if "w1" in names and "w3" not in names:
            patterns["up"] = patterns.pop("gate")
        self.watch_leaves(i, network, patterns)
        for name, leaf in network.named_children():
            if DOWN.match(name):
                self.on_input(leaf, lambda x: self.keep(i, "activated", x))

    def watch_interface(self, model, layers):
        """Queries, keys and values in their final form are arguments of a function of the model's file."""
        for file in {sys.modules[type(m).__module__] for layer in layers for m in layer.modules()}:
            eager = getattr(file, "eager_attention_forward", None)
            if eager is None:
                continue

            def record(module, query, key, value, *args, eager=eager, **kwargs):
                if self.layer >= 0:
                    for step, x in (("q_shaped", query), ("k_shaped", key), ("v_shaped", value)):
                        self.keep(self.layer, step, x.transpose(1, 2).flatten(2))
                return eager(module, query, key, value, *args, **kwargs)

            file.eager_attention_forward = record


def their_steps(directory, ids):
    """{(layer, name): values[rows][columns]}"""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    try:
        config = transformers.AutoConfig.from_pretrained(directory)
        model, info = model_class(config).from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True)
    except Exception as e:  # whatever it says, it is the reference
        raise Refused(f"transformers: {type(e).__name__}: {' '.join(str(e).split())[:300]}") from None
    if info.get("missing_keys"):
        raise Refused(f"transformers: the tensor {sorted(info['missing_keys'])[0]} is missing")
    watch = Watch(model.eval(), config.get_text_config())
    with torch.no_grad():
        out = model(torch.tensor([ids]), use_cache=False, return_dict=True)
    watch.keep(watch.n_layers, "logits", out.logits)
    return watch.values


# ---- Comparing ----

def compared(ours, theirs):
    """Yields (layer, name, our values, theirs) of the steps that both show."""
    for at, (layer, name, values) in enumerate(ours):
        if name == "residual_between" and np.array_equal(values, ours[at + 1][2]):
            continue  # the feed-forward reads the stream itself
        if (layer, name) in theirs:
            yield layer, name, values, theirs[layer, name]
        for whole, parts in FUSED_STEPS.items():  # one matrix in transformers
            if name == parts[-1] and (layer, whole) in theirs:
                own = [v for l, n, v in ours[:at + 1] if l == layer and n in parts]
                yield layer, whole, np.concatenate(own, axis=1), theirs[layer, whole]


def difference(name, ours, theirs):
    """The largest difference of each position, in standard deviations of theirs; None where shapes differ."""
    if ours.shape != theirs.shape:
        return None
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if name in FUSED_STEPS:
        ours, theirs = np.sort(ours, axis=1), np.sort(theirs, axis=1)
    if name in SCALED_EARLIER:  # by the first position, where RoPE rotates nothing
        ours = ours * ((ours[0] * theirs[0]).sum() / ((ours[0] * ours[0]).sum() or 1.0))
    scale = theirs.std() or 1.0
    return np.abs(ours - theirs).max(axis=1) / scale


def label(layer, name, n_layers):
    where = f"layer {layer}, " if 0 <= layer < n_layers else ""
    return where + STEPS[name][0]


def parting(name, what, by_row, columns, tolerance, equal):
    """What is said of a step that parts."""
    said = [f"parts at: {what}"]
    if by_row is None:
        said.append("  {} values a token, transformers has {}".format(*columns))
    else:
        first = int(np.argmax(~(by_row <= tolerance)))
        said.append(f"  position {first} is the first of {len(by_row)}; the largest difference is {by_row.max():.1e} "
                    f"standard deviations, {tolerance:.0e} is allowed")
    said.append("  equal before it: " + ("; ".join(equal[-3:]) if equal else "nothing"))
    return "\n".join(said + ["  see: " + STEPS[name][1]])


def report(ours, theirs, n_layers, tolerance, every):
    """Prints the first step that parts. Returns whether there is one.

    A step inside a layer whose residual stream is equal in the end was only computed in another form: a factor
    that is multiplied in later, or a matrix that holds more."""
    equal, forms, pending, worst = [], set(), [], 0.0
    left_out = {name for layer, name, _ in ours if (layer, name) not in theirs}
    for layer, name, our_values, their_values in compared(ours, theirs):
        by_row = difference(name, our_values, their_values)
        what = label(layer, name, n_layers)
        if by_row is None and name in ("q_shaped", "k_shaped", "v_shaped", "residual", "embedding"):
            left_out.add(name)  # heads that transformers has repeated, or several streams
            continue
        is_equal = by_row is not None and bool((by_row <= tolerance).all())
        if every:
            size = f"{by_row.max():8.1e}" if by_row is not None else "   shape"
            print(f"{'equal' if is_equal else 'PARTS'}  {size}  {what}")
        if is_equal:
            equal.append(what)
            worst = max(worst, float(by_row.max()))
        else:
            columns = our_values.shape[1], their_values.shape[1]
            pending.append((name, parting(name, what, by_row, columns, tolerance, equal)))
        if name in ("residual", "logits"):
            if not is_equal:
                print(pending[0][1])
                return True
            forms |= {name for name, _ in pending}
            pending = []
    if pending:
        print(pending[0][1])
        return True
    parts = {part: whole for whole, names in FUSED_STEPS.items() for part in names}
    seen = {name for _, name in theirs}
    print(f"equal: {len(equal)} steps of {n_layers} layers, the largest difference is {worst:.1e} standard deviations "
          f"({tolerance:.0e} is allowed)")
    for text, names in (("computed in another form, with the same result", forms), ("not compared in every layer", left_out)):
        names = [STEPS[name][0] for name in STEPS if name in names and parts.get(name) not in seen]
        if names:
            print(f"{text}: {'; '.join(names)}")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path)
    parser.add_argument("page", metavar="PAGE", nargs="?", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=40, help="positions; more than a window has, to see it (40)")
    parser.add_argument("--seed", default="compare", help="the tokens follow from this text")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="in standard deviations (1e-4)")
    parser.add_argument("--all", action="store_true", help="a line for every step")
    args = parser.parse_args()
    for path in [args.directory / "config.json"] + ([args.page] if args.page else []):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    if not 1 <= args.tokens <= 512:
        parser.error("--tokens takes 1 to 512")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            sys.exit(compare(args, pathlib.Path(temporary)))
    except Refused as e:
        print(e, file=sys.stderr)
        sys.exit(1)


def compare(args, temporary):
    with open(args.directory / "config.json") as f:
        config = json.load(f)
    source, renamed = temporary / "source", temporary / "renamed"
    source.mkdir()
    renamed.mkdir()
    linked(args.directory, source, config.get("model_type"))
    if not has_weights(source):
        make_weights(source)
    import weights
    text = config.get("text_config", config)
    vocab_size = text.get("vocab_size")
    if not vocab_size:
        import transformers
        vocab_size = transformers.AutoConfig.from_pretrained(source).get_text_config().vocab_size
    ids = weights.token_ids(args.seed, args.tokens, vocab_size)
    ours, name = source, page_name(args.page) if args.page else None
    if name and name != config.get("model_type"):
        linked(source, renamed, name)
        ours = renamed
    dynamic = any(f'"{kind}"' in json.dumps(text) for kind in ("dynamic", "longrope", "su"))
    steps = our_steps(ours, args.page, args.tokens if dynamic else 0, ids)
    n_layers = max(layer for layer, _, _ in steps)
    return 1 if report(steps, their_steps(source, ids), n_layers, args.tolerance, args.all) else 0


if __name__ == "__main__":
    main()
