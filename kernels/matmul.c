/* The driver of all kernel sets: packs inputs and divides panels among the threads.
 *
 * The products of all sets of a call are one list of jobs. Their panels are numbered consecutively
 * in units (a unit is a kernel's stripe of panels). Each thread owns an equal share of the units,
 * the same one in every call, so that a small model's weights stay in the cache of the thread that
 * uses them. A thread that finishes early steals units from the shares of others. A share is stored
 * as the number of units taken from it. */
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lines.h"
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
    uint8_t *input; /* [input_bytes], packed activations, for one group size at a time */
    size_t input_bytes;
    uint8_t *own; /* [n_threads][own_stride]: each thread's own copy of a single packed row */
    size_t own_stride;
    uint8_t *scratch; /* [n_threads][scratch_stride] */
    size_t scratch_stride;
};

/* The group sizes of all weight types; 0 is the float types. */
static const size_t group_sizes[] = {0, 16, 32, 64};
enum { GROUP_SIZES = sizeof group_sizes / sizeof *group_sizes };

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
    memory->shares = lines_new(memory->n_threads * sizeof *memory->shares);
    memory->input_bytes = round_up(input_bytes, 128);
    memory->input = lines_new(input_bytes);
    if (size_mul(memory->scratch_stride, memory->n_threads, &scratch_bytes))
        memory->scratch = lines_new(scratch_bytes);
    if (size_mul(memory->own_stride, memory->n_threads, &own_bytes))
        memory->own = lines_new(own_bytes);
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

/* A product of the group size at hand. Its units are numbered after those of the jobs before it. */
typedef struct Job {
    const Product *product;
    const float *x;
    const void *input; /* x in packed form, or x; products of one set share it */
    size_t n_rows, first, units;
} Job;

/* More jobs than a layer has for one input, so that most experts of a mixture fit into one list. */
enum { MAX_JOBS = 192 };

/* A list of jobs. Every thread of the team has its own copy. */
typedef struct Work {
    const Kernels *kernels;
    MatmulMemory *memory;
    size_t n_inputs, group;
    Job jobs[MAX_JOBS];
    size_t n_jobs, last; /* the job whose unit was multiplied last */
    size_t n_left;       /* products of all sets that no list has held yet */
    size_t units, cost;  /* of all jobs together; the cost is bytes of weights times rows */
    size_t packed_bytes, pack_tasks;
    size_t thread, n_threads;
} Work;

static bool has_group(const Product *product, size_t group) {
    return tensor_type_info(product->w->type)->group == group;
}

static void add_job(Work *work, const ProductSet *set, const Product *product, const void *input) {
    size_t panels = matrix_panels(product->w), stripe = work->kernels->stripe;
    size_t units = (panels + stripe - 1) / stripe;
    work->jobs[work->n_jobs++] = (Job){product, set->x, input, set->n_rows, work->units, units};
    work->units += units;
    work->cost += panels * product->w->panel_bytes * set->n_rows;
    work->n_left--;
}

/* Adds the set's products of this group size; false when the list or the memory for packed inputs
 * is full. A single row is packed by every thread for itself, which is faster than a barrier. */
static bool add_set(Work *work, const ProductSet *set, bool alone) {
    const Kernels *kernels = work->kernels;
    MatmulMemory *memory = work->memory;
    size_t before = work->n_jobs, bytes = 0;
    const void *input = set->x;
    for (size_t i = 0; i < set->n_products && set->n_rows > 0; i++) {
        if (!has_group(&set->products[i], work->group)) continue;
        if (work->n_jobs == before) {
            bytes = kernels->input_bytes(work->group, set->n_rows, work->n_inputs);
            bytes = round_up(bytes, 128);
            if (before > 0 && (before + set->n_products > MAX_JOBS ||
                               work->packed_bytes + bytes > memory->input_bytes))
                return false;
            if (bytes && alone) input = memory->own + work->thread * memory->own_stride;
            if (bytes && !alone) input = memory->input + work->packed_bytes;
            if (bytes) work->pack_tasks += kernels->pack_tasks(work->group, set->n_rows);
            work->packed_bytes += bytes;
        }
        add_job(work, set, &set->products[i], input);
    }
    return true;
}

/* Multiplies units [begin, end), numbered over all jobs. */
static void multiply_units(Work *work, size_t begin, size_t end) {
    size_t stripe = work->kernels->stripe;
    void *scratch = work->memory->scratch + work->thread * work->memory->scratch_stride;
    if (work->jobs[work->last].first > begin) work->last = 0;
    while (begin < end) {
        const Job *job = &work->jobs[work->last];
        size_t panels = matrix_panels(job->product->w), from = begin - job->first;
        size_t to = end - job->first < job->units ? end - job->first : job->units;
        if (from < to)
            work->kernels->multiply(job->product, job->input, job->n_rows, from * stripe,
                                    to * stripe < panels ? to * stripe : panels, scratch);
        if (from < to) begin = job->first + to;
        if (begin < end) work->last++;
    }
}

/* Takes units from this thread's share, then from the shares of the others: a quarter of what is
 * left of a share at a time, because an atomic operation waits for all loads before it. */
static void share_units(Work *work) {
    MatmulMemory *memory = work->memory;
    for (size_t i = 0; i < work->n_threads; i++) {
        size_t owner = (work->thread + i) % work->n_threads;
        size_t begin = work->units * owner / work->n_threads;
        size_t end = work->units * (owner + 1) / work->n_threads;
        atomic_size_t *taken = &memory->shares[owner].taken;
        for (size_t first = atomic_load(taken); first < end - begin;) {
            size_t n = (end - begin - first) / 4 + 1;
            if (!atomic_compare_exchange_weak(taken, &first, first + n)) continue;
            multiply_units(work, begin + first, begin + first + n);
            first = atomic_load(taken);
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

/* Packs the inputs of all jobs. The tasks are numbered over all inputs; neighbouring ones write to
 * the same cache lines, so each thread gets a run of them. */
static void pack_inputs(Work *work, bool alone) {
    size_t first = 0, begin = work->pack_tasks * work->thread / work->n_threads;
    size_t end = work->pack_tasks * (work->thread + 1) / work->n_threads;
    if (alone) begin = 0, end = work->pack_tasks;
    for (size_t j = 0; j < work->n_jobs && first < end; j++) {
        const Job *job = &work->jobs[j];
        if (job->input == job->x || (j > 0 && job->input == job[-1].input)) continue;
        size_t tasks = work->kernels->pack_tasks(work->group, job->n_rows);
        size_t task = begin > first ? begin - first : 0;
        for (; task < tasks && first + task < end; task++)
            work->kernels->pack(work->group, job->x, job->n_rows, work->n_inputs, task,
                                (void *)job->input);
        first += tasks;
    }
}

/* Multiplies sets of this group size, as many of the list as there is room for; returns their
 * number. */
static size_t multiply_group(Work *work, const ProductSet *sets, size_t n_sets) {
    bool alone = n_sets == 1 && sets->n_rows == 1, in_team = work->thread < work->n_threads;
    size_t n = 0;
    work->n_jobs = work->last = work->units = work->cost = 0;
    work->packed_bytes = work->pack_tasks = 0;
    while (n < n_sets && add_set(work, &sets[n], alone)) n++;
    if (work->n_jobs == 0) return n;
    if (in_team) pack_inputs(work, alone);
    if (work->pack_tasks > 0 && !alone) barrier_wait(&work->memory->barrier);
    if (in_team && (work->n_threads == 1 || work->cost < SMALL_WORK)) {
        multiply_units(work, work->units * work->thread / work->n_threads,
                       work->units * (work->thread + 1) / work->n_threads);
    } else if (in_team) {
        share_units(work);
    }
    barrier_wait(&work->memory->barrier);
    return n;
}

void matmul(const Kernels *kernels, MatmulMemory *memory, size_t n_inputs, const ProductSet *sets,
            size_t n_sets) {
    size_t team = (size_t)omp_get_num_threads();
    Work work; /* not cleared: its list is long, and most calls have one job */
    work.kernels = kernels;
    work.memory = memory;
    work.n_inputs = n_inputs;
    work.thread = (size_t)omp_get_thread_num();
    work.n_threads = team < memory->n_threads ? team : memory->n_threads;
    work.n_left = 0;
    for (size_t n = 0; n < n_sets; n++) work.n_left += sets[n].n_products;
    for (int i = 0; i < GROUP_SIZES && work.n_left > 0; i++) {
        work.group = group_sizes[i];
        for (size_t n = 0; n < n_sets;) n += multiply_group(&work, sets + n, n_sets - n);
    }
}
