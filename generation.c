#include "generation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"

/* ---- What the options ask for -------------------------------------------------------------- */

/* The command line's value, else the model's (as a float or a whole number), else the default,
 * which is what the field holds when nothing was given. */
static double setting(const Session *session, const double *field, const char *key) {
    double recommended;
    uint64_t whole;
    if (options_given(session->options, field)) return *field;
    if (modelfile_meta_float(session->file, key, 0, &recommended)) return recommended;
    if (modelfile_meta_uint(session->file, key, 0, &whole)) return (double)whole;
    return *field;
}

static Status parse_bias(const OptionList *list, GenerationOptions *out, Error *error) {
    for (size_t i = 0; i < list->n; i++) {
        char *equals, *end;
        long token = strtol(list->items[i], &equals, 10);
        if (equals == list->items[i] || *equals != '=') goto wrong;
        double bias = strtod(equals + 1, &end);
        if (end == equals + 1 || *end != '\0' || !(bias >= -1e6 && bias <= 1e6) ||
            token != (int32_t)token)
            goto wrong;
        out->bias[i] = (LogitBias){(int32_t)token, (float)bias};
        continue;
    wrong:
        error_set(error, "--logit-bias: '%s' is not ID=X, a token's id and a number",
                  list->items[i]);
        return STATUS_USAGE;
    }
    out->sampling.n_bias = list->n;
    return STATUS_OK;
}

/* Every token that ends a text, by the model's configuration and by its tokenizer's. */
static void collect_eos(const Session *session, GenerationOptions *out) {
    const Config *config = modelfile_config(session->file);
    size_t n = 0;
    const int32_t *ids = session->tokenizer ? tokenizer_eos(session->tokenizer, &n) : NULL;
    out->n_eos = 0;
    if (session->options->ignore_eos) return;
    for (size_t i = 0; i < config->n_eos; i++) out->eos[out->n_eos++] = (int32_t)config->eos_id[i];
    for (size_t i = 0; i < n && out->n_eos < GENERATION_MAX_EOS; i++)
        out->eos[out->n_eos++] = ids[i];
}

Status generation_options(const Session *session, GenerationOptions *out, Error *error) {
    const Options *o = session->options;
    const ModelFile *file = session->file;
    SamplerOptions *s = &out->sampling;
    uint64_t whole;
    *s = sampler_options_default();
    s->temperature = (float)setting(session, &o->temperature, "generation.temperature");
    s->top_p = (float)setting(session, &o->top_p, "generation.top_p");
    s->min_p = (float)setting(session, &o->min_p, "generation.min_p");
    s->repetition_penalty =
        (float)setting(session, &o->repetition_penalty, "generation.repetition_penalty");
    s->presence_penalty = (float)o->presence_penalty;
    s->frequency_penalty = (float)o->frequency_penalty;
    uint64_t top_k = o->top_k;
    if (!options_given(o, &o->top_k) && modelfile_meta_uint(file, "generation.top_k", 0, &whole))
        top_k = whole;
    s->top_k = top_k > UINT32_MAX ? 0 : (uint32_t)top_k;
    /* A model's file is a stranger's: what it recommends must make sense as well. */
    if (!(s->temperature >= 0.0f && s->temperature <= 1e3f)) s->temperature = 1.0f;
    if (!(s->top_p >= 0.0f && s->top_p <= 1.0f)) s->top_p = 1.0f;
    if (!(s->min_p >= 0.0f && s->min_p <= 1.0f)) s->min_p = 0.0f;
    if (!(s->repetition_penalty >= 1e-3f && s->repetition_penalty <= 1e3f))
        s->repetition_penalty = 1.0f;
    s->seed = o->seed;
    if (!options_given(o, &o->seed)) {
        /* 32 bits, so that people can type it again. */
        uint32_t drawn = 0;
        if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
            return error_set(error, "the system gives no random seed: choose one with -s");
        s->seed = drawn;
    }
    out->max_tokens = o->n_tokens;
    out->decode_flags = o->special ? 0 : TOKEN_DECODER_SKIP_SPECIAL;
    out->stop = o->stop.items;
    out->n_stop = o->stop.n;
    collect_eos(session, out);
    return parse_bias(&o->logit_bias, out, error);
}

/* ---- One text -------------------------------------------------------------------------------- */

Status generation_init(Generation *g, const GenerationOptions *options, const Tokenizer *tokenizer,
                       size_t vocab_size, const Numeric *numeric, Error *error) {
    *g = (Generation){.options = *options};
    if (!g->options.sampling.bias) g->options.sampling.bias = g->options.bias;
    token_decoder_init(&g->decoder, tokenizer, options->decode_flags);
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
    step->token = sampler_next(g->sampler, logits, position);
    if (ends_text(g, step->token)) {
        g->finish = FINISH_EOS;
        length = 0;
        bytes = "";
    } else {
        if (token_decoder_push(&g->decoder, step->token, &bytes, &length, error) != STATUS_OK)
            return STATUS_FAILED;
        if (++g->n_tokens == g->options.max_tokens) g->finish = FINISH_LENGTH;
    }
    if (add_text(g, bytes, length, error) != STATUS_OK) return STATUS_FAILED;
    if (g->finish != FINISH_NOT) {
        if (token_decoder_flush(&g->decoder, &bytes, &length, error) != STATUS_OK ||
            add_text(g, bytes, length, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    look_for_stop(g);
    g->given = g->finish != FINISH_NOT ? g->length : g->length - held_back(g);
    step->text = g->text ? g->text : "";
    step->length = g->given;
    return STATUS_OK;
}
