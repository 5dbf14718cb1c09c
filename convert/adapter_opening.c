#include "convert/adapter_opening.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/unicode.h"
#include "adapters/lora.h"

/* ---- The command line ---- */

/* Cuts ":SCALE" off the path, unless a file is called like that. */
static void cut_scale(char *path, double *scale) {
    struct stat info;
    char *colon = strrchr(path, ':'), *end;
    if (!colon || colon[1] == '\0' || stat(path, &info) == 0) return;
    double value = strtod(colon + 1, &end);
    if (*end != '\0') return;
    *scale = value;
    *colon = '\0';
}

/* The last part of a path without ".gguf"; malloc'ed. */
static char *name_of(const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    if (end - start > 5 && memcmp(path + end - 5, ".gguf", 5) == 0) end -= 5;
    return strndup(path + start, end - start);
}

static Status check_name(const AdapterOpening *opening, const char *name, Error *error) {
    enum { MOST_NAME = 128 };
    size_t n = strlen(name);
    if (n == 0 || n > MOST_NAME || utf8_valid_prefix(name, n) != n || strpbrk(name, "\n\r\t"))
        return error_set(error, "--lora: '%.140s' cannot name an adapter", name);
    for (size_t i = 0; i < opening->n; i++)
        if (strcmp(opening->items[i].name, name) == 0)
            return error_set(error, "--lora: two adapters are called '%s'", name);
    return STATUS_OK;
}

/* Opens one adapter; its item is to be closed even after a failure. */
static Status open_one(AdapterOpening *opening, const char *text, Error *error) {
    AdapterSpec *spec = &opening->items[opening->n];
    const char *equals = strchr(text, '=');
    char *path = strdup(equals ? equals + 1 : text);
    *spec = (AdapterSpec){.scale = 1.0};
    if (!path) return error_set(error, "no memory for --lora");
    cut_scale(path, &spec->scale);
    spec->name = equals ? strndup(text, (size_t)(equals - text)) : name_of(path);
    Status status = STATUS_OK;
    if (!spec->name) status = error_set(error, "no memory for --lora");
    if (status == STATUS_OK && check_name(opening, spec->name, error) != STATUS_OK)
        status = STATUS_USAGE;
    if (status == STATUS_OK && !(fabs(spec->scale) <= 1e6)) {
        error_set(error, "--lora %s: the scale %g is not a number from -1e6 to 1e6", text,
                  spec->scale);
        status = STATUS_USAGE;
    }
    opening->n++;
    if (status == STATUS_OK && adapter_open(&spec->adapter, path, error) != STATUS_OK)
        status = error_prefix(error, "--lora");
    free(path);
    return status;
}

Status adapter_opening_begin(AdapterOpening *opening, const OptionList *list, Error *error) {
    Status status = STATUS_OK;
    if (list->n > ADAPTERS_MOST) {
        error_set(error, "--lora: %zu adapters, but at most %d", list->n, ADAPTERS_MOST);
        return STATUS_USAGE;
    }
    for (size_t i = 0; status == STATUS_OK && i < list->n; i++)
        status = open_one(opening, list->items[i], error);
    return status;
}

/* ---- Their contents ---- */

float adapter_spec_scale(const AdapterSpec *spec, const AdapterPart *part) {
    return (float)(spec->scale * part->alpha_over_rank);
}

static void describe(const AdapterSpec *spec, SessionAdapter *out) {
    *out = (SessionAdapter){.name = spec->name,
                            .path = spec->adapter.path,
                            .scale = spec->scale,
                            .digest = spec->adapter.digest,
                            .n_matrices = spec->adapter.n_parts};
    for (size_t i = 0; i < spec->adapter.n_parts; i++)
        if (spec->adapter.parts[i].rank > out->rank) out->rank = spec->adapter.parts[i].rank;
}

static void add_checksum(Adapters *adapters, const SessionAdapter *one) {
    uint64_t hash = adapters->checksum;
    hash = XXH3_64bits_withSeed(one->name, strlen(one->name), hash);
    hash = XXH3_64bits_withSeed(&one->scale, sizeof one->scale, hash);
    adapters->checksum = XXH3_64bits_withSeed(one->digest, strlen(one->digest), hash);
}

Status adapter_opening_read(AdapterOpening *opening, const AdapterBase *base, const char *base_name,
                            Error *error) {
    Adapters *adapters = &opening->adapters;
    *adapters = (Adapters){.base = base_name};
    for (size_t i = 0; i < opening->n; i++) {
        AdapterSpec *spec = &opening->items[i];
        if (strcmp(spec->name, base_name) == 0)
            return error_set(error, "--lora: '%s' is the model's own name", spec->name);
        if (adapter_read(&spec->adapter, base, error) != STATUS_OK)
            return error_prefix(error, "--lora");
        describe(spec, &adapters->items[adapters->n]);
        add_checksum(adapters, &adapters->items[adapters->n++]);
    }
    return STATUS_OK;
}

/* ---- Running with them ---- */

/* Adds the matrices of one adapter to those that the model multiplies beside its own. */
static Status add_to_model(const AdapterSpec *spec, Lora *lora, Error *error) {
    const Adapter *a = &spec->adapter;
    LoraMatrix *matrices = calloc(a->n_parts + 1, sizeof *matrices);
    if (!matrices) return error_set(error, "no memory for adapters");
    for (size_t i = 0; i < a->n_parts; i++) {
        const AdapterPart *part = &a->parts[i];
        matrices[i] = (LoraMatrix){.name = part->name,
                                   .rows = part->rows,
                                   .cols = part->cols,
                                   .rank = part->rank,
                                   .scale = adapter_spec_scale(spec, part),
                                   .rows_factor = part->rows_factor,
                                   .cols_factor = part->cols_factor,
                                   .rows_type = part->rows_type,
                                   .cols_type = part->cols_type};
    }
    Status status = lora_add(lora, matrices, a->n_parts, error);
    free(matrices);
    return status == STATUS_OK ? STATUS_OK : error_prefix(error, "--lora: %s", a->path);
}

Status adapter_opening_start(AdapterOpening *opening, Session *session, Error *error) {
    if (opening->n == 0 || !session->model) return STATUS_OK;
    const AdapterBase base = adapter_base_of_file(session->file);
    const char *name = base.config->name[0] ? base.config->name : "verbatim";
    Adapters *adapters = &opening->adapters;
    if (adapter_opening_read(opening, &base, name, error) != STATUS_OK ||
        lora_new(&adapters->lora, session->model, session->file, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < opening->n; i++) {
        if (add_to_model(&opening->items[i], adapters->lora, error) != STATUS_OK)
            return STATUS_FAILED;
        adapter_forget(&opening->items[i].adapter);
        adapters->items[i].bytes = lora_bytes(adapters->lora, i);
    }
    session->adapters = adapters;
    return lora_begin(adapters->lora, error);
}

void adapter_opening_close(AdapterOpening *opening) {
    lora_free(opening->adapters.lora);
    opening->adapters.lora = NULL;
    for (size_t i = 0; i < opening->n; i++) {
        free(opening->items[i].name);
        adapter_close(&opening->items[i].adapter);
    }
    opening->n = 0;
}
