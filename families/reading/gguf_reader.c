#include "formats/family/prediction.h"
#include "families/reading/gguf_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/families.h"
#include "formats/family/family_draft.h"
#include "formats/family/given_family.h"
#include "formats/family/gguf_match.h"
#include "formats/family/gguf_ollama.h"
#include "formats/family/gguf_positions.h"
#include "formats/family/embedding_pooling.h"
#include "formats/family/recommended.h"
#include "formats/stored/scale_join.h"
#include "formats/family/verb_steps.h"
#include "formats/tokenizers/tokenizer_gguf.h"

/* ---- Split files ---- */

/* Takes the number of a part and the number of parts out of "...-00001-of-00003.gguf"; false for
 * another name. */
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

/* Reads the headers of all files: the metadata of the first and the tensors of each. */
static Status read_files(GgufModel *r) {
    Source *s = r->source;
    for (size_t i = 0; i < s->n_files; i++) {
        Gguf part;
        Status status = gguf_read(&part, &s->files[i], i, &r->table, r->error);
        uint64_t split_count = 1;
        gguf_uint(&part, "split.count", UINT16_MAX, &split_count);
        if (status == STATUS_OK) status = gguf_check_types(&part, r->error);
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
    bool ignored;
    if (raw_table_sort(&r->table, r->error) != STATUS_OK ||
        scale_join_gguf(&r->table, &ignored, r->error) != STATUS_OK)
        return error_prefix(r->error, "%s", s->path);
    if (ignored) source_add_note(s, scale_join_note);
    return STATUS_OK;
}

/* Whether the model is to compute. Where only the vocabulary is there or wanted, sizes need not
 * make sense. */
static bool computes(const GgufModel *r) {
    return r->table.n > 0 && !r->source->only_vocabulary;
}

/* Reads a number of each layer: a scalar, or an array, which has 0 for layers that have no such
 * thing. *value becomes the first number that is not 0, and layers[l] that of a layer with another
 * one. An absent key leaves *value as it is. */
static Status layer_uint(const GgufModel *r, const char *rest, uint32_t *value, uint32_t *layers) {
    const GgufValue *found = gguf_model_find(r, rest, GGUF_AS_WHOLE);
    uint64_t n = found && computes(r) ? found->count : 1;
    bool is_set = false;
    if (!found || found->count == 0) return STATUS_OK;
    for (uint64_t i = 0; i < n && i < CONFIG_MAX_LAYERS; i++) {
        double number;
        if (!gguf_element(found, i, &number)) return STATUS_OK;
        if (!(number >= 0.0) || number > UINT32_MAX)
            return error_set(r->error, "%s: %s.%s is %g", r->source->path, r->prefix, rest, number);
        if (!is_set) *value = (uint32_t)number;
        is_set = *value != 0;
        layers[i] = (uint32_t)number == *value ? 0 : (uint32_t)number;
    }
    if (n == 1 || n >= r->source->config.n_layers) return STATUS_OK;
    return error_set(r->error, "%s: %s.%s is not a list of %u layers", r->source->path, r->prefix,
                     rest, r->source->config.n_layers);
}

/* The vocabulary's size: the embedding's rows, else the tokens listed, else the key. */
static void read_vocab_size(GgufModel *r) {
    Config *c = &r->source->config;
    const GgufValue *tokens = gguf_find(&r->gguf, "tokenizer.ggml.tokens");
    const RawTensor *embedding = raw_table_find(&r->table, "token_embd.weight");
    gguf_model_uint(r, "vocab_size", &c->vocab_size);
    if (tokens && tokens->count <= UINT32_MAX) c->vocab_size = (uint32_t)tokens->count;
    if (embedding && embedding->n_dims == 2 && embedding->dims[0] <= UINT32_MAX)
        c->vocab_size = (uint32_t)embedding->dims[0];
}

/* Whether the file has a prediction layer of this number. */
static bool has_prediction(const GgufModel *r, uint32_t layer) {
    return gguf_model_layer_has(r, layer, "nextn.eh_proj.weight");
}

/* Reads the Config's sizes: layers, widths, heads and vocabulary. A key that is absent leaves the
 * value that the keys before it gave. */
static Status read_sizes(GgufModel *r) {
    Config *c = &r->source->config;
    gguf_model_uint(r, "context_length", &c->context);
    gguf_model_uint(r, "embedding_length", &c->dim);
    /* block_count includes the layers of multi-token prediction, which are the last. */
    uint32_t n_further = 0;
    gguf_model_uint(r, "block_count", &c->n_layers);
    gguf_model_uint(r, "nextn_predict_layers", &n_further); /* prediction.h */
    /* DeepSeek V4's converter writes the number of those that it leaves out. */
    if (strcmp(r->architecture, "deepseek4") == 0 && !has_prediction(r, c->n_layers - n_further))
        n_further = 0;
    if (n_further > 0 && n_further >= c->n_layers)
        return error_set(r->error, "%s: nextn_predict_layers is %u of %u layers", r->source->path,
                         n_further, c->n_layers);
    c->n_layers -= n_further;
    if (layer_uint(r, "feed_forward_length", &c->ffn_dim, c->layer_ffn_dim) != STATUS_OK ||
        layer_uint(r, "attention.head_count", &c->n_heads, c->layer_n_heads) != STATUS_OK)
        return STATUS_FAILED;
    c->n_kv_heads = c->n_heads;
    if (layer_uint(r, "attention.head_count_kv", &c->n_kv_heads, c->layer_n_kv_heads) != STATUS_OK)
        return STATUS_FAILED;
    c->head_dim = c->n_heads ? c->dim / c->n_heads : 0;
    gguf_model_uint(r, "attention.key_length", &c->head_dim);
    uint32_t value_length = c->head_dim;
    gguf_model_uint(r, "attention.value_length", &value_length);
    /* The families with latent attention, and MiMo 2, read the values' width themselves. */
    bool own_width = gguf_model_value(r, "attention.kv_lora_rank") != NULL ||
                     strcmp(r->architecture, "mimo2") == 0;
    if (value_length != c->head_dim && computes(r) && !own_width)
        return error_set(r->error,
                         "%s: heads with keys of %u and values of %u elements are not "
                         "known to this program",
                         r->source->path, c->head_dim, value_length);
    c->rotary_dim = c->head_dim;
    gguf_model_uint(r, "rope.dimension_count", &c->rotary_dim);
    read_vocab_size(r);
    return STATUS_OK;
}

/* The shape, outermost dimension first, of the tensor blk.N.NAME.weight in the first layer that has
 * one with n_dims dimensions; NULL: no layer has. */
static const uint64_t *shape_in_layers(const GgufModel *r, const char *name, uint32_t n_dims) {
    for (uint32_t i = 0; i < r->source->config.n_layers && i < CONFIG_MAX_LAYERS; i++) {
        char full[128];
        snprintf(full, sizeof full, "blk.%u.%s.weight", i, name);
        const RawTensor *raw = raw_table_find(&r->table, full);
        if (raw && raw->n_dims == n_dims && raw->dims[0] <= UINT32_MAX &&
            raw->dims[1] <= UINT32_MAX)
            return raw->dims;
    }
    return NULL;
}

/* Reads the widths of feed-forwards and experts. The first files of mixtures give the experts'
 * width only by the shapes of their tensors. */
static Status read_widths(GgufModel *r) {
    Config *c = &r->source->config;
    /* Some converters wrote 4 * dim whatever the width was. */
    const uint64_t *down = shape_in_layers(r, "ffn_down", 2);
    if (down) c->ffn_dim = (uint32_t)down[1];
    if (computes(r)) gguf_model_uint(r, "expert_count", &c->experts.count);
    if (c->experts.count == 0) return STATUS_OK;
    gguf_model_uint(r, "expert_used_count", &c->experts.per_token);
    const uint64_t *stacked = shape_in_layers(r, "ffn_up_exps", 3);
    const uint64_t *shared = shape_in_layers(r, "ffn_up_shexp", 2);
    const uint64_t *fused = shape_in_layers(r, "ffn_gate_up_exps", 3);
    c->experts.ffn_dim = stacked ? (uint32_t)stacked[1]
                         : fused ? (uint32_t)fused[1] / 2
                                 : c->ffn_dim;
    if (shared) c->experts.shared_ffn_dim = (uint32_t)shared[0];
    return STATUS_OK;
}

/* Reads what overrides the family's router: expert_gating_func (0: the family's; 1: softmax; 2:
 * sigmoid; 3: softmax over the chosen; 4: the root of softplus), expert_weights_norm,
 * expert_weights_scale (0: 1) and groups. */
static Status read_router(const GgufModel *r) {
    Config *c = &r->source->config;
    bool by_scores = c->router.kind >= ROUTER_SIGMOID_SCORES, sums_to_one = c->router.normalize;
    double scale = 1.0;
    uint32_t gating = 0;
    if (c->experts.count == 0 || c->router.kind == ROUTER_SPARSE_MIXER ||
        c->router.kind == ROUTER_SCALED)
        return STATUS_OK;
    gguf_model_float(r, "expert_weights_scale", &scale);
    gguf_model_uint(r, "expert_gating_func", &gating);
    gguf_model_uint(r, "expert_group_count", &c->router.groups);
    gguf_model_uint(r, "expert_group_used_count", &c->router.groups_used);
    bool plain =
        (scale == 1.0 || scale == 0.0) && c->router.groups <= 1 && gating != 2 && gating != 4;
    if (gating > 4 || (by_scores && gating == 3) || (!by_scores && !plain))
        return error_set(r->error,
                         "%s: experts with expert_weights_scale %g, expert_gating_func %u and "
                         "expert_group_count %u are not known to this program",
                         r->source->path, scale, gating, c->router.groups);
    bool given = gguf_model_bool(r, "expert_weights_norm", &sums_to_one);
    if (by_scores) {
        c->router.normalize = sums_to_one;
        static const RouterKind kinds[] = {
            [1] = ROUTER_SOFTMAX_SCORES, [2] = ROUTER_SIGMOID_SCORES, [4] = ROUTER_ROOT_SCORES};
        if (gating) c->router.kind = kinds[gating];
        if (scale != 0.0) c->router.scale *= (float)scale;
    } else if (given || gating == 3) {
        c->router.kind = sums_to_one || gating == 3 ? ROUTER_SOFTMAX_CHOSEN : ROUTER_SOFTMAX;
    }
    return STATUS_OK;
}

/* Sets the window of each layer. attention.sliding_window_pattern is a number n (every n-th layer
 * has no window) or a list of whether each layer has one. */
static Status read_windows(const GgufModel *r, const GgufFamily *family) {
    Config *c = &r->source->config;
    uint32_t window = family->window, full_every = family->full_every, n_dense = 0;
    gguf_model_uint(r, "leading_dense_block_count", &n_dense);
    gguf_model_uint(r, "attention.sliding_window", &window);
    if (window == 0) return STATUS_OK;
    if (full_every == 0 || window > 1 << 28)
        return error_set(r->error,
                         "%s: attention.sliding_window %u is not known for the architecture '%s'",
                         r->source->path, window, r->architecture);
    const GgufValue *pattern = gguf_model_value(r, "attention.sliding_window_pattern");
    bool is_list = pattern && pattern->is_array;
    if (is_list) pattern = gguf_model_find(r, "attention.sliding_window_pattern", GGUF_AS_BOOL);
    if (is_list && !pattern) return STATUS_OK; /* gguf_check_types reports it */
    if (is_list && pattern->count < c->n_layers)
        return error_set(r->error,
                         "%s: attention.sliding_window_pattern is not a list of %u layers",
                         r->source->path, c->n_layers);
    if (pattern && !is_list &&
        (!gguf_model_uint(r, "attention.sliding_window_pattern", &full_every) || full_every == 0))
        return error_set(r->error, "%s: attention.sliding_window_pattern is not a number above 0",
                         r->source->path);
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        uint32_t place = family->full_is_first ? i : i + 1;
        double slides = full_every == 1 || place % full_every != 0;
        if (is_list && !gguf_element(pattern, i, &slides))
            return error_set(r->error,
                             "%s: attention.sliding_window_pattern does not hold true or false",
                             r->source->path);
        c->window[i] = slides != 0.0 ? window : 0;
        bool rotated = c->window[i] || (family->dense_are_rotated && i < n_dense);
        if (family->full_are_not_rotated) c->rope_table[i] = rotated ? 0 : 2;
    }
    return STATUS_OK;
}

/* Checks that the file has these keys, which have a space between two. */
static Status check_required(const GgufModel *r, const char *keys) {
    char key[STEP_WORD];
    while (keys && step_word(&keys, key))
        if (!gguf_model_value(r, key))
            return error_set(r->error, "%s: the key '%s.%s' is missing, and no value is usual",
                             r->source->path, r->prefix, key);
    return STATUS_OK;
}

/* The same of the keys that all architectures must have, and those of this one. find_family refuses
 * an architecture that is not known. */
static Status check_all_required(const GgufModel *r) {
    const char *model_type;
    const GgufFamily *family =
        r->source->family_file.path ? NULL : family_gguf_find(r, &model_type);
    if (!computes(r) || (!family && !r->source->family_file.path)) return STATUS_OK;
    if (check_required(r, "context_length embedding_length block_count") != STATUS_OK)
        return STATUS_FAILED;
    return family ? check_required(r, family->required) : STATUS_OK;
}

/* Fills the fields of Config that all architectures give by the same keys. */
static Status read_config(GgufModel *r) {
    Config *c = &r->source->config;
    TokenizerString name;
    snprintf(c->family, sizeof c->family, "%s", r->architecture);
    if (gguf_value_text(gguf_find(&r->gguf, "general.name"), &name)) /* of any type: a label */
        snprintf(c->name, sizeof c->name, "%.*s", name.length < 120 ? (int)name.length : 120,
                 name.bytes);
    if (check_all_required(r) != STATUS_OK || read_sizes(r) != STATUS_OK) return STATUS_FAILED;
    double scale = 1.0 / sqrt((double)(c->head_dim ? c->head_dim : 1));
    gguf_model_float(r, "attention.scale", &scale);
    c->attention_scale = (float)scale;
    double clip = 0.0, score_cap = 0.0, logit_cap = 0.0;
    bool cap_by_default = strcmp(r->architecture, "gemma2") == 0;
    if (cap_by_default) score_cap = 50.0, logit_cap = 30.0;
    gguf_model_float(r, "attention.clamp_kqv", &clip);
    gguf_model_float(r, "attn_logit_softcapping", &score_cap);
    gguf_model_float(r, "final_logit_softcapping", &logit_cap);
    c->qkv_clip = (float)clip;
    c->attention_softcap = (float)score_cap;
    c->logit_softcap = (float)logit_cap;
    return read_widths(r);
}

/* ---- Tokenizer and template ---- */

/* Reads a token id; false when it is absent or beyond the vocabulary: some converters write -1, or
 * its bits, for a token that the model lacks, and llama.cpp ignores such ids. */
static bool special_id(const GgufModel *r, const char *key, int32_t *id) {
    const GgufValue *found = gguf_find_kind(&r->gguf, key, GGUF_AS_WHOLE);
    uint64_t value;
    if (!found || found->is_array || !gguf_whole(found, 0, &value) ||
        value >= r->source->config.vocab_size)
        return false;
    *id = (int32_t)value;
    return true;
}

static void read_switch(const GgufModel *r, const char *key, int *out) {
    bool value;
    if (gguf_bool(&r->gguf, key, &value)) *out = value;
}

/* Copies an array of numbers, one a token, into malloc'ed float or int32_t elements; *out stays
 * NULL when the key is absent. */
static Status token_numbers(const GgufModel *r, const char *key, size_t n, bool as_float,
                            void **out) {
    const GgufValue *found =
        gguf_find_kind(&r->gguf, key, as_float ? GGUF_AS_NUMBER : GGUF_AS_WHOLE);
    if (!found) return STATUS_OK;
    if (!found->is_array || found->count < n)
        return error_set(r->error, "%s: %s has %llu values for %zu tokens", r->source->path, key,
                         (unsigned long long)found->count, n);
    *out = malloc((n + 1) * sizeof(float));
    if (!*out) return error_set(r->error, "%s: no memory", r->source->path);
    for (size_t i = 0; i < n; i++) {
        double number = 0.0;
        gguf_element(found, i, &number);
        if (as_float) {
            ((float *)*out)[i] = (float)number;
        } else {
            ((int32_t *)*out)[i] = fabs(number) < 1e9 ? (int32_t)number : 0;
        }
    }
    return STATUS_OK;
}

/* Adds a token that ends a text to the Config, which has room for a few. */
static void add_end(Config *c, int32_t id) {
    const size_t most = sizeof c->eos_id / sizeof *c->eos_id;
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos_id[i] == (uint32_t)id) return;
    if (c->n_eos < most) c->eos_id[c->n_eos++] = (uint32_t)id;
}

/* Takes the tokens that end no text out of the Config. */
static void remove_ends(Config *c, const int64_t never[2]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos_id[i] != never[0] && c->eos_id[i] != never[1]) c->eos_id[n++] = c->eos_id[i];
    for (uint32_t i = n; i < c->n_eos; i++) c->eos_id[i] = 0;
    c->n_eos = n;
}

/* Reads tokenizer.ggml.eos_token_ids, a list that ollama's converter writes, into malloc'ed *ids.
 */
static Status read_eos_ids(GgufModel *r, TokenizerGguf *t, int32_t **ids) {
    const GgufValue *found =
        gguf_find_kind(&r->gguf, "tokenizer.ggml.eos_token_ids", GGUF_AS_WHOLE);
    Config *c = &r->source->config;
    uint64_t id;
    *ids = NULL;
    if (!found || found->count == 0) return STATUS_OK;
    if (found->count > c->vocab_size)
        return STATUS_OK; /* no list of tokens; llama.cpp reads none */
    *ids = malloc((size_t)found->count * sizeof **ids);
    if (!*ids) return error_set(r->error, "%s: no memory", r->source->path);
    for (uint64_t i = 0; i < found->count; i++) {
        if (!gguf_whole(found, i, &id) || id >= c->vocab_size) continue; /* -1: none */
        (*ids)[t->n_eos_ids++] = (int32_t)id;
        add_end(c, (int32_t)id);
    }
    t->eos_ids = *ids;
    return STATUS_OK;
}

/* Reads the ids of the special tokens and the tokenizer's switches. Tokens that end a text are
 * also added to the Config. */
static void read_special_tokens(GgufModel *r, TokenizerGguf *t) {
    Config *c = &r->source->config;
    special_id(r, "tokenizer.ggml.unknown_token_id", &t->unk_id);
    if (special_id(r, "tokenizer.ggml.bos_token_id", &t->bos_id)) c->bos_id = t->bos_id;
    const struct {
        const char *key;
        int32_t *id;
    } ends[] = {{"tokenizer.ggml.eos_token_id", &t->eos_id},
                {"tokenizer.ggml.eot_token_id", &t->eot_id},
                {"tokenizer.ggml.eom_token_id", &t->eom_id},
                {"tokenizer.ggml.fim_pad_token_id", &t->middle_id[0]},
                {"tokenizer.ggml.fim_rep_token_id", &t->middle_id[1]},
                {"tokenizer.ggml.fim_sep_token_id", &t->middle_id[2]}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (special_id(r, ends[i].key, ends[i].id)) add_end(c, *ends[i].id);
    read_switch(r, "tokenizer.ggml.add_bos_token", &t->add_bos);
    read_switch(r, "tokenizer.ggml.add_eos_token", &t->add_eos);
    read_switch(r, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix);
    read_switch(r, "tokenizer.ggml.remove_extra_whitespaces", &t->remove_extra_whitespaces);
}

static TokenizerString string_of(const char *text) {
    return (TokenizerString){text, strlen(text)};
}

/* Imports the tokenizer of the file's keys, unless -z gives another; special tokens are read in any
 * case. */
static Status read_tokenizer(GgufModel *r) {
    const Gguf *g = &r->gguf;
    TokenizerGguf t = TOKENIZER_GGUF_NONE;
    TokenizerString *tokens = NULL, *merges = NULL;
    int32_t *eos_ids;
    read_special_tokens(r, &t);
    if (read_eos_ids(r, &t, &eos_ids) != STATUS_OK) return STATUS_FAILED;
    if (!gguf_text(g, "tokenizer.ggml.model", &t.model) || r->source->tokenizer_file.path) {
        free(eos_ids);
        return STATUS_OK;
    }
    gguf_text(g, "tokenizer.ggml.pre", &t.pre);
    if (r->absent.tokenizer_model && tokenizer_string_is(t.model, "llama"))
        t.model = string_of(r->absent.tokenizer_model);
    if (r->absent.pre) t.pre = string_of(r->absent.pre);
    Status status = gguf_texts(g, "tokenizer.ggml.tokens", &tokens, &t.n_tokens, r->error);
    if (status == STATUS_OK)
        status = gguf_texts(g, "tokenizer.ggml.merges", &merges, &t.n_merges, r->error);
    if (r->absent.trims_tokens && t.n_tokens > r->source->config.vocab_size)
        t.n_tokens = r->source->config.vocab_size;
    t.tokens = tokens;
    t.merges = merges;
    void *scores = NULL, *token_types = NULL;
    if (status == STATUS_OK)
        status = token_numbers(r, "tokenizer.ggml.scores", t.n_tokens, true, &scores);
    if (status == STATUS_OK)
        status = token_numbers(r, "tokenizer.ggml.token_type", t.n_tokens, false, &token_types);
    t.scores = scores;
    t.token_types = token_types;
    const GgufValue *map = gguf_find(g, "tokenizer.ggml.precompiled_charsmap");
    if (map && map->is_array && map->type <= GGUF_INT8) {
        t.precompiled_charsmap = map->values;
        t.precompiled_charsmap_size = (size_t)map->count;
    }
    if (status == STATUS_OK && t.n_tokens > 0) {
        int64_t never[2];
        status = tokenizer_import_gguf(&t, &r->source->tokenizer, r->error);
        tokenizer_gguf_never_end(&t, never);
        remove_ends(&r->source->config, never);
        if (status != STATUS_OK) error_prefix(r->error, "%s", r->source->path);
    }
    free(eos_ids);
    free(tokens);
    free(merges);
    free(scores);
    free(token_types);
    return status;
}

static Status read_template(GgufModel *r) {
    TokenizerString text;
    if (!gguf_text(&r->gguf, "tokenizer.chat_template", &text)) return STATUS_OK;
    return source_set_template(r->source, text.bytes, text.length, r->error);
}

/* Copies name, author, license and the like into the metadata. */
static void copy_general(GgufModel *r) {
    static const char *const keys[] = {"general.name",       "general.author",  "general.license",
                                       "general.url",        "general.version", "general.basename",
                                       "general.size_label", "general.finetune"};
    TokenizerString text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (gguf_value_text(gguf_find(&r->gguf, keys[i]), &text))
            metadata_add_text(&r->source->metadata, keys[i], text.bytes, text.length);
}

/* ---- Tensors ---- */

/* Fills the fields of the architecture's own keys. */
static Status read_keys(const GgufModel *r, const GgufKey *keys) {
    for (; keys && keys->key; keys++) {
        const ConfigField *field;
        size_t i = 0;
        double value;
        while ((field = config_field(i)) && strcmp(field->name, keys->field) != 0) i++;
        if (!field) return error_set(r->error, "no field '%s'", keys->field);
        char *out = (char *)&r->source->config + field->offset;
        if (field->kind == FIELD_UINT) {
            gguf_model_uint(r, keys->key, (uint32_t *)out);
        } else if (field->kind == FIELD_BOOL) {
            gguf_model_bool(r, keys->key, (bool *)out);
        } else if (field->kind == FIELD_FLOAT && gguf_model_float(r, keys->key, &value)) {
            *(float *)out = (float)value;
        }
    }
    return STATUS_OK;
}

/* Reads the norms' epsilon: RMS norms have one key, layer norms the other. Files of some families
 * with layer norms (PhiMoE) have the key of RMS norms all the same, and families with RMS norms
 * whose files have the key of layer norms (Nemotron H) require it. */
static Status read_epsilon(const GgufModel *r, const GgufFamily *family) {
    static const char rms[] = "attention.layer_norm_rms_epsilon";
    static const char layer[] = "attention.layer_norm_epsilon";
    bool is_layer = r->source->config.norm == NORM_LAYER ||
                    (family->required && strstr(family->required, layer));
    double eps = family->norm_eps;
    bool found = is_layer && gguf_model_float(r, layer, &eps);
    if (!found && !gguf_model_float(r, rms, &eps) && eps == 0.0)
        return check_required(r, is_layer ? layer : rms);
    r->source->config.norm_eps = (float)eps;
    return STATUS_OK;
}

static bool begins_with_any(const char *name, const char *const *starts) {
    for (; *starts; starts++)
        if (strncmp(name, *starts, strlen(*starts)) == 0) return true;
    return false;
}

/* How queries grow with the position (GgufFamily.scales_queries). */
static void read_query_scaling(const GgufModel *r) {
    Config *c = &r->source->config;
    double scale = 0.0;
    gguf_model_float(r, "attention.temperature_scale", &scale);
    if (scale == 0.0) return;
    c->query_scaling = (float)scale;
    c->query_scaling_floor = c->context;
    gguf_model_uint(r, "rope.scaling.original_context_length", &c->query_scaling_floor);
}

/* Reads the keys with the architecture's description, in this order: its own keys, router, windows.
 */
static Status read_family(const GgufModel *r, const GgufFamily *family) {
    Config *c = &r->source->config;
    c->rope_pairing = family->pairing;
    if (check_required(r, family->required) != STATUS_OK) return STATUS_FAILED; /* of a page */
    if (preset_apply(family->set, c, r->error) != STATUS_OK || read_epsilon(r, family) != STATUS_OK)
        return STATUS_FAILED;
    if (read_keys(r, family->keys) != STATUS_OK) return STATUS_FAILED;
    if (steps_run(family->steps, (StepCall){.gguf = r, .config = c, .error = r->error}) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (family->scales_queries) read_query_scaling(r);
    if (family->finish && family->finish(r, c) != STATUS_OK) return STATUS_FAILED;
    if (c->position != POSITION_ROPE && c->latent.kv_lora_rank == 0) c->rotary_dim = 0;
    if (read_router(r) != STATUS_OK || read_windows(r, family) != STATUS_OK) return STATUS_FAILED;
    if (family->by_layer && family->by_layer(r, c) != STATUS_OK) return STATUS_FAILED;
    return config_validate(c, r->error) == STATUS_OK
               ? STATUS_OK
               : error_prefix(r->error, "%s", r->source->path);
}

/* Finds the architecture, which is known or described by the page that the user gave, and refuses
 * what this program cannot compute. */
static Status find_family(const GgufModel *r, const GgufFamily **family, const char **model_type) {
    bool causal = true;
    const Family *given;
    if (given_family_read(r->source, &given, r->error) != STATUS_OK) return STATUS_FAILED;
    *family = given ? given->gguf : family_gguf_find(r, model_type);
    while (given && *family && (*family)->architecture &&
           strcmp((*family)->architecture, r->architecture) != 0)
        ++*family;
    if (given && !(*family && (*family)->architecture))
        return error_set(r->error,
                         "%s: its architecture is '%s', which %s does not describe: it has no line "
                         "'gguf %s'",
                         r->source->path, r->architecture, r->source->family_file.path,
                         r->architecture);
    if (given) *model_type = given->model_type;
    if (!*family)
        return error_set(r->error,
                         "%s: architecture '%s' is known to this program only with "
                         "tensors that the file lacks",
                         r->source->path, r->architecture);
    if (!(*family)->needs_tensor && shape_in_layers(r, "ffn_gate_inp", 2) &&
        r->source->config.experts.count == 0)
        return error_set(r->error,
                         "%s: it has routers of experts (ffn_gate_inp), but the key "
                         "'%s.expert_count' does not say how many experts",
                         r->source->path, r->prefix);
    if (gguf_model_bool(r, "attention.causal", &causal) && !causal)
        return error_set(r->error, "%s: attention.causal is false: not a decoder", r->source->path);
    return STATUS_OK;
}

/* Whether the tensor is of a part for images or sound, which ollama and some converters keep in the
 * same file. Such parts are left out. */
static bool is_part(const char *name) {
    static const char *const parts[] = {"v.", "mm.", "a.", "model.vision_tower.", NULL};
    return begins_with_any(name, parts);
}

/* Marks tensors that are not the architecture's own: the reader takes or leaves them everywhere. */
static void mark_common(GgufModel *r) {
    static const char *const names[] = {"rope_", "mtp.", NULL};
    for (size_t i = 0; i < r->table.n; i++) {
        RawTensor *raw = &r->table.items[i];
        raw->used = is_part(raw->name) || begins_with_any(raw->name, names) ||
                    strstr(raw->name, ".nextn.") || strstr(raw->name, ".attn_rot_embd.");
    }
}

/* Looks all keys up that the architecture reads, which marks them. */
static Status try_keys(GgufModel *r, const GgufFamily *family) {
    /* Keys that are read later, that the shapes of tensors tell as well, or that change nothing. */
    static const char *const others[] = {"pooling_type",
                                         "attention.causal",
                                         "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length",
                                         "expert_shared_count",
                                         "tensor_data_layout",
                                         "rope.scaling.finetuned"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) gguf_model_value(r, others[i]);
    Status status = read_config(r);
    if (status == STATUS_OK) status = read_family(r, family);
    if (status == STATUS_OK) status = gguf_add_positions(r, family);
    for (size_t i = 0; i < r->gguf.n_values; i++) r->gguf.values[i].wanted = NULL;
    return status;
}

/* Refuses an architecture that is not known, and says what the nearest one lacks. */
static Status refuse_unknown(GgufModel *r) {
    FamilyMatch *match = NULL;
    const GgufFamily *nearest;
    Error ignored = {{0}}, *error = r->error;
    char lacks[600] = "", why[300] = "", steps[80] = "";
    mark_common(r);
    if (gguf_match(r, &match, &nearest, error) != STATUS_OK) return STATUS_FAILED;
    if (!nearest) {
        family_gguf_names(lacks, sizeof lacks);
        family_match_free(match);
        return error_set(error, "%s: architecture '%s' is not known to this program (it knows %s)",
                         r->source->path, r->architecture, lacks);
    }
    r->error = &ignored;
    match->refuses_keys = try_keys(r, nearest) != STATUS_OK;
    if (!match->refuses_keys) {
        gguf_match_unread(r, match);
    } else {
        size_t n = strlen(r->source->path);
        bool named = strncmp(ignored.text, r->source->path, n) == 0 && ignored.text[n] == ':';
        snprintf(why, sizeof why, "; it does not accept the keys:%s%.250s", named ? "" : " ",
                 ignored.text + (named ? n + 1 : 0));
    }
    r->error = error;
    if (nearest->finish || nearest->more || nearest->by_layer)
        snprintf(steps, sizeof steps, "; steps of '%s' in C may read more", nearest->architecture);
    family_draft_explain(match, lacks, sizeof lacks);
    family_match_free(match);
    return error_set(error,
                     "%s: architecture '%s' is not known to this program: the nearest that runs is "
                     "'%s':%s%s%s; what is missing is a description of its layers: a page for "
                     "--family (docs/family-pages.md)",
                     r->source->path, r->architecture, nearest->architecture, lacks, why, steps);
}

/* Refuses tensors outside layers that nothing has read. mtp.* of a prediction layer is left out. */
static Status check_outside_layers(GgufModel *r) {
    static const char *const left_out[] = {"blk.", "mtp.", NULL};
    bool has_parts = false;
    for (size_t i = 0; i < r->table.n; i++) {
        const RawTensor *raw = &r->table.items[i];
        if (raw->used || begins_with_any(raw->name, left_out)) continue;
        if (is_part(raw->name)) {
            has_parts = true;
            continue;
        }
        return error_set(r->error, "%s: tensor '%.100s' is not part of a model of type '%s'",
                         r->source->path, raw->name, r->architecture);
    }
    if (has_parts) source_add_note(r->source, source_text_alone);
    return STATUS_OK;
}

/* Finds the family of the architecture and reads with it, in this order: keys, tensors, positions,
 * pooling. A tensor that nothing reads is an error. */
static Status read_tensors(GgufModel *r) {
    const GgufFamily *family;
    const char *model_type;
    Config *c = &r->source->config;
    if (find_family(r, &family, &model_type) != STATUS_OK) return STATUS_FAILED;
    snprintf(c->family, sizeof c->family, "%s", model_type);
    if (read_family(r, family) != STATUS_OK) return STATUS_FAILED;
    RuleContext context = {.source = r->source,
                           .table = &r->table,
                           .layers = GGUF_LAYERS,
                           .tied = !raw_table_find(&r->table, "output.weight")};
    PredictionForm form = family->predicts ? PREDICTION_GGUF : PREDICTION_NONE;
    if (prediction_find(&context, form, r->error) != STATUS_OK ||
        rules_apply(&context, family->tensors, r->error) != STATUS_OK ||
        prediction_add(&context, form, r->error) != STATUS_OK ||
        gguf_add_positions(r, family) != STATUS_OK ||
        (family->more && family->more(r) != STATUS_OK))
        return STATUS_FAILED;
    uint32_t pooling = 0;
    gguf_model_uint(r, "pooling_type", &pooling);
    if (pooling_read_gguf(r->source, pooling, !context.tied, r->error) != STATUS_OK)
        return STATUS_FAILED;
    static const char *const harmless[] = {".attn_rot_embd.weight", NULL};
    if (rules_check_leftovers(&context, "blk.", harmless, r->architecture, r->error) != STATUS_OK)
        return STATUS_FAILED;
    return check_outside_layers(r);
}

/* Completes the Config of a file that holds only a vocabulary, which may be of any architecture:
 * sizes that it does not give become 1, and nothing is computed from them. */
static void complete_vocabulary_only(GgufModel *r) {
    Config *c = &r->source->config;
    uint32_t *const sizes[] = {&c->dim,      &c->n_layers, &c->n_heads, &c->n_kv_heads,
                               &c->head_dim, &c->ffn_dim,  &c->context, &c->vocab_size};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (*sizes[i] == 0) *sizes[i] = 1;
    c->position = POSITION_NONE;
    c->rotary_dim = 0;
    /* Where sizes differ from layer to layer, only the first was read, so they need not fit. */
    Error ignored;
    if (config_validate(c, &ignored) != STATUS_OK)
        for (size_t i = 0; i < 6; i++) *sizes[i] = 1;
    metadata_add_bool(&r->source->metadata, "general.vocabulary_only", true);
}

/* Parses the files of a GGUF model into the source: metadata, Config, tokenizer, chat template and
 * tensors. A file that holds a vocabulary alone has no tensors to read. */
static Status parse(GgufModel *r) {
    TokenizerString architecture;
    if (read_files(r) != STATUS_OK) return STATUS_FAILED;
    if (!gguf_text(&r->gguf, "general.architecture", &architecture) ||
        architecture.length >= sizeof r->architecture)
        return error_set(r->error, "%s: general.architecture is missing", r->source->path);
    memcpy(r->architecture, architecture.bytes, architecture.length);
    memcpy(r->prefix, architecture.bytes, architecture.length);
    if (gguf_ollama_translate(r) != STATUS_OK) return STATUS_FAILED;
    if (computes(r) && !r->source->family_file.path && !family_gguf_is_known(r->architecture))
        return refuse_unknown(r);
    if (read_config(r) != STATUS_OK || read_tokenizer(r) != STATUS_OK ||
        read_template(r) != STATUS_OK)
        return STATUS_FAILED;
    copy_general(r);
    recommended_gguf(r->source, &r->gguf);
    if (computes(r)) return read_tensors(r);
    complete_vocabulary_only(r);
    return STATUS_OK;
}

Status gguf_parse(Source *source, Error *error) {
    GgufModel r = {.source = source, .error = error};
    Status status = parse(&r);
    /* Counts before another failure, which may follow from it. */
    if (gguf_check_types(&r.gguf, error) != STATUS_OK) status = STATUS_FAILED;
    gguf_free(&r.gguf);
    raw_table_free(&r.table);
    return status;
}
