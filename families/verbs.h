/* The verbs of Step (formats/steps.h): what several families do in the same way. Words in capitals
 * stand for a key, a field of Config, a number or a name, those in brackets may be left out. What
 * reads GGUF files, too, is marked with *.
 *
 *     windows N [every M | every KEY M] [from M | from KEY M] [unlisted] [first]
 *                             the window of sliding layers is sliding_window; N where it is
 *                             absent, 0: no window. layer_types says which layers slide. Without
 *                             it, or with `unlisted`, these are the layers from M on, except
 *                             every M-th (`first`: beginning with the first); KEY gives M if
 *                             config.json has it
 *     no_windows              refuses layers that layer_types calls sliding
 *     window_rope alone       only layers with a window have RoPE
 *     window_rope alone_if_any  the same, unless sliding_window is null
 *     window_rope local       layers with a window have the second RoPE table
 *     no_rope_layers          no_rope_layers or no_rope_layer_interval: layers without RoPE
 *   * query_scaling           queries grow with the position: llama_4_scaling_beta, or
 *                             attention.temperature_scale
 *   * set FIELD VALUE         a field has this value
 *     cap KEY FIELD N         a cap, which null takes away; 0 is refused
 *     score_scale KEY N       scores are divided by the root of KEY
 *   * scale_embeddings        embeddings are multiplied by the root of dim
 *   * granite [N]             logits are divided by logits_scaling (N or 1 where it is absent), or
 *                             logit_scale; an attention_multiplier of 0 is refused
 *     refuse_zero KEY         0 means "none" here, but not in transformers
 *     wide_ffn                without a key for it, the feed-forward is 4 * dim wide
 *     wide_ffn KEY N          the feed-forward is KEY (or N) * dim wide
 *     shared_width KEY N      the shared expert's width as a number of experts
 *   * latent_heads            completes the widths of latent attention, and the scale of scores
 *   * indexers [all]          which layers have an indexer of their own; `all`: every layer
 *     no_step_limit           refuses a time_step_limit */
#ifndef FAMILIES_VERBS_H
#define FAMILIES_VERBS_H

#include "formats/family.h"

#endif
