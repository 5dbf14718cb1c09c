/* Divides the attention of one layer among the threads.
 *
 * The queries of a call are cut into items: queries that read the same keys and values. Either a
 * thread takes whole items, or, where a long context meets few queries, the threads take single
 * segments of items and join the segments afterwards. */
#include "core/attention.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/threads.h"
#include "kernels/weight_types.h"
#include "kvcache/bf16_page.h"

/* The most floats of partial results that wait to be joined. */
enum { SPLIT_FLOATS = 1 << 20 };

/* ---- Memory ---- */

struct AttentionMemory {
    Barrier barrier;
    size_t partial_floats; /* of one query's partial result */
    size_t scratch_floats; /* of AttentionJob.scratch */
    size_t thread_floats;
    float *threads; /* [n_threads][thread_floats] */
    size_t head_dim;
    const Kernels *kernels;       /* of products of bfloat16, */
    const MatmulMemory *products; /* whose scratch they use */
    float *split;                 /* [SPLIT_FLOATS], partial results of segments */
};

/* One thread's part of the memory. */
typedef struct Workspace {
    float *scratch;
    float (*weights)[KV_PAGE]; /* [ATTENTION_QUERIES] */
    float *next, *running;     /* [ATTENTION_QUERIES][partial_floats] */
    float *scores;             /* [n_positions], of an observed query; else NULL */
    AttentionBf16 bf16;
} Workspace;

/* Bytes of the parts of AttentionBf16: packed rows of n_inputs; rows of a head's queries, or of
 * products; a page's values. */
static size_t packed_bytes(const Kernels *kernels, size_t n_inputs) {
    return round_up(kernels->input_bytes(FORM_BFLOATS, ATTENTION_QUERIES, n_inputs), 64);
}
static size_t rows_bytes(size_t head_dim) {
    size_t width = head_dim > ATTENTION_BF16_OUTPUTS ? head_dim : ATTENTION_BF16_OUTPUTS;
    return ATTENTION_QUERIES * round_up(width, 16) * sizeof(float);
}
static size_t values_bytes(size_t head_dim) {
    return KV_PAGE * bf16_value_bytes(head_dim);
}

static size_t bf16_bytes(const Kernels *kernels, size_t head_dim) {
    return packed_bytes(kernels, head_dim) + packed_bytes(kernels, KV_PAGE) + rows_bytes(head_dim) +
           values_bytes(head_dim);
}

/* Size of the scratch in floats: room for the keys or values of a page as floats and one register
 * beyond, for the queries as 8-bit codes and the codes of a page's values, or for bf16_bytes. */
static size_t scratch_floats(const Kernels *kernels, size_t head_dim) {
    size_t page = KV_PAGE * round_up(head_dim, 32) + 16;
    size_t codes = ATTENTION_QUERIES * q8_groups(head_dim) * sizeof(Q8Group) / sizeof(float) +
                   q8_scratch_bytes(head_dim) / sizeof(float);
    size_t bf16 = bf16_bytes(kernels, head_dim) / sizeof(float), most = codes > page ? codes : page;
    return round_up(bf16 > most ? bf16 : most, 16);
}

/* For each thread: partial sums and scores of a page's queries, scratch, and a list of positions.
 */
AttentionMemory *attention_memory_new(const Kernels *kernels, const MatmulMemory *products,
                                      uint32_t head_dim, size_t n_positions, int n_threads) {
    AttentionMemory *memory = calloc(1, sizeof *memory);
    size_t bytes;
    if (!memory) return NULL;
    memory->partial_floats = PARTIAL_OUT + round_up(head_dim, 16);
    memory->scratch_floats = scratch_floats(kernels, head_dim);
    memory->thread_floats = memory->scratch_floats +
                            ATTENTION_QUERIES * (KV_PAGE + 2 * memory->partial_floats) +
                            round_up(n_positions, 16);
    memory->head_dim = head_dim;
    memory->kernels = kernels;
    memory->products = products;
    if (size_mul(memory->thread_floats * sizeof(float), (size_t)n_threads, &bytes))
        memory->threads = lines_new(bytes);
    memory->split = lines_new(SPLIT_FLOATS * sizeof(float));
    if (memory->threads && memory->split) return memory;
    attention_memory_free(memory);
    return NULL;
}

void attention_memory_free(AttentionMemory *memory) {
    if (!memory) return;
    free(memory->threads);
    free(memory->split);
    free(memory);
}

/* The parts lie in the thread's scratch. */
AttentionBf16 attention_bf16_of(const AttentionMemory *memory) {
    size_t thread = (size_t)omp_get_thread_num();
    AttentionBf16 place = {.kernels = memory->kernels,
                           .q = memory->threads + thread * memory->thread_floats};
    place.weights = (char *)place.q + packed_bytes(memory->kernels, memory->head_dim);
    place.rows = (void *)((char *)place.weights + packed_bytes(memory->kernels, KV_PAGE));
    place.values = (void *)((char *)place.rows + rows_bytes(memory->head_dim));
    place.scratch = matmul_scratch(memory->products, thread);
    return place;
}

static Workspace thread_workspace(const AttentionMemory *memory, bool observed) {
    size_t thread = (size_t)omp_get_thread_num();
    Workspace w = {.scratch = memory->threads + thread * memory->thread_floats};
    w.weights = (void *)(w.scratch + memory->scratch_floats);
    w.next = w.weights[ATTENTION_QUERIES];
    w.running = w.next + ATTENTION_QUERIES * memory->partial_floats;
    if (observed) w.scores = w.running + ATTENTION_QUERIES * memory->partial_floats;
    return w;
}

/* ---- The items of a call ---- */

/* The arguments of one attention_forward, and how its work is divided. */
typedef struct AttentionCall {
    const AttentionKernel *kernel;
    AttentionMemory *memory;
    const AttentionParams *params;
    const KvCache *cache;
    const AttentionRow *rows;
    size_t n_rows;
    const float *q;
    float *out;
    PassObserver *observers;

    size_t rows_per_item, heads_per_item; /* at most */
    size_t head_chunks;                   /* items that the queries of one key/value head make */
    size_t n_runs, n_items, n_segments;   /* n_segments: of the row with the most positions */
} AttentionCall;

/* Rows of one sequence by query heads of one key/value head. */
typedef struct Item {
    size_t first_row, n_rows, first_head, n_heads, kv_head;
} Item;

/* The row's position, counted from the start of its sequence. */
static size_t cached_index(const AttentionCall *call, size_t row) {
    const AttentionRow *at = &call->rows[row];
    return (size_t)(at->position - kvcache_start(call->cache, at->sequence));
}

/* The first cached position that the row sees. */
static size_t first_seen(const AttentionCall *call, size_t row) {
    size_t end = cached_index(call, row) + 1, window = call->params->window;
    size_t chunk = call->params->chunk, first = chunk ? (end - 1) / chunk * chunk : 0;
    return window && end > first + window ? end - window : first;
}

/* The end of the run of rows of one sequence that starts at `row`, at most rows_per_item rows. */
static size_t run_end(const AttentionCall *call, size_t row) {
    size_t end = row + 1;
    while (end < call->n_rows && end - row < call->rows_per_item &&
           call->rows[end].sequence == call->rows[row].sequence)
        end++;
    return end;
}

/* Returns work item `number`. The later rows of a prompt see the most positions and come first, so
 * that no thread ends on a long item. */
static Item item_at(const AttentionCall *call, size_t number) {
    size_t group = call->params->n_heads / call->params->n_kv_heads;
    size_t chunks = call->head_chunks, n_kv = call->params->n_kv_heads;
    size_t run = call->n_runs - 1 - number / (n_kv * chunks), row = 0;
    for (size_t i = 0; i < run; i++) row = run_end(call, row);
    size_t kv_head = number / chunks % n_kv, first = number % chunks * call->heads_per_item;
    size_t n_heads = group - first < call->heads_per_item ? group - first : call->heads_per_item;
    return (Item){row, run_end(call, row) - row, kv_head * group + first, n_heads, kv_head};
}

static size_t item_queries(const Item *item) {
    return item->n_rows * item->n_heads;
}

static size_t query_row(const Item *item, size_t query) {
    return item->first_row + query / item->n_heads;
}

static size_t query_head(const Item *item, size_t query) {
    return item->first_head + query % item->n_heads;
}

/* The segments that any query of the item sees: first_segment ... end_segment - 1. */
static size_t first_segment(const AttentionCall *call, const Item *item) {
    return first_seen(call, item->first_row) / ATTENTION_SEGMENT;
}

static size_t end_segment(const AttentionCall *call, const Item *item) {
    return cached_index(call, item->first_row + item->n_rows - 1) / ATTENTION_SEGMENT + 1;
}

static bool fits_split(const AttentionCall *call, size_t n_queries) {
    return !call->observers &&
           n_queries * call->n_segments * call->memory->partial_floats <= SPLIT_FLOATS;
}

/* Chooses how many rows and heads an item has: as many as possible, because the queries of an item
 * share the reading of keys and values, but so few that each thread gets several items. An observed
 * item has one query, because a thread has memory for the scores of one. */
static void choose_items(AttentionCall *call) {
    const AttentionParams *params = call->params;
    size_t group = params->n_heads / params->n_kv_heads, team = (size_t)omp_get_num_threads();
    size_t most_queries = call->observers ? 1 : ATTENTION_QUERIES;
    /* Few rows with one key/value head (latent attention): the threads share its query heads. */
    size_t kv_rows = call->n_rows * params->n_kv_heads, parts = (team + kv_rows - 1) / kv_rows;
    call->heads_per_item = (group + parts - 1) / parts;
    if (call->heads_per_item > most_queries) call->heads_per_item = most_queries;
    call->head_chunks = (group + call->heads_per_item - 1) / call->heads_per_item;
    for (size_t row = 0; row < call->n_rows; row++) {
        size_t n = cached_index(call, row) / ATTENTION_SEGMENT + 1;
        if (n > call->n_segments) call->n_segments = n;
    }
    size_t pieces = call->n_rows * params->n_kv_heads * call->head_chunks;
    if (fits_split(call, call->n_rows * params->n_heads)) pieces *= call->n_segments;
    call->rows_per_item = most_queries / call->heads_per_item;
    if (call->rows_per_item > pieces / (4 * team) + 1)
        call->rows_per_item = pieces / (4 * team) + 1;
    if (call->rows_per_item > call->n_rows) call->rows_per_item = call->n_rows;
    for (size_t row = 0; row < call->n_rows; row = run_end(call, row)) call->n_runs++;
    call->n_items = call->n_runs * params->n_kv_heads * call->head_chunks;
}

/* Whether the threads share the segments of items: few items, a long context, and room. */
static bool splits_segments(const AttentionCall *call) {
    size_t most_queries = call->n_items * call->rows_per_item * call->heads_per_item;
    return call->n_segments > 1 && call->n_items < 8 * (size_t)omp_get_num_threads() &&
           fits_split(call, most_queries);
}

/* ---- Computing items ---- */

/* Computes one segment of an item into partials[query][partial_floats]. */
static void run_segment(const AttentionCall *call, const Item *item, size_t segment,
                        const Workspace *w, float *partials) {
    AttentionQuery queries[ATTENTION_QUERIES];
    const AttentionParams *params = call->params;
    size_t segment_begin = segment * ATTENTION_SEGMENT, n = item_queries(item);
    size_t segment_end = segment_begin + ATTENTION_SEGMENT;
    for (size_t i = 0; i < n; i++) {
        size_t row = query_row(item, i), head = query_head(item, i);
        size_t index = cached_index(call, row), begin = first_seen(call, row), end = index + 1;
        if (begin < segment_begin) begin = segment_begin;
        if (end > segment_end) end = segment_end;
        queries[i] = (AttentionQuery){
            .q = call->q + (row * params->n_heads + head) * params->head_dim,
            .begin = begin,
            .end = end > begin ? end : begin,
            .position = index,
            .slope = params->alibi_slopes ? params->alibi_slopes[head] : 0.0f,
            .partial = partials + i * call->memory->partial_floats,
            .scores = w->scores,
        };
    }
    const AttentionJob job = {.cache = call->cache,
                              .sequence = call->rows[item->first_row].sequence,
                              .kv_head = item->kv_head,
                              .n_queries = n,
                              .queries = queries,
                              .scratch = w->scratch,
                              .weights = w->weights,
                              .bf16 = &w->bf16};
    call->kernel->segment(params, &job);
}

static void clear_partial(const AttentionCall *call, float *partial) {
    memset(partial, 0, call->memory->partial_floats * sizeof *partial);
    partial[PARTIAL_MAX] = -INFINITY;
}

static const float *head_sink(const AttentionCall *call, size_t row, size_t head) {
    const AttentionParams *params = call->params;
    return params->sinks ? params->sinks + row * params->sink_stride + head : NULL;
}

static void finish_query(const AttentionCall *call, const Item *item, size_t query,
                         const float *partial) {
    size_t row = query_row(item, query), head = query_head(item, query);
    size_t value_dim = call->params->value_dim;
    call->kernel->finish(call->out + (row * call->params->n_heads + head) * value_dim, partial,
                         head_sink(call, row, head), value_dim);
}

/* Passes the observers the scores and weights of the item's only query, one in place of the
 * other. */
static void show_weights(const AttentionCall *call, const Item *item, const float *partial,
                         float *scores) {
    size_t row = item->first_row, head = item->first_head;
    size_t first = first_seen(call, row), n = cached_index(call, row) + 1 - first;
    float *weights = scores + first, inverse_sum, max = partial[PARTIAL_MAX];
    /* An output of 1 becomes 1 / sum, which counts the attention sink's weight. */
    float one[PARTIAL_OUT + 1] = {
        [PARTIAL_MAX] = max, [PARTIAL_SUM] = partial[PARTIAL_SUM], [PARTIAL_OUT] = 1.0f};
    call->kernel->finish(&inverse_sum, one, head_sink(call, row, head), 1);
    size_t layer = call->params->layer;
    int32_t at = kvcache_start(call->cache, call->rows[row].sequence) + (int32_t)first;
    OBSERVERS_CALL(call->observers, scored, layer, row, head, at, weights, n);
    for (size_t i = 0; i < n; i++) weights[i] = expf(weights[i] - max) * inverse_sum;
    OBSERVERS_CALL(call->observers, attended, layer, row, head, at, weights, n);
}

/* Computes one item, its segments in order. */
static void run_item(const AttentionCall *call, const Item *item, const Workspace *w) {
    size_t stride = call->memory->partial_floats, n = item_queries(item);
    for (size_t i = 0; i < n; i++) clear_partial(call, w->running + i * stride);
    for (size_t s = first_segment(call, item); s < end_segment(call, item); s++) {
        run_segment(call, item, s, w, w->next);
        for (size_t i = 0; i < n; i++)
            call->kernel->join(w->running + i * stride, w->next + i * stride,
                               call->params->value_dim);
    }
    for (size_t i = 0; i < n; i++) finish_query(call, item, i, w->running + i * stride);
    if (w->scores) show_weights(call, item, w->running, w->scores);
}

/* Computes the segments of all items on different threads, then joins each item's segments in
 * order. */
static void run_split(const AttentionCall *call, const Workspace *w) {
    size_t stride = call->memory->partial_floats, n_segments = call->n_segments;
    size_t segment_floats = call->rows_per_item * call->heads_per_item * stride;
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < call->n_items * n_segments; i++) {
        Item item = item_at(call, i / n_segments);
        size_t s = i % n_segments;
        if (s >= first_segment(call, &item) && s < end_segment(call, &item))
            run_segment(call, &item, s, w, call->memory->split + i * segment_floats);
    }
    barrier_wait(&call->memory->barrier);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < call->n_items; i++) {
        Item item = item_at(call, i);
        const float *partials = call->memory->split + i * n_segments * segment_floats;
        for (size_t query = 0; query < item_queries(&item); query++) {
            clear_partial(call, w->running);
            for (size_t s = first_segment(call, &item); s < end_segment(call, &item); s++)
                call->kernel->join(w->running, partials + s * segment_floats + query * stride,
                                   call->params->value_dim);
            finish_query(call, &item, query, w->running);
        }
    }
}

/* Computes all items. Outside of a parallel region OpenMP would allocate memory for the loop. */
static void run_items(const AttentionCall *call, const Workspace *w) {
    if (omp_get_num_threads() == 1) {
        for (size_t i = 0; i < call->n_items; i++) {
            Item item = item_at(call, i);
            run_item(call, &item, w);
        }
        return;
    }
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < call->n_items; i++) {
        Item item = item_at(call, i);
        run_item(call, &item, w);
    }
}

void attention_forward(const AttentionKernel *kernel, AttentionMemory *memory,
                       const AttentionParams *params, const KvCache *cache,
                       const AttentionRow *rows, size_t n_rows, const float *q, float *out,
                       PassObserver *observers) {
    AttentionCall call = {.kernel = kernel,
                          .memory = memory,
                          .params = params,
                          .cache = cache,
                          .rows = rows,
                          .n_rows = n_rows,
                          .q = q,
                          .out = out,
                          .observers = observers};
    choose_items(&call);
    Workspace w = thread_workspace(memory, observers);
    if (kvcache_shape(cache)->type == KV_BF16) w.bf16 = attention_bf16_of(memory);
    if (splits_segments(&call)) {
        run_split(&call, &w);
    } else {
        run_items(&call, &w);
    }
    barrier_wait(&memory->barrier);
}
