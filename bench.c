/* The `bench` program: how fast a model runs here, and how much of what the machine could do
 * that is.
 *
 *     bench MODEL [--threads N] [--isa NAME] [--type T] [--kv-type T] [--context N]
 *                 [--sweep threads|context|batch | --draft | --attention |
 *                  --decode POSITION --prefill N --batch N]
 *                 [--json]
 *
 * MODEL is a model.bin or anything that `export` reads ("random:tinyllama-1.1b" too), which is
 * then converted into a temporary file. Decoding is measured against the memory's read
 * bandwidth of the same moments, counting the bytes of the weights and of the cache that a step
 * reads; prefill against the instruction set's peak, counting two operations for each weight and
 * token. All figures are medians. docs/benchmarks.md */
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advice/option_hints.h"
#include "base/clock.h"
#include "base/machine.h"
#include "kvcache/kvcache_sizes.h"
#include "convert/convert_target.h"
#include "layers/model_watch.h"
#include "modes/open/model_names.h"
#include "formats/family/mtp_names.h"
#include "families/reading/source_open.h"
#include "measure/bench_attention.h"
#include "measure/bench_drafts.h"
#include "measure/bench_limits.h"
#include "model.h"
#include "core/prefill.h"
#include "session/session.h"
#include "session/versions.h"
#include "system/command_line.h"
#include "system/standard_streams.h"
#include "system/terminal.h"

enum {
    PROMPT = 16,        /* tokens before what is measured */
    MAX_STEPS = 128,    /* measured at most, */
    MIN_STEPS = 5,      /* at least, */
    ROUND_STEPS = 4,    /* between two readings of the memory */
    MAX_SEQUENCES = 64, /* side by side at most */
    PREFILL = 512
};
static const double ENOUGH_SECONDS = 2.0; /* of one measurement, once it has MIN_STEPS */

typedef enum Sweep { SWEEP_NONE, SWEEP_THREADS, SWEEP_CONTEXT, SWEEP_BATCH } Sweep;

typedef struct Arguments {
    const char *model, *isa, *type;
    char *found; /* what `model` points at where it was a name; owned */
    Sweep sweep;
    KvChoice kv_type;                /* AUTO: the model's */
    uint64_t n_threads;              /* 0: the physical cores */
    uint64_t context;                /* 0: the model's */
    uint64_t decode, prefill, batch; /* measure only these; all 0: everything */
    bool draft;                      /* measure drafts alone */
    bool attention;                  /* measure attention in blocks and by the textbook alone */
    bool json, help, version;
} Arguments;

/* One model, open with some number of threads, and the limits of the machine with as many. */
typedef struct Bench {
    const Arguments *arguments;
    ModelFile *file;
    const Isa *isa;
    Model *model;
    KvCache *cache;
    float *logits; /* [MAX_SEQUENCES][vocab_size] */
    int n_threads;
    bool integers;                 /* most weights are quantized */
    Reading *reading;              /* what decoding is compared with */
    double bandwidth, peak;        /* bytes and operations a second */
    double step_bytes, token_ops;  /* of the weights, for one step and for one token */
    double type_ops[TENSOR_TYPES]; /* a token's operations with the weights of each type */
    double expert_bytes;           /* of all experts; a token reads a share of them */
    bool any_result;
} Bench;

/* ---- results ---- */

/* One line of the table, or one object of the JSON array. */
typedef struct Result {
    const char *what;
    int n_threads;
    size_t batch, position;
    double tokens; /* a second */
    double rate;
    const char *unit;
    double share;        /* the least time that the machine could take, of the time taken */
    bool computes;       /* the operations set the least time, not reading */
    const double *parts; /* [MODEL_PARTS] seconds; their shares are shown */
} Result;

static const char *const part_names[MODEL_PARTS] = {"projections", "attention", "feed-forward",
                                                    "output", "rest"};

static void print_parts(const Bench *b, const double *parts) {
    double sum = 0.0;
    for (int i = 0; i < MODEL_PARTS; i++) sum += parts[i];
    terminal_print(stdout, b->arguments->json ? ", \"time\": {" : "        ");
    for (int i = 0; i < MODEL_PARTS; i++)
        terminal_print(stdout, b->arguments->json ? "%s\"%s\": %.4f" : "%s%s %.0f%%",
                       i == 0 ? "" : ", ", part_names[i],
                       (b->arguments->json ? 1.0 : 100.0) * parts[i] / (sum > 0 ? sum : 1.0));
    terminal_print(stdout, b->arguments->json ? "}" : "\n");
}

/* Prints one measurement, as a JSON object or as a line of the table, with the times of its
 * parts. */
static void print_result(Bench *b, Result r) {
    double scale = strcmp(r.unit, "GB/s") == 0 ? 1e9 : 1e12;
    if (b->arguments->json) {
        terminal_print(
            stdout,
            "%s\n    {\"what\": \"%s\", \"threads\": %d, \"batch\": %zu, \"position\": %zu, "
            "\"tokens_per_second\": %.3f, \"rate\": %.6g, \"unit\": \"%s\", \"share\": %.4f, "
            "\"limit\": \"%s\"",
            b->any_result ? "," : "", r.what, r.n_threads, r.batch, r.position, r.tokens,
            r.rate / scale, r.unit, r.share, r.computes ? "peak" : "memory");
    } else {
        terminal_print(
            stdout,
            "%-8s threads %2d  batch %2zu  position %6zu  %10.2f tokens/s  %8.3f %-4s  %3.0f%% "
            "of %s\n",
            r.what, r.n_threads, r.batch, r.position, r.tokens, r.rate / scale, r.unit,
            100.0 * r.share, r.computes ? "peak" : "memory");
    }
    print_parts(b, r.parts);
    if (b->arguments->json) terminal_print(stdout, "}");
    b->any_result = true;
    fflush(stdout);
}

/* ---- the model ---- */

/* Weights that every step reads, in bytes, and multiplies, by twice their number. Tensors that
 * share their bytes count once; of experts the share that is used; the embedding table only
 * where it is the output matrix as well. */
static void count_weights(Bench *b) {
    const Config *config = modelfile_config(b->file);
    const FileTensor *embedding = modelfile_find(b->file, "token_embedding");
    const FileTensor *output = modelfile_find(b->file, "output");
    double integer_bytes = 0.0;
    b->step_bytes = b->token_ops = b->expert_bytes = 0.0;
    memset(b->type_ops, 0, sizeof b->type_ops);
    for (size_t i = 0; i < modelfile_n_tensors(b->file); i++) {
        const FileTensor *t = modelfile_tensor(b->file, i);
        bool counted = t->type == TENSOR_VECTOR;
        for (size_t k = 0; k < i && !counted; k++)
            counted = modelfile_tensor(b->file, k)->offset == t->offset;
        if (embedding && output && t->offset == embedding->offset && t->offset != output->offset)
            continue;
        if (mtp_is_tensor(config, t->name)) continue;
        /* A table: a token reads one row. */
        if (strcmp(t->name, "per_layer.embedding") == 0) continue;
        if (counted) continue;
        double share = 1.0;
        if (strstr(t->name, ".experts.") && config->experts.count > 0)
            share = (double)config->experts.per_token / config->experts.count;
        if (share < 1.0) b->expert_bytes += (double)t->bytes;
        b->step_bytes += share * (double)t->bytes;
        double ops = share * 2.0 * (double)t->rows * (double)t->cols * t->count;
        b->token_ops += ops;
        b->type_ops[t->type] += ops;
        if (tensor_type_info(t->type)->group) integer_bytes += share * (double)t->bytes;
    }
    b->integers = integer_bytes > b->step_bytes / 2;
}

static Status open_file(Bench *b, Error *error) {
    const Arguments *a = b->arguments;
    SourceKind kind;
    int fd = -1;
    bool generated = strncmp(a->model, "random:", 7) == 0;
    if (!generated && source_detect(a->model, &kind, error) != STATUS_OK) return STATUS_FAILED;
    if (generated || kind != SOURCE_MODELFILE || a->type) {
        ConvertOptions options = {.type = a->type};
        Status status = convert_temporary(a->model, &options, &fd, error);
        if (status != STATUS_OK) return status;
    }
    return modelfile_open(&b->file, a->model, fd, error);
}

static void close_model(Bench *b) {
    kvcache_free(b->cache);
    model_close(b->model);
    free(b->logits);
    bench_reading_close(b->reading);
    b->cache = NULL, b->model = NULL, b->logits = NULL, b->reading = NULL;
}

static Status check_context(const Bench *b, Error *error) {
    const Arguments *a = b->arguments;
    size_t context = model_context(b->model);
    if (context < PROMPT + MIN_STEPS)
        return error_set(error, "a context of %zu positions is too short to be measured", context);
    if (a->decode + MIN_STEPS > context)
        return error_set(error, "--decode %zu: %d steps more do not fit the context of %zu",
                         a->decode, MIN_STEPS, context);
    if (a->prefill > context)
        return error_set(error, "--prefill %zu: the model's context is %zu positions", a->prefill,
                         context);
    return STATUS_OK;
}

/* The peak of a token's products: each type's operations take as long as at its own peak. Types
 * with less than 1% of the operations are not worth a measurement. */
static double measure_peak(const Bench *b) {
    double seconds = 0.0;
    for (TensorType type = TENSOR_F32; type < TENSOR_TYPES; type++)
        if (b->type_ops[type] > 0.01 * b->token_ops)
            seconds += b->type_ops[type] / bench_peak(b->isa->kernels, type, b->n_threads);
    return seconds > 0.0 ? b->token_ops / seconds
                         : bench_peak(b->isa->kernels, TENSOR_F32, b->n_threads);
}

/* Opens the model with its KV cache and measures the limits that results are compared with: the
 * peak of the instruction set, and the read bandwidth, which is measured on the weights themselves
 * where they are much larger than the processor's caches. */
static Status open_model(Bench *b, int n_threads, Error *error) {
    ModelOptions options = {
        .isa = b->isa, .n_threads = n_threads, .context = (uint32_t)b->arguments->context};
    Status status = model_open(&b->model, b->file, &options, error);
    if (status == STATUS_OK) status = check_context(b, error);
    if (status != STATUS_OK) return status;
    b->n_threads = model_threads(b->model);
    KvType kv_type = session_kv_type(b->model, b->arguments->kv_type);
    KvShape shape = model_kv_shape(b->model, kv_type);
    status = kvcache_new(&b->cache, &shape, MAX_SEQUENCES, 0, error);
    if (status != STATUS_OK) return status;
    b->logits = calloc((size_t)MAX_SEQUENCES * model_config(b->model)->vocab_size, sizeof(float));
    if (!b->logits) return error_set(error, "no memory for logits");
    b->peak = measure_peak(b);
    size_t bytes = modelfile_bytes(b->file);
    const void *data = NULL;
    if (bytes >= 4 * machine_cache()) data = modelfile_data(b->file, modelfile_tensor(b->file, 0));
    status = bench_reading_open(&b->reading, data, bytes / 2, b->n_threads, error);
    if (status == STATUS_OK) b->bandwidth = bench_reading_pass(b->reading);
    return status;
}

/* ---- measurements ---- */

/* Any tokens will do; these differ from one place to the next. */
static int32_t token_at(const Bench *b, int32_t sequence, int32_t position) {
    uint32_t mixed = (uint32_t)(position * 31 + sequence * 7 + 1) * 2654435761u;
    return (int32_t)(mixed % model_config(b->model)->vocab_size);
}

/* Continues a sequence by n tokens, in as many calls as the model needs. */
static Status bench_advance(Bench *b, int32_t sequence, size_t n, Error *error) {
    int32_t *ids = calloc(n + 1, sizeof *ids), first = kvcache_next(b->cache, sequence);
    if (!ids) return error_set(error, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) ids[i] = token_at(b, sequence, first + (int32_t)i);
    const Prefill p = {
        .sequence = sequence, .ids = ids, .n = n, .first_wanted = n - 1, .logits = b->logits};
    Status status = prefill(b->model, b->cache, &p, error);
    free(ids);
    return status;
}

/* Bytes of weights that a step of `batch` tokens reads: of experts those that at least one of the
 * tokens is expected to choose, each by itself. */
static double weights_traffic(const Bench *b, size_t batch) {
    const Config *config = modelfile_config(b->file);
    if (b->expert_bytes == 0.0) return b->step_bytes;
    double share = (double)config->experts.per_token / config->experts.count;
    return b->step_bytes + b->expert_bytes * (1.0 - pow(1.0 - share, (double)batch) - share);
}

/* Bytes of the cache that a token at `position` reads, and of the states that it writes. */
static double cache_traffic(const KvShape *shape, size_t position) {
    return (double)kvcache_seen_bytes(shape, position) + (double)kvcache_seen_bytes(shape, 0);
}

/* Where the time of passes goes. */
typedef struct PartClock {
    PassObserver observer;
    double seconds[MODEL_PARTS];
} PartClock;

static void add_seconds(PassObserver *observer, ModelPart part, double seconds) {
    ((PartClock *)observer)->seconds[part] += seconds;
}

/* Decodes `batch` sequences side by side, each from `position` on. Rounds of a few steps alternate
 * with reading, and each step is compared with the reading of its round. */
static Status measure_decode(Bench *b, size_t batch, size_t position, Error *error) {
    double seconds[MAX_STEPS], shares[MAX_STEPS], sum = 0.0, bandwidth = b->bandwidth;
    PartClock clock = {.observer = {.timed = add_seconds}};
    const KvShape *shape = kvcache_shape(b->cache);
    Row rows[MAX_SEQUENCES];
    size_t steps = 0, context = model_context(b->model);
    const double weights = weights_traffic(b, batch);
    const double computing = (double)batch * b->token_ops / b->peak;
    bool computes = false;
    for (size_t s = 0; s < batch; s++) {
        kvcache_reset(b->cache, (int32_t)s, 0);
        Status status = bench_advance(b, (int32_t)s, position, error);
        if (status != STATUS_OK) return status;
    }
    model_add_observer(b->model, &clock.observer);
    while (steps < MAX_STEPS && position + steps < context &&
           (steps < MIN_STEPS || sum < ENOUGH_SECONDS)) {
        if (steps % ROUND_STEPS == 0) bandwidth = bench_reading_pass(b->reading);
        for (int32_t s = 0; s < (int32_t)batch; s++) {
            int32_t next = kvcache_next(b->cache, s);
            rows[s] = (Row){s, next, token_at(b, s, next), true};
        }
        double start = clock_seconds();
        Status status = model_forward(b->model, b->cache, rows, batch, b->logits, error);
        if (status != STATUS_OK) {
            model_remove_observer(b->model, &clock.observer);
            return status;
        }
        seconds[steps] = clock_seconds() - start;
        sum += seconds[steps];
        double bytes = weights + (double)batch * cache_traffic(shape, position + steps);
        computes = computing > bytes / bandwidth;
        shares[steps] = (computes ? computing : bytes / bandwidth) / seconds[steps];
        steps++;
    }
    for (size_t s = 0; s < batch; s++) kvcache_reset(b->cache, (int32_t)s, 0);
    model_remove_observer(b->model, &clock.observer);
    double step = bench_median(seconds, steps);
    double bytes = weights + (double)batch * cache_traffic(shape, position + steps / 2);
    print_result(b, (Result){.what = batch > 1 ? "batch" : "decode",
                             .n_threads = b->n_threads,
                             .batch = batch,
                             .position = position,
                             .tokens = (double)batch / step,
                             .rate = bytes / step,
                             .unit = "GB/s",
                             .share = bench_median(shares, steps),
                             .computes = computes,
                             .parts = clock.seconds});
    return STATUS_OK;
}

/* Measures how long a prompt of n tokens takes in an empty cache; prints the median of the runs. */
static Status measure_prefill(Bench *b, size_t n, Error *error) {
    double seconds[MAX_STEPS], sum = 0.0;
    PartClock clock = {.observer = {.timed = add_seconds}};
    size_t runs = 0;
    if (n > model_context(b->model)) n = model_context(b->model);
    model_add_observer(b->model, &clock.observer);
    while (runs < MAX_STEPS && (runs < MIN_STEPS || sum < ENOUGH_SECONDS)) {
        kvcache_reset(b->cache, 0, 0);
        double start = clock_seconds();
        Status status = bench_advance(b, 0, n, error);
        if (status != STATUS_OK) {
            model_remove_observer(b->model, &clock.observer);
            return status;
        }
        seconds[runs] = clock_seconds() - start;
        sum += seconds[runs++];
    }
    kvcache_reset(b->cache, 0, 0);
    model_remove_observer(b->model, &clock.observer);
    double run = bench_median(seconds, runs);
    print_result(b, (Result){.what = "prefill",
                             .n_threads = b->n_threads,
                             .batch = 1,
                             .position = n,
                             .tokens = (double)n / run,
                             .rate = b->token_ops * (double)n / run,
                             .unit = "TOPS",
                             .share = b->token_ops * (double)n / run / b->peak,
                             .computes = true,
                             .parts = clock.seconds});
    return STATUS_OK;
}

/* ---- what to measure ---- */

static Status measure_batches(Bench *b, size_t first, Error *error) {
    Status status = STATUS_OK;
    for (size_t batch = first; batch <= MAX_SEQUENCES && status == STATUS_OK; batch *= 2)
        if (batch <= model_max_rows(b->model)) status = measure_decode(b, batch, PROMPT, error);
    return status;
}

static Status measure_contexts(Bench *b, Error *error) {
    Status status = STATUS_OK;
    for (size_t position = PROMPT;
         position + MIN_STEPS <= model_context(b->model) && status == STATUS_OK; position *= 4)
        status = measure_decode(b, 1, position, error);
    return status;
}

static Status measure_all(Bench *b, Error *error) {
    Status status = measure_decode(b, 1, PROMPT, error);
    if (status == STATUS_OK) status = measure_prefill(b, PREFILL, error);
    return status == STATUS_OK ? measure_batches(b, 4, error) : status;
}

/* Measures only what the command line asks for: --decode, --prefill, --batch. */
static Status measure_named(Bench *b, Error *error) {
    const Arguments *a = b->arguments;
    Status status = STATUS_OK;
    if (a->decode) status = measure_decode(b, 1, a->decode, error);
    if (a->prefill && status == STATUS_OK) status = measure_prefill(b, a->prefill, error);
    if (a->batch && status == STATUS_OK) status = measure_decode(b, a->batch, PROMPT, error);
    return status;
}

/* The curve of drafts: how many times as fast decoding is when so many of them are right. */
static Status measure_drafts(Bench *b, Error *error) {
    static const int shares[] = {0, 50, 70, 90, 100};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        DraftSpeed s;
        Status status = bench_drafts(b->model, b->cache, shares[i] / 100.0, &s, error);
        if (status != STATUS_OK) return status;
        if (b->arguments->json) {
            terminal_print(stdout,
                           "%s\n    {\"what\": \"draft\", \"threads\": %d, \"right\": %.2f, "
                           "\"tokens_per_second\": %.3f, \"plain\": %.3f, \"times\": %.4f, "
                           "\"rows\": %.3f, \"tokens\": %.3f}",
                           b->any_result ? "," : "", b->n_threads, shares[i] / 100.0, s.drafted,
                           s.plain, s.times, s.rows, s.tokens);
        } else {
            terminal_print(
                stdout,
                "draft    threads %2d  %3d%% right  %10.2f tokens/s, without %8.2f: %5.2f times; "
                "%.2f rows and %.2f tokens a pass\n",
                b->n_threads, shares[i], s.drafted, s.plain, s.times, s.rows, s.tokens);
        }
        b->any_result = true;
        fflush(stdout);
    }
    return STATUS_OK;
}

/* One head of the model's width at growing numbers of positions, at most those of --context. */
static Status measure_attention(Bench *b, Error *error) {
    enum { LEAST = 512, MOST = 8192 }; /* the scores of MOST positions take 256 MiB */
    uint32_t head_dim = modelfile_config(b->file)->head_dim;
    if (head_dim == 0) return error_set(error, "--attention: the model does not attend");
    size_t asked = b->arguments->context, most = asked && asked < MOST ? asked : MOST;
    for (size_t n = most < LEAST ? most : LEAST; n <= most; n *= 2) {
        AttentionSpeed s;
        Status status = bench_attention(b->isa, b->n_threads, head_dim, n, &s, error);
        if (status != STATUS_OK) return status;
        if (b->arguments->json)
            terminal_print(
                stdout,
                "%s\n    {\"what\": \"attention\", \"threads\": %d, \"head_dim\": %u, "
                "\"positions\": %zu, \"textbook_seconds\": %.6g, \"textbook_bytes\": %.0f, "
                "\"block_seconds\": %.6g, \"block_bytes\": %.0f, \"difference\": %.3g}",
                b->any_result ? "," : "", b->n_threads, head_dim, n, s.textbook, s.matrix_bytes,
                s.blocks, s.block_bytes, s.difference);
        else
            terminal_print(
                stdout,
                "attention  one head of %u, %5zu positions: textbook %9.2f ms, scores of %6.1f "
                "MiB; in blocks %8.2f ms, %.2f MiB; they differ by %.1e\n",
                head_dim, n, 1e3 * s.textbook, s.matrix_bytes / 0x1p20, 1e3 * s.blocks,
                s.block_bytes / 0x1p20, s.difference);
        b->any_result = true;
        fflush(stdout);
    }
    return STATUS_OK;
}

static void print_limits(const Bench *b) {
    if (b->arguments->json) return;
    terminal_print(stdout, "machine  threads %2d  reads %.2f GB/s, %s %.3f TOPS (%s), cache %s\n",
                   b->n_threads, b->bandwidth / 1e9, b->integers ? "integers" : "float32",
                   b->peak / 1e12, b->isa->name, kv_type_name(kvcache_shape(b->cache)->type));
}

static Status measure_threads(Bench *b, int most, Error *error) {
    Status status = STATUS_OK;
    for (int n = 1; n <= most && status == STATUS_OK; n = n < most && 2 * n > most ? most : 2 * n) {
        close_model(b);
        status = open_model(b, n, error);
        if (status != STATUS_OK) break;
        print_limits(b);
        status = measure_decode(b, 1, PROMPT, error);
        if (status == STATUS_OK) status = measure_prefill(b, PREFILL, error);
    }
    return status;
}

static Status measure_chosen(Bench *b, Error *error) {
    Sweep sweep = b->arguments->sweep;
    const Arguments *a = b->arguments;
    if (a->draft) return measure_drafts(b, error);
    if (a->attention) return measure_attention(b, error);
    if (a->decode || a->prefill || a->batch) return measure_named(b, error);
    if (!sweep) return measure_all(b, error);
    if (sweep == SWEEP_CONTEXT) return measure_contexts(b, error);
    if (sweep == SWEEP_BATCH) return measure_batches(b, 1, error);
    return measure_threads(b, b->n_threads, error);
}

/* Opens the model, prints the machine's limits and runs the measurements that the options
 * choose. */
static Status bench(const Arguments *arguments, Error *error) {
    Bench b = {.arguments = arguments};
    b.isa = isa_choose(arguments->isa, error);
    if (!b.isa) return STATUS_FAILED;
    Status status = open_file(&b, error);
    if (status == STATUS_OK) {
        count_weights(&b);
        status = open_model(&b, (int)arguments->n_threads, error);
    }
    if (status == STATUS_OK) {
        bool sweeps_threads = arguments->sweep == SWEEP_THREADS;
        if (arguments->json) {
            terminal_print(
                stdout,
                "{\"model_bytes\": %zu, \"step_bytes\": %.0f, \"isa\": \"%s\", \"kv_type\": "
                "\"%s\", "
                "\"read_bandwidth\": %.6g, \"peak\": %.6g,\n  \"results\": [",
                modelfile_bytes(b.file), b.step_bytes, b.isa->name,
                kv_type_name(kvcache_shape(b.cache)->type), b.bandwidth, b.peak);
        } else if (!sweeps_threads) {
            print_limits(&b);
        }
        status = measure_chosen(&b, error);
        if (arguments->json) terminal_print(stdout, "\n  ]\n}\n");
    }
    close_model(&b);
    if (b.file) modelfile_close(b.file);
    return status;
}

/* ---- The command line ---- */

enum { MOST_THREADS = 4096, MOST_POSITIONS = 1 << 24 };

#define FIELD(name) offsetof(Arguments, name)

static const OptionRow rows[] = {
    UINT_ROW(USUAL, 'j', "threads", FIELD(n_threads), 1, MOST_THREADS,
             "worker threads [the physical cores]"),
    TEXT_ROW(USUAL, 0, "isa", "NAME", FIELD(isa), "instruction set [the best]"),
    TEXT_ROW(USUAL, 0, "type", "T", FIELD(type),
             "type of the weights, if MODEL is not a model.bin"),
    CHOICE_ROW(USUAL, 0, "kv-type", "auto|f32|f16|bf16|q8", FIELD(kv_type), NULL,
               "type of the KV cache [the model's]"),
    UINT_ROW(USUAL, 0, "context", FIELD(context), 1, MOST_POSITIONS,
             "context length, in tokens [the model's]"),
    CHOICE_ROW(USUAL, 0, "sweep", "no|threads|context|batch", FIELD(sweep), NULL,
               "measure at growing numbers of these"),
    UINT_ROW(USUAL, 0, "decode", FIELD(decode), 1, MOST_POSITIONS,
             "measure only decoding one token after N positions"),
    UINT_ROW(USUAL, 0, "prefill", FIELD(prefill), 1, MOST_POSITIONS,
             "measure only the prefill of a prompt of N tokens"),
    UINT_ROW(USUAL, 0, "batch", FIELD(batch), 1, MAX_SEQUENCES,
             "measure only decoding one token of each of N sequences"),
    FLAG_ROW(USUAL, 0, "draft", FIELD(draft),
             "measure only speculative decoding at several acceptance rates"),
    FLAG_ROW(USUAL, 0, "attention", FIELD(attention),
             "measure only one attention head: in blocks, and as in the textbook"),
    FLAG_ROW(USUAL, 0, "json", FIELD(json), "results as JSON"),
    FLAG_ROW(USUAL, 'h', "help", FIELD(help), "this text"),
    FLAG_ROW(USUAL, 0, "version", FIELD(version), "versions of the program and its libraries"),
    END_ROW,
};

static Status set_model(void *values, const char *word, Error *error) {
    Arguments *a = values;
    if (!a->model) {
        a->model = word;
        return STATUS_OK;
    }
    error_set(error, "one model at a time, not '%s' and '%s'", a->model, word);
    return STATUS_USAGE;
}

static Status bench_check(const Arguments *a, Error *error) {
    if (a->attention && (a->draft || a->sweep || a->decode || a->prefill || a->batch))
        error_set(error, "--attention has sizes of its own: leave out --sweep, --decode and the "
                         "like");
    else if (a->draft && (a->sweep || a->decode || a->prefill || a->batch))
        error_set(error, "--draft measures drafts alone: leave out --sweep, --decode and the like");
    else if (a->sweep && (a->decode || a->prefill || a->batch))
        error_set(error, "--sweep has sizes of its own: leave out --decode, --prefill, --batch");
    else if (!a->model)
        error_set(error, "which model? bench MODEL; see bench --help");
    else
        return STATUS_OK;
    return STATUS_USAGE;
}

static void print_help(const CommandLine *line) {
    terminal_print(stdout, "usage: bench MODEL [options]\n");
    command_line_help(stdout, line, true);
    terminal_print(stdout, "MODEL: a model.bin, another format, or random:SHAPE\n");
}

/* Replaces the name of a model that is not a file by its path, malloc'ed. */
static Status find_model(Arguments *a, Error *error) {
    char *found = NULL;
    if (access(a->model, F_OK) == 0) return STATUS_OK;
    Status status = model_names_resolve(a->model, &found, error);
    if (found) a->model = a->found = found;
    return status;
}

static Status bench_run(int argc, char **argv, Error *error) {
    Arguments arguments = {0};
    const OptionTable tables[] = {{rows, &arguments}, {NULL, NULL}};
    CommandLine line = {
        .tables = tables, .context = &arguments, .operand = set_model, .advise = advice_option};
    Status status = command_line_parse(&line, argc, argv, error);
    if (status == STATUS_OK && arguments.help) {
        print_help(&line);
    } else if (status == STATUS_OK && arguments.version) {
        versions_print(stdout);
    } else {
        if (status == STATUS_OK) status = bench_check(&arguments, error);
        if (status == STATUS_OK) status = find_model(&arguments, error);
        if (status == STATUS_OK) status = bench(&arguments, error);
        free(arguments.found);
    }
    return status == STATUS_OK ? standard_streams_finish(error) : status;
}

int main(int argc, char **argv) {
    Error error;
    Status status = standard_streams_fill(&error);
    if (status == STATUS_OK) status = bench_run(argc, argv, &error);
    if (status != STATUS_OK) terminal_say("%s", error.text);
    return (int)status;
}
