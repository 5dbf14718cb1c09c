#include "convert/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/numbers.h"
#include "base/machine.h"
#include "base/threads.h"
#include "convert/layout.h"
#include "convert/quantize.h"
#include "convert/saturation.h"
#include "formats/containers/source_blocks.h"
#include "formats/containers/source_floats.h"
#include "formats/family/given_family.h"
#include "families/reading/source_open.h"
#include "formats/stored/stored.h"
#include "kernels/panel_pack.h"
#include "model.h"
#include "core/numeric.h"

/* A piece of the target that one thread makes at once: panels of a matrix, or rows of a vector. */
enum { JOB_BYTES = 1 << 20 };

/* What the disk is asked to write at once. */
enum { SYNC_BYTES = 32 << 20 };

typedef struct ConvertJob {
    size_t tensor;
    size_t first, n; /* panels, or rows of a vector */
    uint64_t offset; /* in the target */
    size_t bytes;    /* of values; zeros follow up to a multiple of 64 */
} ConvertJob;

typedef struct Conversion {
    const Source *source;
    const Layout *layout;
    const ConvertOptions *options;
    int fd;
    ConvertJob *jobs;
    size_t n_jobs;
    size_t target_bytes, floats, codes, groups, stored_bytes; /* what the largest job needs */
    XXH3_state_t *checksum;
    atomic_size_t taken; /* jobs that threads have begun */
    size_t turn;         /* the job that enters the checksum next */
    pthread_mutex_t mutex;
    pthread_cond_t passed;                              /* `turn` has changed */
    double errors[STORED_TYPES], squares[STORED_TYPES]; /* of approximate types */
    size_t *saturated;    /* [source->n_tensors] weights that the tensor's type does not hold */
    float largest;        /* the largest of them */
    atomic_size_t failed; /* the first job in the order of the file that failed; SIZE_MAX: none */
    Status status;        /* of that job; written inside a critical section */
    Error *error;
} Conversion;

/* A thread's working memory. */
typedef struct Worker {
    uint8_t *target;  /* [target_bytes], 64-byte aligned */
    float *floats;    /* [PANEL_ROWS][padded cols] */
    uint8_t *codes;   /* [PANEL_ROWS][padded cols] */
    uint16_t *scales; /* [PANEL_ROWS][groups], and as many minima */
    uint8_t *subs;    /* [PANEL_ROWS][groups], and as many sub-minima */
    uint8_t *stored;  /* [PANEL_ROWS] rows of the source's blocks */
} Worker;

/* ---- One panel ---- */

/* As the source's errors do, it names the source. */
static Status not_finite(const Conversion *c, const SourceTensor *t, size_t row, const char *what,
                         Error *error) {
    return error_set(error, "%s: tensor '%s': row %zu holds a %s that is not finite",
                     c->source->path, t->name, row, what);
}

static bool all_finite(const float *x, size_t n) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (float_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
    return !bad;
}

static bool halves_finite(const uint16_t *x, size_t n) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (x[i] & 0x7C00) == 0x7C00;
    return !bad;
}

/* Reads rows [first, first + PANEL_ROWS) as floats, padded with zeros to `padded` columns; rows
 * beyond the tensor are zero. */
static Status read_panel(const Conversion *c, const SourceTensor *t, size_t first, size_t padded,
                         float *x, Error *error) {
    size_t n = t->rows - first < PANEL_ROWS ? t->rows - first : PANEL_ROWS;
    if (source_read_floats(c->source, t, first, n, x, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < n; r++)
        if (!all_finite(x + r * t->cols, t->cols))
            return not_finite(c, t, first + r, "weight", error);
    for (size_t r = n; padded > t->cols && r-- > 0;) {
        memmove(x + r * padded, x + r * t->cols, t->cols * sizeof *x);
        memset(x + r * padded + t->cols, 0, (padded - t->cols) * sizeof *x);
    }
    memset(x + n * padded, 0, (PANEL_ROWS - n) * padded * sizeof *x);
    return STATUS_OK;
}

/* Notes which of a panel's weights, in w->floats, its type does not hold. */
static void note_saturated(Conversion *c, const SourceTensor *t, TensorType type, Worker *w,
                           const uint8_t *panel) {
    float largest = 0.0f, *row = w->floats + PANEL_ROWS * tensor_padded_cols(type, t->cols);
    size_t n = saturation_count(type, t->cols, w->floats, panel, row, &largest);
    if (n == 0) return;
#pragma omp critical(convert_saturated)
    {
        c->saturated[t - c->source->tensors] += n;
        if (largest > c->largest) c->largest = largest;
    }
}

/* Converts PANEL_ROWS rows from `first` on to a panel of a float type. */
static Status make_float_panel(Conversion *c, const SourceTensor *t, TensorType type, size_t first,
                               Worker *w, uint8_t *panel, Error *error) {
    if (read_panel(c, t, first, t->cols, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    note_saturated(c, t, type, w, panel);
    saturation_clamp(type, w->floats, PANEL_ROWS * t->cols);
    panel_pack_floats(type, t->cols, w->floats, panel);
    return STATUS_OK;
}

/* Quantizes PANEL_ROWS rows from `first` on to a type with one scale a group, and packs them as a
 * panel. importance[cols] weights the errors; NULL: all alike. */
static Status make_quantized_panel(Conversion *c, const SourceTensor *t, TensorType type,
                                   size_t first, const float *importance, Worker *w, uint8_t *panel,
                                   Error *error) {
    const TensorTypeInfo *info = tensor_type_info(type);
    size_t padded = tensor_padded_cols(type, t->cols), groups = padded / info->group;
    uint16_t *minima = info->has_min ? w->scales + PANEL_ROWS * groups : NULL;
    if (read_panel(c, t, first, padded, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < PANEL_ROWS; r++)
        quantize_row(type, padded, w->floats + r * padded, importance, w->codes + r * padded,
                     w->scales + r * groups, minima ? minima + r * groups : NULL);
    panel_pack_codes(type, t->cols, w->codes, w->scales, minima, panel);
    note_saturated(c, t, type, w, panel);
    return STATUS_OK;
}

/* The parts of row r of a type of records.h in the working memory. */
static RecordCodes record_row(const Worker *w, size_t padded, size_t groups, size_t r) {
    return (RecordCodes){w->codes + r * padded, w->scales + r * groups,
                         w->scales + (PANEL_ROWS + r) * groups, w->subs + r * groups,
                         w->subs + (PANEL_ROWS + r) * groups};
}

/* As make_quantized_panel, to a type of records.h: groups whose scales are quantized in turn. */
static Status make_record_panel(Conversion *c, const SourceTensor *t, TensorType type, size_t first,
                                const float *importance, Worker *w, uint8_t *panel, Error *error) {
    size_t padded = tensor_padded_cols(type, t->cols), groups = padded / type_group(type);
    if (read_panel(c, t, first, padded, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        RecordCodes row = record_row(w, padded, groups, r);
        quantize_records(type, padded, w->floats + r * padded, importance, &row);
    }
    RecordCodes all = record_row(w, padded, groups, 0);
    records_pack(type, t->cols, &all, panel);
    note_saturated(c, t, type, w, panel);
    return STATUS_OK;
}

/* Says why the scales of row r in the working memory are refused. Those of float32 may be finite
 * and still too large. */
static Status refuse_scales(const Conversion *c, const SourceTensor *t, TensorType type,
                            size_t first, size_t r, const RecordCodes *rows, Error *error) {
    size_t groups = t->cols / type_group(type);
    for (size_t i = r * groups; record_scale_is_float(type) && i < (r + 1) * groups; i++) {
        float scale = float_from_bits(rows->scales[i] | (uint32_t)rows->minima[i] << 16);
        if (isfinite(scale) && fabsf(scale) > RECORD_LARGEST_SCALE)
            return error_set(error,
                             "%s: tensor '%s': row %zu has the scale %g, and the largest that is "
                             "read is 2^96 (7.9e28)",
                             c->source->path, t->name, first + r, (double)scale);
    }
    return not_finite(c, t, first + r, "scale", error);
}

/* Packs the codes, scales and sub-scales of the source's blocks without rounding them again. */
static Status repack_records(const Conversion *c, const SourceTensor *t, TensorType type,
                             size_t first, Worker *w, uint8_t *panel, Error *error) {
    size_t n = t->rows - first < PANEL_ROWS ? t->rows - first : PANEL_ROWS, row_bytes;
    size_t groups = t->cols / type_group(type), all = PANEL_ROWS * groups;
    float scale = 1.0f;
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (t->blocks.present && source_read_scale(c->source, t, &scale, error) != STATUS_OK)
        return STATUS_FAILED;
    if (source_read_blocks(c->source, t, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    if (n < PANEL_ROWS) {
        memset(w->codes, 0, PANEL_ROWS * t->cols);
        memset(w->scales, 0, 2 * all * sizeof *w->scales);
        memset(w->subs, 0, 2 * all);
    }
    for (size_t r = 0; r < n; r++) {
        RecordCodes row = record_row(w, t->cols, groups, r);
        stored_to_records(t->stored, w->stored + r * row_bytes, t->cols, &row);
    }
    for (size_t i = 0; t->blocks.present && i < n * groups; i++) { /* NVFP4's factor */
        w->scales[i] = (uint16_t)float_bits(scale);
        w->scales[all + i] = (uint16_t)(float_bits(scale) >> 16);
    }
    RecordCodes rows = record_row(w, t->cols, groups, 0);
    records_pack(type, t->cols, &rows, panel);
    size_t bad = records_bad_row(type, t->cols, panel);
    return bad == PANEL_ROWS ? STATUS_OK : refuse_scales(c, t, type, first, bad, &rows, error);
}

/* Refuses infinities and NaN in a panel that was made of rows from `first` on. */
static Status check_panel(const Conversion *c, const SourceTensor *t, TensorType type, size_t first,
                          size_t panel_bytes, const uint8_t *panel, Error *error) {
    const Matrix w = {type, PANEL_ROWS, t->cols, panel_bytes, panel};
    size_t bad = panel_bad_row(&w, 0);
    return bad == PANEL_ROWS ? STATUS_OK : not_finite(c, t, first + bad, "weight", error);
}

/* Copies a panel of a model.bin whose type stays. */
static Status copy_panel(const Conversion *c, const SourceTensor *t, size_t first,
                         size_t panel_bytes, uint8_t *panel, Error *error) {
    uint64_t at = t->offset + (uint64_t)(first / PANEL_ROWS) * panel_bytes;
    if (input_read(&c->source->files[t->file], at, panel, panel_bytes, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_panel(c, t, t->panels, first, panel_bytes, panel, error);
}

/* Packs rows whose numbers are of the panel's type. */
static Status pack_numbers(const Conversion *c, const SourceTensor *t, TensorType type,
                           size_t first, size_t panel_bytes, Worker *w, uint8_t *panel,
                           Error *error) {
    size_t n = t->rows - first < PANEL_ROWS ? t->rows - first : PANEL_ROWS, row_bytes;
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (source_read_blocks(c->source, t, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    memset(w->stored + n * row_bytes, 0, (PANEL_ROWS - n) * row_bytes);
    panel_pack_numbers(type, t->cols, w->stored, panel);
    return check_panel(c, t, type, first, panel_bytes, panel, error);
}

/* Packs the codes and scales of the source's blocks without rounding them again. */
static Status repack_panel(const Conversion *c, const SourceTensor *t, TensorType type,
                           size_t first, Worker *w, uint8_t *panel, Error *error) {
    size_t n = t->rows - first < PANEL_ROWS ? t->rows - first : PANEL_ROWS, row_bytes;
    size_t groups = t->cols / 32, all = PANEL_ROWS * groups;
    uint16_t *minima = tensor_type_info(type)->has_min ? w->scales + all : NULL;
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (source_read_blocks(c->source, t, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    if (n < PANEL_ROWS) {
        memset(w->codes, tensor_type_info(type)->zero, PANEL_ROWS * t->cols);
        memset(w->scales, 0, 2 * all * sizeof *w->scales);
    }
    stored_to_codes(t->stored, w->stored, n * t->cols, w->codes, w->scales, minima);
    for (size_t r = 0; r < n; r++)
        if (!halves_finite(w->scales + r * groups, groups) ||
            (minima && !halves_finite(minima + r * groups, groups)))
            return not_finite(c, t, first + r, "scale", error);
    panel_pack_codes(type, t->cols, w->codes, w->scales, minima, panel);
    return STATUS_OK;
}

/* Adds the squares of a panel's weights and of their errors to the sums of an approximate type. */
static Status add_errors(Conversion *c, const SourceTensor *t, TensorType type, size_t first,
                         const uint8_t *panel, Worker *w, Error *error) {
    size_t n = t->rows - first < PANEL_ROWS ? t->rows - first : PANEL_ROWS;
    Matrix matrix = {.type = type, .rows = PANEL_ROWS, .cols = t->cols, .data = panel};
    float *row = w->floats + PANEL_ROWS * tensor_padded_cols(type, t->cols);
    double errors = 0.0, squares = 0.0;
    if (source_read_floats(c->source, t, first, n, w->floats, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t r = 0; r < n; r++) {
        matrix_row(&matrix, r, row);
        for (size_t k = 0; k < t->cols; k++) {
            double x = (double)w->floats[r * t->cols + k], d = x - (double)row[k];
            errors += d * d;
            squares += x * x;
        }
    }
#pragma omp critical(convert_errors)
    {
        c->errors[t->stored] += errors;
        c->squares[t->stored] += squares;
    }
    return STATUS_OK;
}

/* Whether the tensor's error is to be noted: only without --type, where each approximate type
 * becomes one of the runner's types. */
static bool is_approximated(const Conversion *c, const SourceTensor *t) {
    return (stored_type_info(t->stored)->approximate || t->blocks.present) && !c->options->type &&
           c->options->note && !t->is_vector;
}

static void note_errors(const Conversion *c) {
    for (StoredType type = STORED_F32; type < STORED_TYPES; type++) {
        const StoredTypeInfo *info = stored_type_info(type);
        bool used = false;
        for (size_t i = 0; i < c->source->n_tensors; i++)
            used |=
                c->source->tensors[i].stored == type && is_approximated(c, &c->source->tensors[i]);
        if (!used || !(c->errors[type] > 0.0)) continue;
        char line[160];
        double relative = c->squares[type] > 0.0 ? sqrt(c->errors[type] / c->squares[type]) : 0.0;
        snprintf(
            line, sizeof line,
            "%s has no equal here: converted to %s, which moved the weights by %.3g%% of their "
            "size (root mean square)",
            info->name, tensor_type_info(info->lossless)->name, 100.0 * relative);
        c->options->note(line, c->options->progress_context);
    }
}

/* Says that weights of a model.bin which were rounded before are rounded again, and which types
 * most of them have: the first tensor's, an embedding, is often another than the rest. */
static void note_second_rounding(const Conversion *c) {
    double weights[TENSOR_TYPES][TENSOR_TYPES] = {{0.0}}, most = 0.0;
    TensorType from = TENSOR_TYPES, to = TENSOR_TYPES;
    for (size_t i = 0; i < c->source->n_tensors; i++) {
        const SourceTensor *t = &c->source->tensors[i];
        TensorType type = (TensorType)c->layout->tensors[i].type;
        if (t->stored != STORED_PANELS || (t->panels == type && !t->sums) || t->shares) continue;
        if (!tensor_type_info(t->panels)->group || !tensor_type_info(type)->group) continue;
        weights[t->panels][type] += (double)t->rows * (double)t->cols;
        if (weights[t->panels][type] <= most) continue;
        most = weights[t->panels][type];
        from = t->panels;
        to = type;
    }
    if (from == TENSOR_TYPES) return;
    char line[200];
    snprintf(line, sizeof line,
             "weights of %s are rounded a second time, to %s: the result is less exact than from "
             "the original model",
             tensor_type_info(from)->name, tensor_type_info(to)->name);
    c->options->note(line, c->options->progress_context);
}

/* The tensor with most weights that its type does not hold, of those that are not taken[] yet. */
static size_t most_saturated(const Conversion *c, const size_t *taken, size_t n_taken) {
    size_t most = SIZE_MAX;
    for (size_t i = 0; i < c->source->n_tensors; i++) {
        bool is_taken = c->saturated[i] == 0;
        for (size_t k = 0; k < n_taken; k++) is_taken = is_taken || taken[k] == i;
        if (!is_taken && (most == SIZE_MAX || c->saturated[i] > c->saturated[most])) most = i;
    }
    return most;
}

/* Counts the weights that became smaller because their type holds none as large, and names the
 * tensors that have most of them. */
static void note_all_saturated(const Conversion *c) {
    enum { MOST_NAMES = 3 };
    size_t total = 0, tensors = 0, named[MOST_NAMES], n = 0, at;
    char line[600];
    for (size_t i = 0; i < c->source->n_tensors; i++) {
        total += c->saturated[i];
        tensors += c->saturated[i] > 0;
    }
    if (total == 0) return;
    size_t length = (size_t)snprintf(
        line, sizeof line,
        total == 1
            ? "%zu weight (%g) is beyond the range of its type and became smaller:"
            : "%zu weights (up to %g) are beyond the range of their type and became smaller:",
        total, (double)c->largest);
    while (n < MOST_NAMES && (at = most_saturated(c, named, n)) != SIZE_MAX) {
        length += (size_t)snprintf(line + length, sizeof line - length, "%s %zu in '%.60s' (%s)",
                                   n ? "," : "", c->saturated[at], c->source->tensors[at].name,
                                   tensor_type_info((TensorType)c->layout->tensors[at].type)->name);
        named[n++] = at;
    }
    if (tensors > n)
        snprintf(line + length, sizeof line - length, ", and in %zu more tensors", tensors - n);
    c->options->note(line, c->options->progress_context);
}

/* True when the target holds the source's own blocks. */
static bool same_blocks(const SourceTensor *t, TensorType type) {
    const StoredTypeInfo *info = stored_type_info(t->stored);
    return info->same_blocks && info->lossless == type && !t->sums && source_has_blocks(t) &&
           t->add == 0.0f && (!t->blocks.present || type == TENSOR_NVFP4_T);
}

/* True when the target holds the source's own numbers. */
static bool same_numbers(const SourceTensor *t, TensorType type) {
    return t->stored <= STORED_BF16 && stored_type_info(t->stored)->lossless == type &&
           t->cols % 2 == 0 && !t->values && !t->sums && source_has_blocks(t) && t->add == 0.0f &&
           !t->minus_exp && !t->blocks.present;
}

/* Converts one job, some panels of a matrix or rows of a vector, into w->target. */
static Status do_job(Conversion *c, const ConvertJob *job, Worker *w, Error *error) {
    const SourceTensor *t = &c->source->tensors[job->tensor];
    TensorType type = (TensorType)c->layout->tensors[job->tensor].type;
    Status status = STATUS_OK;
    memset(w->target + job->bytes, 0, round_up(job->bytes, MODELFILE_ALIGNMENT) - job->bytes);
    if (type == TENSOR_VECTOR) {
        float *out = (void *)w->target;
        status = source_read_floats(c->source, t, job->first, job->n, out, error);
        for (size_t r = 0; status == STATUS_OK && r < job->n; r++)
            if (!all_finite(out + r * t->cols, t->cols))
                status = not_finite(c, t, job->first + r, "value", error);
        return status;
    }
    const ConvertOptions *options = c->options;
    const float *importance =
        options->importance ? options->importance(job->tensor, options->importance_context) : NULL;
    size_t panel_bytes = job->bytes / job->n;
    for (size_t p = 0; status == STATUS_OK && p < job->n; p++) {
        size_t first = (job->first + p) * PANEL_ROWS;
        uint8_t *panel = w->target + p * panel_bytes;
        if (t->stored == STORED_PANELS && t->panels == type && !t->sums) {
            status = copy_panel(c, t, first, panel_bytes, panel, error);
        } else if (same_numbers(t, type)) {
            status = pack_numbers(c, t, type, first, panel_bytes, w, panel, error);
        } else if (same_blocks(t, type)) {
            status = is_record_type(type) ? repack_records(c, t, type, first, w, panel, error)
                                          : repack_panel(c, t, type, first, w, panel, error);
        } else if (is_record_type(type)) {
            status = make_record_panel(c, t, type, first, importance, w, panel, error);
        } else if (tensor_type_info(type)->group) {
            status = make_quantized_panel(c, t, type, first, importance, w, panel, error);
        } else {
            status = make_float_panel(c, t, type, first, w, panel, error);
        }
        if (status == STATUS_OK && is_approximated(c, t) && !same_blocks(t, type))
            status = add_errors(c, t, type, first, panel, w, error);
    }
    return status;
}

/* ---- All of them ---- */

/* Fills jobs[] with the tensor's jobs, panels (or rows) of about JOB_BYTES together, and returns
 * how many. With jobs NULL only counts. */
static size_t plan_tensor(const Conversion *c, size_t i, ConvertJob *jobs) {
    const FileTensor *t = &c->layout->tensors[i];
    if (c->source->tensors[i].shares) return 0;
    bool is_vector = t->type == TENSOR_VECTOR;
    size_t rows = c->source->tensors[i].rows;
    size_t units = is_vector ? rows : (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    size_t unit_bytes = (size_t)t->bytes / units;
    size_t most = unit_bytes < JOB_BYTES ? JOB_BYTES / unit_bytes : 1;
    /* Every job must begin at a multiple of 64 bytes, which is 16 floats of a vector. */
    if (is_vector) most = round_up(most, 16);
    size_t n = 0;
    for (size_t first = 0; first < units; first += most, n++) {
        size_t now = units - first < most ? units - first : most;
        if (jobs)
            jobs[n] = (ConvertJob){.tensor = i,
                                   .first = first,
                                   .n = now,
                                   .offset = t->offset + first * unit_bytes,
                                   .bytes = now * unit_bytes};
    }
    return n;
}

static size_t convert_larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Raises the required sizes of working memory to what the job needs. */
static void raise_sizes(Conversion *c, const ConvertJob *job) {
    const SourceTensor *t = &c->source->tensors[job->tensor];
    TensorType type = (TensorType)c->layout->tensors[job->tensor].type;
    size_t padded = tensor_padded_cols(type, t->cols), row_bytes = 0;
    c->target_bytes = convert_larger(c->target_bytes, round_up(job->bytes, MODELFILE_ALIGNMENT));
    if (type == TENSOR_VECTOR) return;
    if (same_blocks(t, type) || same_numbers(t, type)) {
        stored_bytes(t->stored, t->cols, &row_bytes);
        c->stored_bytes = convert_larger(c->stored_bytes, PANEL_ROWS * row_bytes);
    } else {
        c->floats = convert_larger(c->floats, (PANEL_ROWS + 1) * padded); /* note_saturated */
    }
    /* add_errors reads the rows, and one row of the panel. */
    if (is_approximated(c, t)) c->floats = convert_larger(c->floats, (PANEL_ROWS + 1) * padded);
    if (!tensor_type_info(type)->group) return;
    c->codes = convert_larger(c->codes, PANEL_ROWS * padded);
    c->groups = convert_larger(c->groups, PANEL_ROWS * padded / tensor_type_info(type)->group);
}

static Status plan(Conversion *c) {
    for (size_t i = 0; i < c->source->n_tensors; i++) c->n_jobs += plan_tensor(c, i, NULL);
    c->jobs = malloc((c->n_jobs + 1) * sizeof *c->jobs);
    if (!c->jobs) return error_set(c->error, "no memory for %zu jobs", c->n_jobs);
    size_t n = 0;
    for (size_t i = 0; i < c->source->n_tensors; i++) n += plan_tensor(c, i, c->jobs + n);
    for (size_t i = 0; i < c->n_jobs; i++) raise_sizes(c, &c->jobs[i]);
    return STATUS_OK;
}

static bool worker_new(const Conversion *c, Worker *w) {
    *w = (Worker){.target = aligned_alloc(64, round_up(c->target_bytes + 64, 64)),
                  .floats = malloc(c->floats * sizeof(float) + 64),
                  .codes = malloc(c->codes + 64),
                  .scales = malloc(2 * c->groups * sizeof(uint16_t) + 64),
                  .subs = malloc(2 * c->groups + 64),
                  .stored = malloc(c->stored_bytes + 64)};
    return w->target && w->floats && w->codes && w->scales && w->subs && w->stored;
}

static void worker_free(Worker *w) {
    free(w->target);
    free(w->floats);
    free(w->codes);
    free(w->scales);
    free(w->subs);
    free(w->stored);
}

/* Puts the target's name before an error of writing. */
static Status name_target(const Conversion *c, Error *error) {
    const char *target = c->options->target;
    return error_prefix(error, "%s", target ? target : c->source->path);
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
    for (size_t i; (i = atomic_fetch_add(&c->taken, 1)) < c->n_jobs;) {
        const ConvertJob *job = &c->jobs[i];
        Error error;
        if (options->cancel && *options->cancel) {
            error_set(&error, "interrupted");
            stop(c, i, STATUS_INTERRUPTED, &error);
        }
        bool going = i < atomic_load(&c->failed);
        if (going && do_job(c, job, w, &error) != STATUS_OK) {
            stop(c, i, STATUS_FAILED, &error);
            going = false;
        }
        size_t bytes = round_up(job->bytes, MODELFILE_ALIGNMENT);
        wait_for_turn(c, i);
        if (going) {
            XXH3_64bits_update(c->checksum, w->target, bytes);
            uint64_t start = c->layout->data_offset;
            if (options->progress)
                options->progress(CONVERT_WRITING, job->offset + bytes - start,
                                  c->layout->file_bytes - start, options->progress_context);
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
static Status check_model(Conversion *c, Layout *layout, Error *error) {
    const ModelOptions options = {.n_threads = 1, .max_rows = 1};
    ModelFile *file = NULL;
    Model *model = NULL;
    if (layout_write(layout, 0, c->fd, error) != STATUS_OK) return name_target(c, error);
    int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return error_set(error, "%s: %s", c->source->path, strerror(errno));
    Status status = modelfile_open(&file, c->source->path, fd, error);
    if (status == STATUS_OK) status = model_open(&model, file, &options, error);
    model_close(model);
    modelfile_close(file);
    return status;
}

Status convert_parsed(const Source *source, const ConvertOptions *options, int out_fd,
                      Error *error) {
    Layout layout;
    Conversion c = {
        .source = source, .layout = &layout, .options = options, .fd = out_fd, .error = error};
    atomic_init(&c.failed, SIZE_MAX);
    atomic_init(&c.taken, 0);
    pthread_mutex_init(&c.mutex, NULL);
    pthread_cond_init(&c.passed, NULL);
    Status status = layout_make(&layout, source, options->type, error);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    c.checksum = XXH3_createState();
    c.saturated = calloc(source->n_tensors + 1, sizeof *c.saturated);
    if (status == STATUS_OK && (!c.checksum || !c.saturated))
        status = error_set(error, "no memory");
    if (status == STATUS_OK) status = plan(&c);
    /* Finds out that the disk is too full before the work begins. */
    if (status == STATUS_OK && fallocate(out_fd, 0, 0, (off_t)layout.file_bytes) != 0 &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
        error_set(error, "cannot write %llu bytes: %s", (unsigned long long)layout.file_bytes,
                  strerror(errno));
        status = name_target(&c, error);
    }
    if (status == STATUS_OK && source->n_tensors > 0) status = check_model(&c, &layout, error);
    if (status == STATUS_OK) {
        XXH3_64bits_reset(c.checksum);
        run_workers(&c);
        status = c.status;
        if (status == STATUS_OK && options->note) note_errors(&c);
        if (status == STATUS_OK && options->note) note_second_rounding(&c);
        if (status == STATUS_OK && options->note) note_all_saturated(&c);
        for (size_t i = 0; status == STATUS_OK && options->note && i < source->n_notes; i++)
            options->note(source->notes[i], options->progress_context);
    }
    if (status == STATUS_OK) status = source_check_unchanged(source, error);
    if (status == STATUS_OK &&
        layout_write(&layout, XXH3_64bits_digest(c.checksum), out_fd, error) != STATUS_OK)
        status = name_target(&c, error);
    XXH3_freeState(c.checksum);
    pthread_cond_destroy(&c.passed);
    pthread_mutex_destroy(&c.mutex);
    free(c.jobs);
    free(c.saturated);
    layout_free(&layout);
    return status;
}

Status convert_description(const Source *source, const char *type, int out_fd, Error *error) {
    Layout layout;
    Status status = layout_make(&layout, source, type, error);
    if (status == STATUS_OK) status = layout_write(&layout, 0, out_fd, error);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    layout_free(&layout);
    return status;
}

Status convert_source(const char *path, const ConvertOptions *options, int out_fd, Error *error) {
    Source *source;
    if (source_open(&source, path, options->tokenizer, error) != STATUS_OK) return STATUS_FAILED;
    source->split_pattern = options->split_pattern;
    source->no_mtp = options->no_mtp;
    Status status = given_family_open(source, options->family, error);
    if (status == STATUS_OK && options->ready)
        status = options->ready(options->ready_context, error);
    if (status == STATUS_OK) status = source_parse(source, error);
    if (status == STATUS_OK) status = convert_parsed(source, options, out_fd, error);
    source_close(source);
    return status;
}
