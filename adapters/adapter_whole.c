#include "adapters/adapter_whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapter_names.h"
#include "base/numbers.h"
#include "formats/containers/source_floats.h"
#include "formats/containers/source_place.h"
#include "kernels/panel_pack.h"

static const char only_equal[] =
    "whole tensors in an adapter are known to this program only where they equal the base's";

/* ---- Names ---- */

/* The name that the family's rules give to the base's tensor that an adapter calls `name`;
 * malloc'ed; NULL: no memory. */
static char *whole_name(const Family *family, const char *name) {
    static const char base[] = "base_model.model.", wrapped[] = ".base_layer";
    const char *end = ends_with(name, ".bias") ? ".bias" : ".weight";
    if (strncmp(name, base, sizeof base - 1) == 0) name += sizeof base - 1;
    char *module = strndup(name, strlen(name) - strlen(end));
    if (!module) return NULL;
    if (ends_with(module, wrapped)) module[strlen(module) - strlen(wrapped)] = '\0';
    char *found = adapter_peft_name(family, module); /* ends with ".weight" */
    if (found) memcpy(found + strlen(found) - strlen(".weight"), end, strlen(end) + 1);
    free(module);
    return found;
}

/* Lists the whole tensors by the names that the family's rules have for them. */
static Status list_wholes(const AdapterModules *modules, const Family *family, RawTable *table,
                          Error *error) {
    for (size_t i = 0; i < modules->n_wholes; i++) {
        char *name = whole_name(family, modules->wholes[i]->name);
        RawTensor *raw = name ? raw_table_add(table, name, strlen(name)) : NULL;
        free(name);
        if (!raw) return error_set(error, "no memory");
        name = raw->name;
        *raw = *modules->wholes[i];
        raw->name = name;
        raw->used = false;
    }
    return raw_table_sort(table, error);
}

/* What the adapter's file calls the tensor whose values are at this offset. */
static const char *own_name(const AdapterModules *modules, uint64_t offset) {
    for (size_t i = 0; i < modules->n_wholes; i++)
        if (modules->wholes[i]->offset == offset) return modules->wholes[i]->name;
    return "";
}

/* ---- Values ---- */

/* A tensor of the base. */
typedef struct BaseTensor {
    const ModelFile *file;
    const FileTensor *stored; /* in the file; NULL: it is in the source */
    const Source *source;
    SourceTensor read;
    TensorType type; /* one of the float types, or any other: codes of so many bits */
    double bits;
} BaseTensor;

/* Bits per weight in panels of this type, including the scales, for whole superblocks. */
static double panel_bits(TensorType type) {
    enum { SUPERBLOCK = 256 };
    size_t bytes = 0;
    return tensor_panel_bytes(type, SUPERBLOCK, &bytes)
               ? 8.0 * (double)bytes / (PANEL_ROWS * SUPERBLOCK)
               : 0.0;
}

static void find_in_file(BaseTensor *t, const ModelFile *file, const SourceTensor *like) {
    const FileTensor *found = modelfile_find(file, like->name);
    if (!found || found->count != 1 || found->rows != like->rows || found->cols != like->cols)
        return;
    t->file = file;
    t->stored = found;
    t->type = found->type == TENSOR_VECTOR ? TENSOR_F32 : (TensorType)found->type;
    t->bits = panel_bits(t->type);
}

static const SourceTensor *find_source_tensor(const Source *source, const char *name) {
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, name) == 0) return &source->tensors[i];
    return NULL;
}

/* Looks for the base's tensor of the same name and shape as `like` in the base's source, where the
 * base is not a model.bin, and sets its type and its bits per weight. Leaves *t alone where there
 * is none. */
static void find_in_source(BaseTensor *t, const Source *source, const SourceTensor *like) {
    const SourceTensor *found = find_source_tensor(source, like->name);
    if (found && found->shares) found = find_source_tensor(source, found->shares);
    if (!found || found->rows != like->rows || found->cols != like->cols) return;
    t->source = source;
    t->read = *found;
    t->read.sums = NULL; /* what adapters before this one add */
    t->read.n_sums = 0;
    const StoredTypeInfo *info = stored_type_info(found->stored);
    if (found->stored == STORED_PANELS) {
        t->type = found->panels;
        t->bits = panel_bits(t->type);
        return;
    }
    t->type = found->values || found->stored == STORED_F32 ? TENSOR_F32
              : found->stored == STORED_F16                ? TENSOR_F16
              : found->stored == STORED_BF16               ? TENSOR_BF16
                                                           : TENSOR_TYPES;
    t->bits = info && info->block ? 8.0 * info->block_bytes / info->block : 0;
}

static Status read_base(const BaseTensor *t, size_t first, size_t n, float *out, Error *error) {
    if (!t->stored) return source_read_floats(t->source, &t->read, first, n, out, error);
    if (t->stored->type == TENSOR_VECTOR) {
        memcpy(out, modelfile_data(t->file, t->stored), n * t->stored->cols * sizeof *out);
        return STATUS_OK;
    }
    const Matrix matrix = modelfile_matrix(t->file, t->stored, 0);
    for (size_t i = 0; i < n; i++) matrix_row(&matrix, first + i, out + i * t->stored->cols);
    return STATUS_OK;
}

static float round_to(TensorType type, float x) {
    if (type == TENSOR_BF16) return bfloat_to_float(panel_float_to_bfloat(x));
    if (type == TENSOR_F16) return numbers_half_to_float(numbers_float_to_half(x));
    return x;
}

/* Whether the adapter's tensor and the base's, of the same shape, hold the same values. */
static Status compare_whole(const Source *adapter, const SourceTensor *own, const BaseTensor *base,
                            bool *equal, Error *error) {
    TensorType type = own->stored == STORED_F16    ? TENSOR_F16
                      : own->stored == STORED_BF16 ? TENSOR_BF16
                                                   : TENSOR_F32;
    bool has_floats =
        base->type == TENSOR_F32 || base->type == TENSOR_F16 || base->type == TENSOR_BF16;
    size_t step = own->cols < 1 << 16 ? (1 << 16) / own->cols : 1, n_values;
    float *values = size_mul(2 * step, own->cols, &n_values) && n_values < SIZE_MAX / 8
                        ? malloc(n_values * sizeof *values)
                        : NULL;
    double difference = 0, norm = 0;
    Status status = values ? STATUS_OK : error_set(error, "no memory");
    *equal = true;
    for (size_t row = 0; status == STATUS_OK && row < own->rows && (*equal || !has_floats);
         row += step) {
        size_t n = own->rows - row < step ? own->rows - row : step;
        float *other = values + n * own->cols;
        status = source_read_floats(adapter, own, row, n, values, error);
        if (status == STATUS_OK) status = read_base(base, row, n, other, error);
        for (size_t i = 0; status == STATUS_OK && i < n * own->cols; i++) {
            float a = values[i], b = other[i];
            double d = (double)a - (double)b;
            difference += d * d;
            norm += (double)a * (double)a;
            *equal = *equal && (a == b || round_to(base->type, a) == b || round_to(type, b) == a);
        }
    }
    free(values);
    double bound = fmin(0.7, 2.4 * exp2(-floor(base->bits)));
    if (!has_floats) *equal = difference <= bound * bound * norm;
    return status;
}

/* Refuses a whole tensor that the base lacks or has with other values. */
static Status check_whole(const AdapterModules *modules, const Source *adapter,
                          const SourceTensor *own, const AdapterFiles *files, Error *error) {
    const char *name = own_name(modules, own->offset);
    BaseTensor found = {0};
    bool equal = false;
    if (files->base)
        find_in_file(&found, files->base, own);
    else if (files->source)
        find_in_source(&found, files->source, own);
    if ((found.stored || found.source) && source_check_tensor(adapter, own, error) == STATUS_OK &&
        compare_whole(adapter, own, &found, &equal, error) != STATUS_OK)
        return error_prefix(error, "%s", adapter->path);
    if (equal) return STATUS_OK;
    return error_set(error, "%s: '%.100s' is not that of this model: %s", adapter->path, name,
                     only_equal);
}

/* ---- All of them ---- */

Status adapter_check_wholes(const AdapterModules *modules, const AdapterFiles *files,
                            const Family *family, Error *error) {
    Source source = {.config = *files->config,
                     .path = files->path,
                     .files = files->files,
                     .n_files = files->n_files};
    RawTable table = {0};
    const RuleContext context = {
        .source = &source, .table = &table, .layers = family_layers(family), .is_adapter = true};
    if (modules->n_wholes == 0) return STATUS_OK;
    Status status = list_wholes(modules, family, &table, error);
    if (status != STATUS_OK) error_prefix(error, "%s", files->path);
    if (status == STATUS_OK) {
        status = rules_apply(&context, family->tensors, error);
        if (status != STATUS_OK) error_prefix(error, "%s", only_equal); /* a shape */
    }
    for (size_t i = 0; status == STATUS_OK && i < table.n; i++)
        if (!table.items[i].used)
            status = error_set(error, "%s: '%.100s' is not a factor of LoRA: %s", files->path,
                               own_name(modules, table.items[i].offset), only_equal);
    for (size_t i = 0; status == STATUS_OK && i < source.n_tensors; i++)
        status = check_whole(modules, &source, &source.tensors[i], files, error);
    raw_table_free(&table);
    free(source.tensors);
    return status;
}
