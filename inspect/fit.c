#include "inspect/fit.h"

#include <stdio.h>
#include <stdlib.h>

#include "cache/kvcache_sizes.h"
#include "inspect/size_text.h"
#include "kernels/tensor.h"

/* A text too short to say that a model fits. */
enum { SHORT_TEXT = 512 };

/* The types that --type takes, from the best down, and the bytes of 256 weights. */
static const struct {
    const char *name;
    double bytes;
} types[] = {{"q8", 272}, {"q6", 212}, {"q5", 180}, {"q4m", 158}, {"q4", 150}};

static int by_offset(const void *a, const void *b) {
    const FileTensor *x = *(const FileTensor *const *)a, *y = *(const FileTensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The bytes of all vectors, and the elements of all matrices. Tensors that share their bytes, as
 * tied embeddings do, count once. False: no memory. */
static bool fit_count(const ModelFile *file, double *vectors, double *elements) {
    size_t n = modelfile_n_tensors(file);
    const FileTensor **tensors = malloc((n + 1) * sizeof *tensors);
    if (!tensors) return false;
    for (size_t i = 0; i < n; i++) tensors[i] = modelfile_tensor(file, i);
    qsort(tensors, n, sizeof *tensors, by_offset);
    *vectors = *elements = 0;
    for (size_t i = 0; i < n; i++) {
        const FileTensor *t = tensors[i];
        if (i > 0 && tensors[i - 1]->offset == t->offset) continue;
        if (t->type == TENSOR_VECTOR)
            *vectors += (double)t->bytes;
        else
            *elements += (double)t->rows * (double)t->cols * t->count;
    }
    free(tensors);
    return true;
}

/* The longest context up to `most` whose cache takes no more than `bytes`. */
static size_t longest(const KvShape *shape, size_t most, double bytes) {
    size_t low = 0, high = most;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if ((double)kvcache_sequence_bytes(shape, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

Fit fit_of(const Session *session, double free_bytes) {
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t context = model_context(session->model);
    Fit fit = {.free = free_bytes, .weights = (double)modelfile_bytes(session->file)};
    fit.cache = (double)kvcache_sequence_bytes(&shape, context);
    double some =
        (double)kvcache_sequence_bytes(&shape, context < SHORT_TEXT ? context : SHORT_TEXT);
    fit.weights_fit = fit.weights + some <= free_bytes;
    fit.context = fit.weights_fit ? longest(&shape, context, free_bytes - fit.weights) : 0;
    double vectors, elements;
    if (fit.weights_fit || !fit_count(session->file, &vectors, &elements)) return fit;
    for (size_t i = 0; !fit.type && i < sizeof types / sizeof *types; i++) {
        double bytes = vectors + elements * types[i].bytes / 256;
        if (bytes >= fit.weights || bytes + some > free_bytes) continue;
        fit.type = types[i].name;
        fit.type_bytes = bytes;
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
        snprintf(text, size, "%s free: the weights' %s do not fit; with --type %s they take %s",
                 room, weights, fit->type, size_text(fit->type_bytes, bytes, sizeof bytes));
    else
        snprintf(text, size, "%s free: the weights' %s do not fit and are read again from disk",
                 room, weights);
}
