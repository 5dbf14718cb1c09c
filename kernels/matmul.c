/* The driver of all kernel sets: packs inputs and divides panels among the threads.
 *
 * The panels of all products are numbered consecutively in units (a unit is a kernel's stripe of
 * panels). Each thread owns an equal share of the units, the same one in every call, so that a
 * small model's weights stay in the cache of the thread that uses them. A thread that finishes
 * early steals units from the shares of others. A share is stored as the number of units taken from
 * it. */
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/threads.h"
#include "kernels/kernels.h"

/* One for each thread, on a cache line of its own. */
typedef struct Share {
    _Alignas(128) atomic_size_t taken;
} Share;

struct MatmulMemory {
    Share *shares;          /* [n_threads] */
    atomic_size_t finished; /* threads that found no unit left to take */
    size_t n_threads;
    Barrier barrier;
    uint8_t *input; /* packed activations, for one group size at a time */
    uint8_t *own;   /* [n_threads][own_stride]: each thread's own copy of a single packed row */
    size_t own_stride;
    uint8_t *scratch; /* [n_threads][scratch_stride] */
    size_t scratch_stride;
};

/* The group sizes of all weight types; 0 is the float types. */
static const size_t group_sizes[] = {0, 16, 32, 64};
enum { GROUP_SIZES = sizeof group_sizes / sizeof *group_sizes };

static void *allocate(size_t bytes) {
    return aligned_alloc(128, round_up(bytes ? bytes : 1, 128));
}

MatmulMemory *matmul_memory_new(const Kernels *kernels, size_t n_rows, size_t n_inputs,
                                int n_threads) {
    size_t input_bytes = 0, row_bytes = 0, scratch_bytes, own_bytes, elements;
    /* No packed form takes more than 8 bytes for each padded input. */
    if (n_threads < 1 || !size_add(n_inputs, 64, &elements) ||
        !size_mul(elements, n_rows + 64, &elements) || elements > SIZE_MAX / 16)
        return NULL;
    for (int i = 0; i < GROUP_SIZES; i++) {
        size_t bytes = kernels->input_bytes(group_sizes[i], n_rows, n_inputs);
        input_bytes = bytes > input_bytes ? bytes : input_bytes;
        bytes = kernels->input_bytes(group_sizes[i], 1, n_inputs);
        row_bytes = bytes > row_bytes ? bytes : row_bytes;
    }
    MatmulMemory *memory = calloc(1, sizeof *memory);
    if (!memory) return NULL;
    memory->n_threads = (size_t)n_threads;
    memory->scratch_stride = round_up(kernels->scratch_bytes, 128);
    memory->own_stride = round_up(row_bytes, 128);
    memory->shares = allocate(memory->n_threads * sizeof *memory->shares);
    memory->input = allocate(input_bytes);
    if (size_mul(memory->scratch_stride, memory->n_threads, &scratch_bytes))
        memory->scratch = allocate(scratch_bytes);
    if (size_mul(memory->own_stride, memory->n_threads, &own_bytes))
        memory->own = allocate(own_bytes);
    if (!memory->shares || !memory->input || !memory->scratch || !memory->own) {
        matmul_memory_free(memory);
        return NULL;
    }
    atomic_init(&memory->finished, 0);
    for (size_t i = 0; i < memory->n_threads; i++) atomic_init(&memory->shares[i].taken, 0);
    return memory;
}

void matmul_memory_free(MatmulMemory *memory) {
    if (!memory) return;
    free(memory->shares);
    free(memory->input);
    free(memory->scratch);
    free(memory->own);
    free(memory);
}

/* The products of one group size. Every thread of the team has its own copy. */
typedef struct Work {
    const Kernels *kernels;
    MatmulMemory *memory;
    const Product *products;
    size_t n_products;
    size_t group;
    const void *input;
    size_t n_rows;
    size_t units, bytes; /* of all products together */
    size_t thread, n_threads;
} Work;

static bool has_group(const Product *product, size_t group) {
    return tensor_type_info(product->w->type)->group == group;
}

static size_t product_units(const Work *work, const Product *product) {
    return (matrix_panels(product->w) + work->kernels->stripe - 1) / work->kernels->stripe;
}

static void count_units(Work *work) {
    for (size_t i = 0; i < work->n_products; i++) {
        const Product *product = &work->products[i];
        if (!has_group(product, work->group)) continue;
        work->units += product_units(work, product);
        work->bytes += matrix_panels(product->w) * product->w->panel_bytes;
    }
}

/* Multiplies units [begin, end), numbered over all products. */
static void multiply_units(const Work *work, size_t begin, size_t end) {
    size_t stripe = work->kernels->stripe, first = 0;
    void *scratch = work->memory->scratch + work->thread * work->memory->scratch_stride;
    for (size_t i = 0; i < work->n_products && first < end; i++) {
        const Product *product = &work->products[i];
        if (!has_group(product, work->group)) continue;
        size_t units = product_units(work, product), panels = matrix_panels(product->w);
        if (begin < first + units) {
            size_t from = begin > first ? begin - first : 0;
            size_t to = end - first < units ? end - first : units;
            size_t last = to * stripe < panels ? to * stripe : panels;
            work->kernels->multiply(product, work->input, work->n_rows, from * stripe, last,
                                    scratch);
        }
        first += units;
    }
}

/* Takes one unit at a time from this thread's share, then from the shares of the others. */
static void share_units(const Work *work) {
    MatmulMemory *memory = work->memory;
    for (size_t i = 0; i < work->n_threads; i++) {
        size_t owner = (work->thread + i) % work->n_threads;
        size_t begin = work->units * owner / work->n_threads;
        size_t end = work->units * (owner + 1) / work->n_threads;
        for (;;) {
            size_t taken =
                atomic_fetch_add_explicit(&memory->shares[owner].taken, 1, memory_order_relaxed);
            if (taken >= end - begin) break;
            multiply_units(work, begin + taken, begin + taken + 1);
        }
    }
    /* The last thread to find nothing left resets the shares for the next call: no other thread
     * touches them again before the barrier. */
    if (atomic_fetch_add(&memory->finished, 1) + 1 < work->n_threads) return;
    for (size_t i = 0; i < work->n_threads; i++)
        atomic_store_explicit(&memory->shares[i].taken, 0, memory_order_relaxed);
    atomic_store(&memory->finished, 0);
}

/* With fewer bytes times rows than this (about 10 microseconds of work) stealing units costs more
 * than it gains. */
enum { SMALL_WORK = 256 * 1024 };

/* Packs x for the products of this group size. Every thread packs a single row for itself, which is
 * faster than a barrier; the threads divide more rows among themselves. */
static void pack_input(Work *work, const float *x, size_t n_inputs) {
    const Kernels *kernels = work->kernels;
    MatmulMemory *memory = work->memory;
    bool in_team = work->thread < work->n_threads;
    work->input = x;
    if (!kernels->input_bytes(work->group, work->n_rows, n_inputs)) return;
    size_t tasks = in_team ? kernels->pack_tasks(work->group, work->n_rows) : 0;
    bool alone = work->n_rows == 1;
    uint8_t *input = alone ? memory->own + work->thread * memory->own_stride : memory->input;
    /* Neighbouring tasks write to the same cache lines, so each thread gets a run of tasks. */
    size_t task = alone ? 0 : tasks * work->thread / work->n_threads;
    size_t end = alone ? tasks : tasks * (work->thread + 1) / work->n_threads;
    for (; task < end; task++) kernels->pack(work->group, x, work->n_rows, n_inputs, task, input);
    work->input = input;
    if (alone) return;
    barrier_wait(&memory->barrier);
}

static void multiply_group(Work *work, const float *x, size_t n_inputs) {
    bool in_team = work->thread < work->n_threads;
    pack_input(work, x, n_inputs);
    if (in_team) {
        count_units(work);
        if (work->n_threads == 1 || work->bytes < SMALL_WORK / work->n_rows) {
            size_t begin = work->units * work->thread / work->n_threads;
            size_t end = work->units * (work->thread + 1) / work->n_threads;
            if (begin < end) multiply_units(work, begin, end);
        } else {
            share_units(work);
        }
    }
    barrier_wait(&work->memory->barrier);
}

void matmul(const Kernels *kernels, MatmulMemory *memory, const float *x, size_t n_rows,
            size_t n_inputs, const Product *products, size_t n_products) {
    size_t team = (size_t)omp_get_num_threads();
    Work work = {.kernels = kernels,
                 .memory = memory,
                 .products = products,
                 .n_products = n_products,
                 .n_rows = n_rows,
                 .thread = (size_t)omp_get_thread_num(),
                 .n_threads = team < memory->n_threads ? team : memory->n_threads};
    if (n_rows == 0) return;
    for (int i = 0; i < GROUP_SIZES; i++) {
        bool any = false;
        for (size_t j = 0; j < n_products; j++) any |= has_group(&products[j], group_sizes[i]);
        if (!any) continue;
        work.group = group_sizes[i];
        work.units = work.bytes = 0;
        multiply_group(&work, x, n_inputs);
    }
}
