/* Fields of Config: each changes the logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config_fields.h"
#include "convert/convert_target.h"
#include "layers/arrangements/arrangement_fields.h"
#include "layers/arrangements/ngram_fields.h"
#include "layers/attention/compressed_fields.h"
#include "layers/layer_fields.h"
#include "layers/attention/relative_fields.h"
#include "layers/experts/mixture_fields.h"
#include "layers/state/state_fields.h"
#include "tests/fixture.h"
#include "tests/tiny_model.h"

typedef struct Flip {
    const char *fixture, *field;
    double value;
} Flip;

/* Opens the fixture's model with one field of its Config changed and returns the logits of its
 * text. */
static float *run_with(const Fixture *f, const char *source, const char *field, double value) {
    Error error;
    ConvertOptions convert = {.type = "f32", .n_threads = 1};
    ModelOptions options = {.n_threads = 1};
    TinyModel tiny = {.vocab_size = f->vocab_size};
    int fd = -1;
    if (convert_temporary(source, &convert, &fd, &error) != STATUS_OK ||
        modelfile_open(&tiny.file, source, fd, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Config *config = (Config *)modelfile_config(tiny.file);
    const ConfigField *at = NULL;
    for (size_t i = 0; field && (at = config_field(i)) && strcmp(at->name, field) != 0;) i++;
    if (field && !at) fail_msg("no field '%s'", field);
    void *out = at ? (char *)config + at->offset : NULL;
    if (at && at->kind == FIELD_FLOAT) *(float *)out = (float)value;
    if (at && at->kind == FIELD_BOOL) *(bool *)out = value != 0;
    if (at && (at->kind == FIELD_UINT || at->kind == FIELD_ENUM))
        *(uint32_t *)out = (uint32_t)value;
    for (uint32_t i = 0; at && at->kind == FIELD_PER_LAYER && i < config->n_layers; i++)
        ((uint32_t *)out)[i] = (uint32_t)value;
    if (model_open(&tiny.model, tiny.file, &options, &error) != STATUS_OK)
        fail_msg("%s, %s: %s", f->name, field ? field : "as it is", error.text);
    KvShape shape = model_kv_shape(tiny.model, KV_F32);
    if (kvcache_new(&tiny.cache, &shape, 1, 0, &error) != STATUS_OK) fail_msg("%s", error.text);
    float *logits = tiny_model_run(&tiny, 0, 0, f->ids, f->n_ids, f->n_ids < 200 ? f->n_ids : 100);
    tiny_model_close(&tiny);
    return logits;
}

static const Flip flips[] = {
    {"llama-mha", "norm", NORM_LAYER},
    {"llama-mha", "norm_eps", 0.1},
    {"guide-mha", "norm_place", NORM_BEFORE},
    {"llama-mha", "final_norm", 0},
    {"gpt_neox", "parallel_block", 0},
    {"llama-mha", "position", POSITION_NONE},
    {"guide-mha", "position", POSITION_NONE},
    {"gpt2", "position", POSITION_NONE},
    {"bloom", "position", POSITION_NONE},
    {"llama-mha", "rope_pairing", ROPE_INTERLEAVED},
    {"llama-rope-yarn", "rope_attention_factor", 1},
    {"gemma3", "rope_local_attention_factor", 2},
    {"bloom", "norm_place", NORM_STREAM},
    {"guide-mha", "sinusoid_layout", SINUSOID_HALVES},
    {"xglm", "position_offset", 0},
    {"llama-mha", "attention_scale", 1},
    {"gpt2-layers", "attention_scale_falls", 0},
    {"gemma2", "attention_softcap", 0},
    {"mpt", "qkv_clip", 0},
    {"qwen3-gqa", "qk_norm", QK_NORM_NONE},
    {"llama-mha", "activation", ACTIVATION_GELU},
    {"gpt2", "activation", ACTIVATION_RELU},
    {"gemma", "activation", ACTIVATION_RELU},
    {"gpt_oss", "swiglu_limit", 0.5},
    {"mixtral", "n_experts_used", 1},
    {"qwen2_moe", "shared_ffn_dim", 0},
    {"qwen2_moe", "router", ROUTER_SOFTMAX_CHOSEN},
    {"phimoe", "router", ROUTER_SOFTMAX},
    {"phimoe", "router_jitter", 1},
    {"glm4_moe", "router", ROUTER_SOFTMAX_SCORES},
    {"glm4_moe", "router_scale", 1},
    {"glm4_moe", "router_normalize", 0},
    {"glm4_moe-groups", "router_groups", 1},
    {"glm4_moe-groups", "router_groups_used", 3},
    {"glm4_moe-groups", "router_softcap", 0.5},
    {"ernie4_5_moe-bias", "router_sum_min", 0.001},
    {"kolibri1", "router_ranks_logits", 0},
    {"beam", "residual_by_depth", 0},
    {"minimax_m3_vl_text", "index_topk", 2},
    {"minimax_m3_vl_text", "index_block", 4},
    {"minimax_m3_vl_text", "index_local", 2},
    {"cohere2_moe", "shared_scale", 1},
    {"mimo_v2_flash", "value_scale", 1},
    {"laguna", "gate_activation", ACTIVATION_SIGMOID},
    {"laguna-elements", "router_softcap", 0},
    {"gemma", "embedding_scale", 1},
    {"granite", "residual_scale", 1},
    {"cohere", "logit_scale", 1},
    {"gemma2", "logit_softcap", 0},
    {"mistral-window", "window", 12},
    {"gemma2", "window", 0},
    {"gemma3", "rope_table", 0},
    {"smollm3", "rope_table", 0},
    {"hunyuan_v1_dense", "qk_norm_after_rope", 0},
    {"ministral3", "query_scaling", 0},
    {"ministral3", "query_scaling_floor", 3},
    {"ministral3", "query_power", 1},
    {"llama4", "query_scaling_unrotated", 0},
    {"llama4", "chunk", 0},
    {"llama4", "router", ROUTER_SOFTMAX_CHOSEN},
    {"llama4", "share_on_input", 0},
    {"arcee", "activation", ACTIVATION_RELU},
    {"apertus", "activation", ACTIVATION_SILU},
    {"olmo3", "rope_table", 0},
    {"bitnet", "round_inputs", 0},
    {"muse_glimmer", "post_norm_eps", 1},
    {"muse_spark", "head_output_norm", 0},
    {"muse_spark", "router_logit_scale", 3},
    {"muse_spark", "post_norm_eps", 1},
    {"dots3_note", "local_latent_scale", 1},
    {"dots3_note", "local_attention_scale", 1},
    {"dots3_note", "index_topk", 3},
    {"dots3_note", "window", 5},
    {"doge", "mask_keep", 5},
    {"doge-moe", "product_used", 3},
    {"gemma4", "value_norm", 0},
    {"gemma4-moe", "router", ROUTER_SOFTMAX_CHOSEN},
    {"gemma3n", "altup_active", 1},
    {"gemma3n", "altup_scales", 0},
    {"qwen3_5", "state_tiled", 0},
    {"bamba", "state_norm_first", 1},
    {"deepseek_v32", "index_topk", 6},
    {"deepseek_v32", "index_interleaved", 1},
    {"glm_moe_dsa", "indexer", INDEXER_NONE},
    {"longcat_flash", "stack", STACK_PLAIN},
    {"glm5_next", "hyper_rounds", 1},
    {"glm5_next", "hyper_scale", 1},
    {"glm5_next", "hyper_eps", 0.3},
    {"glm5_next", "limit_first", 0},
    {"glm5_next", "state_decay_most", 0},
    {"hy_v4", "index_rotates_end", 0},
    {"hy_v4", "index_norm_eps", 0.5},
    {"beam", "query_scaling_floor", 2},
    {"mistral_large4", "logit_softcap", 0},
    {"mistral_large4", "index_interleaved", 0},
    {"minimax_m3_vl_text", "swiglu_limit", 0.3},
    {"glm5_next", "index_topk", 3},
    {"deepseek_v4", "index_topk", 2},
    {"qwen4_exp", "index_topk", 8},
    {"qwen4_exp", "state_sigmoid_gate", 0},
    {"qwen4_exp", "ngram_seed", 5},
    {"qwen4_exp", "ngram_end_token", 3},
    {"zaya", "zero_experts_skip", 0},
    {"zaya", "router", ROUTER_SIGMOID_SCORES},
    {"inkling", "query_scaling", 0},
    {"inkling", "query_scaling_floor", 3},
    {"inkling", "attention_scale", 3},
    {"inkling", "always_experts", 1},
    {"inkling2", "head_clip", 5},
    {"inkling2", "relative_clip", 5},
    {"inkling2", "value_norm", 0},
    {"inkling2", "gate_softcap", 0.5},
    {"inkling2", "up_softcap", 0.5},
    {"inkling2", "block_layers", 3},
    {"inkling2_loop", "altup_streams", 1},
    {"inkling2_loop", "loop_layers", 0},
    {"deepseek_v4", "window", 5},
    {"deepseek_v4", "router", ROUTER_SIGMOID_SCORES},
    {"deepseek_v4", "swiglu_limit", 0.3},
    {"longcat_flash", "latent_scale", 1},
    {"falcon_mamba-bias", "state_norm_eps", 0.5},
    {"jetmoe", "final_norm_eps", 1},
    {"chameleon", "qk_layer_norm_eps", 0},
    {"chameleon", "qk_layer_norm_eps", 1},
    {"rwkv", "rwkv_rescale_every", 0},
    {"rwkv", "final_norm_eps", 0.5},
    {"hrm_text", "altup_streams", 5}, /* 6 runs of a module: 5 low, one high */
    {"hrm_text-bias", "block_layers", 1},
    {"dory-pairs", "altup_streams", 2},
    {"dory", "loop_from", 0},
    {"xlstm", "mlstm_gate_cap", 1},
    {"xlstm-bias", "mlstm_eps", 0.5},
};

static void every_field_moves_the_logits_by_a_hundred_tolerances(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        Fixture f = fixture_load(flips[i].fixture);
        char *source = fixture_source(&f);
        float *before = run_with(&f, source, NULL, 0);
        float *after = run_with(&f, source, flips[i].field, flips[i].value);
        double worst = 0;
        for (size_t k = 0; k < f.n_ids * f.vocab_size; k++)
            worst = fmax(worst, fabs((double)after[k] - (double)before[k]));
        if (!(worst > 100 * 1e-4 * f.passes[0].std))
            fail_msg("%s of %s moves no logit by more than %g deviations", flips[i].field, f.name,
                     worst / f.passes[0].std);
        fixture_remove_directory(source);
        fixture_free(&f);
        free(before);
        free(after);
    }
}

/* Of a text that is longer than a segment of the cache. */
static void attention_to_all_blocks_has_the_bits_of_full_attention(void **state) {
    (void)state;
    enum { LONG = 1100 };
    Fixture f = fixture_load("minimax_m3_vl");
    char *source = fixture_source(&f);
    int32_t ids[LONG], *own = f.ids;
    size_t n = f.n_ids;
    for (size_t i = 0; i < LONG; i++) ids[i] = own[(i + i / n) % n];
    f.ids = ids;
    f.n_ids = LONG;
    float *all = run_with(&f, source, "index_topk", LONG);
    float *full = run_with(&f, source, "layer_kind", LAYER_ATTENTION);
    float *some = run_with(&f, source, NULL, 0);
    assert_memory_equal(all, full, LONG * f.vocab_size * sizeof *all);
    assert_true(memcmp(some, full, LONG * f.vocab_size * sizeof *all) != 0);
    f.ids = own;
    f.n_ids = n;
    fixture_remove_directory(source);
    fixture_free(&f);
    free(all);
    free(full);
    free(some);
}

/* Every row of a mechanism's table is in the order of all keys (layers/layer_config.c), and the
 * rows of a table stand together. */
static void assert_given_once(const FieldTable *table) {
    const ConfigField *field;
    size_t times = 0, i;
    for (i = 0; (field = config_field(i)); i++) {
        if (field != table->rows) continue;
        times++;
        for (size_t k = 0; k < table->n; k++)
            assert_ptr_equal(config_field(i + k), table->rows + k);
    }
    if (times != 1) fail_msg("'%s' is given %zu times", table->rows[0].name, times);
}

static void each_key_of_a_mechanism_is_written_once(void **state) {
    static const FieldTable *const all[] = {
        &mixture_keys,
        &mixture_limit_keys,
        &mixture_group_keys,
        &mixture_always_keys,
        &mixture_softcap_keys,
        &mixture_router_dim_keys,
        &mixture_logit_scale_keys,
        &latent_keys,
        &latent_indexer_keys,
        &latent_variant_keys,
        &latent_pooled_indexer_keys,
        &latent_local_keys,
        &state_keys,
        &state_shared_block_keys,
        &state_delta_keys,
        &state_gate_keys,
        &state_mix_keys,
        &arrangement_hyper_keys,
        &arrangement_altup_keys,
        &arrangement_mtp_keys,
        &arrangement_block_keys,
        &arrangement_product_keys,
        &arrangement_loop_keys,
        &compressed_keys,
        &relative_keys,
        &dynamic_mask_keys,
        &rwkv_keys,
        &mlstm_keys,
        &ngram_keys,
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_given_once(all[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_of_a_mechanism_is_written_once),
        cmocka_unit_test(every_field_moves_the_logits_by_a_hundred_tolerances),
        cmocka_unit_test(attention_to_all_blocks_has_the_bits_of_full_attention),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
