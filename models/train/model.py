"""The architecture that is trained here: a llama decoder, written small.

It computes what transformers' LlamaForCausalLM computes (RMSNorm before each block,
rotary positions in the half-split convention, grouped-query attention, SwiGLU, tied
embeddings), with the query/key/value and the gate/up projections each as one product,
which is faster on a CPU. `hf_state` gives the tensors under the names and shapes of
transformers. `positions` may be "sinusoidal" for the siblings of the comparison: then
nothing is rotated, and the table of Vaswani et al. (2017) is added to the embeddings, which
are multiplied by sqrt(dim) as there.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    """The sizes of a model; the defaults are those of the shipped one."""

    vocab: int = 2048
    dim: int = 256
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 544
    theta: float = 10000.0
    eps: float = 1e-5
    context: int = 1024
    positions: str = "rope"
    decoder: str = "llama"

    @property
    def head_dim(self):
        return self.dim // self.heads


def rope_tables(shape, n):
    """cos and sin for positions 0..n-1, each [n][head_dim], as transformers lays them."""
    half = shape.head_dim // 2
    inv = 1.0 / shape.theta ** (torch.arange(half, dtype=torch.float32) / half)
    angle = torch.outer(torch.arange(n, dtype=torch.float32), inv)
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def sinusoids(shape, n):
    """The fixed table [n][dim]: sin in even columns, cos in odd ones, wavelengths to 10000."""
    half = shape.dim // 2
    inv = 1.0 / 10000.0 ** (torch.arange(half, dtype=torch.float32) / half)
    angle = torch.outer(torch.arange(n, dtype=torch.float32), inv)
    table = torch.empty(n, shape.dim)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv = shape.kv_heads * shape.head_dim
        self.norm1, self.norm2 = Norm(shape.dim, shape.eps), Norm(shape.dim, shape.eps)
        self.qkv = nn.Linear(shape.dim, shape.dim + 2 * kv, bias=False)
        self.out = nn.Linear(shape.dim, shape.dim, bias=False)
        self.gate_up = nn.Linear(shape.dim, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def forward(self, x, tables):
        s = self.shape
        rows, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(
            [s.dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim], dim=-1
        )
        q = q.view(rows, n, s.heads, s.head_dim).transpose(1, 2)
        k = k.view(rows, n, s.kv_heads, s.head_dim).transpose(1, 2)
        v = v.view(rows, n, s.kv_heads, s.head_dim).transpose(1, 2)
        if tables is not None:
            q, k = rotate(q, *tables).to(v.dtype), rotate(k, *tables).to(v.dtype)
        group = s.heads // s.kv_heads
        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(rows, n, s.dim))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.dim, shape.eps)
        cos, sin = rope_tables(shape, shape.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("table", sinusoids(shape, shape.context), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * shape.layers) if last else 1))

    def forward(self, ids):
        """ids [rows][n] to logits [rows][n][vocab]."""
        n = ids.shape[1]
        x = self.embed(ids)
        tables = None
        if self.shape.positions == "rope":
            tables = self.cos[:n], self.sin[:n]
        else:
            x = x * math.sqrt(self.shape.dim) + self.table[:n]
        for block in self.blocks:
            x = block(x, tables)
        return F.linear(self.norm(x), self.embed.weight)

    def hf_state(self):
        """The tensors under transformers' names (lm_head is tied, so it is not written)."""
        s = self.shape
        kv = s.kv_heads * s.head_dim
        out = {
            "model.embed_tokens.weight": self.embed.weight,
            "model.norm.weight": self.norm.weight,
        }
        for i, b in enumerate(self.blocks):
            q, k, v = b.qkv.weight.split([s.dim, kv, kv])
            gate, up = b.gate_up.weight.chunk(2)
            parts = {
                "input_layernorm": b.norm1.weight,
                "self_attn.q_proj": q,
                "self_attn.k_proj": k,
                "self_attn.v_proj": v,
                "self_attn.o_proj": b.out.weight,
                "post_attention_layernorm": b.norm2.weight,
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "mlp.down_proj": b.down.weight,
            }
            out.update({f"model.layers.{i}.{k}.weight": t for k, t in parts.items()})
        return {k: t.detach().clone().contiguous() for k, t in out.items()}


def build(shape):
    """The model of a shape: the llama above, or the decoder of paper.py."""
    from paper import Paper

    return {"llama": Llama, "paper": Paper}[shape.decoder](shape)
