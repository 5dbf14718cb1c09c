#include "generate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/clock.h"

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
    if (g->length + length > g->capacity) {
        size_t capacity = 2 * (g->length + length) + 64;
        char *text = realloc(g->text, capacity);
        if (!text) return error_set(error, "no memory for the text");
        g->text = text;
        g->capacity = capacity;
    }
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

/* ---- The mode -------------------------------------------------------------------------------- */

typedef struct Timing {
    double start, prefilled, end;
    size_t n_prompt, n_decoded;
} Timing;

/* The token that begins a text; -1: the model has none. */
static int32_t first_token(const Session *session) {
    const Config *config = modelfile_config(session->file);
    if (config->bos_id >= 0) return config->bos_id;
    int32_t bos = tokenizer_bos(session->tokenizer);
    if (bos >= 0) return bos;
    return config->n_eos > 0 ? (int32_t)config->eos_id[0] : -1; /* GPT-2: one token for both */
}

Status generate_prompt_ids(const Session *session, TokenList *ids, Error *error) {
    enum { AUTO, NO, YES };
    const Options *o = session->options;
    unsigned flags = o->special ? TOKENIZE_PARSE_SPECIAL : 0;
    bool empty = session->prompt_length == 0;
    if (o->bos == AUTO) flags |= TOKENIZE_ADD_BOS;
    if (o->bos == YES || (empty && !tokenizer_adds_bos(session->tokenizer))) {
        int32_t bos = first_token(session);
        if (bos < 0)
            return error_set(error, "%s: no token begins a text: give a prompt, -i TEXT",
                             modelfile_path(session->file));
        if (!token_list_push(ids, bos)) return error_set(error, "no memory for the prompt");
    }
    if (tokenizer_encode(session->tokenizer, session->prompt, session->prompt_length, NULL, flags,
                         ids, error) != STATUS_OK)
        return error_prefix(error, "the prompt");
    if (ids->length == 0) return error_set(error, "the prompt gives no token");
    if (ids->length > model_context(session->model))
        return error_set(error,
                         "the prompt is %zu tokens long, but the context has %u positions (-c N "
                         "changes it)",
                         ids->length, model_context(session->model));
    return STATUS_OK;
}

Status generate_prefill(const Session *session, KvCache *cache, const int32_t *ids, size_t n,
                        float *logits, Error *error) {
    size_t most = model_max_rows(session->model), done = 0;
    int32_t start = kvcache_next(cache, 0);
    Row *rows = calloc(n < most ? n : most, sizeof *rows);
    if (!rows) return error_set(error, "no memory for the prompt");
    Status status = STATUS_OK;
    while (done < n && status == STATUS_OK) {
        size_t part = n - done < most ? n - done : most;
        for (size_t i = 0; i < part; i++)
            rows[i] = (Row){.position = start + (int32_t)(done + i),
                            .token = ids[done + i],
                            .wants_logits = done + i + 1 == n};
        status = model_forward(session->model, cache, rows, part, logits, error);
        done += part;
        if (done < n && *session->interrupted) status = STATUS_INTERRUPTED;
        if (n > most)
            session_progress(session, "reading the prompt", done,
                             done < n && status == STATUS_OK ? n : 0);
    }
    free(rows);
    return status;
}

static Status generate_text(Session *session, Generation *g, Decoding *decoding,
                            const TokenList *ids, float *logits, Timing *timing, Error *error) {
    size_t position = ids->length, context = model_context(session->model);
    GenerationStep step;
    Status status =
        generate_prefill(session, decoding->cache, ids->ids, ids->length, logits, error);
    timing->prefilled = clock_seconds();
    while (status == STATUS_OK) {
        /* The last token that the context allows is chosen, but never looked at. */
        if (position == context) g->options.max_tokens = g->n_tokens + 1;
        if (generation_next(g, logits, position, &step, error) != STATUS_OK ||
            output_write(session->output, step.text, step.length, error) != STATUS_OK)
            return STATUS_FAILED;
        if (g->finish != FINISH_NOT || session->output->closed) break;
        if (*session->interrupted) return STATUS_INTERRUPTED;
        position++;
        status = decoding_next(decoding, step.token, &logits, error);
        timing->n_decoded++;
    }
    return status;
}

static double rate(size_t n, double seconds) {
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

static void print_stats(const Session *session, const Generation *g, const Decoding *decoding,
                        const Timing *t) {
    static const char *const reasons[] = {"interrupted", "end of text", "stop string", "limit"};
    struct rusage usage;
    const Model *model = session->model;
    double prefill = t->prefilled - t->start, decode = t->end - t->prefilled;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(stderr, "load:    %.3f s\n", session->load_seconds);
    fprintf(stderr, "prefill: %zu tokens in %.3f s, %.1f tokens/s\n", t->n_prompt, prefill,
            rate(t->n_prompt, prefill));
    fprintf(stderr, "decode:  %zu tokens in %.3f s, %.1f tokens/s\n", t->n_decoded, decode,
            rate(t->n_decoded, decode));
    const SpeculationStats *drafts = &decoding->speculation.stats;
    if (drafts->drafted > 0)
        fprintf(stderr, "drafts:  %zu passes, %zu tokens drafted, %zu of them accepted\n",
                drafts->passes, drafts->drafted, drafts->accepted);
    fprintf(stderr, "text:    %zu tokens (%s)\n", g->n_tokens,
            session->output->closed ? "its reader has gone" : reasons[g->finish]);
    fprintf(stderr, "memory:  %.1f MiB at most\n", (double)usage.ru_maxrss / 1024.0);
    fprintf(stderr, "machine: %s, %d threads, cache %s\n", model_isa(model)->name,
            model_threads(model), kv_type_name(session->kv_type));
    fprintf(stderr, "sandbox: %s\n", sandbox_text(&session->sandbox));
    const KvCache *cache = decoding->cache;
    size_t pages = kvcache_pages_used(cache);
    fprintf(stderr, "cache:   %zu pages of %d positions, %.2f MiB; %zu bytes a position\n", pages,
            KV_PAGE, (double)pages * (double)kvcache_page_bytes(kvcache_shape(cache)) / 0x1p20,
            kvcache_position_bytes(kvcache_shape(cache)));
    fprintf(stderr, "seed:    %llu\n", (unsigned long long)g->options.sampling.seed);
}

Status generate_run(Session *session, Error *error) {
    const Config *config = model_config(session->model);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    GenerationOptions options;
    Generation g = {0};
    TokenList ids = {0};
    KvCache *cache = NULL;
    Drafter *drafter = NULL;
    Decoding decoding = {0};
    float *logits = NULL;
    Status status = generation_options(session, &options, error);
    if (status != STATUS_OK) return status;
    if (session->prompt_length > 0) options.decode_flags |= TOKEN_DECODER_CONTINUE;
    status = generate_prompt_ids(session, &ids, error);
    if (status == STATUS_OK) status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK) status = session_drafter(session, &drafter, error);
    if (status == STATUS_OK)
        status =
            decoding_init(&decoding, session->model, cache, drafter, ids.ids, ids.length, error);
    if (status == STATUS_OK)
        status = generation_init(&g, &options, session->tokenizer, config->vocab_size,
                                 model_isa(session->model)->numeric, error);
    if (status == STATUS_OK && !(logits = malloc(config->vocab_size * sizeof *logits)))
        status = error_set(error, "no memory for the logits");
    if (status == STATUS_OK && session->options->echo)
        status = output_write(session->output, session->prompt, session->prompt_length, error);
    if (status == STATUS_OK) {
        generation_prompt(&g, ids.ids, ids.length);
        Timing timing = {.start = clock_seconds(), .n_prompt = ids.length};
        timing.prefilled = timing.start;
        status = generate_text(session, &g, &decoding, &ids, logits, &timing, error);
        timing.end = clock_seconds();
        decoding_end(&decoding);
        if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
        if (session->options->stats && status != STATUS_FAILED)
            print_stats(session, &g, &decoding, &timing);
    }
    free(logits);
    decoding_free(&decoding);
    drafter_free(drafter);
    generation_free(&g);
    kvcache_free(cache);
    token_list_free(&ids);
    return status;
}
