/* The verbs of Step (formats/family/steps.h): what several families do in the same way. Words in
 * capitals stand for a key, a field of Config, a number or a name, those in brackets may be left
 * out. What reads GGUF files, too, is marked with *.
 *
 *     windows N [every M | every KEY M] [from M | from KEY M] [unlisted] [first]
 *                             the window of sliding layers is sliding_window; N where it is
 *                             absent, 0: no window. layer_types says which layers slide. Without
 *                             it, or with `unlisted`, these are the layers from M on, except
 *                             every M-th (`first`: beginning with the first); KEY gives M if
 *                             config.json has it, as a number or a text of M letters
 *     no_windows              refuses layers that layer_types calls sliding
 *     rope_layers sliding     only layers with a window have RoPE
 *     rope_layers sliding_if_any  the same, unless sliding_window is null
 *     rope_layers local       layers with a window have the second RoPE table
 *     rope_layers listed      no_rope_layers or no_rope_layer_interval: layers without RoPE
 *   * set FIELD VALUE         a field has this value
 *     cap KEY FLOAT N         a cap, which null takes away; 0 is refused
 *   * scale embeddings        embeddings are multiplied by the root of dim
 *     scale scores KEY N      scores are divided by the root of KEY
 *   * granite [N]             logits are divided by logits_scaling (N or 1 where it is absent), or
 *                             logit_scale; an attention_multiplier of 0 is refused
 *     wide_ffn                without a key for it, the feed-forward is 4 * dim wide
 *     wide_ffn KEY N          the feed-forward is KEY (or N) * dim wide
 *     shared_width KEY N      the shared expert's width as a number of experts
 *   * kinds KIND [alone]      all layers are of this kind (layer_kind); `alone`: and have no
 *                             feed-forward
 *     kinds KEY NAME=KIND... else KIND [KIND every M | KIND every KEY M]
 *                             KEY's list says the kind of each layer by these names. Without it
 *                             all layers are of the first kind after `else`, but every M-th of
 *                             the second
 *   * latent_heads            completes the widths of latent attention, and the scale of scores
 *   * latent_heads indexers [all]  and says which layers have an indexer of their own; `all`:
 *                             every layer
 *
 * A verb that fewer than three pages use becomes a part of another one or code of its families:
 * `scripts/family-report --check`, a part of `make lint`, counts. */
#ifndef FAMILIES_VERBS_H
#define FAMILIES_VERBS_H

#include "formats/family/family.h"

#endif
