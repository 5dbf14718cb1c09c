/* Helpers of the families' hooks, for GGUF files. */
#ifndef FAMILIES_GGUF_HELPERS_H
#define FAMILIES_GGUF_HELPERS_H

#include "formats/family/gguf_family.h"

/* Reads the widths of latent attention, which all layers have. */
GgufFinish gguf_latent_finish;

/* Granite: the logits are divided by logit_scale; a model without RoPE is refused. */
Status gguf_granite(const GgufModel *m, Config *c);

/* Reads YaRN's mscale_all_dim; the file holds a tenth of it. */
void gguf_scale_scores(const GgufModel *m, Config *c);

/* DeepSeek V2 and V3, and what llama.cpp takes for them: GLM-4.7-Flash, Youtu, Kimi K2. */
GgufFinish gguf_deepseek2_finish;

/* DeepSeek V3.2 and GLM-5: the sizes of indexers. A layer without one of its own takes the choice
 * of the one before it. */
void gguf_indexers(const GgufModel *m, Config *c);

/* Reads the sizes of the states. */
GgufFinish gguf_read_state;

/* Layers without key/value heads are of the kind `other`, the rest of the kind `attends`. */
Status gguf_kinds_by_heads(const GgufModel *m, Config *c, LayerKindNumber attends,
                           LayerKindNumber other);

/* Sets *limit to the limit of all gates, from swiglu_clamp_exp and _shexp, lists of one number for
 * each layer; 0 where the file has none. Refuses limits that differ. */
Status gguf_gate_limit(const GgufModel *m, float *limit);

/* Layers with delta attention beside latent attention: those have no key/value heads in the file,
 * and as many heads of a state, kda.head_dim wide, as the others have heads. */
Status gguf_kda_sizes(const GgufModel *m, Config *c);

/* Adds the convolutions ssm_conv1d_q, _k and _v of these layers, joined. */
Status gguf_join_kda(GgufModel *m);

/* Every full_attention_interval-th layer, or those that attention.recurrent_layers leaves out, is
 * of the kind `attends`, the others are LAYER_DELTA. */
Status gguf_delta_kinds(const GgufModel *m, Config *c, LayerKindNumber attends);

#endif
