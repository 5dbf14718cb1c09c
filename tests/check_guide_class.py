"""Runs the class SimpleTransformerLM of a guide as it stands there, trained by its own loop.

    python tests/check_guide_class.py GUIDE.txt [RUN]        (needs torch and safetensors)

The first block of Python of the guide that has the class, and those before it in the same section,
are executed; then the state dict is saved as docs/your-own-model.md says, without an edit of a
name, and the scores of 32 texts by RUN (./run) are compared with those of the module. Prints the
largest difference, which must be below 3e-5, and the loss of the last tenth of the training,
which on the guide's random data stays at ln 20.
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

guide = pathlib.Path(sys.argv[1]).read_text()
run = sys.argv[2] if len(sys.argv) > 2 else "./run"

losses = []
loss_of = torch.nn.CrossEntropyLoss.forward


def recording(module, *arguments):
    loss = loss_of(module, *arguments)
    losses.append(loss.item())
    return loss


torch.manual_seed(1)
torch.nn.CrossEntropyLoss.forward = recording
names = {}
for block in re.findall(r"^```python\n(.*?)^```", guide, re.S | re.M):
    exec(compile(block, sys.argv[1], "exec"), names)
    if "SimpleTransformerLM" in block:
        break
model = names["model_lm"].eval()
vocab = names["vocab_size_small"]

with tempfile.TemporaryDirectory() as directory:
    directory = pathlib.Path(directory)
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()},
        directory / "model.safetensors",
    )
    heads = model.layers[0].self_attn.n_heads
    config = {"model_type": "own_transformer", "num_attention_heads": heads}
    (directory / "config.json").write_text(json.dumps(config))
    worst = 0.0
    for text in range(32):
        ids = torch.randint(0, vocab, (1, 2 + text * 4))
        with torch.no_grad():
            expected = F.log_softmax(model(ids)[0].double(), -1)
        line = " ".join(str(i) for i in ids[0].tolist())
        out = subprocess.run(
            [run, directory, "-i", line, "--score", "json", "--cache-dir", "none"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        scores = [t["logprob"] for t in json.loads(out)["tokens"] if t.get("logprob") is not None]
        want = [expected[i - 1, ids[0, i]].item() for i in range(1, ids.shape[1])]
        assert len(scores) == len(want), (len(scores), len(want), out[:200])
        worst = max([worst] + [abs(a - b) for a, b in zip(scores, want)])

tail = losses[-len(losses) // 10 :]
print(f"largest difference of a log-probability: {worst:.2g}")
print(f"loss at the end: {sum(tail) / len(tail):.4f}; ln {vocab} = {math.log(vocab):.4f}")
sys.exit(worst >= 3e-5)
