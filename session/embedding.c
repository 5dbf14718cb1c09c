#include "session/embedding.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/embedding_options.h"
#include "session/prompt_limit.h"
#include "system/program_name.h"

/* ---- The setting ---- */

/* In the order of Pooling, as the metadata has them. */
static const char *const pooling_names[POOLINGS] = {[POOLING_LAST] = "last",
                                                    [POOLING_MEAN] = "mean",
                                                    [POOLING_CLS] = "cls",
                                                    [POOLING_MAX] = "max",
                                                    [POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len",
                                                    [POOLING_WEIGHTED_MEAN] = "weighted_mean"};

static bool text_is(const char *text, size_t n, const char *other) {
    return strlen(other) == n && memcmp(text, other, n) == 0;
}

static bool meta_flag(const ModelFile *file, const char *key, bool absent) {
    uint64_t value;
    return modelfile_meta_uint(file, key, 0, &value) ? value != 0 : absent;
}

static Status read_pooling(const ModelFile *file, EmbeddingSetting *setting, Error *error) {
    const char *name;
    size_t n;
    if (!modelfile_meta_text(file, "embedding.pooling", &name, &n)) return STATUS_OK;
    for (int i = POOLING_LAST; i < POOLINGS; i++)
        if (text_is(name, n, pooling_names[i])) setting->pooling = (Pooling)i;
    if (setting->pooling != POOLING_NONE) return STATUS_OK;
    return error_set(error, "%s: embedding.pooling '%.*s' is not known to this program",
                     modelfile_path(file), n < 40 ? (int)n : 40, name);
}

Status embedding_setting(const Session *session, EmbeddingSetting *setting, Error *error) {
    const ModelFile *file = session->file;
    const Options *o = session->options;
    const EmbeddingOptions *embedding = embedding_options(o);
    uint32_t dim = modelfile_config(file)->dim;
    uint64_t most;
    *setting = (EmbeddingSetting){.includes_prompt = true, .dim = dim, .dimensions = dim};
    if (read_pooling(file, setting, error) != STATUS_OK) return STATUS_FAILED;
    setting->includes_prompt = meta_flag(file, "embedding.include_prompt", true);
    setting->normalizes = meta_flag(file, "embedding.normalize", true);
    setting->max_tokens = model_context(session->model);
    if (modelfile_meta_uint(file, "embedding.max_tokens", 0, &most) && most < setting->max_tokens)
        setting->max_tokens = (size_t)most;
    setting->truncates = embedding->embed_truncate;
    if (!modelfile_meta_text(file, "embedding.default_prompt", &setting->prompt_name,
                             &setting->name_length))
        setting->prompt_name = NULL;
    if (embedding->pooling != POOLING_CHOICE_AUTO)
        setting->pooling = (Pooling)embedding->pooling; /* the same order */
    if (embedding->embed_normalize != NORMALIZE_AUTO)
        setting->normalizes = embedding->embed_normalize == NORMALIZE_YES;
    if ((embedding->embed_prompt &&
         embedding_set_prompt(session, setting, embedding->embed_prompt, error) != STATUS_OK) ||
        (embedding->dimensions &&
         embedding_set_dimensions(setting, embedding->dimensions, error) != STATUS_OK))
        return STATUS_USAGE;
    return STATUS_OK;
}

static const char prompt_key[] = "embedding.prompt.";

/* The text of the prompt called name[n]; "" where the model has none. */
static const char *find_prompt(const ModelFile *file, const char *name, size_t n, size_t *length) {
    char key[256];
    const char *text;
    int end = snprintf(key, sizeof key, "%s%.*s", prompt_key, n < 200 ? (int)n : 200, name);
    bool found = end > 0 && modelfile_meta_text(file, key, &text, length);
    return found ? text : NULL;
}

Status embedding_set_prompt(const Session *session, EmbeddingSetting *setting, const char *name,
                            Error *error) {
    char names[300] = "";
    const MetaEntry *entry;
    size_t length, n = strlen(prompt_key);
    if (name[0] == '\0') {
        setting->prompt_name = NULL;
        return STATUS_OK;
    }
    setting->prompt_name = name;
    setting->name_length = strlen(name);
    if (setting->name_length < 200 && find_prompt(session->file, name, strlen(name), &length))
        return STATUS_OK;
    for (size_t i = 0; (entry = modelfile_meta(session->file, i)); i++) {
        size_t at = strlen(names), rest = entry->key_bytes > n ? entry->key_bytes - n : 0;
        if (rest == 0 || memcmp(entry->key, prompt_key, n) != 0) continue;
        snprintf(names + at, sizeof names - at, "%s%.*s", at ? ", " : "",
                 rest < 80 ? (int)rest : 80, entry->key + n);
    }
    return error_set(error, "the model has no prompt '%.80s'%s%s", name,
                     names[0] ? "; it has " : "", names);
}

Status embedding_set_dimensions(EmbeddingSetting *setting, uint64_t dimensions, Error *error) {
    if (dimensions < 1 || dimensions > setting->dim)
        return error_set(error, "%llu dimensions are asked for, but the model's states have %u",
                         (unsigned long long)dimensions, setting->dim);
    setting->dimensions = (uint32_t)dimensions;
    return STATUS_OK;
}

Status embedding_check(const Session *session, const EmbeddingSetting *setting, Error *error) {
    if (setting->pooling != POOLING_NONE) return STATUS_OK;
    const Options *o = session->options;
    const EmbeddingOptions *embedding = embedding_options(o);
    char once[64];
    program_names_put("./export SOURCE model.bin --pooling last says it once", once, sizeof once);
    if (!embedding->embed)
        return error_set(error, "%s: does not say how its embeddings are pooled: %s; %s",
                         modelfile_path(session->file),
                         options_ask(o, "live")
                             ? "a model that is opened with pooling 'last' (or 'mean', 'cls') does"
                             : "--pooling last (or mean, cls) with --batch says it",
                         once);
    return error_set(error,
                     "%s: does not say how its embeddings are pooled: %s %s --embed %s --pooling "
                     "last (or mean, cls); %s",
                     modelfile_path(session->file), program_invocation_short_name, o->model,
                     embedding->embed, once);
}

Status embedding_refuse_text(const ModelFile *file, Error *error) {
    if (!meta_flag(file, "embedding.only", false)) return STATUS_OK;
    return error_set(error,
                     "%s: a model without an output head: it gives embeddings (--embed), no text",
                     modelfile_path(file));
}

/* ---- A text's tokens ---- */

/* Appends the ids of `text`, whose first n_prompt bytes are the model's own. */
static Status encode(const Session *session, const char *text, size_t length, size_t n_prompt,
                     unsigned flags, TokenList *ids, Error *error) {
    const Options *o = session->options;
    TextBuffer whole = {.tracked = true};
    if (o->special) flags |= TOKENIZE_PARSE_SPECIAL;
    text_put(&whole, text, n_prompt, 1);
    text_put(&whole, text + n_prompt, length - n_prompt, 0);
    Status status = whole.failed ? error_set(error, "no memory for a text")
                                 : tokenizer_encode(session->tokenizer, whole.bytes, whole.length,
                                                    whole.from_template, flags, ids, error);
    text_free(&whole);
    return status;
}

/* Appends what stands before every text. */
static Status put_start(const Session *session, TokenList *ids, Error *error) {
    int32_t bos = tokenizer_bos(session->tokenizer);
    if (session->options->bos == BOS_AUTO)
        return encode(session, "", 0, 0, TOKENIZE_ADD_BOS, ids, error);
    if (session->options->bos == BOS_NO || bos < 0) return STATUS_OK;
    return token_list_push(ids, bos) ? STATUS_OK : error_set(error, "no memory for a text");
}

/* Cuts the text, or refuses it, so that it fits with what stands after every text, which it
 * appends. */
static Status put_end(const Session *session, const EmbeddingSetting *setting, TokenList *ids,
                      Error *error) {
    TokenList end = {0};
    Status status = encode(session, "", 0, 0, TOKENIZE_ADD_EOS, &end, error);
    size_t most = setting->max_tokens, all = ids->length + end.length;
    if (status == STATUS_OK && all > most && (!setting->truncates || end.length >= most))
        status = error_set(error,
                           "the text is %zu tokens long, but the model takes %zu; "
                           "--embed-truncate, or 'truncate' in a request, cuts it",
                           all, most);
    if (status == STATUS_OK && all > most) ids->length = most - end.length;
    for (size_t i = 0; status == STATUS_OK && i < end.length; i++)
        if (!token_list_push(ids, end.ids[i])) status = error_set(error, "no memory for a text");
    if (status == STATUS_OK && ids->length == 0)
        status = error_set(error, "the text is empty: it has no token");
    token_list_free(&end);
    return status;
}

Status embedding_encode(const Session *session, const EmbeddingSetting *setting, const char *text,
                        size_t length, TokenList *ids, size_t *first, Error *error) {
    size_t n_prompt = 0;
    const char *prompt = setting->prompt_name ? find_prompt(session->file, setting->prompt_name,
                                                            setting->name_length, &n_prompt)
                                              : NULL;
    TextBuffer whole = {0};
    *first = 0;
    if (prompt_limit_check(session, length, error) != STATUS_OK ||
        put_start(session, ids, error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = STATUS_OK;
    if (n_prompt > 0 && !setting->includes_prompt) {
        TokenList alone = {0};
        status = encode(session, prompt, n_prompt, n_prompt, 0, &alone, error);
        *first = ids->length + alone.length;
        token_list_free(&alone);
    }
    if (n_prompt > 0) text_put(&whole, prompt, n_prompt, 0);
    text_put(&whole, text, length, 0);
    if (whole.failed) status = error_set(error, "no memory for a text");
    if (status == STATUS_OK)
        status = encode(session, whole.bytes, whole.length, n_prompt, 0, ids, error);
    text_free(&whole);
    return status == STATUS_OK ? put_end(session, setting, ids, error) : status;
}

bool embedding_accepts_empty(const Session *session, const EmbeddingSetting *setting) {
    TokenList ids = {0};
    Error ignored;
    size_t first;
    Status status = embedding_encode(session, setting, "", 0, &ids, &first, &ignored);
    token_list_free(&ids);
    return status == STATUS_OK;
}

/* ---- Pooling ---- */

size_t embedding_first_state(const EmbeddingSetting *setting, size_t first, size_t n) {
    if (setting->pooling == POOLING_LAST || first >= n) return n - 1;
    return first;
}

static double pooled(Pooling pooling, double sum, double x, size_t position, bool is_first) {
    switch (pooling) {
    case POOLING_CLS:
        return is_first ? x : sum;
    case POOLING_MAX:
        return is_first || x > sum ? x : sum;
    case POOLING_WEIGHTED_MEAN:
        return sum + x * (double)(position + 1); /* the product is exact */
    default:
        return sum + x;
    }
}

bool embedding_pool_add(EmbeddingPool *pool, const EmbeddingSetting *setting, size_t position,
                        const float *state) {
    bool is_first = pool->n_states++ == 0;
    if (!pool->sums) pool->sums = calloc(setting->dim, sizeof *pool->sums);
    if (!pool->sums) return false;
    for (uint32_t i = 0; i < setting->dim; i++)
        pool->sums[i] =
            pooled(setting->pooling, pool->sums[i], (double)state[i], position, is_first);
    pool->weight += setting->pooling == POOLING_WEIGHTED_MEAN ? (double)(position + 1) : 1.0;
    return true;
}

void embedding_pool_result(const EmbeddingPool *pool, const EmbeddingSetting *setting, float *out) {
    bool takes_one = setting->pooling == POOLING_CLS || setting->pooling == POOLING_MAX ||
                     setting->pooling == POOLING_LAST;
    double weight = takes_one ? 1.0 : pool->weight, square = 0.0;
    if (setting->pooling == POOLING_MEAN_SQRT_LEN) weight = sqrt(weight);
    for (uint32_t i = 0; i < setting->dimensions; i++) {
        double x = pool->sums[i] / weight;
        square += x * x;
    }
    double length = setting->normalizes ? sqrt(square) : 1.0;
    if (length < 1e-12) length = 1e-12; /* as torch divides */
    for (uint32_t i = 0; i < setting->dimensions; i++)
        out[i] = (float)(pool->sums[i] / weight / length);
}

void embedding_pool_free(EmbeddingPool *pool) {
    free(pool->sums);
    *pool = (EmbeddingPool){0};
}
