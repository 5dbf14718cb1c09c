#include "convert/divergence.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "session/logprobs.h"

/* Limits on the source's logits. MOST_LOGITS bounds memory for large vocabularies; MOST_TOKENS
 * bounds time for small ones, because each pass reads all of these tokens. */
enum { MOST_LOGITS = 1 << 28, MOST_TOKENS = 16384 };

static Status keep_rows(void *context, const float *logits, size_t first, size_t n, size_t tokens,
                        Error *error) {
    (void)tokens, (void)error;
    DivergenceReference *r = context;
    memcpy(r->logits + first * r->vocab_size, logits, n * r->vocab_size * sizeof *logits);
    return STATUS_OK;
}

/* Runs the model over the reference's rows. */
static Status run_rows(const DivergenceReference *r, const ModelFile *file,
                       const ConvertOptions *options, WindowRun *run, Error *error) {
    const ModelOptions model_options = {.n_threads = options->n_threads};
    run->most_rows = r->n_rows;
    run->cancel = options->cancel;
    if (model_open(&run->model, file, &model_options, error) != STATUS_OK) return STATUS_FAILED;
    Status status = text_windows_run(r->windows, run, error);
    model_close(run->model);
    return status;
}

Status divergence_reference(DivergenceReference *r, const ModelFile *source,
                            const TextWindows *windows, const ConvertOptions *options,
                            Error *error) {
    *r = (DivergenceReference){.windows = windows, .n_rows = text_windows_rows(windows)};
    r->vocab_size = modelfile_config(source)->vocab_size;
    size_t most = MOST_LOGITS / r->vocab_size;
    if (most > MOST_TOKENS) most = MOST_TOKENS;
    if (r->n_rows > most) r->n_rows = most ? most : 1;
    r->logits = malloc(r->n_rows * r->vocab_size * sizeof *r->logits);
    r->results = malloc(r->n_rows * sizeof *r->results);
    if (!r->logits || !r->results)
        return error_set(error, "no memory for the logits of %zu tokens", r->n_rows);
    WindowRun run = {.rows = keep_rows, .context = r};
    return run_rows(r, source, options, &run, error);
}

void divergence_free(DivergenceReference *r) {
    free(r->logits);
    free(r->results);
}

typedef struct Measuring {
    DivergenceReference *reference;
    const Numeric *numeric;
    int n_threads;
    float *exps; /* [n_threads][2][vocab_size] */
} Measuring;

/* The Kullback-Leibler divergence of a row's probabilities from the source's, from the logits of
 * both. exps[2 n] is working memory. */
static double row_divergence(const Numeric *numeric, const float *source, const float *own,
                             size_t n, float *exps) {
    double sum, divergence = 0.0;
    double own_log_sum = logprobs_log_sum(numeric, own, n, exps + n, NULL);
    double log_sum = logprobs_log_sum(numeric, source, n, exps, &sum);
    for (size_t i = 0; i < n; i++)
        divergence +=
            (double)exps[i] * (((double)source[i] - log_sum) - ((double)own[i] - own_log_sum));
    return divergence / sum;
}

static Status measure_rows(void *context, const float *logits, size_t first, size_t n,
                           size_t tokens, Error *error) {
    (void)tokens, (void)error;
    const Measuring *m = context;
    DivergenceReference *r = m->reference;
    size_t width = r->vocab_size;
#pragma omp parallel for num_threads(m->n_threads) schedule(static)
    for (int t = 0; t < m->n_threads; t++)
        for (size_t i = (size_t)t; i < n; i += (size_t)m->n_threads)
            r->results[first + i] =
                row_divergence(m->numeric, r->logits + (first + i) * width, logits + i * width,
                               width, m->exps + (size_t)t * 2 * width);
    return STATUS_OK;
}

Status divergence_measure(DivergenceReference *r, const ModelFile *file,
                          const ConvertOptions *options, double *mean, Error *error) {
    const Isa *isa = isa_choose(NULL, error);
    if (!isa) return STATUS_FAILED;
    int n_threads = options->n_threads > 0 ? options->n_threads : machine_cores();
    Measuring measuring = {r, isa->numeric, n_threads, NULL};
    measuring.exps = malloc((size_t)measuring.n_threads * 2 * r->vocab_size * sizeof(float));
    if (!measuring.exps) return error_set(error, "no memory to measure a divergence in");
    WindowRun run = {.rows = measure_rows, .context = &measuring};
    Status status = run_rows(r, file, options, &run, error);
    double sum = 0.0;
    for (size_t i = 0; status == STATUS_OK && i < r->n_rows; i++) sum += r->results[i];
    *mean = sum / (double)r->n_rows;
    free(measuring.exps);
    return status;
}
