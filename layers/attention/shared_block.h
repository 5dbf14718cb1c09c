/* Layers of Mamba 2 whose input a block of attention and feed-forward adds to, which several layers
 * share (Zamba 2, https://arxiv.org/abs/2411.15242). With the layer's residual stream h and the
 * embedding e of the token:
 *
 *     t = out(ffn(norm(attention(norm([h, e])))))        out and the adapters are the layer's own
 *     the layer's output = mamba2(attention_norm(h + t))
 *
 * An adapter is a product of two narrow matrices that is added to a matrix of the block. Zamba
 * (https://arxiv.org/abs/2405.16712) has Mamba instead of Mamba 2, and no adapters:
 * shared_mamba_kind. */
#ifndef LAYERS_ATTENTION_SHARED_BLOCK_H
#define LAYERS_ATTENTION_SHARED_BLOCK_H

#include "core/layer_kind.h"

extern const BranchKind shared_block_kind, shared_mamba_kind;

#endif
