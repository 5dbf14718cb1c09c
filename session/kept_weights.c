#include "session/kept_weights.h"

#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/weights.h"
#include "layers/model_watch.h"

/* A multiple of huge pages, and large enough that a disk reads at its full rate. */
static const size_t CHUNK = (size_t)4 << 20;

/* The share of the free memory that is left for the cache, the working memory and other programs.
 */
enum { SPARE_PART = 8 };

/* Bytes that the kernel reads ahead of the products. */
static const double READ_AHEAD = 32 << 20;

struct KeptWeights {
    PassObserver observer; /* the first field: the forward pass hands it back */
    int fd;                /* of the mapped file */
    size_t page;           /* bytes */
    size_t kept;           /* bytes of the file that the memory can hold */
    char *map;
    size_t bytes; /* of the file */
    size_t chunk;
    size_t n_chunks;    /* whole ones; the rest of the file stays */
    bool *stays;        /* [n_chunks] */
    bool *multiplied;   /* [n_chunks]: products have read them; tables are only looked up */
    size_t n_kept;      /* how many of those may stay */
    size_t n_chosen_of; /* counts.multiplied when `stays` was chosen last */
    const void *first;  /* data of the matrix with which a pass begins; NULL: none was seen */
    KeptWeightsCounts counts;
};

/* The bytes of the largest matrix. */
static double largest_matrix(const ModelFile *file) {
    double largest = 0.0;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        double bytes = (double)t->bytes / (t->count ? t->count : 1);
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

/* A matrix is given up when all of its products are complete: until then it is in memory beside
 * what stays. With less room than that the kernel drops what was to stay. */
size_t kept_weights_bytes(const ModelFile *file, double free_bytes) {
    double bytes = (double)modelfile_bytes(file);
    if (modelfile_mapped_fd(file) < 0) return SIZE_MAX;
    if (bytes <= free_bytes) return SIZE_MAX;
    if (free_bytes <= 0.0) return 0;
    double spare = fmax(free_bytes / SPARE_PART, largest_matrix(file) + READ_AHEAD);
    return (size_t)(free_bytes - fmin(spare, free_bytes / 2.0));
}

static size_t panels_bytes(const Matrix *w) {
    return w->panel_bytes * ((w->rows + PANEL_ROWS - 1) / PANEL_ROWS);
}

/* Spreads the chunks that stay evenly: chunk c does where the sum reaches the next whole number of
 * files. Chunks that no pass has multiplied with, such as those of an embedding table, are left to
 * the kernel and take no part; before the first pass all do. */
static void kept_weights_choose(KeptWeights *k) {
    size_t among = k->counts.multiplied ? k->counts.multiplied : k->n_chunks, sum = 0;
    size_t n_kept = k->n_kept < among ? k->n_kept : among;
    k->counts.passing = 0;
    k->n_chosen_of = k->counts.multiplied;
    for (size_t c = 0; c < k->n_chunks; c++) {
        bool takes_part = !k->counts.multiplied || k->multiplied[c];
        if (takes_part) sum += n_kept;
        k->stays[c] = !takes_part || sum >= among;
        if (takes_part && k->stays[c]) sum -= among;
        k->counts.passing += !k->stays[c];
    }
}

/* Gives up the chunks that the matrix's bytes reach into, but for one that it shares with the
 * matrix after it. */
static void kept_weights_used(KeptWeights *k, const Matrix *w) {
    const char *data = (const char *)w->data;
    if (data < k->map || data >= k->map + k->bytes) return; /* of another file, or made later */
    size_t at = (size_t)(data - k->map);
    size_t end = at + panels_bytes(w);
    if (!k->first) k->first = data;
    if (k->first == data && k->counts.multiplied != k->n_chosen_of) kept_weights_choose(k);
    for (size_t c = at / k->chunk; c < k->n_chunks && (c + 1) * k->chunk <= end; c++) {
        if (!k->multiplied[c]) k->counts.multiplied++;
        k->multiplied[c] = true;
        if (k->stays[c]) continue;
        madvise(k->map + c * k->chunk, k->chunk, MADV_DONTNEED);
        posix_fadvise(k->fd, (off_t)(c * k->chunk), (off_t)k->chunk, POSIX_FADV_DONTNEED);
        k->counts.given_up++;
    }
}

/* PassObserver.multiplied: the products are complete, and one thread advises while others go on. */
static void kept_weights_multiplied(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    if (omp_get_thread_num() != 0) return;
    for (size_t i = 0; i < n_sets; i++)
        for (size_t j = 0; j < sets[i].n_products; j++)
            kept_weights_used((KeptWeights *)observer, sets[i].products[j].w);
}

/* Asks the kernel to read the matrix's pages, without waiting for them. */
static void kept_weights_ask(const KeptWeights *k, const Matrix *w) {
    const char *data = (const char *)w->data;
    if (!data || data < k->map || data >= k->map + k->bytes) return;
    size_t at = (size_t)(data - k->map), from = at / k->page * k->page;
    madvise(k->map + from, at + panels_bytes(w) - from, MADV_WILLNEED);
}

/* Whether the memory holds the experts that were chosen. Those of a long prompt, asked for at once,
 * would push each other out before they are used. */
static bool kept_weights_hold(const KeptWeights *k, const FeedForward *experts,
                              const uint32_t *first, size_t n_experts) {
    size_t bytes = 0;
    for (size_t e = 0; e < n_experts; e++)
        if (first[e + 1] != first[e])
            bytes += panels_bytes(&experts[e].gate.w) + panels_bytes(&experts[e].up.w) +
                     panels_bytes(&experts[e].down.w);
    return bytes <= k->kept;
}

/* PassObserver.chosen: the threads share the experts, and ask in the order in which the pass
 * multiplies: gate and up of all of them, then down. */
static void kept_weights_chosen(PassObserver *observer, const FeedForward *experts,
                                const uint32_t *first, size_t n_experts) {
    KeptWeights *k = (KeptWeights *)observer;
    size_t thread = (size_t)omp_get_thread_num(), n_threads = (size_t)omp_get_num_threads(), i = 0;
    if (!kept_weights_hold(k, experts, first, n_experts)) return;
    for (size_t e = 0; e < n_experts; e++) {
        if (first[e + 1] == first[e] || i++ % n_threads != thread) continue;
        kept_weights_ask(k, &experts[e].gate.w);
        kept_weights_ask(k, &experts[e].up.w);
    }
    for (size_t e = i = 0; e < n_experts; e++)
        if (first[e + 1] != first[e] && i++ % n_threads == thread)
            kept_weights_ask(k, &experts[e].down.w);
    if (thread == 0) k->counts.asked += i;
}

KeptWeights *kept_weights_open(Model *model, const ModelFile *file, size_t kept, size_t chunk) {
    KeptWeights *k = modelfile_mapped_fd(file) < 0 ? NULL : calloc(1, sizeof *k);
    if (!k) return NULL;
    k->observer =
        (PassObserver){.multiplied = kept_weights_multiplied, .chosen = kept_weights_chosen};
    k->fd = modelfile_mapped_fd(file);
    k->page = (size_t)sysconf(_SC_PAGESIZE);
    k->kept = kept;
    k->map = (char *)modelfile_header(file);
    k->bytes = modelfile_bytes(file);
    k->chunk = chunk ? chunk : CHUNK;
    k->n_chunks = k->bytes / k->chunk;
    k->stays = calloc(k->n_chunks + 1, sizeof *k->stays);
    k->multiplied = calloc(k->n_chunks + 1, sizeof *k->multiplied);
    if (!k->stays || !k->multiplied) {
        kept_weights_close(k);
        return NULL;
    }
    /* What a mixture used last is what it most likely uses next: all of it may stay. */
    bool mixture = modelfile_config(file)->experts.count > 0;
    k->n_kept = mixture ? k->n_chunks : kept / k->chunk;
    kept_weights_choose(k);
    model_add_observer(model, &k->observer);
    return k;
}

PassObserver *kept_weights_observer(KeptWeights *k) {
    return &k->observer;
}

void kept_weights_close(KeptWeights *k) {
    if (!k) return;
    free(k->stays);
    free(k->multiplied);
    free(k);
}

KeptWeightsCounts kept_weights_counts(const KeptWeights *k) {
    return k->counts;
}
