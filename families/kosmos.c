/* The text halves of Kosmos 2 and 2.5: sinusoids, and in Kosmos 2 norms before the last products.
 */
#include <math.h>

#include "families/shared.h"

/* The first token has the position after that of padding. */
static Status kosmos_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    if (config->dim < 4) return error_set(error, "config.json: embed_dim is %u", config->dim);
    return family_refuse(json, "pad_token_id", "1", error);
}

/* Adds the table of positions: sinusoids, and the vector that marks text. */
static Status kosmos_2_5_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    size_t rows = (size_t)c->context + c->position_offset, half = c->dim / 2;
    float *segments = NULL;
    (void)json;
    if (rules_read(context, "model.segment_emb.weight", 2, c->dim, &segments, error) != STATUS_OK)
        return STATUS_FAILED;
    float *table = malloc(rows * c->dim * sizeof *table);
    float step = (float)(-log(10000.0) / ((double)half - 1.0));
    for (size_t i = 0; table && i < rows; i++) {
        float *row = table + i * c->dim;
        for (size_t j = 0; j < half; j++) {
            float angle = (float)i * (float)exp((double)((float)j * step));
            row[j] = (float)sin((double)angle) + segments[j];
            row[half + j] = (float)cos((double)angle) + segments[half + j];
        }
        if (c->dim % 2) row[c->dim - 1] = segments[c->dim - 1];
    }
    free(segments);
    return source_add_values(context->source, "position_embedding", rows, c->dim, table, error);
}

const FamilyHook families_kosmos[] = {
    {"kosmos", .finish = kosmos_finish},
    {"kosmos_2_5", .more = kosmos_2_5_more},
    {0},
};
