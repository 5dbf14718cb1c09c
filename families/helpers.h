/* Helpers of the families' hooks, for config.json. */
#ifndef FAMILIES_HELPERS_H
#define FAMILIES_HELPERS_H

#include "formats/family/family.h"

/* Sets every layer's window to sliding_window (`absent` where the key is absent; null: no window)
 * or 0. The layers with a window are those that `layer_types` (NULL: none) calls sliding; without
 * it those from `first` on, except every pattern-th layer, counted from 1 (pattern 0: no
 * exception).
 */
Status family_windows(const json_t *json, const json_t *layer_types, Config *config, double absent,
                      uint32_t first, uint32_t pattern, Error *error);

/* Refuses layers that layer_types calls sliding: for models whose use_sliding_window is false. */
Status family_no_windows(const json_t *json, Error *error);

/* Reads sliding_window_pattern (`absent` where the key is absent): every *pattern-th layer has full
 * attention, without a window. */
Status family_pattern(const json_t *json, uint32_t absent, uint32_t *pattern, Error *error);

/* Granite: the logits are divided by logits_scaling, or `absent`. Refuses an attention_multiplier
 * of 0. */
Status family_granite(const json_t *json, double absent, Config *config, Error *error);

/* Sets rope_table of the layers that layer_types calls sliding to 1, of the others to 0. */
void family_local_tables(const json_t *layer_types, Config *config);

/* Sets rope_table to 2 for the layers without RoPE: those with 0 in the list no_rope_layers, or
 * without the list every no_rope_layer_interval-th (4 where the key is absent). */
Status family_no_rope_layers(const json_t *json, Config *config, Error *error);

/* Adds a vector of n ones, for a norm that is applied without weights. */
Status family_add_ones(const RuleContext *context, const char *name, size_t n, Error *error);

/* Adds "lightning.slope" of a layer: a geometric series over the heads, less in later layers, in
 * float32 as transformers computes it for MiniMax-01. */
Status family_add_slopes(const RuleContext *context, uint32_t layer, Error *error);

/* Adds the norms of Falcon Mamba, which are without weights, of what makes the steps, of B and C.
 */
Status family_add_mamba_norms(const RuleContext *context, Error *error);

/* Sets the width of the shared expert, which `key` gives as a number of experts. */
Status family_shared_width(const json_t *json, const char *key, double absent, Config *config,
                           Error *error);

/* Whether layer i has an indexer of its own by a list of its type ("full", "shared") or by a text
 * with a letter for it. */
Status family_indexer_type(const json_t *types, const char *key, uint32_t i, bool *own,
                           Error *error);
/* Which layers have an indexer of their own: by the list indexer_types, by index_topk_pattern, or
 * every index_topk_freq-th from index_skip_topk_offset - 1 on, and those before it. */
Status family_indexers(const json_t *json, Config *config, Error *error);

/* Refuses the key if it is 0 (or less), which means "none" in Config but not in transformers. */
Status family_refuse_zero(const json_t *json, const char *key, Error *error);

/* ---- Latent attention ---- */

/* Completes the widths of heads, and their scale: YaRN's mscale_all_dim multiplies scores. */
Status family_latent_heads(const json_t *json, const RopeKeys *rope, Config *config, Error *error);

/* ---- Layers with a state ---- */

/* What a name in layer_types means. */
typedef struct KindName {
    const char *name;
    LayerKindNumber kind;
} KindName;

/* Sets layer_kind from layer_types; names[] ends with one without a name. */
Status family_state_read_kinds(const json_t *types, const KindName *names, Config *config,
                               Error *error);

/* Reads a whole number of config.json, from `least` to `most`, by a key of json_first; null counts
 * as absent. */
Status family_read_whole(const json_t *json, const char *key, double absent, double least,
                         double most, uint32_t *out, Error *error);

/* The same from 1 to 2^24. */
Status family_state_read_whole(const json_t *json, const char *key, double absent, uint32_t *out,
                               Error *error);

/* Mamba 2: refuses a time_step_limit, which transformers applies to prompts and not to the tokens
 * after them. */
Status family_state_no_step_limit(const json_t *json, Error *error);

#endif
