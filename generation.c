#include "generation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"

/* ---- What the model recommends ---- */

/* Overwrites *value with the number that the file has under `key`, if it is from low to high. */
static void recommended(const ModelFile *file, const char *key, double low, double high,
                        float *value) {
    double number;
    uint64_t whole;
    if (!modelfile_meta_float(file, key, 0, &number)) {
        if (!modelfile_meta_uint(file, key, 0, &whole)) return;
        number = (double)whole;
    }
    if (number >= low && number <= high) *value = (float)number;
}

GenerationOptions generation_defaults(const ModelFile *file, const Tokenizer *tokenizer) {
    const Config *config = modelfile_config(file);
    GenerationOptions out = {.sampling = sampler_options_default(),
                             .decode_flags = TOKEN_DECODER_SKIP_SPECIAL};
    SamplerOptions *s = &out.sampling;
    uint64_t top_k;
    size_t n = 0;
    s->top_p = 0.9f;
    recommended(file, "generation.temperature", 0.0, 1e3, &s->temperature);
    recommended(file, "generation.top_p", 0.0, 1.0, &s->top_p);
    recommended(file, "generation.min_p", 0.0, 1.0, &s->min_p);
    recommended(file, "generation.repetition_penalty", 1e-3, 1e3, &s->repetition_penalty);
    if (modelfile_meta_uint(file, "generation.top_k", 0, &top_k) && top_k <= UINT32_MAX)
        s->top_k = (uint32_t)top_k;
    const int32_t *ids = tokenizer ? tokenizer_eos(tokenizer, &n) : NULL;
    for (size_t i = 0; i < config->n_eos; i++) out.eos[out.n_eos++] = (int32_t)config->eos_id[i];
    for (size_t i = 0; i < n && out.n_eos < GENERATION_MAX_EOS; i++) out.eos[out.n_eos++] = ids[i];
    return out;
}

Status generation_draw_seed(uint64_t *seed, Error *error) {
    uint32_t drawn = 0; /* 32 bits are short enough to type again */
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return error_set(error, "the system gives no random seed: choose one with -s");
    *seed = drawn;
    return STATUS_OK;
}

/* ---- The prompt ---- */

/* The token that begins a text; -1: the model has none. */
static int32_t first_token(const ModelFile *file, const Tokenizer *tokenizer) {
    const Config *config = modelfile_config(file);
    if (config->bos_id >= 0) return config->bos_id;
    int32_t bos = tokenizer_bos(tokenizer);
    if (bos >= 0) return bos;
    return config->n_eos > 0 ? (int32_t)config->eos_id[0] : -1; /* GPT-2: one token for both */
}

Status generation_prompt_ids(const Model *model, const ModelFile *file, Tokenizer *tokenizer,
                             const GenerationText *prompt, TokenList *ids, Error *error) {
    unsigned flags = prompt->special ? TOKENIZE_PARSE_SPECIAL : 0;
    if (prompt->bos == BOS_AUTO) flags |= TOKENIZE_ADD_BOS;
    if (prompt->bos == BOS_YES || (prompt->length == 0 && !tokenizer_adds_bos(tokenizer))) {
        int32_t bos = first_token(file, tokenizer);
        if (bos < 0)
            return error_set(error, "%s: no token begins a text: give a prompt, -i TEXT",
                             modelfile_path(file));
        if (!token_list_push(ids, bos)) return error_set(error, "no memory for the prompt");
    }
    if (tokenizer_encode(tokenizer, prompt->text, prompt->length, NULL, flags, ids, error) !=
        STATUS_OK)
        return error_prefix(error, "the prompt");
    if (ids->length == 0) return error_set(error, "the prompt gives no token");
    if (ids->length <= model_context(model)) return STATUS_OK;
    return error_set(error,
                     "the prompt is %zu tokens long, but the context has %u positions (-c N "
                     "changes it)",
                     ids->length, model_context(model));
}

/* ---- One text -------------------------------------------------------------------------------- */

Status generation_init(Generation *g, const GenerationOptions *options, const Tokenizer *tokenizer,
                       size_t vocab_size, const Numeric *numeric, Error *error) {
    *g = (Generation){.options = *options};
    if (!g->options.sampling.bias) g->options.sampling.bias = g->options.bias;
    g->options.sampling.restricted = options->rule != NULL;
    token_decoder_init(&g->decoder, tokenizer, options->decode_flags);
    g->decoder.shown = options->shown;
    g->decoder.n_shown = options->n_shown;
    return sampler_new(&g->sampler, &g->options.sampling, vocab_size, numeric, error);
}

void generation_free(Generation *g) {
    sampler_free(g->sampler);
    token_decoder_free(&g->decoder);
    free(g->text);
    *g = (Generation){0};
}

void generation_prompt(Generation *g, const int32_t *ids, size_t n) {
    sampler_see_prompt(g->sampler, ids, n);
}

static Status add_text(Generation *g, const char *bytes, size_t length, Error *error) {
    if (g->given > 0) memmove(g->text, g->text + g->given, g->length - g->given);
    g->length -= g->given;
    g->given = 0;
    if (!array_reserve(&g->text, &g->capacity, g->length + length, 1))
        return error_set(error, "no memory for the text");
    if (length > 0) memcpy(g->text + g->length, bytes, length);
    g->length += length;
    return STATUS_OK;
}

/* Cuts the text at the first stop string in it. */
static void look_for_stop(Generation *g) {
    const char *first = NULL;
    if (g->length == 0) return;
    for (size_t i = 0; i < g->options.n_stop; i++) {
        const char *stop = g->options.stop[i];
        const char *at = memmem(g->text, g->length, stop, strlen(stop));
        if (at && (!first || at < first)) first = at;
    }
    if (!first) return;
    g->length = (size_t)(first - g->text);
    g->finish = FINISH_STOP;
}

/* Bytes at the end of the text that may begin a stop string. */
static size_t held_back(const Generation *g) {
    size_t most = 0;
    for (size_t i = 0; i < g->options.n_stop; i++) {
        size_t length = strlen(g->options.stop[i]) - 1;
        if (length > g->length) length = g->length;
        while (length > most &&
               memcmp(g->text + g->length - length, g->options.stop[i], length) != 0)
            length--;
        if (length > most) most = length;
    }
    return most;
}

static bool ends_text(const Generation *g, int32_t token) {
    for (size_t i = 0; i < g->options.n_eos; i++)
        if (g->options.eos[i] == token) return true;
    return false;
}

Status generation_next(Generation *g, float *logits, size_t position, GenerationStep *step,
                       Error *error) {
    const char *bytes;
    size_t length;
    TokenRule *rule = g->options.rule;
    const uint64_t *allowed = NULL;
    bool complete = false;
    if (rule && rule->allowed(rule, &allowed, error) != STATUS_OK) return STATUS_FAILED;
    sampler_allow(g->sampler, allowed);
    step->token = sampler_next(g->sampler, logits, position);
    if (ends_text(g, step->token)) {
        g->finish = FINISH_EOS;
        length = 0;
        bytes = "";
    } else {
        if (token_decoder_push(&g->decoder, step->token, &bytes, &length, error) != STATUS_OK)
            return STATUS_FAILED;
        if (rule && rule->take(rule, step->token, &complete, error) != STATUS_OK)
            return STATUS_FAILED;
        if (++g->n_tokens == g->options.max_tokens) g->finish = FINISH_LENGTH;
        if (complete) g->finish = FINISH_EOS;
    }
    if (add_text(g, bytes, length, error) != STATUS_OK) return STATUS_FAILED;
    if (g->finish != FINISH_NOT) {
        if (token_decoder_flush(&g->decoder, &bytes, &length, error) != STATUS_OK ||
            add_text(g, bytes, length, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (g->finish == FINISH_LENGTH && rule && rule->close &&
        (rule->close(rule, &bytes, &length, error) != STATUS_OK ||
         add_text(g, bytes, length, error) != STATUS_OK))
        return STATUS_FAILED;
    look_for_stop(g);
    g->given = g->finish != FINISH_NOT ? g->length : g->length - held_back(g);
    step->text = g->text ? g->text : "";
    step->length = g->given;
    return STATUS_OK;
}
