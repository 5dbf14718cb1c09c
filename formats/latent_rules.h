/* Shorthands that families with latent attention share, whichever file their entries are in. */
#ifndef FORMATS_LATENT_RULES_H
#define FORMATS_LATENT_RULES_H

#include "formats/expert_rules.h"

/* ---- Keys ---- */

/* The widths of the latents and of a head's parts; head_dim is completed by latent_heads. */
#define LATENT_KEYS(kv, q, rest, rotated, value)                                                   \
    {"kv_lora_rank", "latent_dim", kv}, {"q_lora_rank", "latent_q_dim", q},                        \
        {"qk_nope_head_dim", "head_dim", rest}, {"qk_rope_head_dim", "rotary_dim", rotated}, {     \
        "v_head_dim", "value_dim", value                                                           \
    }
#define REST_KEYS(positions, epsilon)                                                              \
    CONTEXT(positions), {"rms_norm_eps", "norm_eps", epsilon}, {                                   \
        "hidden_act", "activation", ACTIVATION_SILU                                                \
    }
/* The indexer's sizes. */
#define INDEX_KEYS(heads)                                                                          \
    {"index_topk", "index_topk", 2048}, {"index_head_dim", "index_dim", 128}, {                    \
        "index_n_heads", "index_heads", heads                                                      \
    }
#define ANY_EXPERTS "num_experts|n_routed_experts|num_local_experts"

/* ---- Biases ---- */

#define LATENT_BIASES                                                                              \
    { " wq_a wkv_a wo ", "attention_bias", false }

/* ---- For `preset` and `finish` functions ---- */

/* DeepSeek V3: pairs of RoPE side by side, sigmoid scores. */
void latent_preset(Config *config);
/* Softmax scores, groups ranked by their best two. */
void mistral4_preset(Config *config);

/* Completes the widths of heads, and their scale: YaRN's mscale_all_dim multiplies scores. */
Status latent_heads(const json_t *json, const RopeKeys *rope, Config *config, Error *error);

#endif
