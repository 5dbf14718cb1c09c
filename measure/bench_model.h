/* A model that `bench` measures: opened with some number of threads, beside the limits of the
 * machine with as many threads. bench.c prints what is measured as a table or as JSON, and
 * measure/report.c puts it into a report.
 *
 * Decoding is measured against the memory's read bandwidth of the same moments, counting the bytes
 * of the weights and of the cache that a step reads; prefill against the instruction set's peak,
 * counting two operations for each weight and token. All figures are medians. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <signal.h>

#include "measure/bench_limits.h"
#include "model.h"
#include "session/session.h"

enum {
    BENCH_PROMPT = 16,       /* tokens before what is measured */
    BENCH_MIN_STEPS = 5,     /* measured at least */
    BENCH_MAX_SEQUENCES = 64 /* side by side at most */
};

/* What is opened, and how. */
typedef struct BenchChoice {
    const char *model, *isa, *type; /* isa, type NULL: the best, the model's */
    KvChoice kv_type;               /* AUTO: the model's */
    uint64_t n_threads;             /* 0: the physical cores */
    uint64_t context;               /* 0: the model's */
    double seconds; /* after which a measurement ends that has BENCH_MIN_STEPS; 0: two */
    /* Ends a measurement with STATUS_INTERRUPTED when it is not 0; NULL: nothing does. */
    const volatile sig_atomic_t *interrupted;
} BenchChoice;

typedef struct BenchModel {
    const BenchChoice *choice;
    ModelFile *file;
    const Isa *isa;
    Model *model;
    KvCache *cache;
    float *logits; /* [BENCH_MAX_SEQUENCES][vocab_size] */
    int n_threads;
    bool integers;                 /* most weights are quantized */
    Reading *reading;              /* what decoding is compared with */
    double bandwidth, peak;        /* bytes and operations a second */
    double step_bytes, token_ops;  /* of the weights, for one step and for one token */
    double type_ops[TENSOR_TYPES]; /* a token's operations with the weights of each type */
    double expert_bytes;           /* of all experts; a token reads a share of them */
} BenchModel;

/* One measurement. */
typedef struct BenchResult {
    const char *what; /* "decode", "batch" or "prefill" */
    int n_threads;
    size_t batch, position;
    double tokens;             /* a second */
    double rate;               /* bytes or operations a second */
    const char *unit;          /* "GB/s" or "TOPS": the one of both that `rate` is shown in */
    double share;              /* the least time that the machine could take, of the time taken */
    bool computes;             /* the operations set the least time, not reading */
    double parts[MODEL_PARTS]; /* seconds */
} BenchResult;

/* Finds the instruction set and opens the file; what is not a model.bin of the wanted type is
 * converted into a temporary file. *b is zero before; bench_model_free ends it in any case. */
Status bench_model_find(BenchModel *b, const BenchChoice *choice, Error *error);
/* Opens the model with its KV cache. n_threads 0: the physical cores. */
Status bench_model_open(BenchModel *b, int n_threads, Error *error);
/* Measures the limits that results are compared with: the peak of the instruction set, and the read
 * bandwidth, which is measured on the weights themselves where they are much larger than the
 * processor's caches. */
Status bench_model_limits(BenchModel *b, Error *error);
/* The peak of the model's instruction set with weights of one type (bench_peak). */
double bench_model_peak(const BenchModel *b, TensorType type);
void bench_model_close(BenchModel *b); /* what bench_model_open and bench_model_limits have made */
void bench_model_free(BenchModel *b);

/* Decodes `batch` sequences side by side, each from `position` on. Rounds of a few steps alternate
 * with reading, and each step is compared with the reading of its round. */
Status bench_model_decode(BenchModel *b, size_t batch, size_t position, BenchResult *result,
                          Error *error);

/* Measures how long a prompt of n tokens (at most the context) takes in an empty cache: the median
 * of `least` runs or more, until they have taken as long as the choice says. */
Status bench_model_prefill(BenchModel *b, size_t n, size_t least, BenchResult *result,
                           Error *error);

#endif
