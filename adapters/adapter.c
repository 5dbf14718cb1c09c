/* From an adapter's modules to parts of the model's tensors. The families' rules, which turn a
 * source's tensors into the runner's, are applied to the names and shapes of the modules; what they
 * say about rows then holds for the rows' factor. */
#include "adapters/adapter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/text.h"
#include "adapters/adapter_modules.h"
#include "adapters/adapter_gguf.h"
#include "adapters/adapter_peft.h"
#include "adapters/adapter_whole.h"
#include "formats/containers/source_floats.h"
#include "formats/containers/source_place.h"
#include "formats/family/families.h"
#include "base/sha256.h"

/* ---- Opening ---- */

static Status open_in(Adapter *a, const char *name, Error *error) {
    char path[4096];
    size_t n = strlen(a->path);
    const char *slash = n && a->path[n - 1] == '/' ? "" : "/";
    int length = snprintf(path, sizeof path, "%s%s%s", a->path, slash, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(error, "%s: name too long", a->path);
    Status status = input_open(&a->files[a->n_files], path, error);
    a->n_files += status == STATUS_OK;
    return status;
}

/* Says what a directory without the adapter's files holds instead. */
static Status explain_missing(const Adapter *a, Error *error) {
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%.4000s/adapter_model.bin", a->path);
    if (stat(path, &info) == 0)
        return error_set(error,
                         "%s: adapter_model.bin could run code and is not read; save the adapter "
                         "as safetensors",
                         a->path);
    snprintf(path, sizeof path, "%.4000s/config.json", a->path);
    if (stat(path, &info) == 0)
        return error_set(error, "%s: holds a whole model, not an adapter: give it as MODEL",
                         a->path);
    return STATUS_FAILED; /* the error of the missing file says it */
}

Status adapter_open(Adapter *a, const char *path, Error *error) {
    struct stat info;
    *a = (Adapter){.path = strdup(path)};
    if (!a->path) return error_set(error, "no memory for an adapter");
    if (stat(path, &info) != 0) return error_set(error, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        a->is_gguf = true;
        if (input_open(&a->files[0], path, error) != STATUS_OK) return STATUS_FAILED;
        a->n_files = 1;
        if (a->files[0].bytes >= 4 && memcmp(a->files[0].map, "GGUF", 4) == 0) return STATUS_OK;
        return error_set(error,
                         "%s: neither a GGUF file nor a directory with adapter_config.json and "
                         "adapter_model.safetensors",
                         path);
    }
    if (open_in(a, "adapter_config.json", error) != STATUS_OK ||
        open_in(a, "adapter_model.safetensors", error) != STATUS_OK)
        return explain_missing(a, error);
    return STATUS_OK;
}

void adapter_forget(Adapter *a) {
    for (size_t i = 0; i < a->n_parts; i++) free(a->parts[i].rows_factor);
    for (size_t i = 0; i < a->n_factors; i++) free(a->cols_factors[i]);
    free(a->cols_factors);
    free(a->parts);
    a->cols_factors = NULL;
    a->parts = NULL;
    a->n_parts = a->n_factors = a->parts_capacity = 0;
}

void adapter_close(Adapter *a) {
    adapter_forget(a);
    for (size_t i = 0; i < a->n_files; i++) input_close(&a->files[i]);
    free(a->path);
    *a = (Adapter){0};
}

/* ---- The base ---- */

static bool is_text(const char *text, size_t n, const char *expected) {
    return n == strlen(expected) && memcmp(text, expected, n) == 0;
}

/* Whether models of this "source.format" have the rows of q and k in interleaved order. */
static bool reorders(const char *format, size_t n) {
    return is_text(format, n, "gguf") || is_text(format, n, "llama2.c");
}

AdapterBase adapter_base_of_file(const ModelFile *file) {
    const char *format = "";
    size_t n = 0;
    if (!modelfile_meta_text(file, "source.format", &format, &n)) n = 0;
    return (AdapterBase){modelfile_config(file), reorders(format, n), file, NULL};
}

AdapterBase adapter_base_of_source(const Source *source) {
    bool reordered = source->kind == SOURCE_GGUF || source->kind == SOURCE_LLAMA2C ||
                     reorders(source->origin, strlen(source->origin));
    return (AdapterBase){&source->config, reordered, NULL, source};
}

/* ---- Reading factors ---- */

/* A run of reading: the source stands for the adapter's files. */
typedef struct Reading {
    Adapter *adapter;
    const AdapterBase *base;
    AdapterModules modules;
    size_t *cols_factor_of; /* [modules.n] index into adapter->cols_factors, plus 1; 0: not read */
    Source source;
    RawTable table;   /* the base's matrices, one a module */
    bool interleaved; /* rows of q and k are in the order of interleaved RoPE in the adapter */
    Error *error;
} Reading;

/* How a factor is stored, and which rows of it are wanted. */
typedef struct FactorPart {
    size_t first, rows, cols;
    bool turned;              /* the stored matrix is the transpose */
    size_t folded;            /* not 0: a stored row is this number of the matrix's */
    const RowMap *map;        /* NULL: rows as they are stored */
    const HeadTiles *columns; /* NULL: columns as they are stored */
} FactorPart;

/* Reads a part of a stored matrix as floats, malloc'ed; NULL after a failure. */
static float *read_factor(const Reading *r, const char *name, const RawTensor *raw,
                          FactorPart part) {
    size_t rows = part.rows, cols = part.cols, folded = part.folded ? part.folded : 1, n;
    SourceTensor t = {.rows = part.first + rows,
                      .cols = cols,
                      .stored = raw->type,
                      .file = r->adapter->n_files - 1,
                      .offset = raw->offset,
                      .stored_rows = (size_t)raw->dims[0] * folded,
                      .stored_cols = (size_t)raw->dims[1] / folded,
                      .transposed = part.turned};
    snprintf(t.name, sizeof t.name, "%s", name);
    if (part.map) t.map = *part.map;
    if (part.columns) t.columns = *part.columns;
    if (source_check_tensor(&r->source, &t, r->error) != STATUS_OK) return NULL;
    float *out = size_mul(rows, cols, &n) && n < SIZE_MAX / 8 ? malloc(n * sizeof *out) : NULL;
    if (!out) {
        error_set(r->error, "%s: no memory", r->adapter->path);
        return NULL;
    }
    Status status = source_read_floats(&r->source, &t, part.first, rows, out, r->error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        if (!isfinite(out[i]))
            status = error_set(r->error, "%s: '%.100s' holds a value that is not a finite number",
                               r->adapter->path, raw->name);
    if (status == STATUS_OK) return out;
    free(out);
    return NULL;
}

/* The type of panels that holds the factor as it is. */
static TensorType type_of(const RawTensor *raw) {
    return raw->type == STORED_F16    ? TENSOR_F16
           : raw->type == STORED_BF16 ? TENSOR_BF16
                                      : TENSOR_F32;
}

/* Reads the factor B[n_rows][rank] of one expert from the tensor of all experts, in which it is a
 * column. */
static float *read_expert(const Reading *r, const AdapterModule *m) {
    size_t rank = adapter_rank(m), outputs = (size_t)m->b->dims[0];
    float *all = read_factor(
        r, m->own_name, m->b,
        (FactorPart){
            .first = m->expert, .rows = 1, .cols = outputs * rank, .turned = true, .folded = rank});
    float *part = all ? malloc(m->n_rows * rank * sizeof *part) : NULL;
    if (part) memcpy(part, all + m->first_row * rank, m->n_rows * rank * sizeof *part);
    if (all && !part) error_set(r->error, "%s: no memory", r->adapter->path);
    free(all);
    return part;
}

/* The factor [rank][cols] of a module, read once. */
static const float *cols_factor(Reading *r, size_t i, size_t cols, const HeadTiles *columns) {
    Adapter *a = r->adapter;
    const AdapterModule *m = &r->modules.items[i];
    if (r->cols_factor_of[i]) return a->cols_factors[r->cols_factor_of[i] - 1];
    const RawTensor *raw = m->is_embedding ? m->b : m->a;
    size_t rank = adapter_rank(m);
    float *factor = read_factor(r, m->own_name, raw,
                                (FactorPart){.first = m->expert * rank,
                                             .rows = rank,
                                             .cols = cols,
                                             .turned = m->is_embedding,
                                             .columns = columns});
    if (!factor) return NULL;
    a->cols_factors[a->n_factors++] = factor;
    r->cols_factor_of[i] = a->n_factors;
    return factor;
}

/* Whether the tensor's rows are heads that RoPE rotates. */
static bool is_rotated(const char *name) {
    const char *last = strrchr(name, '.');
    return last && (strcmp(last, ".wq") == 0 || strcmp(last, ".wk") == 0);
}

/* Reorders the rows of each head where the adapter and the model's file pair the elements that RoPE
 * rotates in different ways: i with i + head_dim / 2, or 2 i with 2 i + 1 (interleaved). */
static Status reorder(const Reading *r, AdapterPart *part) {
    const Config *c = r->base->config;
    bool to_interleaved = c->rope_pairing == ROPE_INTERLEAVED;
    if (c->position != POSITION_ROPE || to_interleaved == r->interleaved || !is_rotated(part->name))
        return STATUS_OK;
    uint32_t layer = (uint32_t)strtoul(part->name + strlen("layers."), NULL, 10);
    const HeadShape heads = config_heads(c, layer);
    size_t dim = heads.head_dim, half = dim / 2, rank = part->rank;
    if (heads.rotary_dim != dim || dim % 2 != 0 || dim == 0 || part->rows % dim != 0)
        return error_set(r->error,
                         "%s: adds to '%s', but the model's file has the rows of its heads in "
                         "another order, and turns only a part of each",
                         r->adapter->path, part->name);
    float *copy = malloc(dim * rank * sizeof *copy);
    if (!copy) return error_set(r->error, "%s: no memory", r->adapter->path);
    for (size_t at = 0; at < part->rows; at += dim) {
        float *head = part->rows_factor + at * rank;
        memcpy(copy, head, dim * rank * sizeof *copy);
        for (size_t i = 0; i < dim; i++) {
            size_t from = to_interleaved ? i / 2 + i % 2 * half
                          : i < half     ? 2 * i
                                         : 2 * (i - half) + 1;
            memcpy(head + i * rank, copy + from * rank, rank * sizeof *copy);
        }
    }
    free(copy);
    return STATUS_OK;
}

/* Adds the part that a rule has made of module t->file. */
static Status add_part(Reading *r, const SourceTensor *t) {
    Adapter *a = r->adapter;
    size_t i = t->file;
    const AdapterModule *m = &r->modules.items[i];
    enum { MOST_RANK = 4096 };
    if (adapter_rank(m) > MOST_RANK)
        return error_set(r->error, "%s: '%.100s' has rank %zu, more than %d", a->path, m->own_name,
                         adapter_rank(m), MOST_RANK);
    if (!array_reserve(&a->parts, &a->parts_capacity, a->n_parts + 1, sizeof *a->parts))
        return error_set(r->error, "%s: no memory", a->path);
    AdapterPart part = {.rows = t->rows,
                        .cols = t->cols,
                        .rank = adapter_rank(m),
                        .alpha_over_rank = m->alpha_over_rank};
    memcpy(part.name, t->name, sizeof part.name);
    const RawTensor *of_rows = m->is_embedding ? m->a : m->b;
    part.rows_type = type_of(of_rows);
    part.cols_type = type_of(m->is_embedding ? m->b : m->a);
    part.cols_factor = cols_factor(r, i, t->cols, &t->columns);
    if (!part.cols_factor) return STATUS_FAILED;
    const FactorPart whole = {.rows = t->rows,
                              .cols = part.rank,
                              .turned = m->is_embedding && !m->a_is_turned,
                              .map = &t->map};
    part.rows_factor =
        m->n_experts ? read_expert(r, m) : read_factor(r, m->own_name, of_rows, whole);
    if (!part.rows_factor) return STATUS_FAILED;
    a->parts[a->n_parts++] = part;
    return t->map.head ? STATUS_OK
                       : reorder(r, &a->parts[a->n_parts - 1]); /* ORDER_PAIRED did it */
}

/* ---- Names ---- */

/* Lists the base's matrices as the rules look for them: their shapes, and in `file` the number of
 * the module. */
static Status list_matrices(Reading *r) {
    for (size_t i = 0; i < r->modules.n; i++) {
        const AdapterModule *m = &r->modules.items[i];
        RawTensor *raw = raw_table_add(&r->table, m->name, strlen(m->name));
        if (!raw) return error_set(r->error, "%s: no memory", r->adapter->path);
        raw->type = STORED_F32;
        raw->n_dims = 2;
        raw->dims[0] = m->is_embedding ? m->a->dims[m->a_is_turned ? 0 : 1] : adapter_rows(m);
        raw->dims[1] = m->is_embedding ? m->b->dims[0] : m->a->dims[1];
        raw->file = i;
    }
    return raw_table_sort(&r->table, r->error) == STATUS_OK
               ? STATUS_OK
               : error_prefix(r->error, "%s", r->adapter->path);
}

/* Maps the adapter's matrices to model.bin's by the rules of the model's family. */
static Status apply_rules(Reading *r, const TensorRule *rules, const char *layers) {
    const Config *c = r->base->config;
    const RuleContext context = {
        .source = &r->source, .table = &r->table, .layers = layers, .is_adapter = true};
    r->source.config = *c;
    r->source.path = r->adapter->path;
    r->source.files = r->adapter->files;
    r->source.n_files = r->adapter->n_files;
    if (list_matrices(r) != STATUS_OK || rules_apply(&context, rules, r->error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < r->table.n; i++)
        if (!r->table.items[i].used)
            return error_set(r->error,
                             "%s: adds to '%.100s', which is not a matrix of a model of type '%s' "
                             "that this program can add to",
                             r->adapter->path, r->modules.items[r->table.items[i].file].own_name,
                             c->family);
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < r->source.n_tensors; i++)
        status = add_part(r, &r->source.tensors[i]);
    return status;
}

/* ---- The formats ---- */

/* Reads an adapter of PEFT: lists its modules, checks that its whole tensors equal the base's, and
 * maps its matrices to the base's by the rules of the family. */
static Status read_peft(Reading *r) {
    const Config *c = r->base->config;
    const Family *family = family_find(c->family);
    if (!family)
        return error_set(r->error, "%s: adapters for a model of type '%s' are not known",
                         r->adapter->path, c->family);
    Config own = config_default();
    if (preset_apply(family->set, &own, r->error) != STATUS_OK) return STATUS_FAILED;
    const Config *ordered = r->base->is_reordered ? &own : c;
    r->interleaved = ordered->rope_pairing == ROPE_INTERLEAVED;
    const AdapterFiles files = {.path = r->adapter->path,
                                .files = r->adapter->files,
                                .n_files = r->adapter->n_files,
                                .config = c,
                                .base = r->base->file,
                                .source = r->base->source};
    if (adapter_read_peft(&r->modules, &r->adapter->files[0], &r->adapter->files[1], c, r->error) !=
            STATUS_OK ||
        adapter_check_wholes(&r->modules, &files, family, r->error) != STATUS_OK)
        return STATUS_FAILED;
    r->cols_factor_of = calloc(r->modules.n + 1, sizeof *r->cols_factor_of);
    r->adapter->cols_factors = calloc(r->modules.n + 1, sizeof *r->adapter->cols_factors);
    if (!r->cols_factor_of || !r->adapter->cols_factors)
        return error_set(r->error, "%s: no memory", r->adapter->path);
    return apply_rules(r, family->tensors, family_layers(family));
}

static Status read_gguf(Reading *r) {
    const Config *c = r->base->config;
    char architecture[32];
    if (adapter_read_gguf(&r->modules, &r->adapter->files[0], architecture, r->error) != STATUS_OK)
        return STATUS_FAILED;
    const GgufFamily *family = family_gguf_of(architecture, c->family);
    if (!family)
        return error_set(r->error, "%s: architecture '%s' is not known to this program",
                         r->adapter->path, architecture);
    r->interleaved = family->pairing == ROPE_INTERLEAVED;
    r->cols_factor_of = calloc(r->modules.n + 1, sizeof *r->cols_factor_of);
    r->adapter->cols_factors = calloc(r->modules.n + 1, sizeof *r->adapter->cols_factors);
    if (!r->cols_factor_of || !r->adapter->cols_factors)
        return error_set(r->error, "%s: no memory", r->adapter->path);
    return apply_rules(r, family->tensors, GGUF_LAYERS);
}

static Status add_digest(Adapter *a, Error *error) {
    TextBuffer lines = {0};
    text_put(&lines, "", 0, 0); /* so that there is a text, even of no parts */
    for (size_t i = 0; i < a->n_parts; i++) {
        const AdapterPart *p = &a->parts[i];
        char line[512], rows[65], cols[65];
        sha256_text(p->rows_factor, p->rows * p->rank * sizeof(float), rows);
        sha256_text(p->cols_factor, p->rank * p->cols * sizeof(float), cols);
        int n = snprintf(line, sizeof line, "%s %zu %zu %zu %.17g %s %s\n", p->name, p->rows,
                         p->cols, p->rank, p->alpha_over_rank, rows, cols);
        text_put(&lines, line, (size_t)n, 0);
    }
    bool failed = lines.failed;
    if (!failed) sha256_text(lines.bytes, lines.length, a->digest);
    text_free(&lines);
    return failed ? error_set(error, "%s: no memory", a->path) : STATUS_OK;
}

Status adapter_read(Adapter *a, const AdapterBase *base, Error *error) {
    Reading r = {.adapter = a, .base = base, .error = error};
    Status status = a->is_gguf ? read_gguf(&r) : read_peft(&r);
    if (status == STATUS_OK) status = add_digest(a, error);
    for (size_t i = 0; status == STATUS_OK && i < a->n_files; i++)
        status = input_check_unchanged(&a->files[i], error);
    adapter_modules_free(&r.modules);
    raw_table_free(&r.table);
    free(r.cols_factor_of);
    free(r.source.tensors);
    return status;
}
