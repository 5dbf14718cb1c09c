#include "modes/batch/batch_fingerprint.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "session/embedding_options.h"
#include "session/sampling_numbers.h"
#include "modes/open/conversion_options.h"
#include "modes/batch/batch_options.h"
#include "constraint/shape_source.h"
#include "core/numeric.h"
#include "session/shape.h"

static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
    return XXH3_64bits_withSeed(bytes, n, hash);
}

static uint64_t mix_number(uint64_t hash, double number) {
    return mix(hash, &number, sizeof number);
}

/* What a table's row becomes. Where a column is the id, it alone is a result's key, and the prompt
 * has no part in it; else the key has a hash of the request. */
static uint64_t mix_table(uint64_t hash, const Session *session) {
    const Options *o = session->options;
    const BatchOptions *batch = batch_options(o);
    hash = mix(hash, batch->csv_id, strlen(batch->csv_id) + 1);
    hash = mix_number(hash, batch->csv_messages);
    return mix(hash, session->prompt, session->prompt_length);
}

void batch_fingerprint(char text[BATCH_FINGERPRINT_BYTES], const Session *session,
                       const GenerationOptions *g, const ChatPrompt *chat) {
    const Options *o = session->options;
    const EmbeddingOptions *vectors = embedding_options(o);
    const ConversionOptions *conversion = conversion_options(o);
    const BatchOptions *batch = batch_options(o);
    const SamplerOptions *s = &g->sampling;
    uint64_t hash = adapters_mix(session->adapters, modelfile_checksum(session->file));
    const double numbers[] = {NUMERIC_REVISION, (double)session->kv_type,
                              model_context(session->model)},
                 asked[] = {(double)g->max_tokens, g->decode_flags, o->special, o->bos,
                            batch->batch_text};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = mix_number(hash, numbers[i]);
    for (size_t i = 0; i < N_SAMPLING_NUMBERS; i++)
        hash = mix_number(hash, sampling_numbers_get(&sampling_numbers[i], s));
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) hash = mix_number(hash, asked[i]);
    hash = mix(hash, &s->seed, sizeof s->seed);
    const int date[] = {chat->now.tm_year, chat->now.tm_yday, chat->now.tm_hour, chat->now.tm_min};
    if (!chat->plain) hash = mix(hash, date, sizeof date);
    hash = mix(hash, g->eos, g->n_eos * sizeof *g->eos);
    for (size_t i = 0; i < s->n_bias; i++) {
        hash = mix_number(hash, g->bias[i].token);
        hash = mix_number(hash, g->bias[i].bias);
    }
    for (size_t i = 0; i < g->n_stop; i++) hash = mix(hash, g->stop[i], strlen(g->stop[i]) + 1);
    if (o->reasoning != REASONING_AUTO) hash = mix_number(hash, o->reasoning);
    if (o->hide_reasoning) hash = mix_number(hash, 1);
    if (options_given(o, &o->reasoning_budget))
        hash = mix_number(hash, (double)o->reasoning_budget + 2);
    if (o->system) hash = mix(hash, o->system, strlen(o->system) + 1);
    if (o->reasoning_effort) hash = mix(hash, o->reasoning_effort, strlen(o->reasoning_effort) + 1);
    const char *chat_template =
        session->chat_template; /* not the model's own, which the checksum of the file covers */
    if (chat_template) hash = mix(hash, chat_template, strlen(chat_template) + 1);
    /* The tokens of a tokenizer that -z gives in place of the file's. */
    for (size_t i = 0; conversion->tokenizer && i < tokenizer_vocab_size(session->tokenizer); i++) {
        size_t length;
        const char *token = tokenizer_token_text(session->tokenizer, (int32_t)i, &length);
        hash = mix(hash, token, length);
    }
    const ShapeSource *shape = session->shape;
    if (shape && shape->kind != SHAPE_NONE) {
        hash = mix_number(hash, shape->kind);
        hash = mix(hash, shape->text, shape->length);
    }
    unsigned form = session_json_form(o); /* of the lines' own shapes, too */
    if (form) hash = mix_number(mix(hash, "form", 4), form);
    if (o->on_length != LENGTH_CUT) hash = mix_number(hash, o->on_length);
    if (vectors->embed) hash = mix(hash, "embed", 5);
    const double embedding[] = {vectors->pooling, vectors->embed_normalize,
                                (double)vectors->dimensions, vectors->embed_truncate};
    for (size_t i = 0; i < sizeof embedding / sizeof *embedding; i++)
        if (embedding[i] != 0) hash = mix_number(mix_number(hash, (double)i), embedding[i]);
    if (vectors->embed_prompt)
        hash = mix(hash, vectors->embed_prompt, strlen(vectors->embed_prompt) + 1);
    if (batch->csv && batch->csv_id) hash = mix_table(hash, session);
    snprintf(text, BATCH_FINGERPRINT_BYTES, "fp_%016llx", (unsigned long long)hash);
}
