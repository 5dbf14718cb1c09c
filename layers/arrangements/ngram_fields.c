#include "layers/arrangements/ngram_fields.h"

#include "layers/state/recurrence.h"

/* clang-format off */
const FieldTable ngram_keys = FIELD_TABLE(
    KEY_UINT("ngram_size", ngram.hash.size, NGRAM_HASH_MAX_SIZE),
    KEY_UINT("ngram_heads", ngram.hash.heads, NGRAM_HASH_MAX_TABLES),
    KEY_UINT("ngram_dim", ngram.dim, 1 << 16),
    KEY_UINT("ngram_kernel", ngram.conv_kernel, CONVOLUTION_MAX_KERNEL),
    KEY_UINT("ngram_vocab", ngram.hash.vocab_base, 1 << 27),
    KEY_UINT("ngram_row_factor", ngram.hash.row_factor, 1 << 16),
    KEY_UINT("ngram_parts", ngram.hash.parts, 1 << 10),
    KEY_UINT("ngram_seed", ngram.hash.seed, UINT32_MAX),
    KEY_UINT("ngram_end_token", ngram.end_token, (1 << 24) - 1),
    KEY("ngram_layer", ngram.layer, FIELD_PER_LAYER, .most = CONFIG_MAX_LAYERS));

/* clang-format on */

enum { MOST_TABLES = 1024 }; /* of all layers: each is a prime to be found */

/* Checks what n-grams read of the configuration. Layers with n-grams are numbered 1, 2, ... in
 * their order; only delta layers have the state that these need. */
Status ngram_validate(const Config *c, Error *error) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        if (c->ngram.layer[l] == 0) continue;
        if (c->layer_kind[l] != LAYER_DELTA || c->ngram.layer[l] != ++n)
            return error_set(error, "layer %u: ngram_layer is %u, with layer_kind %u", l,
                             c->ngram.layer[l], c->layer_kind[l]);
    }
    if (n == 0) return STATUS_OK;
    uint64_t tables = ngram_hash_tables(&c->ngram.hash);
    if (tables == 0 || tables > NGRAM_HASH_MAX_TABLES || tables * n > MOST_TABLES ||
        c->ngram.dim == 0 || c->ngram.dim % tables != 0)
        return error_set(error, "ngram_size %u and ngram_heads %u of %u layers, with ngram_dim %u",
                         c->ngram.hash.size, c->ngram.hash.heads, n, c->ngram.dim);
    if (c->ngram.conv_kernel == 0 ||
        (c->ngram.conv_kernel - 1) * c->ngram.hash.size + 1 > CONVOLUTION_MAX_KERNEL)
        return error_set(error, "ngram_kernel %u with ngram_size %u", c->ngram.conv_kernel,
                         c->ngram.hash.size);
    if (c->ngram.hash.vocab_base == 0 || c->ngram.hash.row_factor == 0 || c->ngram.hash.parts == 0)
        return error_set(error, "ngram_vocab %u, ngram_row_factor %u, ngram_parts %u",
                         c->ngram.hash.vocab_base, c->ngram.hash.row_factor, c->ngram.hash.parts);
    if (c->ngram.end_token >= c->vocab_size)
        return error_set(error, "ngram_end_token is %u, but vocab_size is %u", c->ngram.end_token,
                         c->vocab_size);
    return STATUS_OK;
}

double ngram_work(const Config *c) {
    double n = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) n += c->ngram.layer[l] > 0;
    return n * c->ngram.dim * c->dim * (1.0 + c->gated_streams);
}
