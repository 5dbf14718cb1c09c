#include "convert/kv_heads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "formats/containers/source_floats.h"

/* Whether the tensor is a key's or value's matrix or bias; sets its layer. */
static bool is_of_keys(const char *name, uint32_t *layer, bool *values) {
    static const char *const kinds[] = {"wk", "wk.bias", "wv", "wv.bias"};
    int at = 0;
    if (sscanf(name, "layers.%u.%n", layer, &at) != 1 || at == 0) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(name + at, kinds[i]) != 0) continue;
        *values = i >= 2;
        return true;
    }
    return false;
}

/* means[n * width][cols] = the averages of the heads of each of n groups in rows[heads *
 * width][cols], element by element. */
static void average_heads(const float *rows, size_t heads, size_t n, size_t width, size_t cols,
                          float *means) {
    size_t group = heads / n, head_floats = width * cols;
    for (size_t h = 0; h < n; h++)
        for (size_t i = 0; i < head_floats; i++) {
            double sum = 0.0;
            for (size_t k = 0; k < group; k++)
                sum += (double)rows[(h * group + k) * head_floats + i];
            means[h * head_floats + i] = (float)(sum / (double)group);
        }
}

/* Replaces a projection to `heads` heads by one to n heads, each the mean of those that it stands
 * for. A bias is one row of heads * width numbers, a matrix heads * width rows. */
static Status merge_tensor(const Source *source, SourceTensor *t, size_t heads, size_t n,
                           size_t width, Error *error) {
    size_t cols = t->is_vector ? 1 : t->cols, rows = t->is_vector ? t->rows * t->cols : t->rows;
    size_t floats, bytes, less;
    if (t->shares || t->sums || t->values)
        return error_set(error, "--kv-heads: '%s' is shared or computed", t->name);
    if (rows != heads * width)
        return error_set(error, "--kv-heads: '%s' is not of %zu heads of %zu", t->name, heads,
                         width);
    if (!size_mul(rows, cols, &floats) || !size_mul(floats, sizeof(float), &bytes) ||
        !size_mul(n * width * cols, sizeof(float), &less))
        return error_set(error, "--kv-heads: '%s' is too large", t->name);
    float *all = malloc(bytes), *means = malloc(less);
    Status status = all && means ? STATUS_OK : error_set(error, "no memory for '%s'", t->name);
    if (status == STATUS_OK) status = source_read_floats(source, t, 0, t->rows, all, error);
    if (status == STATUS_OK) {
        SourceTensor merged = {.is_vector = t->is_vector, .stored = STORED_F32, .values = means};
        average_heads(all, heads, n, width, cols, means);
        memcpy(merged.name, t->name, sizeof merged.name);
        merged.rows = t->is_vector ? 1 : n * width;
        merged.cols = t->is_vector ? n * width : cols;
        *t = merged;
        means = NULL;
    }
    free(all);
    free(means);
    return status;
}

static Status check_config(const Config *c, uint32_t n, Error *error) {
    if (c->qk_norm == QK_NORM_ALL || c->qk_norm == QK_NORM_EACH)
        return error_set(error, "--kv-heads: the model's keys have norms that are not of one head");
    if (c->mtp.n_layers > 0)
        return error_set(error, "--kv-heads: the prediction layers would not fit: add --no-mtp");
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        if (c->layer_kind[l] != LAYER_ATTENTION)
            return error_set(error,
                             "--kv-heads: layer %u is not attention by keys and values alone", l);
        if (n == 0 || n >= h.n_kv_heads || h.n_kv_heads % n != 0)
            return error_set(error,
                             "--kv-heads %u: fewer than the %u of layer %u, and a divisor of them",
                             n, h.n_kv_heads, l);
    }
    return STATUS_OK;
}

/* Replaces the tensors of keys and values in every layer, then the number in the configuration. */
Status kv_heads_merge(Source *source, uint32_t n, Error *error) {
    Config *c = &source->config;
    Status status = check_config(c, n, error);
    for (size_t i = 0; i < source->n_tensors && status == STATUS_OK; i++) {
        uint32_t layer;
        bool values;
        if (!is_of_keys(source->tensors[i].name, &layer, &values) || layer >= c->n_layers) continue;
        const HeadShape h = config_heads(c, layer);
        status = merge_tensor(source, &source->tensors[i], h.n_kv_heads, n,
                              values ? h.value_dim : h.head_dim, error);
    }
    if (status != STATUS_OK) return status;
    char text[64];
    int length = snprintf(text, sizeof text, "%u, the means of %u", n, c->n_kv_heads);
    metadata_add_text(&source->metadata, "source.kv_heads", text, (size_t)length);
    c->n_kv_heads = n;
    memset(c->layer_n_kv_heads, 0, sizeof c->layer_n_kv_heads);
    source_add_note(source, "key/value heads are means of the source's: the model has lost by it, "
                            "which --eval shows and training repairs");
    return STATUS_OK;
}
