#include "measure/bench_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "convert/convert_target.h"
#include "core/prefill.h"
#include "families/reading/source_open.h"
#include "formats/family/mtp_names.h"
#include "kvcache/kvcache_sizes.h"
#include "layers/model_watch.h"

enum {
    MAX_STEPS = 128, /* measured at most */
    ROUND_STEPS = 4  /* between two readings of the memory */
};

/* ---- the model ---- */

/* Counts the bytes of weights that a step reads, and its operations (two for each weight). Tensors
 * that share their bytes count once. Experts count by the share that a token uses, and the
 * embedding table only if it is also the output matrix. */
static void count_weights(BenchModel *b) {
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

static Status open_file(BenchModel *b, Error *error) {
    const BenchChoice *a = b->choice;
    SourceKind kind;
    int fd = -1;
    bool generated = strncmp(a->model, "random:", 7) == 0;
    if (!generated && source_detect(a->model, &kind, error) != STATUS_OK) return STATUS_FAILED;
    if (generated || kind != SOURCE_MODELFILE || a->type) {
        ConvertOptions options = {.type = a->type, .cancel = a->interrupted};
        Status status = convert_temporary(a->model, &options, &fd, error);
        if (status != STATUS_OK) return status;
    }
    return modelfile_open(&b->file, a->model, fd, error);
}

Status bench_model_find(BenchModel *b, const BenchChoice *choice, Error *error) {
    b->choice = choice;
    b->isa = isa_choose(choice->isa, error);
    if (!b->isa) return STATUS_FAILED;
    Status status = open_file(b, error);
    if (status == STATUS_OK) count_weights(b);
    return status;
}

void bench_model_close(BenchModel *b) {
    kvcache_free(b->cache);
    model_close(b->model);
    free(b->logits);
    bench_reading_close(b->reading);
    b->cache = NULL, b->model = NULL, b->logits = NULL, b->reading = NULL;
}

void bench_model_free(BenchModel *b) {
    bench_model_close(b);
    if (b->file) modelfile_close(b->file);
    b->file = NULL;
}

double bench_model_peak(const BenchModel *b, TensorType type) {
    double seconds = b->choice->seconds > 0.0 ? b->choice->seconds / 10.0 : 0.05;
    return bench_peak(b->isa->kernels, type, b->n_threads, seconds);
}

/* The peak of a token's products: each type's operations take as long as at its own peak. Types
 * with less than 1% of the operations are not worth a measurement. */
static double measure_peak(const BenchModel *b) {
    double seconds = 0.0;
    for (TensorType type = TENSOR_F32; type < TENSOR_TYPES; type++)
        if (b->type_ops[type] > 0.01 * b->token_ops)
            seconds += b->type_ops[type] / bench_model_peak(b, type);
    return seconds > 0.0 ? b->token_ops / seconds : bench_model_peak(b, TENSOR_F32);
}

Status bench_model_open(BenchModel *b, int n_threads, Error *error) {
    ModelOptions options = {
        .isa = b->isa, .n_threads = n_threads, .context = (uint32_t)b->choice->context};
    Status status = model_open(&b->model, b->file, &options, error);
    if (status != STATUS_OK) return status;
    b->n_threads = model_threads(b->model);
    KvType kv_type = session_kv_type(b->model, b->choice->kv_type);
    KvShape shape = model_kv_shape(b->model, kv_type);
    status = kvcache_new(&b->cache, &shape, BENCH_MAX_SEQUENCES, 0, error);
    if (status != STATUS_OK) return status;
    b->logits =
        calloc((size_t)BENCH_MAX_SEQUENCES * model_config(b->model)->vocab_size, sizeof(float));
    if (!b->logits) return error_set(error, "no memory for logits");
    return STATUS_OK;
}

Status bench_model_limits(BenchModel *b, Error *error) {
    b->peak = measure_peak(b);
    size_t bytes = modelfile_bytes(b->file);
    const void *data = NULL;
    if (bytes >= 4 * machine_cache()) data = modelfile_data(b->file, modelfile_tensor(b->file, 0));
    Status status = bench_reading_open(&b->reading, data, bytes / 2, b->n_threads, error);
    if (status == STATUS_OK) b->bandwidth = bench_reading_pass(b->reading);
    return status;
}

/* ---- measurements ---- */

/* Any tokens will do; these differ from one place to the next. */
static int32_t token_at(const BenchModel *b, int32_t sequence, int32_t position) {
    uint32_t mixed = (uint32_t)(position * 31 + sequence * 7 + 1) * 2654435761u;
    return (int32_t)(mixed % model_config(b->model)->vocab_size);
}

/* Continues a sequence by n tokens, in as many calls as the model needs. */
static Status bench_advance(BenchModel *b, int32_t sequence, size_t n, Error *error) {
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
static double weights_traffic(const BenchModel *b, size_t batch) {
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

/* One step of `batch` sequences, a token each. */
static Status decode_step(BenchModel *b, size_t batch, Error *error) {
    Row rows[BENCH_MAX_SEQUENCES];
    for (int32_t s = 0; s < (int32_t)batch; s++) {
        int32_t next = kvcache_next(b->cache, s);
        rows[s] = (Row){s, next, token_at(b, s, next), true};
    }
    return model_forward(b->model, b->cache, rows, batch, b->logits, error);
}

/* The seconds after which a measurement has taken long enough. */
static double enough(const BenchModel *b) {
    return b->choice->seconds > 0.0 ? b->choice->seconds : 2.0;
}

static bool interrupted(const BenchModel *b) {
    return b->choice->interrupted && *b->choice->interrupted;
}

Status bench_model_decode(BenchModel *b, size_t batch, size_t position, BenchResult *result,
                          Error *error) {
    double seconds[MAX_STEPS], shares[MAX_STEPS], sum = 0.0, bandwidth = b->bandwidth;
    PartClock clock = {.observer = {.timed = add_seconds}};
    const KvShape *shape = kvcache_shape(b->cache);
    size_t steps = 0, context = model_context(b->model);
    const double weights = weights_traffic(b, batch);
    const double computing = (double)batch * b->token_ops / b->peak;
    bool computes = false;
    Status status = STATUS_OK;
    for (size_t s = 0; s < batch && status == STATUS_OK; s++) {
        kvcache_reset(b->cache, (int32_t)s, 0);
        status = bench_advance(b, (int32_t)s, position, error);
    }
    if (status != STATUS_OK) return status;
    model_add_observer(b->model, &clock.observer);
    while (steps < MAX_STEPS && position + steps < context &&
           (steps < BENCH_MIN_STEPS || sum < enough(b))) {
        if (steps % ROUND_STEPS == 0) bandwidth = bench_reading_pass(b->reading);
        double start = clock_seconds();
        status = interrupted(b) ? STATUS_INTERRUPTED : decode_step(b, batch, error);
        if (status != STATUS_OK) break;
        seconds[steps] = clock_seconds() - start;
        sum += seconds[steps];
        double bytes = weights + (double)batch * cache_traffic(shape, position + steps);
        computes = computing > bytes / bandwidth;
        shares[steps] = (computes ? computing : bytes / bandwidth) / seconds[steps];
        steps++;
    }
    model_remove_observer(b->model, &clock.observer);
    if (status != STATUS_OK) return status;
    for (size_t s = 0; s < batch; s++) kvcache_reset(b->cache, (int32_t)s, 0);
    double step = bench_median(seconds, steps);
    double bytes = weights + (double)batch * cache_traffic(shape, position + steps / 2);
    *result = (BenchResult){.what = batch > 1 ? "batch" : "decode",
                            .n_threads = b->n_threads,
                            .batch = batch,
                            .position = position,
                            .tokens = (double)batch / step,
                            .rate = bytes / step,
                            .unit = "GB/s",
                            .share = bench_median(shares, steps),
                            .computes = computes};
    memcpy(result->parts, clock.seconds, sizeof result->parts);
    return STATUS_OK;
}

Status bench_model_prefill(BenchModel *b, size_t n, size_t least, BenchResult *result,
                           Error *error) {
    double seconds[MAX_STEPS], sum = 0.0;
    PartClock clock = {.observer = {.timed = add_seconds}};
    size_t runs = 0;
    Status status = STATUS_OK;
    if (n > model_context(b->model)) n = model_context(b->model);
    model_add_observer(b->model, &clock.observer);
    while (runs < MAX_STEPS && (runs < least || sum < enough(b))) {
        kvcache_reset(b->cache, 0, 0);
        double start = clock_seconds();
        status = interrupted(b) ? STATUS_INTERRUPTED : bench_advance(b, 0, n, error);
        if (status != STATUS_OK) break;
        seconds[runs] = clock_seconds() - start;
        sum += seconds[runs++];
    }
    model_remove_observer(b->model, &clock.observer);
    if (status != STATUS_OK) return status;
    kvcache_reset(b->cache, 0, 0);
    double run = bench_median(seconds, runs);
    *result = (BenchResult){.what = "prefill",
                            .n_threads = b->n_threads,
                            .batch = 1,
                            .position = n,
                            .tokens = (double)n / run,
                            .rate = b->token_ops * (double)n / run,
                            .unit = "TOPS",
                            .share = b->token_ops * (double)n / run / b->peak,
                            .computes = true};
    memcpy(result->parts, clock.seconds, sizeof result->parts);
    return STATUS_OK;
}
