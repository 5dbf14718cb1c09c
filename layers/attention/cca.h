/* Compressed convolutional attention (CCA; arXiv:2510.04476), as ZAYA has it. Of a row's queries
 * and keys side by side, u = [wq in; wk in], and with the rows before it:
 *
 *     mean query of head h   r[h] = (query h of u + key of h's group of u) / 2
 *     mean key of head g     r[g] = mean of r[h] over the heads h of the group
 *     d[t]   = sum over j of taps[j] * u[t - state_kernel + 1 + j]       each element by itself
 *     m[t]   = mix [d[t - state_mix_kernel + 1]; ... d[t]] + bias        each head by itself
 *     q, k   = unit vectors of m + r, times sqrt(head_dim), k times its head's scale; rotated
 *     v[t]   = [wv_now in[t]; wv_before in[t - 1]]
 *     out    = wo attention(q; k, v)
 *
 * Before a sequence begins u and wv_before in are zeros. (A bias of the taps lies in mix.bias.)
 *
 * All steps of attention (core/forward_steps.h) but attending differ: queries and keys lie side by
 * side, and are mixed with those of earlier rows. */
#ifndef LAYERS_ATTENTION_CCA_H
#define LAYERS_ATTENTION_CCA_H

#include "core/layer_kind.h"

extern const BranchKind cca_kind;

#endif
