/* The driver of all kernel sets: packs inputs and divides panels among the threads.
 *
 * The products of all sets of a call are one list of jobs, whatever their types. Their panels are
 * numbered consecutively. Each thread owns an equal share of the panels, the same one in every
 * call, so that a small model's weights stay in the cache of the thread that uses them. A thread
 * that finishes early steals panels from the shares of others. A share is stored as the number of
 * panels taken from it. */
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lines.h"
#include "base/threads.h"
#include "kernels/matmul.h"

/* One for each thread, on a cache line of its own. */
typedef struct Share {
    _Alignas(128) atomic_size_t taken;
} Share;

struct MatmulMemory {
    Share *shares;          /* [n_threads] */
    atomic_size_t finished; /* threads that found no panel left to take */
    size_t n_threads;
    Barrier barrier;
    uint8_t *input; /* [input_bytes], packed activations */
    size_t input_bytes;
    uint8_t *own; /* [n_threads][own_stride]: each thread's own copies of a single packed row */
    size_t own_stride;
    uint8_t *scratch; /* [n_threads][scratch_stride] */
    size_t scratch_stride;
};

MatmulMemory *matmul_memory_new(const Kernels *kernels, size_t n_rows, size_t n_inputs,
                                int n_threads) {
    size_t input_bytes = 0, row_bytes = 0, scratch_bytes, own_bytes, elements;
    /* No packed form takes more than 8 bytes for each padded input. */
    if (n_threads < 1 || !size_add(n_inputs, 64, &elements) ||
        !size_mul(elements, n_rows + 64, &elements) || elements > SIZE_MAX / 16)
        return NULL;
    static const size_t forms[] = {FORM_FLOATS, FORM_BFLOATS, 16, 32, 64}; /* of all types */
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t bytes = kernels->input_bytes(forms[i], n_rows, n_inputs);
        input_bytes = bytes > input_bytes ? bytes : input_bytes;
        row_bytes += round_up(kernels->input_bytes(forms[i], 1, n_inputs), 128);
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

void *matmul_scratch(const MatmulMemory *memory, size_t thread) {
    return memory->scratch + thread * memory->scratch_stride;
}

/* A product. Its panels are numbered after the panels of earlier jobs. */
typedef struct Job {
    const Product *product;
    const ProductSet *set;
    const void *input; /* x in packed form, or x */
    size_t tasks;      /* tasks that pack the input; 0 where an earlier job packs it */
    size_t form, first, panels;
} Job;

/* The most products in one list: enough for the gates and ups of all experts that a mixture
 * computes at once (FEED_FORWARD_PARTS). A call with more products makes several lists. */
enum { MAX_JOBS = 264 };

/* A list of jobs. Every thread of the team has its own copy. */
typedef struct Work {
    const Kernels *kernels;
    MatmulMemory *memory;
    size_t n_inputs;
    bool alone; /* all jobs read one row */
    Job jobs[MAX_JOBS];
    size_t n_jobs;
    size_t last;         /* the job whose panel this thread multiplied last */
    size_t panels, cost; /* of all jobs together; the cost is bytes of weights times rows */
    size_t packed_bytes, pack_tasks;
    size_t thread, n_threads;
} Work;

static void clear_list(Work *work) {
    work->n_jobs = work->last = work->panels = work->cost = 0;
    work->packed_bytes = work->pack_tasks = 0;
}

/* Adds a product to the list; false when the list or the memory for packed inputs is full. A single
 * row is packed by every thread for itself, which is faster than a barrier. */
static bool add_job(Work *work, const ProductSet *set, const Product *product) {
    MatmulMemory *memory = work->memory;
    Job *job = &work->jobs[work->n_jobs];
    if (work->n_jobs == MAX_JOBS) return false;
    size_t form = type_input_form(product->w->type), panels = matrix_panels(product->w);
    size_t bytes = work->kernels->input_bytes(form, set->n_rows, work->n_inputs);
    *job = (Job){product, set, set->x, 0, form, work->panels, panels};
    for (const Job *j = job; bytes > 0 && j > work->jobs && (work->alone || j[-1].set == set); j--)
        if (j[-1].form == form) job->input = j[-1].input, bytes = 0;
    if (bytes > 0) {
        size_t room = work->alone ? memory->own_stride : memory->input_bytes;
        uint8_t *base = work->alone ? memory->own + work->thread * room : memory->input;
        if (work->n_jobs > 0 && work->packed_bytes + bytes > room) return false;
        job->input = base + work->packed_bytes;
        job->tasks = work->kernels->pack_tasks(form, set->n_rows);
        work->packed_bytes += round_up(bytes, 128);
        work->pack_tasks += job->tasks;
    }
    work->n_jobs++;
    work->panels += panels;
    work->cost += panels * product->w->panel_bytes * set->n_rows;
    return true;
}

/* Multiplies panels [begin, end), numbered over all jobs: one kernel call for each job that has
 * some. The search begins at the job of the thread's last call, as its ranges mostly rise. */
static void multiply_panels(Work *work, size_t begin, size_t end) {
    void *scratch = work->memory->scratch + work->thread * work->memory->scratch_stride;
    if (work->jobs[work->last].first > begin) work->last = 0;
    while (begin < end) {
        const Job *job = &work->jobs[work->last];
        size_t from = begin - job->first;
        size_t to = end - job->first < job->panels ? end - job->first : job->panels;
        if (from < to) {
            work->kernels->multiply(job->product, job->input, job->set->n_rows, from, to, scratch);
            begin = job->first + to;
        }
        if (begin < end) work->last++;
    }
}

/* Takes panels from this thread's share, then from the shares of the others: a quarter of what is
 * left of a share at a time, in whole stripes, because an atomic operation waits for all loads
 * before it; near the end half stripes, so that no thread waits long for another. */
static void share_panels(Work *work) {
    MatmulMemory *memory = work->memory;
    for (size_t i = 0; i < work->n_threads; i++) {
        size_t owner = (work->thread + i) % work->n_threads;
        size_t begin = work->panels * owner / work->n_threads;
        size_t end = work->panels * (owner + 1) / work->n_threads;
        atomic_size_t *taken = &memory->shares[owner].taken;
        for (size_t first = atomic_load(taken); first < end - begin;) {
            size_t left = end - begin - first, stripe = work->kernels->stripe;
            size_t n = round_up(left / 4 + 1, left > 2 * stripe ? stripe : (stripe + 1) / 2);
            if (n > left) n = left;
            if (!atomic_compare_exchange_weak(taken, &first, first + n)) continue;
            multiply_panels(work, begin + first, begin + first + n);
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

/* With fewer bytes times rows than this (about 10 microseconds of work) stealing panels costs more
 * than it gains. */
enum { SMALL_WORK = 256 * 1024 };

/* Packs the inputs of all jobs. The tasks are numbered over all inputs; neighbouring ones write to
 * the same cache lines, so each thread gets a run of them. */
static void pack_inputs(Work *work) {
    size_t first = 0, begin = work->pack_tasks * work->thread / work->n_threads;
    size_t end = work->pack_tasks * (work->thread + 1) / work->n_threads;
    if (work->alone) begin = 0, end = work->pack_tasks;
    for (size_t j = 0; j < work->n_jobs && first < end; j++) {
        const Job *job = &work->jobs[j];
        const ProductSet *set = job->set;
        size_t task = begin > first ? begin - first : 0;
        for (; task < job->tasks && first + task < end; task++) {
            /* From this address on, row `task` is the one that `rows` has for it. */
            const float *x = set->x;
            if (set->rows && task < set->n_rows) x += (set->rows[task] - task) * work->n_inputs;
            work->kernels->pack(job->form, x, set->n_rows, work->n_inputs, task,
                                (void *)job->input);
        }
        first += job->tasks;
    }
}

/* Multiplies the jobs of the list, which is not empty, and empties it. */
static void run_list(Work *work) {
    bool in_team = work->thread < work->n_threads;
    if (in_team) pack_inputs(work);
    if (work->pack_tasks > 0 && !work->alone) barrier_wait(&work->memory->barrier);
    if (in_team && (work->n_threads == 1 || work->cost < SMALL_WORK)) {
        multiply_panels(work, work->panels * work->thread / work->n_threads,
                        work->panels * (work->thread + 1) / work->n_threads);
    } else if (in_team) {
        share_panels(work);
    }
    barrier_wait(&work->memory->barrier);
    clear_list(work);
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
    work.alone = true;
    for (size_t n = 0; n < n_sets; n++)
        work.alone = work.alone && sets[n].n_rows == 1 && sets[n].x == sets->x && !sets[n].rows;
    clear_list(&work);
    for (size_t n = 0; n < n_sets; n++) {
        for (size_t i = 0; i < sets[n].n_products && sets[n].n_rows > 0; i++) {
            if (add_job(&work, &sets[n], &sets[n].products[i])) continue;
            run_list(&work);
            add_job(&work, &sets[n], &sets[n].products[i]); /* an empty list has room */
        }
    }
    if (work.n_jobs > 0) run_list(&work);
}
