#include "modes/inspect/recompute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_snapshots.h"
#include "core/config_fields.h"
#include "session/generate.h"
#include "session/logprobs.h"
#include "system/terminal.h"

/* A step that takes longer than this is timed once, not three times. */
static const double REPEATED_SECONDS = 0.02;

typedef struct Step {
    double cached_seconds, seconds; /* with the cache, and without it */
} Step;

/* ---- Multiply-adds --------------------------------------------------------------------------- */

/* Multiply-adds of attention (scores, and sums of values) for the queries at positions [first,
 * end).
 */
static double attention_work(const Config *c, size_t first, size_t end) {
    double work = 0.0;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        const HeadShape h = config_heads(c, layer);
        double seen = 0.0;
        for (size_t i = first; i < end; i++) {
            size_t from = c->chunk[layer] ? i / c->chunk[layer] * c->chunk[layer] : 0, n = i + 1;
            if (c->window[layer] && n > c->window[layer] && n - c->window[layer] > from)
                from = n - c->window[layer];
            seen += (double)(n - from);
        }
        work += seen * h.n_heads * (h.head_dim + h.value_dim);
    }
    return work;
}

/* ---- The report ------------------------------------------------------------------------------ */

static Status print_text(const Session *session, const int32_t *ids, size_t n, Error *error) {
    char *text;
    size_t length;
    if (tokenizer_decode(session->tokenizer, ids, n,
                         TOKEN_DECODER_SKIP_SPECIAL | TOKEN_DECODER_CONTINUE, &text, &length,
                         error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = output_write(session->output, text, length, error);
    free(text);
    if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
    return status;
}

enum { GROWTH = 3 }; /* lengths of text whose costs are compared, each twice the one before */

/* Time and multiply-adds of one step or of several. */
typedef struct Cost {
    double seconds, matrices, attention;
} Cost;

static void add_cost(Cost *sum, const Cost *cost) {
    sum->seconds += cost->seconds;
    sum->matrices += cost->matrices;
    sum->attention += cost->attention;
}

static void print_costs(const char *label, const Cost *cached, const Cost *whole) {
    terminal_print(stderr, "%-10s %8.3f %8.2fM %8.3fM %8.3f %8.2fM %8.3fM\n", label,
                   1e3 * cached->seconds, 1e-6 * cached->matrices, 1e-6 * cached->attention,
                   1e3 * whole->seconds, 1e-6 * whole->matrices, 1e-6 * whole->attention);
}

/* Prints what attention costs up to a length, and how often that of the shortest. */
static void print_growth_of(const char *label, const double *work) {
    for (size_t i = 0; i < GROWTH; i++) {
        enum { MOST_BLOCKS = 70 };
        double times = work[0] > 0.0 ? work[i] / work[0] : 0.0;
        terminal_print(stderr, "%-13s %9.3fM %6.1fx ", i ? "" : label, 1e-6 * work[i], times);
        for (int block = 0; block < MOST_BLOCKS && block < (int)(times + 0.5); block++)
            terminal_print(stderr, "\xE2\x96\x88");
        terminal_print(stderr, "\n");
    }
}

/* Prints how the attention of all steps together grows from doubling to doubling of the text: as
 * the square of its length with the cache, as the cube without. */
static void print_growth(const Config *c, size_t n_prompt, size_t n) {
    size_t most = n_prompt + n - 1, ends[GROWTH];
    double cached[GROWTH], whole[GROWTH] = {0};
    if (most / 4 <= n_prompt) return;
    terminal_print(stderr, "\nmultiply-adds of attention, all steps up to");
    for (size_t i = 0; i < GROWTH; i++) {
        ends[i] = most >> (GROWTH - 1 - i);
        cached[i] = attention_work(c, 0, ends[i]);
        for (size_t end = n_prompt; end <= ends[i]; end++) whole[i] += attention_work(c, 0, end);
        terminal_print(stderr, " %zu%s", ends[i], i + 1 < GROWTH ? "," : " positions\n");
    }
    print_growth_of("with cache", cached);
    print_growth_of("without", whole);
    terminal_print(stderr,
                   "twice the text costs about 4 times with the cache (L^2), 8 times without "
                   "(L^3)\n");
}

/* Prints the table of n steps: each of them, or some 20 when there are more than 40. */
static void print_table(const Model *model, size_t n_prompt, const Step *steps, size_t n) {
    const Config *c = model_config(model);
    Cost all_cached = {0}, all_whole = {0};
    terminal_print(stderr, "%-10s %-27s %s\n", "", "with the cache", "without it");
    terminal_print(stderr, "%-10s %8s %9s %9s %8s %9s %9s\n", "positions", "ms", "matrices",
                   "attention", "ms", "matrices", "attention");
    for (size_t i = 0; i < n; i++) {
        size_t end = n_prompt + i, first = i == 0 ? 0 : end - 1;
        const Cost cached = {steps[i].cached_seconds, config_work(c, (double)(end - first), 1),
                             attention_work(c, first, end)};
        const Cost whole = {steps[i].seconds, config_work(c, (double)end, 1),
                            attention_work(c, 0, end)};
        add_cost(&all_cached, &cached);
        add_cost(&all_whole, &whole);
        if (n > 40 && i % (n / 20) != 0 && i + 1 != n) continue;
        char label[32];
        snprintf(label, sizeof label, "%zu", end);
        print_costs(label, &cached, &whole);
    }
    print_costs("all", &all_cached, &all_whole);
    if (n == 0) return; /* the prompt fills the context */
    terminal_print(
        stderr,
        "the same bits at each of %zu steps; without the cache %.1f times the multiply-adds, "
        "%.1f times the time\n",
        n,
        (all_whole.matrices + all_whole.attention) / (all_cached.matrices + all_cached.attention),
        all_cached.seconds > 0.0 ? all_whole.seconds / all_cached.seconds : 0.0);
    print_growth(c, n_prompt, n);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* A run of --no-cache. */
typedef struct Comparison {
    const Session *session;
    GenerationOptions options;
    TokenList ids;                 /* the prompt and what was generated */
    KvCache *cache;                /* the text so far */
    KvCache *emptied;              /* before each step, as if there were no cache */
    float *cached_logits, *logits; /* [vocab_size] */
    Step *steps;                   /* [max_steps + 1] */
    size_t n_prompt, max_steps, n_steps;
} Comparison;

/* Runs the tokens from `first` on, after those before it that `cache` holds, and measures the time:
 * the least of three runs, or one run when it is slow. */
static Status time_step(const Comparison *r, KvCache *cache, size_t first, float *logits,
                        double *seconds, Error *error) {
    for (int repeat = 0; repeat < 3; repeat++) {
        kvcache_truncate(cache, 0, (int32_t)first);
        size_t next = (size_t)kvcache_next(cache, 0);
        kvcache_hold(cache, 0, 0); /* for the next repeat */
        double start = clock_seconds();
        Status status = generate_prefill(r->session, cache, NULL, r->ids.ids + next,
                                         r->ids.length - next, logits, error);
        if (status != STATUS_OK) return status;
        double elapsed = clock_seconds() - start;
        if (repeat == 0 || elapsed < *seconds) *seconds = elapsed;
        if (elapsed > REPEATED_SECONDS) break;
    }
    return STATUS_OK;
}

/* Runs the prompt both ways, not measured: the first passes read the weights from the file and wake
 * the threads. */
static Status warm_up(const Comparison *r, Error *error) {
    double seconds;
    Status status = time_step(r, r->cache, 0, r->cached_logits, &seconds, error);
    if (status == STATUS_OK) status = time_step(r, r->emptied, 0, r->logits, &seconds, error);
    if (status == STATUS_OK) kvcache_truncate(r->cache, 0, 0);
    return status;
}

/* Continues the text until it ends, each token computed both ways. */
static Status recompute_compare(Comparison *r, Error *error) {
    size_t vocab_size = model_config(r->session->model)->vocab_size, n_cached = 0;
    bool ends = false;
    while (!ends && r->n_steps < r->max_steps) {
        Step *step = &r->steps[r->n_steps++];
        Status status =
            time_step(r, r->cache, n_cached, r->cached_logits, &step->cached_seconds, error);
        if (status == STATUS_OK)
            status = time_step(r, r->emptied, 0, r->logits, &step->seconds, error);
        if (status != STATUS_OK) return status;
        if (memcmp(r->cached_logits, r->logits, vocab_size * sizeof *r->logits) != 0)
            return error_set(error, "the logits at position %zu depend on the cache: a bug",
                             r->ids.length);
        n_cached = r->ids.length;
        int32_t token = (int32_t)logprobs_argmax(r->logits, vocab_size);
        for (size_t i = 0; i < r->options.n_eos; i++) ends = ends || r->options.eos[i] == token;
        if (!ends && !token_list_push(&r->ids, token)) return error_set(error, "no memory");
        if (*r->session->interrupted) return STATUS_INTERRUPTED;
    }
    return STATUS_OK;
}

/* Allocates both caches, both rows of logits and the list of steps. */
static Status recompute_prepare(Comparison *r, Error *error) {
    const Model *model = r->session->model;
    const KvShape shape = model_kv_shape(model, r->session->kv_type);
    size_t vocab_size = model_config(model)->vocab_size;
    r->n_prompt = r->ids.length;
    r->max_steps = model_context(model) - r->n_prompt;
    if (r->options.max_tokens > 0 && r->options.max_tokens < r->max_steps)
        r->max_steps = r->options.max_tokens;
    r->cached_logits = malloc(vocab_size * sizeof *r->cached_logits);
    r->logits = malloc(vocab_size * sizeof *r->logits);
    r->steps = calloc(r->max_steps + 1, sizeof *r->steps);
    if (!r->cached_logits || !r->logits || !r->steps)
        return error_set(error, "no memory for %zu steps", r->max_steps);
    Status status = kvcache_new(&r->cache, &shape, 1, 0, error);
    return status == STATUS_OK ? kvcache_new(&r->emptied, &shape, 1, 0, error) : status;
}

Status recompute_run(Session *session, Error *error) {
    Comparison r = {.session = session};
    Status status = session_generation_options(session, &r.options, error);
    if (status == STATUS_OK) status = generate_prompt_ids(session, &r.ids, error);
    if (status == STATUS_OK) status = recompute_prepare(&r, error);
    if (status == STATUS_OK) status = warm_up(&r, error);
    if (status == STATUS_OK) status = recompute_compare(&r, error);
    if (status == STATUS_OK)
        status = print_text(session, r.ids.ids + r.n_prompt, r.ids.length - r.n_prompt, error);
    if (status == STATUS_OK) print_table(session->model, r.n_prompt, r.steps, r.n_steps);
    kvcache_free(r.cache);
    kvcache_free(r.emptied);
    free(r.cached_logits);
    free(r.logits);
    free(r.steps);
    token_list_free(&r.ids);
    return status;
}
