#include "session/generation_options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session/sampling_numbers.h"

/* Reads --logit-bias ID=X into out->bias. vocab_size SIZE_MAX: no model is open, which would say
 * what its tokens are. */
static Status parse_bias(const OptionList *list, size_t vocab_size, GenerationOptions *out,
                         Error *error) {
    for (size_t i = 0; i < list->n; i++) {
        char *equals, *end;
        long token = strtol(list->items[i], &equals, 10);
        if (equals == list->items[i] || *equals != '=') goto wrong;
        double bias = strtod(equals + 1, &end);
        if (end == equals + 1 || *end != '\0' || !(bias >= -1e6 && bias <= 1e6) ||
            token != (int32_t)token)
            goto wrong;
        if (token < 0 || (size_t)token >= vocab_size)
            return error_set(error, "--logit-bias: token %ld is outside the vocabulary of %zu",
                             token, vocab_size);
        out->bias[i] = (LogitBias){(int32_t)token, (float)bias};
        continue;
    wrong:
        error_set(error, "--logit-bias: '%s' is not ID=X, a token's id and a number",
                  list->items[i]);
        /* llama.cpp's form is ID+X or ID-X, also with infinities. */
        if (equals > list->items[i] && (*equals == '+' || *equals == '-'))
            error_set(error, "--logit-bias: '%s' is written as %ld=%c%s", list->items[i], token,
                      *equals, strcmp(equals + 1, "inf") == 0 ? "1e6" : equals + 1);
        return STATUS_USAGE;
    }
    out->sampling.n_bias = list->n;
    return STATUS_OK;
}

/* Sets the numbers of the sampler that the command line gave. */
static void take_numbers(const Options *o, SamplerOptions *sampling) {
    for (size_t k = 0; k < N_SAMPLING_NUMBERS; k++) {
        const SamplingNumber *n = &sampling_numbers[k];
        size_t i;
        if (!command_line_find(&o->line, n->name, &i) || !o->line.given[i]) continue;
        const void *value = command_line_field(&o->line, i);
        sampling_numbers_set(n, sampling,
                             n->whole ? (double)*(const uint64_t *)value : *(const double *)value);
    }
}

Status session_generation_options(const Session *session, GenerationOptions *out, Error *error) {
    const Options *o = session->options;
    *out = generation_defaults(session->file, session->tokenizer);
    SamplerOptions *s = &out->sampling;
    take_numbers(o, s);
    s->seed = o->seed;
    if (!options_given(o, &o->seed) && generation_draw_seed(&s->seed, error) != STATUS_OK)
        return STATUS_FAILED;
    out->max_tokens = o->n_tokens;
    out->decode_flags = o->special ? 0 : TOKEN_DECODER_SKIP_SPECIAL;
    out->stop = o->stop.items;
    out->n_stop = o->stop.n;
    if (o->ignore_eos) out->n_eos = 0;
    size_t vocab_size = session->model ? model_config(session->model)->vocab_size : SIZE_MAX;
    return parse_bias(&o->logit_bias, vocab_size, out, error);
}
