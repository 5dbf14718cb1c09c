/* Times forward passes on request, for scripts/pairs, which runs this program of two trees in turn.
 *
 *     print_times MODEL.bin THREADS [ISA]
 *
 * Each line of the input is one measurement; the answer is its seconds, one line:
 *
 *     prompt N        a prompt of N tokens
 *     decode N        N tokens after a prompt of 8, one a pass
 *     batch S N       N passes of one token of each of S sequences, after prompts of 8
 *
 * scripts/pairs compiles this file with the headers of older revisions, too: it uses few functions,
 * and of the tests' helpers none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvcache.h"
#include "model.h"
#include "core/prefill.h"

enum { MOST_SEQUENCES = 64, MOST_TOKENS = 8192, BEGINNING = 8 };

typedef struct Times {
    Model *model;
    KvCache *cache;
    float *logits; /* [MOST_SEQUENCES][vocab_size] */
} Times;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "print_times: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Any tokens will do; these differ from one place to the next. */
static int32_t token_at(const Times *t, int32_t sequence, int32_t position) {
    uint32_t mixed = (uint32_t)(position * 31 + sequence * 7 + 1) * 2654435761u;
    return (int32_t)(mixed % model_config(t->model)->vocab_size);
}

static void run_prompt(Times *t, size_t n) {
    static int32_t ids[MOST_TOKENS];
    Error error;
    for (size_t i = 0; i < n; i++) ids[i] = token_at(t, 0, (int32_t)i);
    const Prefill p = {.ids = ids, .n = n, .first_wanted = n - 1, .logits = t->logits};
    if (prefill(t->model, t->cache, &p, &error) != STATUS_OK) fail(error.text);
}

/* `steps` passes of n_tokens of each of n sequences. */
static void run_steps(Times *t, size_t n, size_t n_tokens, size_t steps) {
    static Row rows[MOST_SEQUENCES * BEGINNING];
    Error error;
    for (size_t i = 0; i < steps; i++) {
        Row *row = rows;
        for (int32_t s = 0; s < (int32_t)n; s++) {
            int32_t next = kvcache_next(t->cache, s), end = next + (int32_t)n_tokens;
            for (; next < end; next++)
                *row++ = (Row){s, next, token_at(t, s, next), next == end - 1};
        }
        if (model_forward(t->model, t->cache, rows, n * n_tokens, t->logits, &error) != STATUS_OK)
            fail(error.text);
    }
}

static double measure(Times *t, size_t sequences, size_t steps) {
    double start = now();
    if (sequences == 0) {
        run_prompt(t, steps);
    } else {
        run_steps(t, sequences, BEGINNING, 1);
        start = now();
        run_steps(t, sequences, 1, steps);
    }
    double seconds = now() - start;
    for (int32_t s = 0; s < (int32_t)sequences || s == 0; s++) kvcache_reset(t->cache, s, 0);
    return seconds;
}

static Times open_times(const char *path, int n_threads, const char *isa) {
    Times t = {0};
    Error error;
    ModelFile *file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(strerror(errno));
    if (modelfile_open(&file, path, fd, &error) != STATUS_OK) fail(error.text);
    const ModelOptions options = {.n_threads = n_threads, .isa = isa_choose(isa, &error)};
    if (!options.isa) fail(error.text);
    if (model_open(&t.model, file, &options, &error) != STATUS_OK) fail(error.text);
    const KvShape shape = model_kv_shape(t.model, model_kv_type(t.model));
    if (kvcache_new(&t.cache, &shape, MOST_SEQUENCES, 0, &error) != STATUS_OK) fail(error.text);
    t.logits = malloc(sizeof(float) * MOST_SEQUENCES * model_config(t.model)->vocab_size);
    if (!t.logits) fail("no memory");
    return t;
}

int main(int argc, char **argv) {
    char line[64];
    size_t sequences, steps;
    if (argc < 3) fail("MODEL.bin and THREADS are needed");
    Times t = open_times(argv[1], atoi(argv[2]), argv[3]);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "prompt %zu", &steps) == 1)
            sequences = 0;
        else if (sscanf(line, "decode %zu", &steps) == 1)
            sequences = 1;
        else if (sscanf(line, "batch %zu %zu", &sequences, &steps) != 2)
            fail("prompt N, decode N or batch S N");
        if (sequences > MOST_SEQUENCES || steps < 1 || steps > MOST_TOKENS) fail("too many");
        printf("%.9f\n", measure(&t, sequences, steps));
        fflush(stdout);
    }
    return 0;
}
