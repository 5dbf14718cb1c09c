"""The decoder of "Attention Is All You Need" (2017), as the siblings of the comparison train it.

LayerNorm after each sum (post-norm), a ReLU feed-forward, biases everywhere, embeddings times
sqrt(dim) and tied to the output, no norm after the last block. What may differ: the number of
key/value heads, and `positions`: "sinusoidal" as in the paper, "learned" (GPT's table), "rope",
"alibi" or "none". Post-norm needs the learning rate's warm-up (train.py --warmup).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from model import rope_tables, rotate, sinusoids


def alibi(heads, n):
    """What ALiBi adds to the scores, [heads][n][n]: minus slope times distance; -inf ahead."""
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    at = torch.arange(n)
    distance = (at[:, None] - at[None, :]).float()
    return (-slopes[:, None, None] * distance).masked_fill(distance < 0, float("-inf"))


class PaperBlock(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        kv = shape.kv_heads * shape.head_dim
        self.wq, self.wo = nn.Linear(shape.dim, shape.dim), nn.Linear(shape.dim, shape.dim)
        self.wk, self.wv = nn.Linear(shape.dim, kv), nn.Linear(shape.dim, kv)
        self.norm1 = nn.LayerNorm(shape.dim, eps=shape.eps)
        self.w1 = nn.Linear(shape.dim, shape.hidden)
        self.w2 = nn.Linear(shape.hidden, shape.dim)
        self.norm2 = nn.LayerNorm(shape.dim, eps=shape.eps)

    def attention(self, x, tables, bias):
        s = self.shape
        rows, n, _ = x.shape
        q, k, v = (w(x).view(rows, n, -1, s.head_dim).transpose(1, 2) for w in self.qkv())
        if tables is not None:
            q, k = rotate(q, *tables).to(v.dtype), rotate(k, *tables).to(v.dtype)
        group = s.heads // s.kv_heads
        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        if bias is not None:
            bias = bias.to(q.dtype)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None)
        return self.wo(a.transpose(1, 2).reshape(rows, n, s.dim))

    def qkv(self):
        return self.wq, self.wk, self.wv

    def forward(self, x, tables, bias):
        x = self.norm1(x + self.attention(x, tables, bias))
        return self.norm2(x + self.w2(F.relu(self.w1(x))))


class Paper(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.dim)
        if shape.positions == "learned":
            self.position_embed = nn.Embedding(shape.context, shape.dim)
        self.blocks = nn.ModuleList(PaperBlock(shape) for _ in range(shape.layers))
        for name, p in self.named_parameters():
            if name == "position_embed.weight":
                nn.init.normal_(p, std=0.5**0.5)  # the size of the sinusoids
            elif "embed" in name:
                nn.init.normal_(p, std=shape.dim**-0.5)
            elif p.dim() == 2:
                nn.init.xavier_uniform_(p)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):
        """ids [rows][n] to logits [rows][n][vocab]."""
        s, n = self.shape, ids.shape[1]
        x = self.embed(ids) * math.sqrt(s.dim)
        tables = bias = None
        if s.positions == "sinusoidal":
            x = x + sinusoids(s, n)
        elif s.positions == "learned":
            x = x + self.position_embed.weight[:n]
        elif s.positions == "rope":
            tables = rope_tables(s, n)
        elif s.positions == "alibi":
            bias = alibi(s.heads, n)
        for block in self.blocks:
            x = block(x, tables, bias)
        return F.linear(x, self.embed.weight)
