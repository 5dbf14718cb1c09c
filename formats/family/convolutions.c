#include "formats/family/convolutions.h"

#include <stdio.h>
#include <stdlib.h>

#include "formats/family/sizes.h"

/* The name of a layer's tensor for a letter. */
static void name_of(char *name, size_t size, const char *names, uint32_t layer, char letter) {
    size_t n = 0;
    for (const char *c = names; *c && n + 16 < size; c++) {
        if (c[0] == '%' && c[1] == 'u') n += (size_t)snprintf(name + n, size - n, "%u", layer);
        if (c[0] == '%' && c[1] == 'c') name[n++] = letter;
        if (c[0] == '%')
            c++;
        else
            name[n++] = *c;
    }
    name[n] = '\0';
}

/* Joins the three convolutions of a layer, which are channels x taps each and follow each other in
 * the order of the channels, to joined[taps][channels]. transformers writes them with other widths
 * than q, k and v have. */
static Status join_convolution(const RuleContext *context, const char *names, uint32_t l,
                               size_t channels, float *joined, Error *error) {
    size_t taps = context->source->config.state.conv_kernel, first = 0;
    for (int i = 0; i < 3; i++) {
        char name[128];
        name_of(name, sizeof name, names, l, "qkv"[i]);
        const RawTensor *raw = rules_find(context, name);
        size_t rows = raw && raw->n_dims ? raw->dims[0] : 0, left = channels - first;
        for (size_t k = 1; rows == 1 && raw && k < raw->n_dims; k++) rows = raw->dims[k];
        size_t n = i < 2 && raw && raw->n_dims && rows < left ? rows : left;
        float *part;
        if (rules_read(context, name, n, taps, &part, error) != STATUS_OK) return STATUS_FAILED;
        for (size_t k = 0; k < n * taps; k++)
            joined[k % taps * channels + first + k / taps] = part[k];
        free(part);
        first += n;
    }
    return STATUS_OK;
}

Status convolutions_join(const RuleContext *context, const char *names, Error *error) {
    const Config *c = &context->source->config;
    size_t channels =
               size_of("2 * state_key_heads * state_key_dim + state_heads * state_value_dim", c, 0),
           taps = c->state.conv_kernel;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[128];
        name_of(name, sizeof name, names, l, 'q');
        if (c->layer_kind[l] != LAYER_DELTA || !rules_find(context, name)) continue;
        float *joined = calloc(channels * taps + 1, sizeof *joined);
        if (!joined) return error_set(error, "%s: no memory", context->source->path);
        if (join_convolution(context, names, l, channels, joined, error) != STATUS_OK) {
            free(joined);
            return STATUS_FAILED;
        }
        snprintf(name, sizeof name, "layers.%u.delta.convolution", l);
        if (source_add_values(context->source, name, taps, channels, joined, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}
