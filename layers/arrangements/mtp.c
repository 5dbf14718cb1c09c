#include "layers/arrangements/mtp.h"

#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "core/forward_steps.h"
#include "layers/arrangements/mtp_stack.h"
#include "layers/model_watch.h"

struct Mtp {
    Config config; /* the file's, with the prediction layers as further layers */
    Model *model;  /* whose stack is STACK_MTP */
};

/* ---- Opening ---- */

/* Opens a model whose layers go on with the prediction layers. */
static Status open_model(Mtp *mtp, const ModelFile *file, const Model *model, uint32_t max_rows,
                         Error *error) {
    const ModelOptions options = {.isa = model_isa(model),
                                  .n_threads = model_threads(model),
                                  .context = model_context(model),
                                  .max_rows = max_rows,
                                  .config = &mtp->config};
    Status status = model_open(&mtp->model, file, &options, error);
    if (status != STATUS_OK) return status;
    for (int table = 0; table < 2; table++) /* the user may have given another base */
        mtp->model->weights.rope_freqs[table] = model->weights.rope_freqs[table];
    /* A row computes only one of the layers. */
    double of_layers = config_work(&mtp->config, 1, 0);
    mtp->model->row_work -= of_layers * (1.0 - 1.0 / mtp->config.n_layers);
    return STATUS_OK;
}

Status mtp_open(Mtp **out, const ModelFile *file, const Model *model, uint32_t max_rows,
                Error *error) {
    const Config *c = modelfile_config(file);
    *out = NULL;
    if (c->mtp.n_layers == 0) return STATUS_OK;
    if (c->mtp.n_layers > CONFIG_MAX_LAYERS - c->n_layers || c->stack != STACK_PLAIN)
        return error_set(error, "%s: %u prediction layers after %u layers", modelfile_path(file),
                         c->mtp.n_layers, c->n_layers);
    Mtp *mtp = calloc(1, sizeof *mtp);
    if (!mtp) return error_set(error, "no memory for prediction layers");
    mtp->config = *c;
    mtp->config.n_layers += c->mtp.n_layers;
    mtp->config.stack = STACK_MTP;
    Status status = config_validate(&mtp->config, error);
    if (status != STATUS_OK) {
        error_prefix(error, "%s: prediction layers", modelfile_path(file));
    } else {
        status = open_model(mtp, file, model, max_rows, error);
    }
    if (status == STATUS_OK) {
        *out = mtp;
    } else {
        mtp_close(mtp);
    }
    return status;
}

void mtp_close(Mtp *mtp) {
    if (!mtp) return;
    model_close(mtp->model);
    free(mtp);
}

uint32_t mtp_layers(const Mtp *mtp) {
    return mtp->config.mtp.n_layers;
}

uint32_t mtp_max_rows(const Mtp *mtp) {
    return mtp->model->max_rows;
}

KvShape mtp_kv_shape(const Mtp *mtp, KvType type) {
    KvShape shape = model_kv_shape(mtp->model, type);
    uint32_t first = mtp->config.n_layers - mtp->config.mtp.n_layers;
    for (uint32_t l = 0; l < first; l++) shape.layers[l] = (KvLayer){.n_kv_heads = 0};
    return shape;
}

/* ---- Calls ---- */

/* out[n][dim] = the norm of rows [first, first + n) of x. */
static void final_states(const Model *model, const Norm *norm, size_t first, size_t n, float *out) {
    size_t dim = model->config->dim;
    for (size_t i = 0; i < n; i++) {
        const float *x = model->x + (first + i) * dim;
        if (model->config->final_norm) {
            forward_normalize(model, norm, out + i * dim, x, dim);
        } else {
            memcpy(out + i * dim, x, dim * sizeof *out);
        }
    }
}

void mtp_hidden(const Model *model, size_t first, size_t n, float *out) {
    final_states(model, &model->weights.final_norm, first, n, out);
}

Status mtp_forward(Mtp *mtp, KvCache *cache, uint32_t layer, const Row *rows, size_t n,
                   const float *hidden, float *logits, float *next, Error *error) {
    const MtpStack *stack = mtp->model->weights.stack;
    const MtpLayer *own = &stack->layers[layer];
    const PassPath path = {.first_layer = stack->first + layer,
                           .end_layer = stack->first + layer + 1,
                           .embedding = &own->embedding,
                           .final_norm = &own->final_norm,
                           .output = &own->output,
                           .hidden = hidden};
    Status status = model_forward_along(mtp->model, &path, cache, rows, n, logits, error);
    if (status == STATUS_OK && next) final_states(mtp->model, &own->final_norm, 0, n, next);
    return status;
}
