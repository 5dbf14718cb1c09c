#include "convert/gguf_write.h"

#include <errno.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/machine.h"
#include "convert/plan.h"
#include "formats/containers/gguf.h"
#include "formats/containers/source_place.h"
#include "formats/stored/stored_write.h"

enum { GGUF_VERSION = 3, GGUF_ALIGNMENT = 32, CHUNK_BYTES = 1 << 20 };

#define KEY_TABLE METADATA_TYPE_TABLE
#define KEY_VERSION "general.quantization_version"
/* ggml's version of the layouts of blocks. */
enum { QUANTIZATION_VERSION = 2 };

/* A tensor of ours by where it begins in the source's files. */
typedef struct Place {
    size_t file;
    uint64_t offset;
    size_t tensor; /* in Source.tensors */
} Place;

/* Where a row of the file comes from: one of our tensors, and a row of it. */
typedef struct RowOrigin {
    size_t tensor; /* SIZE_MAX: of none */
    size_t row;
} RowOrigin;

/* A tensor of the file that is written. */
typedef struct Item {
    const RawTensor *raw;
    StoredType type;
    bool copied; /* the source's bytes */
    size_t first_place, n_places;
    uint64_t offset; /* from the beginning of the data */
    uint64_t bytes;
} Item;

typedef struct GgufWriter {
    const Source *source;
    const FileTensor *types; /* of our tensors, in the source's order */
    Gguf gguf;               /* of the first file */
    RawTable table;          /* in the order of the files */
    Place *places;           /* [source->n_tensors] at most, sorted */
    size_t n_places;
    Item *items; /* [table.n] */
    uint64_t alignment, data_bytes;
    Error *error;
} GgufWriter;

bool gguf_write_asked(const char *target) {
    const char *ending = strrchr(target, '.');
    return ending && strcasecmp(ending, ".gguf") == 0;
}

bool gguf_write_holds(TensorType type, size_t cols) {
    StoredType stored = stored_write_type(type);
    size_t bytes;
    return stored != STORED_TYPES && stored_bytes(stored, cols, &bytes);
}

/* ---- The source's tensors ---- */

static Status read_source(GgufWriter *w) {
    for (size_t i = 0; i < w->source->n_files; i++) {
        Gguf part;
        Status status = gguf_read(&part, &w->source->files[i], i, &w->table, w->error);
        if (i == 0) {
            w->gguf = part;
        } else {
            gguf_free(&part);
        }
        if (status != STATUS_OK) return status;
    }
    w->alignment = GGUF_ALIGNMENT;
    gguf_uint(&w->gguf, "general.alignment", UINT64_MAX, &w->alignment);
    w->items = calloc(w->table.n + 1, sizeof *w->items);
    w->places = calloc(w->source->n_tensors + 1, sizeof *w->places);
    return w->items && w->places ? STATUS_OK : error_set(w->error, "no memory");
}

static int compare_places(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static void list_places(GgufWriter *w) {
    for (size_t i = 0; i < w->source->n_tensors; i++) {
        const SourceTensor *t = &w->source->tensors[i];
        if (!t->shares && !t->values) w->places[w->n_places++] = (Place){t->file, t->offset, i};
    }
    qsort(w->places, w->n_places, sizeof *w->places, compare_places);
}

/* Finds the places inside the item's tensor. */
static void find_places(const GgufWriter *w, Item *item) {
    const Place from = {item->raw->file, item->raw->offset, 0};
    size_t low = 0, high = w->n_places;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_places(&w->places[middle], &from) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    item->first_place = low;
    while (low < w->n_places && w->places[low].file == item->raw->file &&
           w->places[low].offset - item->raw->offset < item->raw->bytes)
        low++;
    item->n_places = low - item->first_place;
}

/* Whether the model's tensor has the values that are stored. */
static bool is_unchanged(const SourceTensor *t, TensorType type) {
    const StoredTypeInfo *info = stored_type_info(t->stored);
    return !t->sums &&
           (t->is_vector || (info->lossless == type && (info->same_blocks || !info->approximate)));
}

/* ---- Which row of ours is which of the file ---- */

static Status refuse(const GgufWriter *w, const Item *item, const char *why) {
    return error_set(w->error, "cannot write '%.100s' as GGUF: %s", item->raw->name, why);
}

/* The stored tensor's shape as rows of its innermost dimension, and the bytes of a row. */
static bool shape_of(const RawTensor *raw, size_t *rows, size_t *cols, size_t *row_bytes) {
    if (raw->n_dims == 0) return false;
    size_t n = 1;
    for (uint32_t i = 0; i + 1 < raw->n_dims; i++)
        if (raw->dims[i] > SIZE_MAX || !size_mul(n, (size_t)raw->dims[i], &n)) return false;
    *rows = n;
    *cols = (size_t)raw->dims[raw->n_dims - 1];
    /* With no empty row there are no more rows than bytes. */
    return *cols > 0 && n > 0 && stored_file_bytes(raw->type, *cols, *cols, row_bytes) &&
           *row_bytes > 0 && raw->bytes / *row_bytes == n;
}

/* Whether the rows of `t` are whole rows of the stored tensor with no other values. */
static bool has_plain_rows(const SourceTensor *t, const RawTensor *raw, size_t cols) {
    return t->stored == raw->type && !t->is_vector && t->cols == cols && t->stored_cols == cols &&
           !t->transposed && !t->scales.present && !t->blocks.present && t->ternary_scale == 0.0f &&
           t->add == 0.0f && !t->minus_exp && !t->row_scales && t->columns.groups == 0;
}

/* Refuses a tensor whose first part gets another type than this one. */
static Status refuse_types(const GgufWriter *w, const Item *item, const Place *place) {
    const Place *first = &w->places[item->first_place];
    return error_set(
        w->error,
        "cannot write '%.100s' as GGUF: its parts must have one type, but '%.60s' becomes %s and "
        "'%.60s' %s; choose the same for both (--keep)",
        item->raw->name, w->source->tensors[first->tensor].name,
        tensor_type_info(w->types[first->tensor].type)->name,
        w->source->tensors[place->tensor].name,
        tensor_type_info(w->types[place->tensor].type)->name);
}

/* Fills origins[rows] and the item's type. */
static Status map_rows(const GgufWriter *w, Item *item, RowOrigin *origins, size_t rows,
                       size_t cols, size_t row_bytes) {
    const RawTensor *raw = item->raw;
    for (size_t r = 0; r < rows; r++) origins[r].tensor = SIZE_MAX;
    item->type = STORED_TYPES;
    for (size_t k = 0; k < item->n_places; k++) {
        const Place *place = &w->places[item->first_place + k];
        const SourceTensor *t = &w->source->tensors[place->tensor];
        uint64_t before = place->offset - raw->offset;
        StoredType type = stored_write_type((TensorType)w->types[place->tensor].type);
        if (!has_plain_rows(t, raw, cols) || before % row_bytes != 0)
            return refuse(w, item, "its values are stored in another form than they are used in");
        if (type == STORED_TYPES)
            return error_set(w->error, "cannot write '%.100s' as GGUF: it has no blocks for %s",
                             raw->name, tensor_type_info(w->types[place->tensor].type)->name);
        if (item->type != STORED_TYPES && item->type != type) return refuse_types(w, item, place);
        item->type = type;
        for (size_t r = 0; r < t->rows; r++) {
            size_t at = (size_t)(before / row_bytes) + source_stored_row(t, r);
            if (at >= rows) return refuse(w, item, "its parts reach beyond it");
            origins[at] = (RowOrigin){place->tensor, r};
        }
    }
    for (size_t r = 0; r < rows; r++)
        if (origins[r].tensor == SIZE_MAX) return refuse(w, item, "not all of its rows are used");
    return STATUS_OK;
}

static RowOrigin *new_origins(const GgufWriter *w, Item *item, size_t *rows, size_t *cols) {
    size_t row_bytes;
    if (!shape_of(item->raw, rows, cols, &row_bytes)) {
        refuse(w, item, "its shape is not known");
        return NULL;
    }
    RowOrigin *origins = calloc(*rows, sizeof *origins);
    if (!origins) error_set(w->error, "no memory");
    if (origins && map_rows(w, item, origins, *rows, *cols, row_bytes) != STATUS_OK) {
        free(origins);
        return NULL;
    }
    return origins;
}

/* ---- The plan ---- */

/* Decides for a tensor of the file whether it is copied, and else its type and size; refuses one
 * whose rows are no whole blocks. */
static Status plan_item(const GgufWriter *w, Item *item) {
    const RawTensor *raw = item->raw;
    if (raw->type == STORED_TYPES && raw->bytes == 0)
        return error_set(w->error, "cannot write '%.100s' as GGUF: its type %s is not known here",
                         raw->name, raw->type_name);
    if (raw->type == STORED_TYPES) { /* whole numbers */
        item->copied = true;
        item->type = raw->type;
        item->bytes = raw->bytes;
        return STATUS_OK;
    }
    find_places(w, item);
    item->copied = true;
    for (size_t k = 0; k < item->n_places; k++) {
        size_t i = w->places[item->first_place + k].tensor;
        item->copied &= is_unchanged(&w->source->tensors[i], (TensorType)w->types[i].type);
    }
    item->type = raw->type;
    item->bytes = raw->bytes;
    if (item->copied) return STATUS_OK;
    size_t rows, cols, row_bytes, bytes;
    RowOrigin *origins = new_origins(w, item, &rows, &cols);
    if (!origins) return STATUS_FAILED;
    free(origins);
    const StoredTypeInfo *info = stored_type_info(item->type);
    if (!stored_bytes(item->type, cols, &row_bytes))
        return error_set(w->error,
                         "cannot write '%.100s' as GGUF: rows of %zu inputs are not whole blocks "
                         "of %s, %u each; choose another type for it (--keep)",
                         raw->name, cols, info->name, info->block);
    if (!size_mul(rows, row_bytes, &bytes)) return refuse(w, item, "it is too large");
    item->bytes = bytes;
    return STATUS_OK;
}

static Status plan(GgufWriter *w) {
    uint64_t at = 0;
    list_places(w);
    for (size_t i = 0; i < w->table.n; i++) {
        Item *item = &w->items[i];
        item->raw = &w->table.items[i];
        if (plan_item(w, item) != STATUS_OK) return STATUS_FAILED;
        item->offset = at;
        if (__builtin_add_overflow(at, item->bytes, &at) || at > (uint64_t)INT64_MAX / 2)
            return refuse(w, item, "the file is too large");
        at = round_up(at, w->alignment);
    }
    w->data_bytes = at;
    return STATUS_OK;
}

/* ---- The header ---- */

static void put_u32(FILE *f, uint32_t value) {
    fwrite(&value, sizeof value, 1, f);
}

static void put_u64(FILE *f, uint64_t value) {
    fwrite(&value, sizeof value, 1, f);
}

static void put_text(FILE *f, const char *text, size_t n) {
    put_u64(f, n);
    fwrite(text, 1, n, f);
}

/* Whether a key tells of the source's types or parts, which are not the target's. */
static bool is_dropped(TokenizerString key) {
    static const char *const names[] = {"general.file_type", KEY_VERSION, KEY_TABLE};
    static const char *const beginnings[] = {"split.", "quantize."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tokenizer_string_is(key, names[i])) return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        size_t n = strlen(beginnings[i]);
        if (key.length >= n && memcmp(key.bytes, beginnings[i], n) == 0) return true;
    }
    return false;
}

/* Writes the source's metadata, with what other types change of them. */
static void put_pairs(const GgufWriter *w, const ModelFile *model, FILE *f) {
    const char *table = NULL;
    size_t bytes = 0;
    uint64_t n = 1;
    bool has_table = modelfile_meta_text(model, KEY_TABLE, &table, &bytes);
    for (size_t i = 0; i < w->gguf.n_values; i++) n += !is_dropped(w->gguf.values[i].key);
    put_u64(f, n + has_table);
    for (size_t i = 0; i < w->gguf.n_values; i++) {
        const GgufValue *value = &w->gguf.values[i];
        if (!is_dropped(value->key))
            fwrite(value->start, 1, (size_t)(value->end - value->start), f);
    }
    put_text(f, KEY_VERSION, strlen(KEY_VERSION));
    put_u32(f, GGUF_UINT32);
    put_u32(f, QUANTIZATION_VERSION);
    if (!has_table) return;
    put_text(f, KEY_TABLE, strlen(KEY_TABLE));
    put_u32(f, GGUF_STRING);
    put_text(f, table, bytes);
}

static void put_item(const Item *item, FILE *f) {
    uint32_t type = 0;
    if (item->type == STORED_TYPES) {
        gguf_type_named(item->raw->type_name, &type);
    } else {
        gguf_type_number(item->type, &type);
    }
    put_text(f, item->raw->name, strlen(item->raw->name));
    put_u32(f, item->raw->n_dims);
    for (uint32_t i = item->raw->n_dims; i-- > 0;) put_u64(f, item->raw->dims[i]);
    put_u32(f, type);
    put_u64(f, item->offset);
}

/* Writes all that stands before the data; *bytes becomes its length. */
static Status write_header(const GgufWriter *w, const ModelFile *model, int fd, uint64_t *bytes) {
    char *header = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&header, &n);
    if (!f) return error_set(w->error, "no memory");
    fwrite("GGUF", 1, 4, f);
    put_u32(f, GGUF_VERSION);
    put_u64(f, w->table.n);
    put_pairs(w, model, f);
    for (size_t i = 0; i < w->table.n; i++) put_item(&w->items[i], f);
    bool failed = ferror(f) != 0;
    Status status =
        fclose(f) != 0 || failed || !header ? error_set(w->error, "no memory") : STATUS_OK;
    if (status == STATUS_OK) status = layout_write_at(fd, header, n, 0, w->error);
    *bytes = round_up(n, w->alignment);
    free(header);
    return status;
}

/* ---- The data ---- */

static Status copy_item(const GgufWriter *w, const Item *item, uint8_t *buffer, int fd,
                        uint64_t at) {
    const InputFile *file = &w->source->files[item->raw->file];
    for (uint64_t done = 0; done < item->bytes;) {
        uint64_t left = item->bytes - done;
        size_t now = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        if (input_read(file, item->raw->offset + done, buffer, now, w->error) != STATUS_OK ||
            layout_write_at(fd, buffer, now, at + done, w->error) != STATUS_OK)
            return STATUS_FAILED;
        done += now;
    }
    return STATUS_OK;
}

/* Writes n rows to `rows`, each of row_bytes; returns the first whose values a block cannot hold,
 * n when there is none. scratch[n_threads][2 * cols]. */
static size_t write_rows(const ModelFile *model, const Item *item, const RowOrigin *origins,
                         size_t n, size_t cols, size_t row_bytes, int n_threads, float *scratch,
                         uint8_t *rows) {
    size_t bad = n;
#pragma omp parallel for num_threads(n_threads) reduction(min : bad)
    for (size_t r = 0; r < n; r++) {
        const Matrix m = modelfile_matrix(model, modelfile_tensor(model, origins[r].tensor), 0);
        float *own = scratch + (size_t)omp_get_thread_num() * 2 * cols;
        if (!stored_write_row(item->type, &m, origins[r].row, own, rows + r * row_bytes) && r < bad)
            bad = r;
    }
    return bad;
}

/* Writes a tensor's rows in blocks of its type, a MiB at a time, from the model's matrices. */
static Status convert_item(const GgufWriter *w, Item *item, const ModelFile *model,
                           const ConvertOptions *options, int fd, uint64_t at) {
    int n_threads = options->n_threads > 0 ? options->n_threads : machine_cores();
    size_t rows, cols, row_bytes;
    RowOrigin *origins = new_origins(w, item, &rows, &cols);
    if (!origins) return STATUS_FAILED;
    stored_bytes(item->type, cols, &row_bytes);
    size_t most = CHUNK_BYTES / row_bytes + (size_t)n_threads;
    if (most > rows) most = rows;
    float *scratch = calloc((size_t)n_threads * 2 * cols, sizeof *scratch);
    uint8_t *buffer = calloc(most, row_bytes);
    Status status = scratch && buffer ? STATUS_OK : error_set(w->error, "no memory");
    for (size_t r = 0; status == STATUS_OK && r < rows; r += most) {
        size_t n = rows - r < most ? rows - r : most;
        size_t bad =
            write_rows(model, item, origins + r, n, cols, row_bytes, n_threads, scratch, buffer);
        if (options->cancel && *options->cancel) {
            error_set(w->error, "interrupted");
            status = STATUS_INTERRUPTED;
        } else if (bad < n) {
            status = error_set(w->error,
                               "cannot write '%.100s' as GGUF: row %zu of '%s' has values that "
                               "blocks of %s do not hold; choose another type for it (--keep)",
                               item->raw->name, origins[r + bad].row,
                               w->source->tensors[origins[r + bad].tensor].name,
                               stored_type_info(item->type)->name);
        } else {
            status = layout_write_at(fd, buffer, n * row_bytes, at + r * row_bytes, w->error);
        }
    }
    free(origins);
    free(scratch);
    free(buffer);
    return status;
}

static Status write_data(const GgufWriter *w, const ModelFile *model, const ConvertOptions *options,
                         int fd, uint64_t start) {
    uint8_t *buffer = malloc(CHUNK_BYTES);
    Status status = buffer ? STATUS_OK : error_set(w->error, "no memory");
    for (size_t i = 0; status == STATUS_OK && i < w->table.n; i++) {
        Item *item = &w->items[i];
        if (options->cancel && *options->cancel) {
            error_set(w->error, "interrupted");
            status = STATUS_INTERRUPTED;
            break;
        }
        status = item->copied ? copy_item(w, item, buffer, fd, start + item->offset)
                              : convert_item(w, item, model, options, fd, start + item->offset);
    }
    free(buffer);
    if (status == STATUS_OK && ftruncate(fd, (off_t)(start + w->data_bytes)) != 0)
        status = error_set(w->error, "cannot write: %s", strerror(errno));
    return status;
}

/* ---- All of it ---- */

static Status writer_open(GgufWriter *w, const ConvertPlan *types, Error *error) {
    *w = (GgufWriter){.source = types->source, .types = types->layout.tensors, .error = error};
    Status status = read_source(w);
    return status == STATUS_OK ? plan(w) : status;
}

static void writer_close(GgufWriter *w) {
    gguf_free(&w->gguf);
    raw_table_free(&w->table);
    free(w->places);
    free(w->items);
}

Status gguf_write_check(const Source *source, const char *type, Error *error) {
    ConvertPlan types;
    GgufWriter w = {0};
    Status status = convert_plan_make(&types, source, type, error);
    if (status == STATUS_OK) status = writer_open(&w, &types, error);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    writer_close(&w);
    convert_plan_free(&types);
    return status;
}

Status gguf_write(const Source *source, const ModelFile *model, const ConvertOptions *options,
                  int fd, uint64_t *bytes, Error *error) {
    ConvertPlan types;
    GgufWriter w = {0};
    uint64_t start = 0;
    Status status = convert_plan_make(&types, source, options->type, error);
    if (status == STATUS_OK) status = writer_open(&w, &types, error);
    if (status == STATUS_OK) status = write_header(&w, model, fd, &start);
    if (status == STATUS_OK) status = write_data(&w, model, options, fd, start);
    if (status != STATUS_OK) error_prefix(error, "%s", source->path);
    *bytes = start + w.data_bytes;
    writer_close(&w);
    convert_plan_free(&types);
    return status;
}
