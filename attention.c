#include "attention.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "attention_q8.h"
#include "base/threads.h"
#include "numeric.h"

/* Results of segments that different threads compute wait here to be joined. */
enum { PARTIAL_FLOATS = 1 << 20 };

struct AttentionMemory {
    size_t head_stride;   /* head_dim filled up to 16 */
    size_t thread_floats; /* of working memory, one block a thread */
    int n_threads;
    Barrier barrier;
    float *threads;  /* [n_threads][thread_floats] */
    float *partials; /* [PARTIAL_FLOATS] */
    /* Where an observer sees the weights, [n_threads][ATTENTION_QUERIES][shown_positions]; or NULL.
     */
    float *shown;
    size_t shown_positions;
};

/* Keys or values of a block as floats, or the queries in codes; then the scores. */
size_t attention_scratch_floats(size_t head_dim) {
    size_t block = round_up(KV_PAGE * head_dim + 16, 16);
    size_t codes = ATTENTION_QUERIES * q8_groups(head_dim) * sizeof(Q8Group) / sizeof(float);
    return (codes > block ? codes : block) + (size_t)ATTENTION_QUERIES * KV_PAGE;
}

/* A partial result is out[head_stride], then max and sum in 16 floats of their own. */
static size_t partial_floats(const AttentionMemory *memory) {
    return memory->head_stride + 16;
}

AttentionMemory *attention_memory_new(uint32_t head_dim, int n_threads) {
    AttentionMemory *memory = calloc(1, sizeof *memory);
    if (!memory) return NULL;
    memory->head_stride = round_up(head_dim, 16);
    memory->n_threads = n_threads;
    /* The scratch of a segment, its results, and the running results they are joined into. */
    memory->thread_floats = round_up(attention_scratch_floats(head_dim), 16) +
                            2 * ATTENTION_QUERIES * partial_floats(memory);
    memory->threads = aligned_alloc(64, memory->thread_floats * (size_t)n_threads * sizeof(float));
    memory->partials = aligned_alloc(64, PARTIAL_FLOATS * sizeof(float));
    if (!memory->threads || !memory->partials) {
        attention_memory_free(memory);
        return NULL;
    }
    return memory;
}

bool attention_memory_reserve_weights(AttentionMemory *memory, size_t n_positions) {
    size_t bytes;
    if (n_positions <= memory->shown_positions) return true;
    if (n_positions > SIZE_MAX / 2) return false;
    n_positions = round_up(n_positions, ATTENTION_SEGMENT); /* a text may grow by one at a time */
    free(memory->shown);
    memory->shown = NULL;
    memory->shown_positions = 0;
    if (!size_mul(n_positions, ATTENTION_QUERIES * sizeof(float), &bytes) ||
        !size_mul(bytes, (size_t)memory->n_threads, &bytes))
        return false;
    memory->shown = malloc(bytes);
    if (!memory->shown) return false;
    memory->shown_positions = n_positions;
    return true;
}

void attention_memory_free(AttentionMemory *memory) {
    if (!memory) return;
    free(memory->threads);
    free(memory->partials);
    free(memory->shown);
    free(memory);
}

/* Everything that the work items of one layer have in common. */
typedef struct Pass {
    const AttentionKernel *kernel;
    AttentionMemory *memory;
    const AttentionParams *params;
    const KvCache *cache;
    const AttentionRow *rows;
    size_t n_rows;
    const float *q;
    float *out;
    const AttentionObserver *observer;
    size_t heads_a_job, rows_a_job;
    size_t item_floats; /* of the partial results of one item and segment */
} Pass;

/* Rows first ... first + n_rows - 1 of one sequence, heads likewise, of one key/value head. */
typedef struct Item {
    size_t first_row, n_rows, first_head, n_heads, kv_head;
} Item;

static size_t cached_index(const Pass *pass, size_t row) {
    const AttentionRow *at = &pass->rows[row];
    return (size_t)(at->position - kvcache_start(pass->cache, at->sequence));
}

static size_t item_segments(const Pass *pass, const Item *item) {
    return cached_index(pass, item->first_row + item->n_rows - 1) / ATTENTION_SEGMENT + 1;
}

/* The first cached position that the row sees. */
static size_t first_seen(const Pass *pass, size_t row) {
    size_t end = cached_index(pass, row) + 1, window = pass->params->window;
    return window && end > window ? end - window : 0;
}

static size_t first_segment(const Pass *pass, const Item *item) {
    return first_seen(pass, item->first_row) / ATTENTION_SEGMENT;
}

/* The end of the run of rows of one sequence that starts at `row`, at most rows_a_job. */
static size_t run_end(const Pass *pass, size_t row) {
    size_t end = row + 1;
    while (end < pass->n_rows && end - row < pass->rows_a_job &&
           pass->rows[end].sequence == pass->rows[row].sequence)
        end++;
    return end;
}

static size_t head_chunks(const Pass *pass) {
    size_t group = pass->params->n_heads / pass->params->n_kv_heads;
    return (group + pass->heads_a_job - 1) / pass->heads_a_job;
}

static size_t count_runs(const Pass *pass) {
    size_t n = 0;
    for (size_t row = 0; row < pass->n_rows; row = run_end(pass, row)) n++;
    return n;
}

/* The later rows of a prompt see most: they come first, so that no thread ends on a long one. */
static Item item_at(const Pass *pass, size_t n_runs, size_t number) {
    size_t group = pass->params->n_heads / pass->params->n_kv_heads;
    size_t chunks = head_chunks(pass), n_kv = pass->params->n_kv_heads;
    size_t run = n_runs - 1 - number / (n_kv * chunks), row = 0;
    for (size_t i = 0; i < run; i++) row = run_end(pass, row);
    size_t kv_head = number / chunks % n_kv, first = number % chunks * pass->heads_a_job;
    size_t n_heads = group - first < pass->heads_a_job ? group - first : pass->heads_a_job;
    return (Item){row, run_end(pass, row) - row, kv_head * group + first, n_heads, kv_head};
}

static size_t item_queries(const Item *item) {
    return item->n_rows * item->n_heads;
}

static const float *slope_of(const Pass *pass, size_t head) {
    return pass->params->alibi_slopes ? pass->params->alibi_slopes + head : NULL;
}

/* Computes one segment of an item into partials[query][partial_floats]; and, when not NULL, into
 * scores[query][shown_positions]. */
static void run_segment(const Pass *pass, const Item *item, size_t segment, float *partials,
                        float *scratch, float *scores) {
    AttentionQuery queries[ATTENTION_QUERIES];
    size_t stride = partial_floats(pass->memory), head_dim = pass->params->head_dim, n = 0;
    size_t begin = segment * ATTENTION_SEGMENT, end = begin + ATTENTION_SEGMENT;
    for (size_t row = item->first_row; row < item->first_row + item->n_rows; row++) {
        size_t index = cached_index(pass, row), low = first_seen(pass, row);
        for (size_t head = item->first_head; head < item->first_head + item->n_heads; head++) {
            const float *slope = slope_of(pass, head);
            float *partial = partials + n * stride;
            queries[n] = (AttentionQuery){
                .q = pass->q + (row * pass->params->n_heads + head) * head_dim,
                .begin = low > begin ? low : begin,
                .end = index + 1 < end ? index + 1 : end,
                .position = index,
                .slope = slope ? *slope : 0.0f,
                .out = partial,
                .max = partial + pass->memory->head_stride,
                .sum = partial + pass->memory->head_stride + 1,
                .scores = scores ? scores + n * pass->memory->shown_positions : NULL,
            };
            if (queries[n].end < queries[n].begin) queries[n].end = queries[n].begin;
            n++;
        }
    }
    AttentionJob job = {.cache = pass->cache,
                        .sequence = pass->rows[item->first_row].sequence,
                        .kv_head = item->kv_head,
                        .n_queries = n,
                        .queries = queries,
                        .scratch = scratch};
    pass->kernel->segment(pass->params, &job);
}

static void clear_partial(const Pass *pass, float *partial) {
    memset(partial, 0, partial_floats(pass->memory) * sizeof *partial);
    partial[pass->memory->head_stride] = -INFINITY;
}

static void join_partial(const Pass *pass, float *running, const float *next) {
    size_t at = pass->memory->head_stride;
    pass->kernel->join(&running[at], &running[at + 1], running, next[at], next[at + 1], next,
                       pass->memory->head_stride);
}

static void finish_query(const Pass *pass, const Item *item, size_t number, const float *running) {
    size_t row = item->first_row + number / item->n_heads;
    size_t head = item->first_head + number % item->n_heads, head_dim = pass->params->head_dim;
    size_t at = pass->memory->head_stride;
    pass->kernel->finish(pass->out + (row * pass->params->n_heads + head) * head_dim, running[at],
                         running[at + 1], running,
                         pass->params->sinks ? pass->params->sinks + head : NULL, head_dim);
}

/* Tells the observer the weights of every query of the item, from the scores that were kept. */
static void show_weights(const Pass *pass, const Item *item, const float *running, float *scores) {
    for (size_t number = 0; number < item_queries(item); number++) {
        size_t row = item->first_row + number / item->n_heads;
        size_t head = item->first_head + number % item->n_heads;
        size_t index = cached_index(pass, row), low = first_seen(pass, row);
        float *weights = scores + number * pass->memory->shown_positions + low;
        const float *own = running + number * partial_floats(pass->memory);
        float unit = 1.0f, max = own[pass->memory->head_stride];
        float sum = own[pass->memory->head_stride + 1];
        const float *sink = pass->params->sinks ? pass->params->sinks + head : NULL;
        float total;
        /* finish() of the number 1 is 1 / (the sum, the sink's part counted). */
        pass->kernel->finish(&total, max, sum, &unit, sink, 1);
        for (size_t i = 0; i < index + 1 - low; i++) weights[i] = expf(weights[i] - max) * total;
        pass->observer->weights(pass->observer->context, pass->params->layer, row, head,
                                kvcache_start(pass->cache, pass->rows[row].sequence) + (int32_t)low,
                                weights, index + 1 - low);
    }
}

/* One item from its first segment to its last, in order, by one thread. */
static void run_item(const Pass *pass, const Item *item, float *scratch) {
    size_t stride = partial_floats(pass->memory), n = item_queries(item);
    float *next = scratch + round_up(attention_scratch_floats(pass->params->head_dim), 16);
    float *running = next + ATTENTION_QUERIES * stride;
    const AttentionMemory *memory = pass->memory;
    float *scores = NULL;
    if (pass->observer)
        scores = memory->shown +
                 (size_t)omp_get_thread_num() * ATTENTION_QUERIES * memory->shown_positions;
    for (size_t i = 0; i < n; i++) clear_partial(pass, running + i * stride);
    for (size_t s = first_segment(pass, item); s < item_segments(pass, item); s++) {
        run_segment(pass, item, s, next, scratch, scores);
        for (size_t i = 0; i < n; i++) join_partial(pass, running + i * stride, next + i * stride);
    }
    for (size_t i = 0; i < n; i++) finish_query(pass, item, i, running + i * stride);
    if (scores) show_weights(pass, item, running, scores);
}

/* Few items and a long context: segments are computed by different threads, then joined in
 * order. */
static void run_split(const Pass *pass, size_t n_runs, size_t n_items, size_t n_segments,
                      float *scratch) {
    size_t segment_floats = pass->item_floats, item_floats = n_segments * segment_floats;
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < n_items * n_segments; i++) {
        Item item = item_at(pass, n_runs, i / n_segments);
        size_t s = i % n_segments;
        if (s < first_segment(pass, &item) || s >= item_segments(pass, &item)) continue;
        float *partials = pass->memory->partials + i / n_segments * item_floats;
        run_segment(pass, &item, s, partials + s * segment_floats, scratch, NULL);
    }
    barrier_wait(&pass->memory->barrier);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n_items; i++) {
        Item item = item_at(pass, n_runs, i);
        const float *partials = pass->memory->partials + i * item_floats;
        size_t stride = partial_floats(pass->memory);
        float *running = scratch;
        for (size_t query = 0; query < item_queries(&item); query++) {
            clear_partial(pass, running);
            for (size_t s = first_segment(pass, &item); s < item_segments(pass, &item); s++)
                join_partial(pass, running, partials + s * segment_floats + query * stride);
            finish_query(pass, &item, query, running);
        }
    }
    barrier_wait(&pass->memory->barrier);
}

void attention_forward(const AttentionKernel *kernel, AttentionMemory *memory,
                       const AttentionParams *params, const KvCache *cache,
                       const AttentionRow *rows, size_t n_rows, const float *q, float *out,
                       const AttentionObserver *observer) {
    size_t group = params->n_heads / params->n_kv_heads, n_segments = 0;
    size_t team = (size_t)omp_get_num_threads();
    Pass pass = {.kernel = kernel,
                 .memory = memory,
                 .params = params,
                 .cache = cache,
                 .rows = rows,
                 .n_rows = n_rows,
                 .q = q,
                 .out = out,
                 .observer = observer,
                 .heads_a_job = group < ATTENTION_QUERIES ? group : ATTENTION_QUERIES};
    for (size_t row = 0; row < n_rows; row++) {
        size_t n = cached_index(&pass, row) / ATTENTION_SEGMENT + 1;
        if (n > n_segments) n_segments = n;
    }
    /* Enough pieces for every thread: items, times the segments where those can be divided. */
    bool divides = !observer &&
                   n_rows * params->n_heads * n_segments * partial_floats(memory) <= PARTIAL_FLOATS;
    size_t pieces = n_rows * params->n_kv_heads * head_chunks(&pass) * (divides ? n_segments : 1);
    pass.rows_a_job = ATTENTION_QUERIES / pass.heads_a_job;
    if (pass.rows_a_job > pieces / (4 * team) + 1) pass.rows_a_job = pieces / (4 * team) + 1;
    if (pass.rows_a_job > n_rows) pass.rows_a_job = n_rows;
    pass.item_floats = pass.rows_a_job * pass.heads_a_job * partial_floats(memory);
    size_t n_runs = count_runs(&pass);
    size_t n_items = n_runs * params->n_kv_heads * head_chunks(&pass);
    size_t split_floats = n_items * n_segments * pass.item_floats;
    float *scratch = memory->threads + memory->thread_floats * (size_t)omp_get_thread_num();
    if (n_segments > 1 && n_items < 8 * team && !observer && split_floats <= PARTIAL_FLOATS) {
        run_split(&pass, n_runs, n_items, n_segments, scratch);
        return;
    }
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < n_items; i++) {
        Item item = item_at(&pass, n_runs, i);
        run_item(&pass, &item, scratch);
    }
    barrier_wait(&memory->barrier);
}
