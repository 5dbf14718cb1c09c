#include "convert/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/machine.h"
#include "base/threads.h"
#include "convert/losses.h"
#include "convert/plan.h"
#include "families/reading/source_open.h"
#include "formats/family/given_family.h"
#include "model.h"

/* A piece of the target that one thread makes at once: panels of a matrix, or rows of a vector. */
enum { JOB_BYTES = 1 << 20 };

/* How many bytes are written before the next sync to disk. */
enum { SYNC_BYTES = 32 << 20 };

typedef struct ConvertJob {
    size_t tensor;
    size_t first, n; /* panels */
    uint64_t offset; /* in the target */
    size_t bytes;    /* of values; zeros follow up to a multiple of 64 */
} ConvertJob;

typedef struct Conversion {
    ConvertPlan *plan;
    const ConvertOptions *options;
    int fd;
    ConvertJob *jobs;
    size_t n_jobs;
    size_t target_bytes; /* what the largest job needs */
    PanelSizes sizes;    /* what the largest panel needs */
    ConvertLosses losses;
    XXH3_state_t *checksum;
    atomic_size_t taken; /* jobs that threads have begun */
    size_t turn;         /* the job that enters the checksum next */
    pthread_mutex_t mutex;
    pthread_cond_t passed; /* `turn` has changed */
    atomic_size_t failed;  /* the first job in the order of the file that failed; SIZE_MAX: none */
    Status status;         /* of that job; written inside a critical section */
    Error *error;
} Conversion;

/* A thread's working memory. */
typedef struct Worker {
    uint8_t *target; /* [target_bytes], 64-byte aligned */
    PanelWork panels;
} Worker;

/* ---- Jobs ---- */

/* Fills jobs[] with the tensor's jobs, panels of about JOB_BYTES together, and returns how many.
 * With jobs NULL only counts. */
static size_t list_jobs_of(const Conversion *c, size_t i, ConvertJob *jobs) {
    const TensorPlan *t = &c->plan->tensors[i];
    const FileTensor *to = &c->plan->layout.tensors[i];
    if (!t->maker) return 0;
    size_t panels = (t->from->rows + t->panel_rows - 1) / t->panel_rows, n = 0;
    size_t most = t->panel_bytes < JOB_BYTES ? JOB_BYTES / t->panel_bytes : 1;
    for (size_t first = 0; first < panels; first += most, n++) {
        size_t now = panels - first < most ? panels - first : most;
        uint64_t at = first * t->panel_bytes, left = to->bytes - at;
        size_t bytes = now * t->panel_bytes;
        if (jobs)
            jobs[n] = (ConvertJob){.tensor = i,
                                   .first = first,
                                   .n = now,
                                   .offset = to->offset + at,
                                   .bytes = bytes < left ? bytes : (size_t)left};
    }
    return n;
}

/* Lists the jobs of all tensors in the order of the file, and what the largest need. */
static Status list_jobs(Conversion *c) {
    const ConvertPlan *plan = c->plan;
    for (size_t i = 0; i < plan->source->n_tensors; i++) c->n_jobs += list_jobs_of(c, i, NULL);
    c->jobs = malloc((c->n_jobs + 1) * sizeof *c->jobs);
    if (!c->jobs) return error_set(c->error, "no memory for %zu jobs", c->n_jobs);
    for (size_t i = 0, n = 0; i < plan->source->n_tensors; i++) {
        const TensorPlan *t = &plan->tensors[i];
        n += list_jobs_of(c, i, c->jobs + n);
        if (t->maker) t->maker->size(t, &c->sizes);
    }
    for (size_t i = 0; i < c->n_jobs; i++)
        panel_raise_size(&c->target_bytes, round_up(c->jobs[i].bytes, MODELFILE_ALIGNMENT));
    return STATUS_OK;
}

/* Converts one job into w->target. */
static Status do_job(const ConvertPlan *plan, const ConvertJob *job, Worker *w, Error *error) {
    const TensorPlan *t = &plan->tensors[job->tensor];
    Status status = STATUS_OK;
    memset(w->target + job->bytes, 0, round_up(job->bytes, MODELFILE_ALIGNMENT) - job->bytes);
    for (size_t p = 0; status == STATUS_OK && p < job->n; p++) {
        size_t first = (job->first + p) * t->panel_rows;
        uint8_t *panel = w->target + p * t->panel_bytes;
        status = t->maker->make(t, first, &w->panels, panel, error);
        if (status == STATUS_OK && t->is_measured)
            status = losses_measure(w->panels.losses, t, first, panel, w->panels.floats, error);
    }
    return status;
}

/* ---- All of them ---- */

static bool worker_new(Conversion *c, Worker *w) {
    w->target = aligned_alloc(64, round_up(c->target_bytes + 64, 64));
    return panel_work_new(&w->panels, &c->sizes, &c->losses) && w->target;
}

static void worker_free(Worker *w) {
    panel_work_free(&w->panels);
    free(w->target);
}

/* Puts the target's name before an error of writing. */
static Status name_target(const Conversion *c, Error *error) {
    const char *target = c->options->target;
    return error_prefix(error, "%s", target ? target : c->plan->source->path);
}

/* Stops all jobs after job i, and keeps its failure unless an earlier job fails as well: which of
 * several bad tensors is named must not depend on timing. */
static void stop(Conversion *c, size_t i, Status status, const Error *error) {
#pragma omp critical(convert_stop)
    if (i < atomic_load(&c->failed)) {
        c->status = status;
        error_set(c->error, "%s", error->text);
        atomic_store(&c->failed, i);
    }
}

/* Waits until every job before job i has entered the checksum. A thread sleeps meanwhile: `ordered`
 * of OpenMP would spin, and would let the next job on only when this one is written. */
static void wait_for_turn(Conversion *c, size_t i) {
    pthread_mutex_lock(&c->mutex);
    while (c->turn != i) pthread_cond_wait(&c->passed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

static void pass_turn(Conversion *c) {
    pthread_mutex_lock(&c->mutex);
    c->turn++;
    pthread_cond_broadcast(&c->passed);
    pthread_mutex_unlock(&c->mutex);
}

/* Lets the disk begin with a stretch of the target as soon as it is written. The sync at the end
 * then finds most of it done. */
static void begin_to_sync(const Conversion *c, uint64_t end, size_t bytes) {
    uint64_t stretch = end / SYNC_BYTES;
    if (!c->options->synced || stretch == (end - bytes) / SYNC_BYTES) return;
    sync_file_range(c->fd, (off_t)((stretch - 1) * SYNC_BYTES), SYNC_BYTES, SYNC_FILE_RANGE_WRITE);
}

/* Takes jobs until there are none. Any thread may make any job; they enter the checksum in the
 * order of the file. */
static void run_jobs(Conversion *c, Worker *w) {
    const ConvertOptions *options = c->options;
    const Layout *layout = &c->plan->layout;
    for (size_t i; (i = atomic_fetch_add(&c->taken, 1)) < c->n_jobs;) {
        const ConvertJob *job = &c->jobs[i];
        Error error;
        if (options->cancel && *options->cancel) {
            error_set(&error, "interrupted");
            stop(c, i, STATUS_INTERRUPTED, &error);
        }
        bool going = i < atomic_load(&c->failed);
        if (going && do_job(c->plan, job, w, &error) != STATUS_OK) {
            stop(c, i, STATUS_FAILED, &error);
            going = false;
        }
        size_t bytes = round_up(job->bytes, MODELFILE_ALIGNMENT);
        wait_for_turn(c, i);
        if (going) {
            XXH3_64bits_update(c->checksum, w->target, bytes);
            uint64_t start = layout->data_offset;
            if (options->progress)
                options->progress(CONVERT_WRITING, job->offset + bytes - start,
                                  layout->file_bytes - start, options->progress_context);
        }
        pass_turn(c);
        if (!going) continue;
        if (layout_write_at(c->fd, w->target, bytes, job->offset, &error) != STATUS_OK)
            stop(c, i, name_target(c, &error), &error);
        begin_to_sync(c, job->offset + bytes, bytes);
    }
}

static void run_workers(Conversion *c) {
    const int wanted = c->options->n_threads;
    int n_threads = threads_startable(wanted > 0 ? wanted : machine_cores());
#pragma omp parallel num_threads(n_threads)
    {
        Worker worker;
        if (!worker_new(c, &worker)) {
            Error error;
            error_set(&error, "no memory to convert in");
            stop(c, 0, STATUS_FAILED, &error);
        }
        run_jobs(c, &worker);
        worker_free(&worker);
    }
}

/* Opens the target as a model before it has weights: a tensor that the model would miss is found
 * before hours of work, not after them. */
static Status check_model(const Conversion *c, const char *path, Error *error) {
    const ModelOptions options = {.n_threads = 1, .max_rows = 1};
    ModelFile *file = NULL;
    Model *model = NULL;
    if (layout_write(&c->plan->layout, 0, c->fd, error) != STATUS_OK) return name_target(c, error);
    int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    Status status = modelfile_open(&file, path, fd, error);
    if (status == STATUS_OK) status = model_open(&model, file, &options, error);
    model_close(model);
    modelfile_close(file);
    return status;
}

/* Finds out that the disk is too full before the work begins. */
static Status reserve(const Conversion *c, Error *error) {
    uint64_t bytes = c->plan->layout.file_bytes;
    if (fallocate(c->fd, 0, 0, (off_t)bytes) == 0 ||
        (errno != ENOSPC && errno != EFBIG && errno != EDQUOT))
        return STATUS_OK;
    error_set(error, "cannot write %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
    return name_target(c, error);
}

/* Says what the target lacks, or how it differs from the source. */
static void tell(const Conversion *c) {
    const Source *source = c->plan->source;
    const ConvertOptions *options = c->options;
    if (!options->note) return;
    losses_tell(&c->losses, c->plan->tensors, source->n_tensors, options->note,
                options->progress_context);
    for (size_t i = 0; i < source->n_notes; i++)
        options->note(source->notes[i], options->progress_context);
}

/* Makes what the plan says, then writes the small sections, which make the file valid. */
static Status execute(Conversion *c, Error *error) {
    const Source *source = c->plan->source;
    c->checksum = XXH3_createState();
    if (!losses_new(&c->losses, source) || !c->checksum) return error_set(error, "no memory");
    Status status = list_jobs(c);
    if (status == STATUS_OK) status = reserve(c, error);
    if (status == STATUS_OK && source->n_tensors > 0) status = check_model(c, source->path, error);
    if (status != STATUS_OK) return status;
    XXH3_64bits_reset(c->checksum);
    run_workers(c);
    if (c->status != STATUS_OK) return c->status;
    tell(c);
    if (source_check_unchanged(source, error) != STATUS_OK) return STATUS_FAILED;
    return layout_write(&c->plan->layout, XXH3_64bits_digest(c->checksum), c->fd, error) ==
                   STATUS_OK
               ? STATUS_OK
               : name_target(c, error);
}

/* Fills in what depends on the options: each tensor's importance; errors are measured only if
 * `note` will report them. */
static void complete_plan(ConvertPlan *plan, const ConvertOptions *options) {
    for (size_t i = 0; i < plan->source->n_tensors; i++) {
        TensorPlan *t = &plan->tensors[i];
        t->is_measured = t->is_measured && options->note;
        if (options->importance)
            t->importance = options->importance(i, options->importance_context);
    }
}

/* Plans, executes the plan, and frees both. */
Status convert_parsed(const Source *source, const ConvertOptions *options, int out_fd,
                      Error *error) {
    ConvertPlan plan;
    Status status = convert_plan_make(&plan, source, options->type, error);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    if (status == STATUS_OK) {
        complete_plan(&plan, options);
        Conversion c = {.plan = &plan, .options = options, .fd = out_fd, .error = error};
        atomic_init(&c.failed, SIZE_MAX);
        atomic_init(&c.taken, 0);
        pthread_mutex_init(&c.mutex, NULL);
        pthread_cond_init(&c.passed, NULL);
        status = execute(&c, error);
        XXH3_freeState(c.checksum);
        pthread_cond_destroy(&c.passed);
        pthread_mutex_destroy(&c.mutex);
        losses_free(&c.losses);
        free(c.jobs);
    }
    convert_plan_free(&plan);
    return status;
}

Status convert_description(const Source *source, const char *type, int out_fd, Error *error) {
    ConvertPlan plan;
    Status status = convert_plan_make(&plan, source, type, error);
    if (status == STATUS_OK) status = layout_write(&plan.layout, 0, out_fd, error);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    convert_plan_free(&plan);
    return status;
}

Status convert_open(Source **out, const char *path, const SourceOptions *options, Error *error) {
    Source *source;
    if (source_open(&source, path, options->tokenizer, error) != STATUS_OK) return STATUS_FAILED;
    source->split_pattern = options->split_pattern;
    source->no_mtp = options->no_mtp;
    if (given_family_open(source, options->family, error) != STATUS_OK) {
        source_close(source);
        return STATUS_FAILED;
    }
    *out = source;
    return STATUS_OK;
}

Status convert_source(const char *path, const ConvertOptions *options, int out_fd, Error *error) {
    Source *source;
    if (convert_open(&source, path, &options->source, error) != STATUS_OK) return STATUS_FAILED;
    Status status = source_parse(source, error);
    if (status == STATUS_OK) status = convert_parsed(source, options, out_fd, error);
    source_close(source);
    return status;
}
