/* GGUF files as models: llama.cpp's names of keys and tensors, split files, the tokenizer and
 * the chat template inside. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "readers.h"
#include "rope.h"

/* ---- Families ---- */

/* Names: gguf-py's TENSOR_NAMES. */
#define WEIGHT(to, from, rows, cols)                                                               \
    { to, from ".weight", rows, cols, .flags = 0 }
#define BIAS(to, from, n)                                                                          \
    { to ".bias", from ".bias", N_ONE, n, .flags = RULE_OPTIONAL }

#define EMBEDDING WEIGHT("token_embedding", "token_embd", N_VOCAB, N_DIM)
#define NORMS                                                                                      \
    WEIGHT("attention_norm", "blk.%u.attn_norm", N_ONE, N_DIM),                                    \
        WEIGHT("ffn_norm", "blk.%u.ffn_norm", N_ONE, N_DIM)
#define ATTENTION                                                                                  \
    WEIGHT("wq", "blk.%u.attn_q", N_Q, N_DIM), WEIGHT("wk", "blk.%u.attn_k", N_KV, N_DIM),         \
        WEIGHT("wv", "blk.%u.attn_v", N_KV, N_DIM),                                                \
        WEIGHT("wo", "blk.%u.attn_output", N_DIM, N_Q), BIAS("wq", "blk.%u.attn_q", N_Q),          \
        BIAS("wk", "blk.%u.attn_k", N_KV), BIAS("wv", "blk.%u.attn_v", N_KV),                      \
        BIAS("wo", "blk.%u.attn_output", N_DIM)
#define QK_NORMS                                                                                   \
    WEIGHT("q_norm", "blk.%u.attn_q_norm", N_ONE, N_HEAD),                                         \
        WEIGHT("k_norm", "blk.%u.attn_k_norm", N_ONE, N_HEAD)
#define FEED_FORWARD                                                                               \
    WEIGHT("w_gate", "blk.%u.ffn_gate", N_FFN, N_DIM),                                             \
        WEIGHT("w_up", "blk.%u.ffn_up", N_FFN, N_DIM),                                             \
        WEIGHT("w_down", "blk.%u.ffn_down", N_DIM, N_FFN),                                         \
        BIAS("w_gate", "blk.%u.ffn_gate", N_FFN), BIAS("w_up", "blk.%u.ffn_up", N_FFN),            \
        BIAS("w_down", "blk.%u.ffn_down", N_DIM)
#define END                                                                                        \
    WEIGHT("final_norm", "output_norm", N_ONE, N_DIM), {                                           \
        "output", "output.weight", N_VOCAB, N_DIM, .flags = RULE_TIED                              \
    }

static const TensorRule llama_tensors[] = {EMBEDDING, NORMS, ATTENTION, FEED_FORWARD, END, {0}};
static const TensorRule qwen3_tensors[] = {EMBEDDING,    NORMS, ATTENTION, QK_NORMS,
                                           FEED_FORWARD, END,   {0}};

static void qwen3_finish(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
}

/* The 1 that Gemma adds to the weights of its norms is in the file already. */
static void gemma_finish(Config *config) {
    config->activation = ACTIVATION_GELU_TANH;
    config->embedding_scale = sqrtf((float)config->dim);
}

typedef struct GgufFamily {
    const char *architecture;
    const TensorRule *tensors;
    /* llama.cpp stores the rows of q and k of a llama in Meta's order, in which a pair that is
     * rotated together stands side by side; of the others as transformers does. */
    RopePairing pairing;
    void (*finish)(Config *config); /* what no key tells; or NULL */
} GgufFamily;

static const GgufFamily families[] = {
    {"llama", llama_tensors, ROPE_INTERLEAVED, NULL},
    {"qwen2", llama_tensors, ROPE_HALVES, NULL},
    {"qwen3", qwen3_tensors, ROPE_HALVES, qwen3_finish},
    {"gemma", llama_tensors, ROPE_HALVES, gemma_finish},
};

/* ---- Split files ---- */

/* "...-00001-of-00003.gguf": the number and how many there are; false for another name. */
static bool split_numbers(const char *path, unsigned *number, unsigned *count) {
    static const char end[] = "-00001-of-00001.gguf";
    size_t n = strlen(path);
    if (n < sizeof end - 1) return false;
    const char *at = path + n - (sizeof end - 1);
    for (size_t i = 0; end[i]; i++)
        if (end[i] == '0' || end[i] == '1' ? !isdigit((unsigned char)at[i]) : at[i] != end[i])
            return false;
    return sscanf(at, "-%5u-of-%5u", number, count) == 2;
}

Status gguf_open_splits(Source *source, Error *error) {
    unsigned number, count;
    if (!split_numbers(source->path, &number, &count)) return STATUS_OK;
    if (count < 1 || number != 1)
        return error_set(error, "%s: part %u of %u: give the first part's name", source->path,
                         number, count);
    size_t n = strlen(source->path) - strlen("00001-of-00001.gguf");
    for (unsigned i = 2; i <= count; i++) {
        char path[4096];
        int length =
            snprintf(path, sizeof path, "%.*s%05u-of-%05u.gguf", (int)n, source->path, i, count);
        if (length < 0 || (size_t)length >= sizeof path)
            return error_set(error, "%s: name too long", source->path);
        if (source_add_file(source, path, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* ---- Reading ---- */

typedef struct Reader {
    Source *source;
    Gguf gguf; /* of the first file, which holds the metadata */
    RawTable table;
    char architecture[32];
    Error *error;
} Reader;

static Status read_files(Reader *r) {
    Source *s = r->source;
    for (size_t i = 0; i < s->n_files; i++) {
        Gguf part;
        Status status = gguf_read(&part, &s->files[i], i, &r->table, r->error);
        uint64_t split_count = 1;
        gguf_uint(&part, "split.count", &split_count);
        if (status == STATUS_OK && split_count > 1 && split_count != s->n_files)
            status = error_set(r->error,
                               "%s: one of %llu parts, but the name does not say so "
                               "(NAME-00001-of-%05llu.gguf)",
                               s->files[i].path, (unsigned long long)split_count,
                               (unsigned long long)split_count);
        if (i == 0) {
            r->gguf = part;
        } else {
            gguf_free(&part);
        }
        if (status != STATUS_OK) return status;
    }
    if (raw_table_sort(&r->table, r->error) != STATUS_OK)
        return error_prefix(r->error, "%s", s->path);
    return STATUS_OK;
}

/* "ARCHITECTURE.rest". */
static const char *key_of(const Reader *r, const char *rest, char *key, size_t size) {
    snprintf(key, size, "%s.%s", r->architecture, rest);
    return key;
}

static bool arch_uint(const Reader *r, const char *rest, uint32_t *value) {
    char key[128];
    uint64_t wide;
    if (!gguf_uint(&r->gguf, key_of(r, rest, key, sizeof key), &wide) || wide > UINT32_MAX)
        return false;
    *value = (uint32_t)wide;
    return true;
}

static bool arch_float(const Reader *r, const char *rest, double *value) {
    char key[128];
    return gguf_float(&r->gguf, key_of(r, rest, key, sizeof key), value);
}

/* A number for all layers, or an array with the same number for each. */
static Status uniform_uint(const Reader *r, const char *rest, uint32_t *value) {
    char key[128];
    const GgufValue *found = gguf_find(&r->gguf, key_of(r, rest, key, sizeof key));
    double first, other;
    if (!gguf_element(found, 0, &first)) return STATUS_OK;
    for (uint64_t i = 1; i < found->count; i++)
        if (!gguf_element(found, i, &other) || other != first)
            return error_set(r->error, "%s: %s differs from layer to layer", r->source->path, key);
    if (!(first >= 0.0) || first > UINT32_MAX)
        return error_set(r->error, "%s: %s is %g", r->source->path, key, first);
    *value = (uint32_t)first;
    return STATUS_OK;
}

static Status read_sizes(Reader *r) {
    Config *c = &r->source->config;
    arch_uint(r, "context_length", &c->context);
    arch_uint(r, "embedding_length", &c->dim);
    arch_uint(r, "block_count", &c->n_layers);
    if (uniform_uint(r, "feed_forward_length", &c->ffn_dim) != STATUS_OK ||
        uniform_uint(r, "attention.head_count", &c->n_heads) != STATUS_OK)
        return STATUS_FAILED;
    c->n_kv_heads = c->n_heads;
    if (uniform_uint(r, "attention.head_count_kv", &c->n_kv_heads) != STATUS_OK)
        return STATUS_FAILED;
    c->head_dim = c->n_heads ? c->dim / c->n_heads : 0;
    arch_uint(r, "attention.key_length", &c->head_dim);
    uint32_t value_length = c->head_dim;
    arch_uint(r, "attention.value_length", &value_length);
    if (value_length != c->head_dim)
        return error_set(r->error,
                         "%s: heads with keys of %u and values of %u elements are not "
                         "known to this program",
                         r->source->path, c->head_dim, value_length);
    c->rotary_dim = c->head_dim;
    arch_uint(r, "rope.dimension_count", &c->rotary_dim);
    const GgufValue *tokens = gguf_find(&r->gguf, "tokenizer.ggml.tokens");
    const RawTensor *embedding = raw_table_find(&r->table, "token_embd.weight");
    arch_uint(r, "vocab_size", &c->vocab_size);
    if (tokens && tokens->count <= UINT32_MAX) c->vocab_size = (uint32_t)tokens->count;
    if (embedding && embedding->n_dims == 2 && embedding->dims[0] <= UINT32_MAX)
        c->vocab_size = (uint32_t)embedding->dims[0];
    return STATUS_OK;
}

static Status read_config(Reader *r) {
    Config *c = &r->source->config;
    TokenizerString name;
    snprintf(c->family, sizeof c->family, "%s", r->architecture);
    if (gguf_text(&r->gguf, "general.name", &name))
        snprintf(c->name, sizeof c->name, "%.*s", name.length < 120 ? (int)name.length : 120,
                 name.bytes);
    if (read_sizes(r) != STATUS_OK) return STATUS_FAILED;
    double eps;
    if (arch_float(r, "attention.layer_norm_rms_epsilon", &eps) ||
        arch_float(r, "attention.layer_norm_epsilon", &eps))
        c->norm_eps = (float)eps;
    double scale = 1.0 / sqrt((double)(c->head_dim ? c->head_dim : 1));
    arch_float(r, "attention.scale", &scale);
    c->attention_scale = (float)scale;
    uint32_t window = 0;
    arch_uint(r, "attention.sliding_window", &window);
    for (size_t i = 0; i < CONFIG_MAX_LAYERS; i++) c->window[i] = window;
    return STATUS_OK;
}

/* ---- Tokenizer and template ---- */

static bool special_id(const Reader *r, const char *key, int32_t *id) {
    uint64_t value;
    if (!gguf_uint(&r->gguf, key, &value) || value >= r->source->config.vocab_size) return false;
    *id = (int32_t)value;
    return true;
}

static void read_switch(const Reader *r, const char *key, int *out) {
    bool value;
    if (gguf_bool(&r->gguf, key, &value)) *out = value;
}

/* An array of numbers as many as there are tokens, copied into 4-byte elements; NULL where it
 * is absent or has another length. */
static void *numbers(const Reader *r, const char *key, size_t n, bool as_float) {
    const GgufValue *found = gguf_find(&r->gguf, key);
    if (!found || !found->is_array || found->count != n) return NULL;
    void *out = malloc((n + 1) * sizeof(float));
    for (size_t i = 0; out && i < n; i++) {
        double number = 0.0;
        gguf_element(found, i, &number);
        if (as_float) {
            ((float *)out)[i] = (float)number;
        } else {
            ((int32_t *)out)[i] = fabs(number) < 1e9 ? (int32_t)number : 0;
        }
    }
    return out;
}

static void read_special_tokens(Reader *r, TokenizerGguf *t) {
    Config *c = &r->source->config;
    special_id(r, "tokenizer.ggml.unknown_token_id", &t->unk_id);
    if (special_id(r, "tokenizer.ggml.bos_token_id", &t->bos_id)) c->bos_id = t->bos_id;
    const struct {
        const char *key;
        int32_t *id;
    } ends[] = {{"tokenizer.ggml.eos_token_id", &t->eos_id},
                {"tokenizer.ggml.eot_token_id", &t->eot_id},
                {"tokenizer.ggml.eom_token_id", &t->eom_id}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!special_id(r, ends[i].key, ends[i].id)) continue;
        bool known = false;
        for (uint32_t k = 0; k < c->n_eos; k++)
            known = known || c->eos_id[k] == (uint32_t)*ends[i].id;
        if (!known) c->eos_id[c->n_eos++] = (uint32_t)*ends[i].id;
    }
    read_switch(r, "tokenizer.ggml.add_bos_token", &t->add_bos);
    read_switch(r, "tokenizer.ggml.add_eos_token", &t->add_eos);
    read_switch(r, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix);
    read_switch(r, "tokenizer.ggml.remove_extra_whitespaces", &t->remove_extra_whitespaces);
}

static Status read_tokenizer(Reader *r) {
    const Gguf *g = &r->gguf;
    TokenizerGguf t = TOKENIZER_GGUF_NONE;
    TokenizerString *tokens = NULL, *merges = NULL;
    read_special_tokens(r, &t);
    if (!gguf_text(g, "tokenizer.ggml.model", &t.model) || r->source->tokenizer_file.path)
        return STATUS_OK;
    gguf_text(g, "tokenizer.ggml.pre", &t.pre);
    Status status = gguf_texts(g, "tokenizer.ggml.tokens", &tokens, &t.n_tokens, r->error);
    if (status == STATUS_OK)
        status = gguf_texts(g, "tokenizer.ggml.merges", &merges, &t.n_merges, r->error);
    t.tokens = tokens;
    t.merges = merges;
    void *scores = numbers(r, "tokenizer.ggml.scores", t.n_tokens, true);
    void *token_types = numbers(r, "tokenizer.ggml.token_type", t.n_tokens, false);
    t.scores = scores;
    t.token_types = token_types;
    const GgufValue *map = gguf_find(g, "tokenizer.ggml.precompiled_charsmap");
    if (map && map->is_array && map->type <= 1) {
        t.precompiled_charsmap = map->values;
        t.precompiled_charsmap_size = (size_t)map->count;
    }
    if (status == STATUS_OK && t.n_tokens > 0) {
        status = tokenizer_import_gguf(&t, &r->source->tokenizer, r->error);
        if (status != STATUS_OK) error_prefix(r->error, "%s", r->source->path);
    }
    free(tokens);
    free(merges);
    free(scores);
    free(token_types);
    return status;
}

static Status read_template(Reader *r) {
    TokenizerString text;
    Source *s = r->source;
    if (!gguf_text(&r->gguf, "tokenizer.chat_template", &text)) return STATUS_OK;
    s->chat_template = malloc(text.length + 1);
    if (!s->chat_template) return error_set(r->error, "%s: no memory", s->path);
    memcpy(s->chat_template, text.bytes, text.length);
    s->chat_template[text.length] = '\0';
    s->chat_template_bytes = text.length;
    return STATUS_OK;
}

/* What the file says of itself, for people. */
static void copy_general(Reader *r) {
    static const char *const keys[] = {"general.name",       "general.author",  "general.license",
                                       "general.url",        "general.version", "general.basename",
                                       "general.size_label", "general.finetune"};
    TokenizerString text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (gguf_text(&r->gguf, keys[i], &text))
            metadata_add_text(&r->source->metadata, keys[i], text.bytes, text.length);
}

/* ---- Tensors ---- */

static Status read_rope(const Reader *r, Rope *rope) {
    const Config *c = &r->source->config;
    double theta = 10000.0, linear;
    arch_float(r, "rope.freq_base", &theta);
    *rope = rope_default(theta, c->rotary_dim);
    rope->original_context = c->context;
    arch_float(r, "rope.scaling.original_context_length", &rope->original_context);
    if (arch_float(r, "rope.scale_linear", &linear) && linear != 1.0) {
        rope->scaling = ROPE_LINEAR;
        rope->factor = linear;
    }
    arch_float(r, "rope.scaling.factor", &rope->factor);
    char key[128];
    TokenizerString type;
    if (gguf_text(&r->gguf, key_of(r, "rope.scaling.type", key, sizeof key), &type)) {
        bool is_yarn = type.length == 4 && memcmp(type.bytes, "yarn", 4) == 0;
        bool is_linear = type.length == 6 && memcmp(type.bytes, "linear", 6) == 0;
        bool is_none = type.length == 4 && memcmp(type.bytes, "none", 4) == 0;
        if (!is_yarn && !is_linear && !is_none)
            return error_set(r->error, "%s: RoPE scaling '%.*s' is not known to this program",
                             r->source->path, type.length < 40 ? (int)type.length : 40, type.bytes);
        rope->scaling = is_yarn ? ROPE_YARN : is_linear ? ROPE_LINEAR : ROPE_DEFAULT;
    }
    double attention = 1.0;
    if (rope->scaling == ROPE_YARN && arch_float(r, "rope.scaling.attn_factor", &attention))
        rope->attention_factor =
            attention * (rope->factor > 1.0 ? 0.1 * log(rope->factor) + 1.0 : 1.0);
    if (!(theta > 1.0) || !(rope->factor > 0.0) || !(rope->original_context > 0.0))
        return error_set(r->error, "%s: RoPE with base %g, factor %g and original context %g",
                         r->source->path, theta, rope->factor, rope->original_context);
    return STATUS_OK;
}

/* rope_freqs.weight holds what each frequency is divided by: Llama 3.1's scaling. */
static Status divide_frequencies(Reader *r) {
    RawTensor *raw = raw_table_find(&r->table, "rope_freqs.weight");
    if (!raw) return STATUS_OK;
    raw->used = true;
    size_t n = r->source->config.rotary_dim / 2;
    if (raw->type != STORED_F32 || raw->n_dims != 1 || raw->dims[0] != n)
        return error_set(r->error, "%s: tensor 'rope_freqs.weight' must hold %zu values of F32",
                         r->source->path, n);
    float *freqs = (float *)r->source->tensors[r->source->n_tensors - 1].values, divisor;
    for (size_t i = 0; i < n; i++) {
        if (input_read(&r->source->files[raw->file], raw->offset + i * sizeof divisor, &divisor,
                       sizeof divisor, r->error) != STATUS_OK)
            return STATUS_FAILED;
        freqs[i] /= divisor;
        if (!isfinite(freqs[i]))
            return error_set(r->error, "%s: tensor 'rope_freqs.weight': element %zu is %g",
                             r->source->path, i, (double)divisor);
    }
    return STATUS_OK;
}

static Status check_leftovers(const Reader *r) {
    static const char *const harmless = ".attn_rot_embd.weight";
    for (size_t i = 0; i < r->table.n; i++) {
        const RawTensor *raw = &r->table.items[i];
        if (raw->used || strncmp(raw->name, "blk.", 4) != 0 || strstr(raw->name, harmless))
            continue;
        if (strtoul(raw->name + 4, NULL, 10) >= r->source->config.n_layers) continue;
        return error_set(r->error, "%s: tensor '%.100s' has no place in a model of type '%s'",
                         r->source->path, raw->name, r->architecture);
    }
    return STATUS_OK;
}

static Status read_tensors(Reader *r) {
    const GgufFamily *family = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].architecture, r->architecture) == 0) family = &families[i];
    uint32_t n_experts = 0;
    arch_uint(r, "expert_count", &n_experts);
    if (!family || n_experts > 0)
        return error_set(r->error, "%s: architecture '%s'%s is not known to this program",
                         r->source->path, r->architecture, n_experts ? " with experts" : "");
    r->source->config.rope_pairing = family->pairing;
    if (family->finish) family->finish(&r->source->config);
    if (config_validate(&r->source->config, r->error) != STATUS_OK)
        return error_prefix(r->error, "%s", r->source->path);
    const RuleContext context = {.source = r->source,
                                 .table = &r->table,
                                 .tied = !raw_table_find(&r->table, "output.weight")};
    if (rules_apply(&context, family->tensors, r->error) != STATUS_OK) return STATUS_FAILED;
    Rope rope;
    if (read_rope(r, &rope) != STATUS_OK ||
        rope_add(r->source, "rope.freqs", &rope, r->error) != STATUS_OK ||
        divide_frequencies(r) != STATUS_OK)
        return STATUS_FAILED;
    return check_leftovers(r);
}

/* A file with a vocabulary alone may be of any family: what it says of sizes is kept where it
 * can be, and nothing is computed from it. */
static void complete_vocabulary_only(Reader *r) {
    Config *c = &r->source->config;
    uint32_t *const sizes[] = {&c->dim,      &c->n_layers, &c->n_heads, &c->n_kv_heads,
                               &c->head_dim, &c->ffn_dim,  &c->context, &c->vocab_size};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (*sizes[i] == 0) *sizes[i] = 1;
    c->position = POSITION_NONE;
    c->rotary_dim = 0;
    metadata_add_bool(&r->source->metadata, "general.vocabulary_only", true);
}

static Status parse(Reader *r) {
    TokenizerString architecture;
    if (read_files(r) != STATUS_OK) return STATUS_FAILED;
    if (!gguf_text(&r->gguf, "general.architecture", &architecture) ||
        architecture.length >= sizeof r->architecture)
        return error_set(r->error, "%s: general.architecture is missing", r->source->path);
    memcpy(r->architecture, architecture.bytes, architecture.length);
    if (read_config(r) != STATUS_OK || read_tokenizer(r) != STATUS_OK ||
        read_template(r) != STATUS_OK)
        return STATUS_FAILED;
    copy_general(r);
    if (r->table.n > 0) return read_tensors(r);
    complete_vocabulary_only(r);
    return STATUS_OK;
}

Status gguf_parse(Source *source, Error *error) {
    Reader r = {.source = source, .error = error};
    Status status = parse(&r);
    gguf_free(&r.gguf);
    raw_table_free(&r.table);
    return status;
}
