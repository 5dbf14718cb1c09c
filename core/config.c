/* The defaults, and what follows from the fields for one layer.
 *
 * A Config has 27 KB, 26 of them in its 13 arrays by layer. They stay in it by value, because
 * whoever copies a Config changes them: prediction layers extend them (layers/arrangements/mtp.c),
 * --override and the search for the nearest family change a copy and compare it by memcmp
 * (modes/open/overrides.c, formats/family/family_match.c). With a pointer each of these would
 * need a deep copy and an owner, and a plain assignment would share what it seems to copy. Copies
 * are few: a process has one for each open model.bin, one more where that has prediction layers,
 * and while it converts that of the source; the others live for one call. Elements of 8, 16 and 32
 * bits, as their limits allow, would still be 15 KB, and each row of the tables of fields would
 * need its width. */
#include "core/config.h"

HeadShape config_heads(const Config *c, size_t l) {
    HeadShape heads = {
        .n_heads = c->layer_n_heads[l] ? c->layer_n_heads[l] : c->n_heads,
        .n_kv_heads = c->layer_n_kv_heads[l] ? c->layer_n_kv_heads[l] : c->n_kv_heads,
        .head_dim = c->layer_head_dim[l] ? c->layer_head_dim[l] : c->head_dim,
        .rotary_dim = c->rotary_dim,
    };
    heads.value_dim = c->value_dim ? c->value_dim : heads.head_dim;
    if (c->rope_table[l] == 1 && c->latent.local_value_dim)
        heads.value_dim = c->latent.local_value_dim;
    if (c->rope_table[l] == 1 && c->rope_local_rotary_dim)
        heads.rotary_dim = c->rope_local_rotary_dim;
    if (c->rope_table[l] == 2 && c->latent.nope_without_shared_key) heads.rotary_dim = 0;
    return heads;
}

Status config_check_rotary(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    bool rotates = c->position == POSITION_ROPE && c->rope_table[l] < 2;
    if (rotates && (h.rotary_dim == 0 || h.rotary_dim % 2 != 0 || h.rotary_dim > h.head_dim))
        return error_set(error,
                         "layer %u: rotary_dim is %u, but must be even and at most head_dim (%u)",
                         l, h.rotary_dim, h.head_dim);
    return STATUS_OK;
}

LatentShape config_latent(const Config *c, size_t l) {
    const LatentConfig *latent = &c->latent;
    LatentShape shape = {latent->kv_lora_rank, latent->q_lora_rank, latent->scale,
                         c->attention_scale};
    if (c->rope_table[l] != 1) return shape;
    if (latent->local_kv_lora_rank) shape.kv_lora_rank = latent->local_kv_lora_rank;
    if (latent->local_q_lora_rank) shape.q_lora_rank = latent->local_q_lora_rank;
    if (latent->local_scale != 0.0f) shape.scale = latent->local_scale;
    if (latent->local_attention_scale != 0.0f)
        shape.attention_scale = latent->local_attention_scale;
    return shape;
}

uint32_t config_ffn_dim(const Config *c, size_t l) {
    return c->layer_ffn_dim[l] ? c->layer_ffn_dim[l] : c->ffn_dim;
}

Config config_default(void) {
    return (Config){
        .norm = NORM_RMS,
        .norm_place = NORM_BEFORE,
        .norm_eps = 1e-5f,
        .final_norm = true,
        .position = POSITION_ROPE,
        .rope_attention_factor = 1.0f,
        .rope_local_attention_factor = 1.0f,
        .rope_theta = 10000.0f,
        .sinusoid_base = 10000.0f,
        .gate_activation = ACTIVATION_SIGMOID,
        .value_scale = 1.0f,
        .alibi_max_bias = 8.0f,
        .activation = ACTIVATION_SILU,
        .gated = true,
        .embedding_scale = 1.0f,
        .residual_scale = 1.0f,
        .router.sum_min = 1e-20f,
        .router.scale = 1.0f,
        .experts.shared_scale = 1.0f,
        .logit_scale = 1.0f,
        .bos_id = -1,
    };
}
