"""Trains a model of model.py on packed tokens; stops, resumes and decays by clock or by steps.

    python train.py DATA OUT --until 04:05 --decay-minutes 30 --long-minutes 20
    python train.py DATA OUT --steps 2000 --decay-steps 600 --long-steps 300
    python train.py DATA2 OUT2 --from OUT/last.pt ...

The learning rate warms up, stays, and falls linearly to zero at the known end. The last
part runs on rows of 1,024 tokens instead of 512. Master weights, optimizer and the loss are
float32; the matrix products of the forward and backward pass run in bfloat16. Matrices
are trained by Muon, embeddings and norms by AdamW. OUT/last.pt is the checkpoint: the same
command goes on from it. `--from` begins anew, on other text, with the weights (and the shape) of
another run or of from_bin.py; with `--steps 0` it only measures their held-out loss.
`--teacher` learns what another checkpoint expects after each token instead of what follows.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import tempfile
import time

import numpy
import torch
import torch.nn.functional as F

from model import Shape, build


class Rows:
    """Rows of n + 1 tokens, each starting at a document; documents are read once, in order."""

    def __init__(self, tokens, seed, headless=0.1):
        self.tokens = tokens
        self.starts = numpy.flatnonzero(tokens == 0)
        self.at = 0
        self.headless = headless  # share of rows without the leading token, as some prompts
        self.rng = numpy.random.default_rng(seed)

    def take(self, n):
        start = self.starts[self.at % len(self.starts)]
        if start + n + 1 > len(self.tokens):
            self.at, start = 0, 0
        row = self.tokens[start : start + n + 1]
        # The cut document at the end of the row is read again by the next row.
        self.at = int(numpy.searchsorted(self.starts, start + n + 1)) - 1
        if self.starts[self.at] <= start:
            self.at += 1
        chat = self.tokens[start + 1] == 1  # a text that only begins is to become a story
        if self.rng.random() < self.headless or chat:
            start += 1
            row = self.tokens[start : start + n + 1]
        return row

    def batch(self, rows, n):
        return torch.from_numpy(
            numpy.stack([self.take(n) for _ in range(rows)]).astype(numpy.int64)
        )


def loss_of(model, ids, bf16=True, teacher=None):
    """The cross-entropy to the next tokens, or to the teacher's distribution of them."""
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=bf16):
        logits = model(ids[:, :-1])
    target = ids[:, 1:].flatten()
    if teacher:
        with torch.no_grad(), torch.autocast(ids.device.type, torch.bfloat16, enabled=bf16):
            target = teacher(ids[:, :-1]).float().softmax(-1).flatten(0, 1)
    return F.cross_entropy(logits.float().flatten(0, 1), target)


@torch.no_grad()
def heldout_loss(model, tokens, n=512, rows=48, bf16=True):
    data = Rows(tokens, 0, headless=0.0)
    device = next(model.parameters()).device
    batches = (data.batch(8, n).to(device) for _ in range(rows // 8))
    total = [loss_of(model, ids, bf16=bf16).item() for ids in batches]
    return sum(total) / len(total)


def clock(text):
    """The next HH:MM of this machine's clock, in seconds since the epoch."""
    now = time.time()
    t = time.localtime(now)
    hour, minute = map(int, text.split(":"))
    at = time.mktime((t.tm_year, t.tm_mon, t.tm_mday, hour, minute, 0, 0, 0, -1))
    return at if at > now - 12 * 3600 else at + 24 * 3600


def checkpoint(path, device):
    return torch.load(path, weights_only=False, map_location=device)


def average(model, processes):
    """The mean of the gradients of all processes, in each of them."""
    grads = [t.grad for t in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    torch.distributed.all_reduce(flat)
    flat /= processes
    at = 0
    for g in grads:
        g.copy_(flat[at : at + g.numel()].view_as(g))
        at += g.numel()


def save(path, **state):
    torch.save(state, str(path) + ".new")
    os.replace(str(path) + ".new", path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("data"), p.add_argument("out")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=12)
    p.add_argument("--row", type=int, default=512, help="tokens of a row but for the long part")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--minutes", type=float, help="end so long after the start, as --until")
    p.add_argument("--until"), p.add_argument("--decay-minutes", type=float, default=30)
    p.add_argument("--long-minutes", type=float, default=15)
    p.add_argument("--steps", type=int), p.add_argument("--decay-steps", type=int, default=0)
    p.add_argument("--long-steps", type=int, default=0)
    p.add_argument("--threads", type=int, default=2, help="of each process")
    p.add_argument("--processes", type=int, default=1, help="that share the rows of a step")
    p.add_argument("--save-minutes", type=float, default=4)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--f32", action="store_true", help="products in float32, not bfloat16")
    p.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    p.add_argument("--teacher", help="a checkpoint whose distribution is learned")
    p.add_argument("--from", dest="start", help="a checkpoint whose weights to begin with")
    p.add_argument("--shape", help="JSON of the fields of Shape that differ, without --from")
    args = p.parse_args()
    if args.processes == 1:
        run(0, args, None)
    else:
        meeting = tempfile.mkdtemp() + "/meeting"
        torch.multiprocessing.spawn(run, (args, meeting), nprocs=args.processes)


def run(rank, args, meeting):
    """One of the processes; the first keeps the log and the checkpoints."""
    if meeting:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=args.processes
        )
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    start = checkpoint(args.start, args.device) if args.start else None
    fields = start["shape"] if start and not args.shape else json.loads(args.shape or "{}")
    shape = Shape(**fields)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"train.{rank}.pid", "w") as pid:
        pid.write(f"{os.getpid()}\n")
    data = Rows(numpy.load(pathlib.Path(args.data) / "train.npy"), args.seed)
    heldout = numpy.load(pathlib.Path(args.data) / "heldout.npy")
    model = build(shape).to(args.device)
    matrices = [t for n, t in model.named_parameters() if t.dim() == 2 and "embed" not in n]
    others = [t for n, t in model.named_parameters() if t.dim() != 2 or "embed" in n]
    muon = dict(lr=args.lr, weight_decay=0.05)
    optimizers = [
        torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **muon)
        if hasattr(torch.optim, "Muon")  # since torch 2.9
        else torch.optim.AdamW(matrices, betas=(0.9, 0.95), **muon),
        torch.optim.AdamW(others, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    step, seen, seconds = 0, 0, 0.0
    if (out / "last.pt").exists():
        state = checkpoint(out / "last.pt", args.device)
        model.load_state_dict(state["model"])
        for opt, s in zip(optimizers, state["optimizers"]):
            opt.load_state_dict(s)
        step, seen, seconds, data.at = (state[k] for k in ("step", "seen", "seconds", "at"))
        data.rng = state["rng"]
    elif start:
        model.load_state_dict(start["model"])
    teacher = None
    if args.teacher:
        state = checkpoint(args.teacher, args.device)
        teacher = build(Shape(**state["shape"])).to(args.device)
        teacher.load_state_dict(state["model"])
    forward = torch.compile(model, dynamic=False) if args.compile else model
    until = clock(args.until) if args.until else None
    if args.minutes:
        until = time.time() + args.minutes * 60
    log = open(out / "log.txt" if rank == 0 else os.devnull, "a", buffering=1)
    print(
        json.dumps(vars(args)),
        dataclasses.asdict(shape),
        sum(t.numel() for t in model.parameters()),
        file=log,
    )
    saved, mean, began, was_seen = time.time(), None, time.time(), seen

    def keep():
        save(
            out / "last.pt",
            model=model.state_dict(),
            shape=dataclasses.asdict(shape),
            optimizers=[o.state_dict() for o in optimizers],
            step=step,
            seen=seen,
            at=data.at,
            seconds=seconds + time.time() - began,
            rng=data.rng,
        )

    while True:
        now = time.time()
        if until:
            left, decay, long = (until - now) / 60, args.decay_minutes, args.long_minutes
        else:
            left, decay, long = args.steps - step, args.decay_steps, args.long_steps
        if meeting:  # the clock of the first decides
            shared = torch.tensor([left], dtype=torch.float64)
            torch.distributed.broadcast(shared, 0)
            left = shared.item()
        if left <= 0:
            break
        n = 2 * args.row if left <= long else args.row
        rate = (
            args.lr * min(1.0, (step + 1) / args.warmup) * (min(1.0, left / decay) if decay else 1)
        )
        for opt in optimizers:
            for group in opt.param_groups:
                group["lr"] = rate
        mine = data.batch(args.rows * args.row // n, n)[rank :: args.processes]
        loss = loss_of(forward, mine.to(args.device), bf16=not args.f32, teacher=teacher)
        loss.backward()
        if meeting:
            average(model, args.processes)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in optimizers:
            opt.step()
            opt.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + args.rows * args.row
        if args.device == "cpu" or step % 20 == 0:  # reading the loss waits for the device
            mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if mean is not None and not math.isfinite(mean):
            raise SystemExit(f"step {step}: the loss is not finite")
        if step % 20 == 0:
            print(
                f"step {step} tokens {seen} loss {mean:.4f} lr {rate:.5f} row {n} "
                f"tokens/s {(seen - was_seen) / (time.time() - began):.0f}",
                file=log,
            )
        if rank == 0 and time.time() - saved > args.save_minutes * 60:
            keep()
            saved = time.time()
            print(
                f"step {step} held-out loss {heldout_loss(model, heldout, n=args.row, rows=16):.4f}",
                file=log,
            )
    if rank:
        return
    keep()
    final = heldout_loss(model, heldout, n=args.row, rows=96, bf16=False)
    print(
        f"done: step {step} tokens {seen} hours {(seconds + time.time() - began) / 3600:.2f} "
        f"held-out loss {final:.4f} perplexity {math.exp(final):.3f}",
        file=log,
    )


if __name__ == "__main__":
    main()
