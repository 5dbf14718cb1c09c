#include "session/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "kvcache/kvcache_sizes.h"
#include "draft/recorded.h"
#include "kernels/tensor.h"
#include "core/prefill.h"
#include "layers/model_watch.h"
#include "session/drafting.h"
#include "session/prompt_limit.h"
#include "session/shape.h"
#include "system/disk_reads.h"
#include "system/peak_memory.h"
#include "system/terminal.h"

typedef struct Timing {
    double start, prefilled, end;
    double disk_prefilled; /* disk_reads_mib() at `prefilled` */
    size_t n_prompt, n_decoded;
} Timing;

Status generate_prompt_ids(const Session *session, TokenList *ids, Error *error) {
    const Options *o = session->options;
    const GenerationText prompt = {session->prompt, session->prompt_length, o->special, o->bos};
    if (prompt_limit_check(session, prompt.length, error) != STATUS_OK) return STATUS_FAILED;
    return generation_prompt_ids(session->model, session->file, session->tokenizer, &prompt, ids,
                                 error);
}

/* A prompt that is being read. */
typedef struct Reading {
    const Session *session;
    Drafter *drafter;
    bool shows;       /* progress */
    size_t n, n_read; /* tokens in all, and in the chunks that have run */
} Reading;

/* Shows progress between the parts of a chunk. */
static void on_part(void *context, size_t n_rows, double done) {
    const Reading *r = context;
    size_t read = r->n_read + (size_t)(done * (double)n_rows);
    if (done > 0) session_progress(r->session, "reading the prompt", read, r->n);
}

static Status after_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    Reading *r = context;
    (void)error;
    r->n_read = chunk->done;
    if (r->shows) session_progress(r->session, "reading the prompt", chunk->done, chunk->total);
    if (r->drafter && r->drafter->ran) r->drafter->ran(r->drafter, chunk->rows, 0, chunk->n);
    return STATUS_OK;
}

Status generate_prefill(const Session *session, KvCache *cache, Drafter *drafter,
                        const int32_t *ids, size_t n, float *logits, Error *error) {
    enum { SOON_READ = 100 }; /* a shorter prompt is read too fast to need a progress line */
    bool shows = n > SOON_READ;
    AdaptiveThreads *threads = shows && session->shows_progress ? session->threads : NULL;
    Reading reading = {.session = session, .drafter = drafter, .shows = shows, .n = n};
    const Prefill p = {.ids = ids,
                       .n = n,
                       .first_wanted = n - 1,
                       .logits = logits,
                       .interrupted = session->interrupted,
                       .after_chunk = after_chunk,
                       .context = &reading};
    if (shows) session_progress(session, "reading the prompt", 0, n); /* a chunk may take seconds */
    if (threads) {
        threads->on_part = on_part;
        threads->part_context = &reading;
    }
    Status status = prefill(session->model, cache, &p, error);
    if (threads) threads->on_part = NULL;
    if (shows) session_progress(session, "reading the prompt", 0, 0);
    return status;
}

void generated_text_free(GeneratedText *text) {
    token_list_free(&text->prompt);
    text_free(&text->text);
}

/* The drafter of the text: of what was recorded, or of what the session drafts with. */
static Status new_drafter(const Session *session, const GenerationOptions *options,
                          const GenerateRecord *record, size_t n_prompt, Drafter **drafter,
                          Error *error) {
    if (!record) return drafting_new(session, options, drafter, error);
    const RecordedDecoding decoding = {.tokenizer = session->tokenizer,
                                       .flags = options->decode_flags,
                                       .stops = options->n_stop > 0};
    return drafting_recorded(
        session, recorded_new(&decoding, record->text, record->length, n_prompt), drafter, error);
}

/* Continues the prompt into the session's output, and into *text where that is not NULL. */
static Status generate_text(Session *session, Generation *g, Decoding *decoding,
                            const TokenList *ids, float *logits, TextBuffer *text, Timing *timing,
                            Error *error) {
    size_t position = ids->length, context = model_context(session->model);
    GenerationStep step;
    Status status = generate_prefill(session, decoding->cache, decoding->speculation.drafter,
                                     ids->ids, ids->length, logits, error);
    timing->prefilled = clock_seconds();
    timing->disk_prefilled = disk_reads_mib();
    while (status == STATUS_OK) {
        /* The last token is printed but never fed back to the model. */
        if (position == context) g->options.max_tokens = g->n_tokens + 1;
        status = generation_next(g, logits, position, &step, error);
        if (status == STATUS_OK)
            status = output_write(session->output, step.text, step.length, error);
        if (status != STATUS_OK) break;
        if (text) text_put(text, step.text, step.length, 0);
        if (g->finish != FINISH_NOT || session->output->closed) break;
        status = *session->interrupted ? STATUS_INTERRUPTED : STATUS_OK;
        if (status != STATUS_OK) break;
        position++;
        status = decoding_next(decoding, step.token, &logits, error);
        timing->n_decoded++;
    }
    if (status == STATUS_OK && text && text->failed)
        return error_set(error, "no memory for the text");
    return status;
}

static double per_second(size_t n, double seconds) {
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

/* Whether another type of weights would read such a prompt much faster. */
static bool is_slow_prompt(const Model *model, size_t n_prompt) {
    enum { LONG_PROMPT = 256 }; /* tokens */
    TensorType type = model_weight_type(model);
    return n_prompt >= LONG_PROMPT && (type == TENSOR_F16 || type == TENSOR_BF16);
}

/* Prints what --stats reports: times and speeds, drafts, why the text ended, memory, disk reads,
 * machine, sandbox, cache and seed. */
static void print_stats(const Session *session, const Generation *g, const Decoding *decoding,
                        const Timing *t) {
    static const char *const reasons[] = {[FINISH_NOT] = "interrupted",
                                          [FINISH_EOS] = "end of text",
                                          [FINISH_STOP] = "stop string",
                                          [FINISH_LENGTH] = "limit"};
    const Model *model = session->model;
    double prefill = t->prefilled - t->start, decode = t->end - t->prefilled;
    terminal_print(stderr, "load:    %.3f s\n", session->load_seconds);
    terminal_print(stderr, "prefill: %zu tokens in %.3f s, %.1f tokens/s\n", t->n_prompt, prefill,
                   per_second(t->n_prompt, prefill));
    if (is_slow_prompt(model, t->n_prompt))
        terminal_print(
            stderr,
            "         %s weights are multiplied in float32: --type q8 reads prompts several "
            "times as fast%s\n",
            tensor_type_info(model_weight_type(model))->name,
            strstr(model_isa(model)->name, "_bf16") ? ", and so does bf16_act" : "");
    terminal_print(stderr, "decode:  %zu tokens in %.3f s, %.1f tokens/s\n", t->n_decoded, decode,
                   per_second(t->n_decoded, decode));
    const SpeculationStats *drafts = &decoding->speculation.stats;
    if (drafts->drafted > 0)
        terminal_print(stderr, "drafts:  %zu passes, %zu tokens drafted, %zu of them accepted\n",
                       drafts->passes, drafts->drafted, drafts->accepted);
    drafting_print(stderr, session->drafting);
    terminal_print(stderr, "text:    %zu tokens (%s)\n", g->n_tokens,
                   session->output->closed ? "its reader has gone" : reasons[g->finish]);
    terminal_print(stderr, "memory:  %.1f MiB at most\n", peak_memory_mib(session->peak_memory_fd));
    disk_reads_print(t->disk_prefilled, t->n_decoded, "token");
    int n_threads = model_threads(model), now = session->threads ? session->threads->now : 0;
    terminal_print(stderr, "machine: %s, %d threads%s, cache %s\n", model_isa(model)->name,
                   n_threads, now > 0 && now < n_threads ? ", fewer in the end" : "",
                   kv_type_name(session->kv_type));
    terminal_print(stderr, "sandbox: %s\n", sandbox_text(&session->sandbox));
    const KvCache *cache = decoding->cache;
    terminal_print(stderr, "cache:   %.2f MiB; %zu bytes a position that all layers see\n",
                   (double)kvcache_bytes_used(cache) / 0x1p20,
                   kvcache_position_bytes(kvcache_shape(cache)));
    terminal_print(stderr, "seed:    %llu\n", (unsigned long long)g->options.sampling.seed);
}

Status generate_run(Session *session, const GenerateRecord *record, GeneratedText *out,
                    Error *error) {
    const Config *config = model_config(session->model);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    GenerationOptions options;
    Generation g = {0};
    TokenList ids = {0};
    KvCache *cache = NULL;
    Drafter *drafter = NULL;
    Decoding decoding = {0};
    float *logits = NULL;
    Status status = session_generation_options(session, &options, error);
    options.rule = NULL;
    if (status != STATUS_OK) return status;
    if (session->prompt_length > 0) options.decode_flags |= TOKEN_DECODER_CONTINUE;
    status = generate_prompt_ids(session, &ids, error);
    if (status == STATUS_OK)
        status = session_rule(session, session->shape, &options, &options.rule, error);
    if (status == STATUS_OK) status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK)
        status = new_drafter(session, &options, record, ids.length, &drafter, error);
    if (status == STATUS_OK)
        status =
            decoding_init(&decoding, session->model, cache, drafter, ids.ids, ids.length, error);
    if (status == STATUS_OK)
        status = generation_init(&g, &options, session->tokenizer, config->vocab_size,
                                 model_isa(session->model)->numeric, error);
    if (status == STATUS_OK && !(logits = malloc(config->vocab_size * sizeof *logits)))
        status = error_set(error, "no memory for the logits");
    session->output->wraps = true;
    if (status == STATUS_OK && session->options->echo)
        status = output_write(session->output, session->prompt, session->prompt_length, error);
    if (status == STATUS_OK) {
        generation_prompt(&g, ids.ids, ids.length);
        Timing timing = {.start = clock_seconds(), .n_prompt = ids.length};
        timing.prefilled = timing.start;
        status = generate_text(session, &g, &decoding, &ids, logits, out ? &out->text : NULL,
                               &timing, error);
        timing.end = clock_seconds();
        decoding_end(&decoding);
        Error ignored;
        output_flush(session->output, status == STATUS_OK ? error : &ignored);
        if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
        if (status == STATUS_INTERRUPTED && session->output->terminal && g.n_tokens > 0)
            output_write(session->output, "\n", 1, &ignored); /* a remark begins a line */
        bool cut = options.rule && g.finish == FINISH_LENGTH && !options.rule->close;
        if (status == STATUS_OK && cut && !session_rule_is_met(options.rule))
            session->cut_after = g.n_tokens;
        if (session->options->stats && status != STATUS_FAILED)
            print_stats(session, &g, &decoding, &timing);
    }
    if (out) {
        out->prompt = ids;
        out->options = g.options;
        out->options.rule = NULL;
        out->n_tokens = g.n_tokens;
        out->finish = g.finish;
        ids = (TokenList){0};
    }
    free(logits);
    decoding_free(&decoding);
    drafter_free(drafter);
    generation_free(&g);
    token_rule_free(options.rule);
    kvcache_free(cache);
    token_list_free(&ids);
    return status;
}
