#include "convert/adapter_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static SourceTensor *merge_find(const Source *source, const char *name) {
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, name) == 0) return &source->tensors[i];
    return NULL;
}

/* Lets a tensor that has another's data have its own. */
static void untie(const Source *source, SourceTensor *t) {
    const SourceTensor *other = t->shares ? merge_find(source, t->shares) : NULL;
    char name[MODELFILE_NAME_BYTES];
    if (!other) return;
    memcpy(name, t->name, sizeof name);
    *t = *other;
    memcpy(t->name, name, sizeof name);
    t->sums = NULL;
    t->n_sums = 0;
}

/* Unties everything that has the data of the tensor, which is about to change. */
static Status untie_copies(const Source *source, SourceTensor *changed, Error *error) {
    untie(source, changed);
    for (size_t i = 0; i < source->n_tensors; i++) {
        SourceTensor *t = &source->tensors[i];
        if (!t->shares || strcmp(t->shares, changed->name) != 0) continue;
        if (strcmp(t->name, "output") != 0)
            return error_set(error, "adds to '%s', which '%s' shares: not known to this program",
                             changed->name, t->name);
        untie(source, t);
    }
    return STATUS_OK;
}

/* Adds the product of an adapter's factors to the values that a tensor of the source will have. */
static Status add_part(const AdapterSpec *spec, const AdapterPart *part, const Source *source,
                       Error *error) {
    SourceTensor *t = merge_find(source, part->name);
    if (!t || t->is_vector || t->rows != part->rows || t->cols != part->cols)
        return error_set(error,
                         "adds %zu x %zu to '%s', which the model does not have in this shape",
                         part->rows, part->cols, part->name);
    const SourceTensor *data = t->shares ? merge_find(source, t->shares) : t;
    if (!data || data->values || data->minus_exp || data->row_scales)
        return error_set(error, "adds to '%s', which is computed, not read", part->name);
    if (untie_copies(source, t, error) != STATUS_OK) return STATUS_FAILED;
    SourceSum *sums = realloc((void *)t->sums, (t->n_sums + 1) * sizeof *sums);
    if (!sums) return error_set(error, "no memory for adapters");
    sums[t->n_sums++] = (SourceSum){.rows = part->rows_factor,
                                    .cols = part->cols_factor,
                                    .rank = part->rank,
                                    .scale = adapter_spec_scale(spec, part)};
    t->sums = sums;
    return STATUS_OK;
}

/* Records in the metadata what was merged. */
static void add_origin(const Adapters *adapters, Source *source) {
    char text[1024] = "";
    size_t length = 0;
    for (size_t i = 0; i < adapters->n && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s*%g (sha256 %.16s)",
                                   i ? ", " : "", adapters->items[i].name, adapters->items[i].scale,
                                   adapters->items[i].digest);
    metadata_add_text(&source->metadata, "source.adapters", text, strlen(text));
}

Status adapter_merge(AdapterOpening *opening, Source *source, Error *error) {
    const AdapterBase base = adapter_base_of_source(source);
    if (adapter_opening_read(opening, &base, source->config.name, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < opening->n; i++) {
        const AdapterSpec *spec = &opening->items[i];
        for (size_t k = 0; k < spec->adapter.n_parts; k++)
            if (add_part(spec, &spec->adapter.parts[k], source, error) != STATUS_OK)
                return error_prefix(error, "--lora: %s", spec->adapter.path);
    }
    add_origin(&opening->adapters, source);
    return STATUS_OK;
}
