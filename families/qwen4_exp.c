/* Qwen4-Exp: gated DeltaNet beside attention to chosen pools, streams that low-rank gates read, and
 * embeddings of n-grams. */
#include "families/shared.h"

/* ---- The configuration ---- */

/* Which layers have n-grams: ple_layer_ids counts them from 1. */
static Status read_ngrams(const json_t *json, Config *c, Error *error) {
    const json_t *ids = json_value(json, "ple_layer_ids"), *id;
    const json_t *end = json_value(json, "eos_token_id");
    double dim = json_number(json, "ple_embed_dim", c->dim);
    uint32_t n = 0;
    size_t i;
    if (ids && !json_is_array(ids))
        return error_set(error, "config.json: ple_layer_ids is no list");
    json_array_foreach((json_t *)ids, i, id) {
        double number = json_is_integer(id) ? json_number_value(id) : 0;
        if (!(number >= 1 && number <= c->n_layers))
            return error_set(error, "config.json: ple_layer_ids names layer %g", number);
        c->ngram.layer[(size_t)number - 1] = 1;
    }
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->ngram.layer[l] > 0) c->ngram.layer[l] = ++n;
    if (n == 0) {
        c->ngram = (NgramConfig){0};
        return STATUS_OK;
    }
    if (json_is_array(end)) end = json_array_get(end, 0);
    if (!json_is_integer(end) || json_number_value(end) < 0 || json_number_value(end) > 1e9)
        return error_set(error, "config.json: ple_layer_ids needs an eos_token_id");
    if (!(dim >= 1 && dim <= 1 << 16 && dim == floor(dim)))
        return error_set(error, "config.json: ple_embed_dim is %g", dim);
    size_t tables = ngram_hash_tables(&c->ngram.hash);
    if (c->ngram.hash.size > NGRAM_HASH_MAX_SIZE || tables == 0 || tables > NGRAM_HASH_MAX_TABLES)
        return error_set(error, "config.json: ngram_size %u with heads_per_ngram %u",
                         c->ngram.hash.size, c->ngram.hash.heads);
    c->ngram.end_token = (uint32_t)json_number_value(end);
    c->ngram.dim = (uint32_t)dim;
    return STATUS_OK;
}

static Status qwen4_exp_finish(const json_t *json, Config *c, Error *error) {
    const char *gate = json_text(json, "output_gate_type");
    if (gate && strcmp(gate, "sigmoid") != 0 && strcmp(gate, "silu") != 0)
        return error_set(error, "config.json: output_gate_type '%.40s' is not known", gate);
    c->state.sigmoid_gate = gate && strcmp(gate, "sigmoid") == 0;
    return read_ngrams(json, c, error);
}

/* ---- Tensors of n-grams ---- */

/* Refuses a file whose numbers of 8 bytes are not those that the program computes. */
static Status check_numbers(const RuleContext *context, uint32_t l, const char *name,
                            const uint64_t *expected, size_t n, Error *error) {
    const Source *source = context->source;
    uint64_t stored[NGRAM_HASH_MAX_TABLES];
    char from[128];
    snprintf(from, sizeof from, FROM_LAYER "ple.ple_embedding.%s", l, name);
    RawTensor *raw = rules_find(context, from);
    if (!raw) return STATUS_OK;
    raw->used = true;
    if (strcmp(raw->type_name, "I64") != 0 || raw->bytes != n * 8)
        return error_set(error, "%s: tensor '%.100s' must be %zu whole numbers (I64)", source->path,
                         raw->name, n);
    if (input_read(&source->files[raw->file], raw->offset, stored, n * 8, error) != STATUS_OK)
        return STATUS_FAILED;
    if (memcmp(stored, expected, n * 8) == 0) return STATUS_OK;
    return error_set(error, "%s: tensor '%.100s' is not what config.json's seed and sizes give",
                     source->path, raw->name);
}

/* The parts of a layer's tables. */
static Status add_tables(const RuleContext *context, uint32_t l, const NgramHash *hash,
                         Error *error) {
    const Config *c = &context->source->config;
    for (uint32_t part = 0; part < c->ngram.hash.parts; part++) {
        char to[32], from[96], whole[128], rows[32], cols[32];
        size_t n = ngram_hash_part_rows(&c->ngram.hash, hash, part);
        snprintf(to, sizeof to, "ngram.table.%u", part);
        snprintf(from, sizeof from, ".ple.ple_embedding.ngram_embedding.shard_%u.weight", part);
        snprintf(whole, sizeof whole, FROM_LAYER "ple.ple_embedding.ngram_embedding.weight", l);
        if (c->ngram.hash.parts == 1 && rules_find(context, whole))
            snprintf(from, sizeof from, ".ple.ple_embedding.ngram_embedding.weight");
        snprintf(rows, sizeof rows, "%zu", n);
        snprintf(cols, sizeof cols, "%zu", c->ngram.dim / ngram_hash_tables(&c->ngram.hash));
        const TensorRule rules[] = {MATRIX(to, from, rows, cols), {0}};
        if (n > 0 && rules_apply_to_layer(context, rules, l, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* The convolution's taps, with zeros for the positions between them, from the source's `from`. */
static Status add_taps(const RuleContext *context, uint32_t l, const char *from, Error *error) {
    const Config *c = &context->source->config;
    size_t channels = (size_t)c->gated_streams * c->dim, taps = c->ngram.conv_kernel;
    size_t rows = (taps - 1) * c->ngram.hash.size + 1;
    char name[96];
    float *stored, *values = calloc(rows * channels, sizeof *values);
    if (!values) return error_set(error, "no memory for a convolution");
    if (rules_read(context, from, channels, taps, &stored, error) != STATUS_OK) {
        free(values);
        return STATUS_FAILED;
    }
    for (size_t k = 0; k < taps; k++)
        for (size_t i = 0; i < channels; i++)
            values[k * c->ngram.hash.size * channels + i] = stored[i * taps + k];
    free(stored);
    snprintf(name, sizeof name, "layers.%u.ngram.taps", l);
    return source_add_values(context->source, name, rows, channels, values, error);
}

static Status add_ngrams(const RuleContext *context, uint32_t l, Error *error) {
    const Config *c = &context->source->config;
    size_t n = ngram_hash_tables(&c->ngram.hash);
    char taps[64];
    NgramHash hash;
    snprintf(taps, sizeof taps, FROM_LAYER "ple.conv1d.weight", l);
    ngram_hash_make(&c->ngram.hash, c->ngram.layer[l] - 1, c->vocab_size, &hash);
    if (check_numbers(context, l, "layer_multipliers", hash.factors, c->ngram.hash.size, error) !=
            STATUS_OK ||
        check_numbers(context, l, "ngram_heads_vocab_sizes", hash.sizes, n, error) != STATUS_OK ||
        check_numbers(context, l, "ngram_heads_offsets", hash.offsets, n, error) != STATUS_OK ||
        add_tables(context, l, &hash, error) != STATUS_OK)
        return STATUS_FAILED;
    return add_taps(context, l, taps, error);
}

static Status qwen4_exp_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->ngram.layer[l] > 0 && add_ngrams(context, l, error) != STATUS_OK)
            return STATUS_FAILED;
    return STATUS_OK;
}

/* ---- GGUF ---- */

/* Reads n whole numbers of a list of the n-gram layer. */
static Status gguf_numbers(const GgufModel *m, const char *key, uint64_t *out, size_t n) {
    const GgufValue *found = gguf_model_find(m, key, GGUF_AS_WHOLE);
    for (size_t i = 0; i < n; i++)
        if (!gguf_whole(found, i, &out[i]))
            return error_set(m->error, "%s: %s.%s is not a list of %zu whole numbers",
                             m->source->path, m->architecture, key, n);
    return STATUS_OK;
}

/* Finds the seed that makes the file's factors: the file holds them, but not the seed. */
static bool find_seed(NgramHashing *hashing, uint32_t vocab_size, const uint64_t *factors) {
    NgramHashing short_tables = *hashing;
    NgramHash made;
    short_tables.heads = 0;
    for (uint32_t seed = 0; seed < 1 << 20; seed++) {
        short_tables.seed = seed;
        ngram_hash_make(&short_tables, 0, vocab_size, &made);
        if (memcmp(made.factors, factors, hashing->size * sizeof *factors) != 0) continue;
        hashing->seed = seed;
        return true;
    }
    return false;
}

/* Sets the hashing of the only layer with n-grams, whose tables' sizes are primes from the first
 * one on. */
static Status gguf_hashing(const GgufModel *m, Config *c) {
    NgramHashing *hashing = &c->ngram.hash;
    size_t tables = ngram_hash_tables(hashing);
    uint64_t factors[NGRAM_HASH_MAX_SIZE];
    NgramHash stored = {.rows = 0}, made;
    if (hashing->size > NGRAM_HASH_MAX_SIZE || tables == 0 || tables > NGRAM_HASH_MAX_TABLES)
        return error_set(m->error, "%s: ple.ngram_size %u with ple.heads_per_ngram %u",
                         m->source->path, hashing->size, hashing->heads);
    if (gguf_numbers(m, "ple.layer_multipliers", factors, hashing->size) != STATUS_OK ||
        gguf_numbers(m, "ple.head_offsets", stored.offsets, tables) != STATUS_OK ||
        gguf_numbers(m, "ple.head_vocab_sizes", stored.sizes, tables) != STATUS_OK)
        return STATUS_FAILED;
    hashing->row_factor = hashing->parts = 1;
    hashing->vocab_base = stored.sizes[0] < 1 << 27 ? (uint32_t)stored.sizes[0] : 0;
    if (hashing->vocab_base == 0 || !find_seed(hashing, c->vocab_size, factors))
        return error_set(m->error, "%s: no seed below %u makes ple.layer_multipliers",
                         m->source->path, 1u << 20);
    ngram_hash_make(hashing, 0, c->vocab_size, &made);
    if (memcmp(made.sizes, stored.sizes, tables * sizeof *made.sizes) != 0 ||
        memcmp(made.offsets, stored.offsets, tables * sizeof *made.offsets) != 0)
        return error_set(m->error,
                         "%s: ple.head_vocab_sizes are not neighbouring primes, or "
                         "ple.head_offsets not their sums",
                         m->source->path);
    return STATUS_OK;
}

/* Reads the n-gram embeddings of a GGUF file, which only one layer may have; sets ngram.dim to 0
 * where none has. */
static Status gguf_ngrams(const GgufModel *m, Config *c) {
    const GgufValue *layers = gguf_model_find(m, "ple.layers", GGUF_AS_WHOLE);
    uint64_t layer;
    uint32_t width = 0;
    if (!layers || layers->count == 0) {
        c->ngram = (NgramConfig){.dim = 0};
        return STATUS_OK;
    }
    if (layers->count != 1 || !gguf_whole(layers, 0, &layer) || layer >= c->n_layers ||
        layer >= CONFIG_MAX_LAYERS)
        return error_set(m->error, "%s: ple.layers is not the number of one layer",
                         m->source->path);
    c->ngram.layer[layer] = 1;
    gguf_model_uint(m, "embedding_length_per_layer_input", &width);
    if (!gguf_model_value(m, "ple.eos_token_id"))
        return error_set(m->error, "%s: the key '%s.ple.eos_token_id' is missing", m->source->path,
                         m->prefix);
    if (gguf_hashing(m, c) != STATUS_OK) return STATUS_FAILED;
    if (width < 1 || width > 1 << 12)
        return error_set(m->error, "%s: embedding_length_per_layer_input is %u", m->source->path,
                         width);
    c->ngram.dim = width * (uint32_t)ngram_hash_tables(&c->ngram.hash);
    return STATUS_OK;
}

/* Sets the positions of a pool, equal in all layers that attend. */
static Status gguf_pools(const GgufModel *m, Config *c) {
    const GgufValue *ratios = gguf_model_find(m, "attention.compress_ratios", GGUF_AS_WHOLE);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        double ratio = 0.0;
        if (c->layer_kind[l] != LAYER_CHOSEN) continue;
        if (!gguf_element(ratios, l, &ratio) || !(ratio >= 1.0 && ratio <= 1 << 16) ||
            ratio != floor(ratio) || (c->indexer.pool != 0 && c->indexer.pool != ratio))
            return error_set(m->error,
                             "%s: attention.compress_ratios is not one number of positions for "
                             "all layers that attend",
                             m->source->path);
        c->indexer.pool = (uint32_t)ratio;
    }
    return STATUS_OK;
}

static Status gguf_qwen4_exp_finish(const GgufModel *m, Config *c) {
    if (gguf_delta_kinds(m, c, LAYER_CHOSEN) != STATUS_OK || gguf_read_state(m, c) != STATUS_OK ||
        gguf_pools(m, c) != STATUS_OK)
        return STATUS_FAILED;
    c->ffn_dim = c->experts.ffn_dim;
    return gguf_ngrams(m, c);
}

/* Adds the layer's tables of n-grams, the first rows of one tensor, which is filled up. */
static Status gguf_add_tables(const RuleContext *context, uint32_t l, Error *error) {
    static const char from[] = "per_layer_token_embd.weight";
    const Config *c = &context->source->config;
    const RawTensor *raw = rules_find(context, from);
    char rows[64], cols[32];
    NgramHash hash;
    ngram_hash_make(&c->ngram.hash, c->ngram.layer[l] - 1, c->vocab_size, &hash);
    if (!raw || raw->n_dims != 2 || raw->dims[0] < hash.rows)
        return error_set(error, "%s: has no tensor '%s' of %llu rows or more",
                         context->source->path, from, (unsigned long long)hash.rows);
    uint64_t rest = raw->dims[0] - hash.rows;
    snprintf(rows, sizeof rows, rest > 0 ? "%llu + %llu" : "%llu", (unsigned long long)hash.rows,
             (unsigned long long)rest);
    snprintf(cols, sizeof cols, "%zu", c->ngram.dim / ngram_hash_tables(&c->ngram.hash));
    const TensorRule rules[] = {
        MATRIX(rest > 0 ? "ngram.table.0 -" : "ngram.table.0", from, rows, cols), {0}};
    return rules_apply_to_layer(context, rules, l, error);
}

static Status gguf_qwen4_exp_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char taps[64];
        snprintf(taps, sizeof taps, GGUF_LAYERS "ple_conv1d.weight", l);
        if (c->ngram.layer[l] > 0 && (gguf_add_tables(&context, l, m->error) != STATUS_OK ||
                                      add_taps(&context, l, taps, m->error) != STATUS_OK))
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_qwen4_exp[] = {
    {"qwen4_exp", .finish = qwen4_exp_finish, .more = qwen4_exp_more,
     .gguf_finish = gguf_qwen4_exp_finish, .gguf_more = gguf_qwen4_exp_more},
    {0},
};
