#include "modes/open/fit.h"

#include <stdio.h>

#include "base/size.h"
#include "kvcache/kvcache_sizes.h"
#include "modes/open/tensor_totals.h"
#include "kernels/tensor.h"

/* A text too short to say that a model fits. */
enum { SHORT_TEXT = 512 };

/* The types that --type takes, from the best down, and the bytes of 256 weights. */
static const struct {
    const char *name;
    double bytes;
} types[] = {{"q8", 272}, {"q6", 212}, {"q5", 180}, {"q4m", 158}, {"q4", 150}};

Fit fit_of(const Session *session, double free_bytes) {
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t context = model_context(session->model);
    Fit fit = {.free = free_bytes, .weights = (double)modelfile_bytes(session->file)};
    fit.cache = (double)kvcache_sequence_bytes(&shape, context);
    double some =
        (double)kvcache_sequence_bytes(&shape, context < SHORT_TEXT ? context : SHORT_TEXT);
    fit.weights_fit = fit.weights + some <= free_bytes;
    fit.context = fit.weights_fit ? kvcache_longest(&shape, context, free_bytes - fit.weights) : 0;
    TensorTotals totals;
    if (fit.weights_fit || !tensor_totals(session->file, &totals)) return fit;
    double vectors = totals.bytes[TENSOR_VECTOR];
    double elements = totals.all - totals.parameters[TENSOR_VECTOR];
    for (size_t i = 0; !fit.type && i < sizeof types / sizeof *types; i++) {
        double bytes = vectors + elements * types[i].bytes / 256;
        if (bytes >= fit.weights || bytes + some > free_bytes) continue;
        fit.type = types[i].name;
        fit.type_bytes = bytes;
        fit.type_context = kvcache_longest(&shape, context, free_bytes - bytes);
    }
    return fit;
}

void fit_text(const Fit *fit, size_t context, char *text, size_t size) {
    char room[32], weights[32], bytes[32];
    size_text(fit->free, room, sizeof room);
    size_text(fit->weights, weights, sizeof weights);
    if (fit->weights_fit && fit->context >= context)
        snprintf(text, size, "%s free: fits, with the cache of all %zu positions", room, context);
    else if (fit->weights_fit)
        snprintf(text, size, "%s free: fits with -c %zu; the cache of %zu positions takes %s", room,
                 fit->context, context, size_text(fit->cache, bytes, sizeof bytes));
    else if (fit->type)
        snprintf(text, size,
                 "%s free: the weights' %s do not fit; with --type %s they take %s and leave room "
                 "for -c %zu",
                 room, weights, fit->type, size_text(fit->type_bytes, bytes, sizeof bytes),
                 fit->type_context);
    else
        snprintf(text, size, "%s free: the weights' %s do not fit and are read again from disk",
                 room, weights);
}

bool fit_warning(const Session *session, double free_bytes, char *text, size_t size) {
    if ((double)modelfile_bytes(session->file) <= free_bytes) return false;
    const Fit fit = fit_of(session, free_bytes);
    fit_text(&fit, model_context(session->model), text, size);
    return true;
}
