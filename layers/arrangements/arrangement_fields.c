/* What the arrangements read of the configuration. It stands apart from arrangement_table.c because
 * core/config_fields.c calls it, as layer_config.c does. */
#include "layers/arrangements/arrangement_fields.h"

#include "core/layer_kind.h"
#include "layers/arrangements/ngram_fields.h"

/* clang-format off */
const FieldTable arrangement_hyper_keys = FIELD_TABLE(
    KEY_BOOL("residual_by_depth", residual_by_depth), KEY_AMOUNT("hyper_scale", hyper.mix_scale),
    KEY_AMOUNT("hyper_eps", hyper.mix_eps), KEY_UINT("hyper_rounds", hyper.mix_rounds, 1 << 10));

const FieldTable arrangement_altup_keys = FIELD_TABLE(
    KEY_UINT("per_layer_dim", per_layer.dim, 1 << 12),
    KEY_UINT("per_layer_vocab", per_layer.vocab, 1 << 24),
    KEY_UINT("altup_streams", altup_streams, 16), KEY_UINT("altup_active", altup.active, 15),
    KEY_BOOL("altup_scales", altup.scales), KEY_UINT("laurel_rank", altup.laurel_rank, 1 << 12));

const FieldTable arrangement_mtp_keys =
    FIELD_TABLE(KEY_UINT("mtp_layers", mtp.n_layers, CONFIG_MAX_MTP_LAYERS));

const FieldTable arrangement_block_keys =
    FIELD_TABLE(KEY_UINT("block_layers", block_layers, CONFIG_MAX_LAYERS));

const FieldTable arrangement_product_keys =
    FIELD_TABLE(KEY_UINT("product_keys", product.keys, 1 << 10),
                KEY_UINT("product_experts", product.count, 1 << 20),
                KEY_UINT("product_used", product.per_token, 1 << 10));

const FieldTable arrangement_loop_keys =
    FIELD_TABLE(KEY_UINT("loop_from", loop_from, CONFIG_MAX_LAYERS),
                KEY_UINT("loop_layers", loop_layers, CONFIG_MAX_LAYERS));

/* clang-format on */

static Status validate_altup(const Config *c, Error *error) {
    if (c->altup_streams == 0 || c->altup.active >= c->altup_streams)
        return error_set(error, "altup_active is %u of altup_streams %u", c->altup.active,
                         c->altup_streams);
    if (c->altup.laurel_rank == 0 || c->per_layer.dim == 0)
        return error_set(error, "laurel_rank is %u, per_layer_dim %u: neither may be 0",
                         c->altup.laurel_rank, c->per_layer.dim);
    if (c->experts.count > 0 || !c->gated)
        return error_set(error, "stack 'altup' needs gated feed-forwards and no experts");
    return STATUS_OK;
}

static Status validate_before(const Config *c, Error *error) {
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->stack == STACK_MIXED_NORMS && c->without_ffn[l])
            return error_set(error, "layer %u: stack 'mixed_norms' needs a feed-forward", l);
    if (c->norm_place == NORM_BEFORE && !c->parallel_block) return STATUS_OK;
    return error_set(error, "%s: norm_place must be 'before', without parallel_block",
                     c->stack == STACK_MTP ? "prediction layers" : "stack 'mixed_norms'");
}

/* Layers that predict have keys and a feed-forward of their own. */
static Status validate_prediction(const Config *c, Error *error) {
    for (uint32_t l = c->n_layers - c->mtp.n_layers; l < c->n_layers; l++)
        if (c->kv_distance[l] > 0 || c->without_ffn[l])
            return error_set(error, "layer %u: %s in a prediction layer", l,
                             c->without_ffn[l] ? "without_ffn" : "kv_distance");
    return validate_before(c, error);
}

static Status validate_shortcut(const Config *c, Error *error) {
    if (c->norm_place != NORM_BEFORE || c->parallel_block || c->experts.count == 0)
        return error_set(error, "stack 'shortcut' needs norm_place 'before' and experts");
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l])
            return error_set(error, "layer %u: without_ffn in a stack 'shortcut'", l);
    return STATUS_OK;
}

static Status validate_hyper(const Config *c, Error *error) {
    if (c->norm != NORM_RMS || c->norm_place != NORM_BEFORE || c->parallel_block)
        return error_set(error, "stack 'hyper' needs norm 'rms' and norm_place 'before'");
    if (c->hyper_streams == 0) return error_set(error, "stack 'hyper': altup_streams is 0");
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l])
            return error_set(error, "layer %u: without_ffn in a stack 'hyper'", l);
    return STATUS_OK;
}

/* Middle layers of a stack 'block_sums' that run several times: whole blocks, after the first. */
static Status validate_messages(const Config *c, Error *error) {
    if (c->loop_layers == 0) return STATUS_OK;
    if (c->loops == 0 || c->message_rank == 0 || c->loop_from == 0 ||
        c->loop_from % c->block_layers != 0 || c->loop_layers % c->block_layers != 0 ||
        (uint64_t)c->loop_from + (uint64_t)c->loops * c->loop_layers > c->n_layers)
        return error_set(error,
                         "stack 'block_sums': loop_from is %u, loop_layers %u, altup_streams %u, "
                         "adapter_rank %u, block_layers %u, of n_layers %u",
                         c->loop_from, c->loop_layers, c->loops, c->message_rank, c->block_layers,
                         c->n_layers);
    return STATUS_OK;
}

/* Multiply-adds of the gates of messages. */
static double messages_work(const Config *c) {
    double runs = c->loop_layers > 0 && c->loops > 1 ? c->loops - 1.0 : 0.0;
    return runs * c->loop_layers * 4.0 * 4.0 * c->dim * c->message_rank;
}

/* ZAYA's sums, and both stacks of Inkling. */
static Status validate_inner(const Config *c, Error *error) {
    static const char *const names[] = {[STACK_SCALED_SUMS] = "scaled_sums",
                                        [STACK_CONVOLVED] = "convolved",
                                        [STACK_BLOCK_SUMS] = "block_sums"};
    const char *name = names[c->stack];
    if (c->norm != NORM_RMS || c->norm_place != NORM_BEFORE || c->parallel_block)
        return error_set(error, "stack '%s' needs norm 'rms' and norm_place 'before'", name);
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l] ||
            c->layer_kind[l] != (c->stack == STACK_SCALED_SUMS ? LAYER_CCA : LAYER_RELATIVE))
            return error_set(error, "layer %u: without_ffn, or another attention, in a stack '%s'",
                             l, name);
    if (c->stack == STACK_SCALED_SUMS && (c->router.dim == 0 || c->experts.count == 0))
        return error_set(error, "stack 'scaled_sums': router_dim is %u, n_experts %u",
                         c->router.dim, c->experts.count);
    if (c->stack == STACK_BLOCK_SUMS && c->block_layers == 0)
        return error_set(error, "stack 'block_sums': block_layers is 0");
    return c->stack == STACK_BLOCK_SUMS ? validate_messages(c, error) : STATUS_OK;
}

static Status validate_gated(const Config *c, Error *error) {
    if (c->norm != NORM_RMS || c->norm_place != NORM_BEFORE || c->parallel_block)
        return error_set(error, "stack 'gated_streams' needs norm 'rms' and norm_place 'before'");
    if (c->gated_streams == 0 || c->stream_gate_rank == 0)
        return error_set(error, "stack 'gated_streams': altup_streams is %u, adapter_rank %u",
                         c->gated_streams, c->stream_gate_rank);
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l])
            return error_set(error, "layer %u: without_ffn in a stack 'gated_streams'", l);
    return ngram_validate(c, error);
}

/* Checks the configuration of models with gates of the residual stream. Muse Spark, with norms
 * around its blocks, and Doge, with norms before them. */
static Status validate_residual_gates(const Config *c, Error *error) {
    bool around = c->norm_place == NORM_AROUND;
    const ProductConfig *p = &c->product;
    if (c->norm != NORM_RMS || (!around && c->norm_place != NORM_BEFORE) || c->parallel_block)
        return error_set(error, "stack 'residual_gates' needs norm 'rms' and norm_place 'around' "
                                "or 'before'");
    if (c->experts.count > 0 && (!around || c->experts.dim == 0 || c->experts.dim > c->dim ||
                                 c->experts.identity > 0 || c->experts.shared_ffn_dim > 0))
        return error_set(error,
                         "stack 'residual_gates': expert_dim is %u, but must be 1 to dim (%u), "
                         "with norm_place 'around' and without zero_experts and shared_ffn_dim",
                         c->experts.dim, c->dim);
    if (p->count > 0 && (around || p->keys == 0 || (uint64_t)p->keys * p->keys > p->count ||
                         p->per_token == 0 || (uint64_t)p->per_token > (uint64_t)p->keys * p->keys))
        return error_set(error,
                         "stack 'residual_gates': product_used is %u, product_keys %u, "
                         "product_experts %u",
                         p->per_token, p->keys, p->count);
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l] || (c->layer_kind[l] != LAYER_ATTENTION &&
                                  (around || c->layer_kind[l] != LAYER_DYNAMIC_MASK)))
            return error_set(error, "layer %u: every layer of this stack must attend", l);
    return STATUS_OK;
}

static Status validate_cycles(const Config *c, Error *error) {
    if (c->norm != NORM_RMS || c->norm_place != NORM_BEFORE || c->parallel_block)
        return error_set(error, "stack 'cycles' needs norm 'rms' and norm_place 'before'");
    if (c->block_layers == 0 || c->low_cycles == 0 ||
        c->n_layers % (c->block_layers * (c->low_cycles + 1)) != 0)
        return error_set(error,
                         "stack 'cycles': block_layers is %u, altup_streams %u, of n_layers %u",
                         c->block_layers, c->low_cycles, c->n_layers);
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l] || c->layer_kind[l] != LAYER_ATTENTION)
            return error_set(error,
                             "layer %u: every layer of a stack 'cycles' attends and has a "
                             "feed-forward",
                             l);
    return STATUS_OK;
}

static Status validate_looped(const Config *c, Error *error) {
    if (c->norm != NORM_RMS || c->norm_place != NORM_AROUND || c->parallel_block)
        return error_set(error, "stack 'looped' needs norm 'rms' and norm_place 'around'");
    if (c->block_layers == 0 || c->loops == 0 ||
        (uint64_t)c->loop_from + (uint64_t)c->loops * c->block_layers > c->n_layers)
        return error_set(error,
                         "stack 'looped': loop_from is %u, altup_streams %u, block_layers %u, of "
                         "n_layers %u",
                         c->loop_from, c->loops, c->block_layers, c->n_layers);
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->without_ffn[l] || c->layer_kind[l] != LAYER_ATTENTION || c->experts.count > 0)
            return error_set(error,
                             "layer %u: every layer of a stack 'looped' attends and has a "
                             "feed-forward without experts",
                             l);
    return STATUS_OK;
}

/* Checks what the stack needs, by a function of each stack's own where it has one. */
Status arrangement_validate(const Config *c, Error *error) {
    if (c->stack == STACK_LOOPED) return validate_looped(c, error);
    if (c->stack == STACK_CYCLES) return validate_cycles(c, error);
    if (c->stack == STACK_RESIDUAL_GATES) return validate_residual_gates(c, error);
    if (c->stack == STACK_GATED_STREAMS) return validate_gated(c, error);
    if (c->stack == STACK_HYPER) return validate_hyper(c, error);
    if (c->stack == STACK_SCALED_SUMS || c->stack == STACK_CONVOLVED ||
        c->stack == STACK_BLOCK_SUMS)
        return validate_inner(c, error);
    if (c->stack == STACK_SHORTCUT) return validate_shortcut(c, error);
    if (c->stack == STACK_MTP) return validate_prediction(c, error);
    if (c->stack == STACK_MIXED_NORMS) return validate_before(c, error);
    if (c->norm != NORM_RMS || c->norm_place != NORM_AROUND || c->parallel_block)
        return error_set(error, "this stack needs norm 'rms' and norm_place 'around'");
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] != LAYER_ATTENTION)
            return error_set(error, "layer %u: every layer of this stack must attend", l);
    if ((uint64_t)c->n_layers * c->per_layer.dim > 1 << 20 ||
        (c->per_layer.dim > 0 && c->per_layer.vocab == 0))
        return error_set(error, "per_layer_dim is %u, per_layer_vocab %u, n_layers %u",
                         c->per_layer.dim, c->per_layer.vocab, c->n_layers);
    return c->stack == STACK_ALTUP ? validate_altup(c, error) : STATUS_OK;
}

/* Counts the products that belong to no layer kind, a case for each stack. */
double arrangement_work(const Config *c) {
    double dim = c->dim, layers = c->n_layers;
    double work = layers * dim * 3.0 * c->per_layer.dim;
    if (c->stack == STACK_MTP) return 2.0 * dim * dim;
    if (c->stack == STACK_SCALED_SUMS)
        return layers * c->router.dim * (dim + 2.0 * c->router.dim + c->experts.count);
    if (c->stack == STACK_BLOCK_SUMS) return messages_work(c);
    if (c->stack == STACK_CONVOLVED || c->stack == STACK_CYCLES || c->stack == STACK_LOOPED)
        return 0;
    if (c->stack == STACK_GATED_STREAMS)
        return (2.0 * layers + 1.0) * c->gated_streams * dim * 2.0 * c->stream_gate_rank +
               2.0 * layers * c->gated_streams * c->gated_streams * dim + ngram_work(c);
    if (c->stack == STACK_RESIDUAL_GATES)
        return layers * 2.0 * dim *
               (c->experts.dim + (double)c->product.keys + c->product.per_token);
    if (c->stack == STACK_MIXED_NORMS) return layers * 4.0 * dim * c->norm_gate_rank;
    if (c->stack == STACK_HYPER) {
        double streams = c->hyper_streams;
        double mixed =
            c->hyper.mix_rounds > 0 ? streams + 1.0 : 0.0;           /* for each stream and block */
        double sums = 4.0 * c->hyper.mix_rounds * streams * streams; /* of each block */
        return (layers * (4.0 + 2.0 * mixed) + 1.0) * streams * streams * dim + 2.0 * layers * sums;
    }
    if (c->stack == STACK_ALTUP)
        work += layers * dim * 2.0 * ((double)c->altup_streams + c->altup.laurel_rank) +
                2.0 * (c->altup_streams - 1.0) * dim * dim;
    for (uint32_t l = 0; c->experts.count > 0 && l < c->n_layers; l++)
        work += dim * (c->gated ? 3.0 : 2.0) * config_ffn_dim(c, l); /* beside the experts */
    return work;
}
