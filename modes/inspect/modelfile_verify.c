#include "modes/inspect/modelfile_verify.h"

#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/panel_pack.h"

enum { CHUNK_BYTES = 8 << 20 };

typedef struct Progress {
    void (*report)(size_t done, size_t total, void *context);
    void *context;
    size_t done, total;
} Progress;

static void verify_advance(Progress *progress, size_t bytes) {
    progress->done += bytes;
    if (progress->report) progress->report(progress->done, progress->total, progress->context);
}

static Status check_section(const ModelFile *file, const FileSection *section, XXH3_state_t *state,
                            Progress *progress, Error *error) {
    size_t bytes;
    const uint8_t *data = modelfile_section(file, (SectionKind)section->kind, &bytes);
    XXH3_64bits_reset(state);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        size_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        XXH3_64bits_update(state, data + at, n);
        verify_advance(progress, n);
    }
    if (XXH3_64bits_digest(state) == section->checksum) return STATUS_OK;
    return error_set(error, "%s: damaged: the checksum of section '%s' is wrong",
                     modelfile_path(file), modelfile_section_name(section->kind));
}

/* Index of the first of n floats that is infinite or NaN; n when there is none. */
static size_t first_bad_32(const uint32_t *x, size_t n) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (x[i] & 0x7F800000u) == 0x7F800000u;
    if (!bad) return n;
    for (size_t i = 0;; i++)
        if ((x[i] & 0x7F800000u) == 0x7F800000u) return i;
}

/* Fails with the first row of a matrix that holds a weight that is not finite, or smaller than its
 * type can be. The threads keep the lowest row, so that the error is the same with any number of
 * them. */
static Status scan_matrix(const ModelFile *file, const FileTensor *tensor, size_t index,
                          Error *error) {
    Matrix w = modelfile_matrix(file, tensor, index);
    size_t panels = matrix_panels(&w);
    atomic_size_t bad;
    atomic_init(&bad, SIZE_MAX);
#pragma omp parallel for schedule(dynamic, 16)
    for (size_t p = 0; p < panels; p++) {
        size_t row = panel_bad_row(&w, p), low = panel_low_row(&w, p);
        if (low < row) row = low;
        if (row == PANEL_ROWS) continue;
        row += p * PANEL_ROWS;
        size_t seen = atomic_load(&bad);
        while (row < seen && !atomic_compare_exchange_weak(&bad, &seen, row)) {
        }
    }
    size_t row = atomic_load(&bad);
    if (row == SIZE_MAX) return STATUS_OK;
    bool is_low = panel_bad_row(&w, row / PANEL_ROWS) != row % PANEL_ROWS;
    return error_set(error, "%s: tensor '%s': row %zu holds a weight that is %s",
                     modelfile_path(file), tensor->name, index * w.rows + row,
                     is_low ? "below 2^-40, which this type never has" : "not finite");
}

static Status scan_tensor(const ModelFile *file, const FileTensor *tensor, Error *error) {
    if (tensor->type == TENSOR_VECTOR) {
        size_t n = (size_t)(tensor->rows * tensor->cols);
        size_t bad = first_bad_32(modelfile_data(file, tensor), n);
        if (bad == n) return STATUS_OK;
        return error_set(error, "%s: tensor '%s': element %zu is not finite", modelfile_path(file),
                         tensor->name, bad);
    }
    for (size_t i = 0; i < tensor->count; i++)
        if (scan_matrix(file, tensor, i, error) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

Status modelfile_verify(const ModelFile *file,
                        void (*progress)(size_t done, size_t total, void *context), void *context,
                        Error *error) {
    Progress p = {.report = progress, .context = context};
    const FileHeader *header = modelfile_header(file);
    const FileSection *sections = (const FileSection *)(header + 1);
    for (size_t i = 0; i < header->n_sections; i++) p.total += (size_t)sections[i].bytes;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++)
        p.total += (size_t)modelfile_tensor(file, i)->bytes;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return error_set(error, "%s: no memory", modelfile_path(file));
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < header->n_sections; i++)
        status = check_section(file, &sections[i], state, &p, error);
    XXH3_freeState(state);
    for (size_t i = 0; status == STATUS_OK && i < modelfile_n_tensors(file); i++) {
        status = scan_tensor(file, modelfile_tensor(file, i), error);
        verify_advance(&p, (size_t)modelfile_tensor(file, i)->bytes);
    }
    return status;
}
