#include "modes/proof/model_digest.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/config_fields.h"

typedef struct Work {
    const ModelFile *file;
    const ModelDigestOptions *options;
    TensorDigest *tensors; /* [n], sorted by name */
    size_t n;
    uint64_t done, total; /* bytes */
} Work;

/* ---- One tensor ---- */

/* Copies a row of a float type out of its panel, whose order of elements tensor.h describes;
 * returns the row's bytes. */
static size_t row_of_floats(const Matrix *w, size_t row, uint8_t *bytes) {
    const uint8_t *panel = matrix_panel(w, row / PANEL_ROWS);
    size_t r = row % PANEL_ROWS, width = w->type == TENSOR_F32 ? 4 : 2;
    for (size_t k = 0; k < w->cols; k++) {
        size_t at =
            type_is_bfloat(w->type) ? k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2 : PANEL_ROWS * k + r;
        memcpy(bytes + k * width, panel + at * width, width);
    }
    return w->cols * width;
}

/* Writes a row's values into bytes and returns how many. */
static size_t row_bytes(const Matrix *w, size_t row, uint8_t *bytes) {
    size_t group = weight_types[w->type].group, length = 0;
    if (group == 0) return row_of_floats(w, row, bytes);
    for (size_t first = 0; first < w->cols; first += group) {
        WeightGroup g;
        matrix_group(w, row, first / group, &g);
        memcpy(bytes + length, &g.scale, sizeof g.scale);
        length += sizeof g.scale;
        if (type_has_minima(w->type)) {
            memcpy(bytes + length, &g.minimum, sizeof g.minimum);
            length += sizeof g.minimum;
        }
        for (size_t i = 0; i < group && first + i < w->cols; i++)
            bytes[length++] = (uint8_t)g.codes[i];
    }
    return length;
}

/* Bytes that no row of the matrix exceeds. */
static size_t most_row_bytes(const Matrix *w) {
    return 4 * w->cols + 2 * sizeof(float) * (w->cols / 16 + 1);
}

static bool is_stopped(const Work *work) {
    return work->options->interrupted && *work->options->interrupted;
}

/* False: no memory. */
static bool digest_tensor(const Work *work, TensorDigest *out) {
    const FileTensor *tensor = out->tensor;
    Sha256 hash;
    uint8_t digest[SHA256_BYTES], *bytes = NULL;
    sha256_init(&hash);
    if (tensor->type == TENSOR_VECTOR)
        sha256_add(&hash, modelfile_data(work->file, tensor),
                   (size_t)(tensor->rows * tensor->cols) * sizeof(float));
    for (size_t i = 0; tensor->type != TENSOR_VECTOR && i < tensor->count; i++) {
        Matrix w = modelfile_matrix(work->file, tensor, i);
        if (!bytes && !(bytes = malloc(most_row_bytes(&w)))) return false;
        for (size_t row = 0; row < w.rows && !is_stopped(work); row++)
            sha256_add(&hash, bytes, row_bytes(&w, row, bytes));
    }
    free(bytes);
    sha256_end(&hash, digest);
    sha256_hex(digest, out->sha256);
    return true;
}

/* ---- All of them ---- */

static int by_name(const void *a, const void *b) {
    const TensorDigest *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static void digest_advance(Work *work, uint64_t bytes) {
    work->done += bytes;
    if (work->options->progress)
        work->options->progress(work->done, work->total, work->options->context);
}

static bool digest_all(Work *work) {
    atomic_bool failed;
    int n_threads = work->options->n_threads;
    atomic_init(&failed, false);
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
    for (size_t i = 0; i < work->n; i++) {
        if (is_stopped(work)) continue;
        if (!digest_tensor(work, &work->tensors[i])) atomic_store(&failed, true);
#pragma omp critical(model_digest_progress)
        digest_advance(work, work->tensors[i].tensor->bytes);
    }
    return !atomic_load(&failed);
}

/* What the lines call a type: some are called what computes the same bits with the same codes, as
 * these GGUF's types were kept before, so that receipts of then replay. */
static const char *digest_type_name(uint32_t type) {
    static const uint8_t before[TENSOR_TYPES] = {
        [TENSOR_Q5_0] = TENSOR_Q8,      [TENSOR_Q5_1] = TENSOR_Q8_MIN,
        [TENSOR_IQ2_XXS] = TENSOR_IQ2,  [TENSOR_IQ2_XS] = TENSOR_IQ2,
        [TENSOR_IQ2_S] = TENSOR_IQ2,    [TENSOR_IQ1_S] = TENSOR_IQ1,
        [TENSOR_IQ1_M] = TENSOR_IQ1,    [TENSOR_IQ3_XXS_G] = TENSOR_IQ3_XXS,
        [TENSOR_IQ3_S_G] = TENSOR_IQ3_S};
    return tensor_type_info(before[type] ? before[type] : type)->name;
}

/* Writes the SHA-256 of all weights: that of a text with one line for each tensor, which has its
 * name, type, shape and own SHA-256. False: no memory. */
static bool digest_join(const Work *work, char weights[SHA256_HEX]) {
    TextBuffer lines = {0};
    for (size_t i = 0; i < work->n; i++) {
        const FileTensor *t = work->tensors[i].tensor;
        char line[MODELFILE_NAME_BYTES + SHA256_HEX + 128];
        int n = snprintf(line, sizeof line, "%s %s %" PRIu32 " %" PRIu64 " %" PRIu64 " %s\n",
                         t->name, digest_type_name(t->type), t->count, t->rows, t->cols,
                         work->tensors[i].sha256);
        text_put(&lines, line, (size_t)n, 0);
    }
    sha256_text(lines.bytes ? lines.bytes : "", lines.length, weights);
    bool fits = !lines.failed;
    text_free(&lines);
    return fits;
}

Status model_digest_weights(const ModelFile *file, const ModelDigestOptions *options,
                            char weights[SHA256_HEX], TensorDigest **tensors, Error *error) {
    Work work = {.file = file, .options = options, .n = modelfile_n_tensors(file)};
    work.tensors = calloc(work.n + 1, sizeof *work.tensors);
    *tensors = work.tensors;
    for (size_t i = 0; work.tensors && i < work.n; i++) {
        work.tensors[i].tensor = modelfile_tensor(file, i);
        work.total += work.tensors[i].tensor->bytes;
    }
    if (work.tensors && work.n > 0) qsort(work.tensors, work.n, sizeof *work.tensors, by_name);
    bool fits = work.tensors && digest_all(&work), stopped = fits && is_stopped(&work);
    fits = fits && (stopped || digest_join(&work, weights));
    if (fits && !stopped) return STATUS_OK;
    free(work.tensors);
    *tensors = NULL;
    return stopped ? STATUS_INTERRUPTED : error_set(error, "no memory for a model's digest");
}

/* ---- The configuration ---- */

static void put_number(TextBuffer *text, double number) {
    char digits[32];
    text_put(text, digits, (size_t)snprintf(digits, sizeof digits, "%.9g,", number), 0);
}

/* Writes a field's value: numbers, each with a comma, or a name. */
static void put_field(TextBuffer *text, const Config *config, const ConfigField *field) {
    const void *value = (const char *)config + field->offset;
    size_t n = field->kind == FIELD_PER_LAYER ? config->n_layers : 0;
    const char *word = NULL;
    switch (field->kind) {
    case FIELD_UINT:
        put_number(text, *(const uint32_t *)value);
        break;
    case FIELD_INT:
        put_number(text, *(const int32_t *)value);
        break;
    case FIELD_FLOAT:
        put_number(text, (double)*(const float *)value);
        break;
    case FIELD_BOOL:
        put_number(text, *(const bool *)value);
        break;
    case FIELD_ENUM:
        word = field->names[*(const unsigned *)value];
        break;
    case FIELD_TEXT:
        word = value;
        break;
    case FIELD_LIST:
        n = *(const uint32_t *)((const char *)config + field->count_offset);
        break;
    case FIELD_PER_LAYER:
        break;
    }
    for (size_t i = 0; i < n; i++) put_number(text, ((const uint32_t *)value)[i]);
    if (word) text_put(text, word, strlen(word), 0);
}

static bool is_left_out(const char *name) {
    static const char *const names[] = {"name", "family", "context"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

Status model_digest_config(const Config *config, char digest[SHA256_HEX], Error *error) {
    TextBuffer lines = {0};
    Config usual = config_default();
    const ConfigField *field;
    usual.n_layers = config->n_layers;
    for (size_t i = 0; (field = config_field(i)); i++) {
        TextBuffer value = {0}, other = {0};
        put_field(&value, config, field);
        put_field(&other, &usual, field);
        bool same = value.length == other.length &&
                    (value.length == 0 || memcmp(value.bytes, other.bytes, value.length) == 0);
        if (!same && !is_left_out(field->name)) {
            text_put(&lines, field->name, strlen(field->name), 0);
            text_put(&lines, "=", 1, 0);
            text_put(&lines, value.bytes ? value.bytes : "", value.length, 0);
            text_put(&lines, "\n", 1, 0);
        }
        lines.failed = lines.failed || value.failed || other.failed;
        text_free(&value);
        text_free(&other);
    }
    sha256_text(lines.bytes ? lines.bytes : "", lines.length, digest);
    bool failed = lines.failed;
    text_free(&lines);
    return failed ? error_set(error, "no memory for a model's digest") : STATUS_OK;
}
