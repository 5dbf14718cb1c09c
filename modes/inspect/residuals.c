#include "modes/inspect/residuals.h"

#include <stdlib.h>
#include <string.h>

#include "layers/model_watch.h"

/* One call of model_forward. */
typedef struct KeptPass {
    Row *rows; /* [n] */
    size_t n;
    float **layers; /* [n_layers]: [n][dim] before a layer; NULL: not kept */
} KeptPass;

struct Residuals {
    PassObserver observer; /* the first field: the forward pass hands it back */
    size_t dim, n_layers, bytes, most_bytes;
    size_t stride; /* the layers that are kept are multiples of it */
    KeptPass *passes;
    size_t n_passes, capacity;
    size_t next; /* pass of the run */
    size_t first;
    bool keeps, failed;
};

static void drop_layer(Residuals *r, KeptPass *pass, size_t layer) {
    if (pass->layers[layer]) r->bytes -= pass->n * r->dim * sizeof(float);
    free(pass->layers[layer]);
    pass->layers[layer] = NULL;
}

static void drop_passes(Residuals *r) {
    for (size_t i = 0; i < r->n_passes; i++) {
        for (size_t l = 0; l < r->n_layers; l++) drop_layer(r, &r->passes[i], l);
        free(r->passes[i].rows);
        free(r->passes[i].layers);
    }
    r->n_passes = 0;
}

/* Keeps half as many layers as before. */
static void widen_stride(Residuals *r) {
    r->stride *= 2;
    for (size_t i = 0; i < r->n_passes; i++)
        for (size_t l = 0; l < r->n_layers; l++)
            if (l % r->stride != 0) drop_layer(r, &r->passes[i], l);
}

static bool take_layers(Residuals *r, KeptPass *pass) {
    for (size_t l = r->stride; l < r->n_layers; l += r->stride) {
        pass->layers[l] = malloc(pass->n * r->dim * sizeof(float));
        if (!pass->layers[l]) return false;
        r->bytes += pass->n * r->dim * sizeof(float);
    }
    return true;
}

/* Adds a pass. False: no memory. */
static bool add_pass(Residuals *r, const Row *rows, size_t n) {
    if (r->n_passes == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 16;
        KeptPass *passes = realloc(r->passes, capacity * sizeof *passes);
        if (!passes) return false;
        r->passes = passes;
        r->capacity = capacity;
    }
    KeptPass *pass = &r->passes[r->n_passes++];
    *pass = (KeptPass){.n = n, .layers = calloc(r->n_layers, sizeof *pass->layers)};
    pass->rows = malloc(n * sizeof *pass->rows);
    if (!pass->layers) {
        free(pass->rows);
        r->n_passes--;
        return false;
    }
    if (!pass->rows || !take_layers(r, pass)) return false;
    memcpy(pass->rows, rows, n * sizeof *rows);
    while (r->bytes > r->most_bytes && r->stride < r->n_layers) widen_stride(r);
    return true;
}

static bool is_pass(const KeptPass *pass, const Row *rows, size_t n) {
    if (pass->n != n) return false;
    for (size_t i = 0; i < n; i++)
        if (pass->rows[i].sequence != rows[i].sequence ||
            pass->rows[i].position != rows[i].position || pass->rows[i].token != rows[i].token)
            return false;
    return true;
}

/* PassObserver.begin */
static size_t begin_pass(PassObserver *observer, const Row *rows, size_t n, const float **x) {
    Residuals *r = (Residuals *)observer;
    if (!x) return 0;
    size_t pass = r->next++;
    if (r->failed) return 0;
    if (r->first == 0) {
        r->failed = !add_pass(r, rows, n);
        return 0;
    }
    if (pass >= r->n_passes || !is_pass(&r->passes[pass], rows, n)) {
        r->failed = true;
        return 0;
    }
    *x = r->passes[pass].layers[r->first];
    return r->first;
}

/* PassObserver.reached */
static void keep_row(PassObserver *observer, size_t layer, size_t row, const float *x) {
    const Residuals *r = (const Residuals *)observer;
    if (!r->keeps || r->failed || layer % r->stride != 0) return;
    memcpy(r->passes[r->next - 1].layers[layer] + row * r->dim, x, r->dim * sizeof *x);
}

Residuals *residuals_new(const Config *config, size_t most_bytes) {
    Residuals *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->observer = (PassObserver){.begin = begin_pass, .reached = keep_row};
    r->dim = config->dim;
    r->n_layers = config->n_layers;
    r->most_bytes = most_bytes;
    r->stride = 1;
    return r;
}

void residuals_free(Residuals *r) {
    if (!r) return;
    drop_passes(r);
    free(r->passes);
    free(r);
}

PassObserver *residuals_begin(Residuals *r, size_t layer, bool keeps) {
    if (layer >= r->n_layers) layer = r->n_layers - 1;
    r->first = r->n_passes > 0 ? layer - layer % r->stride : 0;
    r->next = 0;
    r->keeps = keeps;
    if (r->failed || (r->first == 0 && !keeps)) {
        r->first = 0;
        return NULL;
    }
    if (r->first == 0) drop_passes(r);
    return &r->observer;
}

void residuals_observe(PassObserver *observer, Model *model) {
    if (observer && model_can_resume(model)) model_add_observer(model, observer);
}

size_t residuals_first(const Residuals *r) {
    return r->first;
}

bool residuals_matched(Residuals *r) {
    if (r->failed) drop_passes(r);
    return !r->failed || r->first == 0;
}
