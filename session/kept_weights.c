#include "session/kept_weights.h"

#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>

#if !defined(MADV_PAGEOUT) /* older headers */
#define MADV_PAGEOUT 21
#endif

/* A multiple of huge pages, and large enough that a disk reads at its full rate. */
static const size_t CHUNK = (size_t)4 << 20;

/* The share of the free memory that is left for the cache, the working memory, what the kernel
 * reads ahead, and other programs. */
enum { SPARE_PART = 8 };

struct KeptWeights {
    PassHook hook; /* the first field: its functions are called with it */
    char *map;
    size_t bytes; /* of the file */
    size_t chunk;
    size_t n_chunks; /* whole ones; the rest of the file stays */
    bool *stays;     /* [n_chunks] */
    KeptWeightsCounts counts;
};

size_t kept_weights_bytes(const ModelFile *file, double free_bytes) {
    double bytes = (double)modelfile_bytes(file);
    if (bytes <= free_bytes || modelfile_config(file)->experts.count > 0) return SIZE_MAX;
    return free_bytes > 0.0 ? (size_t)(free_bytes - free_bytes / SPARE_PART) : 0;
}

/* Gives up the chunks that the matrix's bytes reach into, but for one that it shares with the
 * matrix after it. */
static void kept_weights_used(KeptWeights *k, const Matrix *w) {
    const char *data = (const char *)w->data;
    if (data < k->map || data >= k->map + k->bytes) return; /* of another file, or made later */
    size_t at = (size_t)(data - k->map);
    size_t end = at + w->panel_bytes * ((w->rows + PANEL_ROWS - 1) / PANEL_ROWS);
    for (size_t c = at / k->chunk; c < k->n_chunks && (c + 1) * k->chunk <= end; c++) {
        if (k->stays[c]) continue;
        madvise(k->map + c * k->chunk, k->chunk, MADV_PAGEOUT);
        k->counts.given_up++;
    }
}

/* PassHook.multiplied: the products are complete, and one thread advises while others go on. */
static void kept_weights_multiplied(const PassHook *hook, const ProductSet *sets, size_t n_sets) {
    if (omp_get_thread_num() != 0) return;
    for (size_t i = 0; i < n_sets; i++)
        for (size_t j = 0; j < sets[i].n_products; j++)
            kept_weights_used((KeptWeights *)hook, sets[i].products[j].w);
}

/* Spreads the chunks that stay evenly: chunk c does where the sum reaches the next whole number of
 * files. */
static void kept_weights_choose(KeptWeights *k, size_t n_kept) {
    size_t sum = 0;
    if (n_kept > k->n_chunks) n_kept = k->n_chunks;
    for (size_t c = 0; c < k->n_chunks; c++) {
        sum += n_kept;
        k->stays[c] = sum >= k->n_chunks;
        if (k->stays[c]) sum -= k->n_chunks;
        k->counts.passing += !k->stays[c];
    }
}

KeptWeights *kept_weights_open(Model *model, const ModelFile *file, size_t kept, size_t chunk) {
    KeptWeights *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->hook = (PassHook){.multiplied = kept_weights_multiplied};
    k->map = (char *)modelfile_header(file);
    k->bytes = modelfile_bytes(file);
    k->chunk = chunk ? chunk : CHUNK;
    k->n_chunks = k->bytes / k->chunk;
    k->stays = calloc(k->n_chunks + 1, sizeof *k->stays);
    if (!k->stays) {
        free(k);
        return NULL;
    }
    kept_weights_choose(k, kept / k->chunk);
    model_set_hook(model, &k->hook);
    return k;
}

void kept_weights_close(KeptWeights *k) {
    if (!k) return;
    free(k->stays);
    free(k);
}

KeptWeightsCounts kept_weights_counts(const KeptWeights *k) {
    return k->counts;
}
