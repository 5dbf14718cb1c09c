#include "formats/page_tables.h"

#include <string.h>

#define FLAG(type, name)                                                                           \
    { #name, MEMBER_FLAG, offsetof(type, name) }
#define NUMBER(type, name)                                                                         \
    { #name, MEMBER_NUMBER, offsetof(type, name) }
#define TEXT(type, name)                                                                           \
    { #name, MEMBER_TEXT, offsetof(type, name) }

const PageMember page_rope_members[] = {
    FLAG(RopeKeys, none),
    TEXT(RopeKeys, theta),
    TEXT(RopeKeys, part),
    NUMBER(RopeKeys, part_absent),
    TEXT(RopeKeys, count),
    FLAG(RopeKeys, part_is_even),
    NUMBER(RopeKeys, original_context),
    TEXT(RopeKeys, absent),
    NUMBER(RopeKeys, local_theta),
    TEXT(RopeKeys, local_theta_key),
    NUMBER(RopeKeys, local_theta_given),
    FLAG(RopeKeys, yarn_is_longrope),
    FLAG(RopeKeys, has_mscales),
    FLAG(RopeKeys, has_sections),
    FLAG(RopeKeys, has_alpha),
    FLAG(RopeKeys, has_xdrope),
    FLAG(RopeKeys, layer_thetas),
    FLAG(RopeKeys, layer_lists),
    FLAG(RopeKeys, scaled_layers),
    FLAG(RopeKeys, reversed),
    TEXT(RopeKeys, learned),
    {0},
};

const PageMember page_family_flags[] = {
    FLAG(Family, reads_text_alone),      FLAG(Family, norms_have_no_bias), FLAG(Family, any_biases),
    FLAG(Family, sinusoid_ends_at_base), FLAG(Family, alibi_is_scaled),    {0},
};

const PageMember page_gguf_flags[] = {
    FLAG(GgufFamily, full_are_not_rotated),
    FLAG(GgufFamily, dense_are_rotated),
    FLAG(GgufFamily, full_is_first),
    FLAG(GgufFamily, mscales_are_equal),
    FLAG(GgufFamily, predicts),
    FLAG(GgufFamily, yarn_keeps_ends),
    FLAG(GgufFamily, pads_rope_freqs),
    {0},
};

const PageMember page_tensor_members[] = {
    FLAG(TensorRule, optional),
    FLAG(TensorRule, own_keys),
    FLAG(TensorRule, each_head),
    FLAG(TensorRule, first_of_pair),
    TEXT(TensorRule, by),
    TEXT(TensorRule, same_as),
    {0},
};

#define CHOICE(name, member, value)                                                                \
    { name, offsetof(TensorRule, member), value }

const PageChoice page_tensor_choices[] = {
    CHOICE("transposed", turned, TURNED_ALWAYS),
    CHOICE("transposed_where_it_fits", turned, TURNED_WHERE_IT_FITS),
    CHOICE("paired", order, ORDER_PAIRED),
    CHOICE("states", order, ORDER_STATES),
    CHOICE("tiled_states", order, ORDER_TILED_STATES),
    CHOICE("plus_one", values, VALUES_PLUS_ONE),
    CHOICE("minus_exp", values, VALUES_MINUS_EXP),
    {0},
};

const char *const page_forms[] = {"linear", "norm", "matrix", "vector", "table", NULL};

const char *const page_predictions[] = {"none", "mtp", "nextn", "gguf", NULL};

/* What the readers of layers ask for, without their numbers. */
static const char *const tensors[] = {
    "altup.correct",
    "altup.predict",
    "altup.router",
    "altup.router_norm",
    "altup.scale",
    "attention_gate",
    "attention_inner_norm",
    "attention_norm",
    "attention_norm.gate_down",
    "attention_norm.gate_up",
    "block_out",
    "convolution.b",
    "convolution.c",
    "convolution.out",
    "convolution.taps",
    "convolution.taps.bias",
    "convolution.x",
    "delta.a",
    "delta.b",
    "delta.convolution",
    "delta.decay",
    "delta.k",
    "delta.norm",
    "delta.out",
    "delta.q",
    "delta.step_bias",
    "delta.v",
    "delta.z",
    "embedding_norm",
    "experts.%u.w_down",
    "experts.%u.w_down.bias",
    "experts.%u.w_gate",
    "experts.%u.w_gate.bias",
    "experts.%u.w_up",
    "experts.%u.w_up.bias",
    "experts_in",
    "experts_out",
    "ffn_inner_norm",
    "ffn_norm",
    "ffn_norm.gate_down",
    "ffn_norm.gate_up",
    "final_norm",
    "hyper.attention",
    "hyper.attention.base",
    "hyper.attention.scale",
    "hyper.end",
    "hyper.end.base",
    "hyper.end.scale",
    "hyper.ffn",
    "hyper.ffn.base",
    "hyper.ffn.scale",
    "indexer.k_norm",
    "indexer.q_norm",
    "indexer.q_offset",
    "indexer.q_scale",
    "indexer.weights",
    "indexer.wk",
    "indexer.wq",
    "k_b.%u",
    "k_norm",
    "kv_norm",
    "laurel.left",
    "laurel.norm",
    "laurel.right",
    "lightning.gate",
    "lightning.k",
    "lightning.norm",
    "lightning.out",
    "lightning.q",
    "lightning.slope",
    "lightning.v",
    "mamba.b",
    "mamba.b_norm",
    "mamba.c",
    "mamba.c_norm",
    "mamba.decay",
    "mamba.norm",
    "mamba.out",
    "mamba.rank",
    "mamba.rank_norm",
    "mamba.skip",
    "mamba.step",
    "mamba.step_bias",
    "mamba.taps",
    "mamba.taps.bias",
    "mamba.x",
    "mamba.z",
    "output",
    "output_scale",
    "per_layer.embedding",
    "per_layer.gate",
    "per_layer.norm",
    "per_layer.projection",
    "position_embedding",
    "post_attention_norm",
    "post_ffn_norm",
    "q_norm",
    "q_offset",
    "q_scale",
    "router",
    "router.correction",
    "shared.router",
    "shared.w_down",
    "shared.w_down.bias",
    "shared.w_gate",
    "shared.w_up",
    "shared.w_up.bias",
    "sinks",
    "token_embedding",
    "v_b.%u",
    "w_down",
    "w_down.bias",
    "w_gate",
    "w_gate.bias",
    "w_up",
    "w_up.bias",
    "wk",
    "wkv_a",
    "wo",
    "wq",
    "wq_a",
    "wq_b",
    "wv",
};

bool page_is_tensor(const char *name, size_t bytes) {
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strncmp(tensors[i], name, bytes) == 0 && tensors[i][bytes] == '\0') return true;
    return false;
}
