/* Prints what every step of one forward pass computes, for tests/compare_family.py:
 *
 *     print_steps [--family PAGE] MODEL CONTEXT ID...
 *
 * MODEL is any source that `run` takes, CONTEXT the context that it is opened with (0: its own).
 * The IDs are the rows of one pass. Each step is a line "LAYER NAME ROWS COLUMNS" and so many
 * float32 after it; LAYER is -1 before the layers and n_layers after them. The values are read
 * where a PassObserver (core/model_row.h) shows them: the pass itself is that of every
 * caller. Steps of layers that are no attention, and inside mixtures of experts, are not shown;
 * what such a layer leaves in the residual stream is. Exit status 1 and the reason on stderr when
 * the model is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/convert_target.h"
#include "core/forward_steps.h"
#include "layers/model_watch.h"
#include "model.h"

/* Values that are changed in place after their product, and are whole when wo multiplies. */
typedef struct Shaped {
    const char *name;
    const float *x; /* NULL: the layer does not compute them */
    size_t width;
} Shaped;

typedef struct Steps {
    PassObserver observer; /* first, so that it is its Steps; of one layer after another */
    Model *model;
    size_t n;     /* rows */
    size_t layer; /* that runs */
    bool embeds;  /* no product has been seen */
    bool ended;   /* the last layer's residual stream has been printed */
    Shaped shaped[3];
} Steps;

static _Noreturn void fail(const char *text) {
    fprintf(stderr, "%s\n", text);
    exit(1);
}

/* Prints x[n][width], with `bias` added to each row unless it is NULL. */
static void print_step(const Steps *s, int layer, const char *name, const float *x, size_t width,
                       const float *bias) {
    float *row = malloc(width * sizeof *row);
    if (!row) fail("out of memory");
    printf("%d %s %zu %zu\n", layer, name, s->n, width);
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < width; k++) row[k] = x[i * width + k] + (bias ? bias[k] : 0.0f);
        if (fwrite(row, sizeof *row, width, stdout) != width) fail("cannot write");
    }
    free(row);
}

static void print_product(const Steps *s, const char *name, const Product *p,
                          const Linear *linear) {
    print_step(s, (int)s->layer, name, p->out, p->w->rows, linear->bias);
}

/* Prints the steps that are there when the first matrix of a layer's branch has multiplied `in`. */
static void print_input(const Steps *s, const char *residual, const char *name,
                        const ProductSet *in) {
    size_t dim = model_config(s->model)->dim;
    if (residual) print_step(s, (int)s->layer, residual, s->model->x, dim, NULL);
    print_step(s, (int)s->layer, name, in->x, in->products->w->cols, NULL);
}

static void see_attention(Steps *s, const LayerWeights *w, const ProductSet *set,
                          const Product *p) {
    const Linear *inputs[] = {&w->wq, &w->wk, &w->wv};
    static const char *const names[] = {"q", "k", "v"}, *const shaped[] = {"q_shaped", "k_shaped",
                                                                           "v_shaped"};
    if (p->w == &w->wq.w) {
        print_input(s, NULL, "attention_input", set);
        memset(s->shaped, 0, sizeof s->shaped);
    }
    for (size_t i = 0; i < 3; i++) {
        if (p->w != &inputs[i]->w) continue;
        print_product(s, names[i], p, inputs[i]);
        s->shaped[i] = (Shaped){shaped[i], p->out, p->w->rows};
    }
    if (p->w != &w->wo.w) return;
    for (size_t i = 0; i < 3; i++)
        if (s->shaped[i].x)
            print_step(s, (int)s->layer, s->shaped[i].name, s->shaped[i].x, s->shaped[i].width,
                       NULL);
    print_step(s, (int)s->layer, "attended", set->x, p->w->cols, NULL);
    print_product(s, "attention_output", p, &w->wo);
}

static void see_feed_forward(Steps *s, const LayerWeights *w, const ProductSet *set,
                             const Product *p) {
    const FeedForward *f = &w->ffn;
    bool gated = model_config(s->model)->gated;
    if (p->w == &w->router.w || p->w == (gated ? &f->gate.w : &f->up.w))
        print_input(s, "residual_between", "ffn_input", set);
    if (p->w == &w->router.w) print_product(s, "router", p, &w->router);
    if (p->w == &f->gate.w) print_product(s, "gate", p, &f->gate);
    if (p->w == &f->up.w) print_product(s, "up", p, &f->up);
    if (p->w != &f->down.w) return;
    print_step(s, (int)s->layer, "activated", set->x, p->w->cols, NULL);
    print_product(s, "ffn_output", p, &f->down);
}

static void see_products(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    Steps *s = (Steps *)observer;
    const Weights *weights = &s->model->weights;
    const Config *c = model_config(s->model);
    if (s->embeds) print_step(s, -1, "embedding", s->model->x, c->dim, NULL);
    s->embeds = false;
    for (size_t i = 0; i < n_sets; i++) {
        if (sets[i].n_rows != s->n || sets[i].rows) continue; /* an expert's */
        for (size_t k = 0; k < sets[i].n_products; k++) {
            const Product *p = &sets[i].products[k];
            if (p->w == &weights->output.w) {
                print_step(s, (int)s->layer, "residual", s->model->x, c->dim, NULL);
                print_step(s, (int)c->n_layers, "final_norm", sets[i].x, c->dim, NULL);
                s->ended = true;
            }
            see_attention(s, &weights->layers[s->layer], &sets[i], p);
            see_feed_forward(s, &weights->layers[s->layer], &sets[i], p);
        }
    }
}

static int begin_layer(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    Steps *s = (Steps *)observer;
    size_t n_layers = model_config(s->model)->n_layers;
    s->layer = (size_t)(done * (double)n_layers + 0.5);
    (void)most, (void)n_rows, (void)work;
    return 1;
}

static void end_layer(PassObserver *observer) {
    Steps *s = (Steps *)observer;
    if (!s->ended)
        print_step(s, (int)s->layer, "residual", s->model->x, model_config(s->model)->dim, NULL);
}

static void run_steps(ModelFile *file, uint32_t context, const char *const *ids, size_t n) {
    Error error;
    Model *model;
    KvCache *cache;
    ModelOptions options = {.n_threads = 1, .context = context};
    if (model_open(&model, file, &options, &error) != STATUS_OK) fail(error.text);
    KvShape shape = model_kv_shape(model, KV_F32);
    if (kvcache_new(&cache, &shape, 1, 0, &error) != STATUS_OK) fail(error.text);
    kvcache_reset(cache, 0, 0);
    size_t vocab_size = model_config(model)->vocab_size;
    Row *rows = calloc(n, sizeof *rows);
    float *logits = malloc(n * vocab_size * sizeof *logits);
    if (!rows || !logits) fail("out of memory");
    for (size_t i = 0; i < n; i++)
        rows[i] = (Row){0, (int32_t)i, (int32_t)strtol(ids[i], NULL, 10), true};
    Steps s = {.observer = {.part_begins = begin_layer,
                            .multiplied = see_products,
                            .reads_inputs = true,
                            .part_ends = end_layer},
               .model = model,
               .n = n,
               .embeds = true};
    model_add_observer(model, &s.observer);
    if (model_forward(model, cache, rows, n, logits, &error) != STATUS_OK) fail(error.text);
    print_step(&s, (int)model_config(model)->n_layers, "logits", logits, vocab_size, NULL);
    free(rows);
    free(logits);
    kvcache_free(cache);
    model_close(model);
}

int main(int argc, char **argv) {
    Error error;
    ConvertOptions options = {.n_threads = 1};
    ModelFile *file = NULL;
    int fd = -1, at = 1;
    if (argc > 2 && strcmp(argv[1], "--family") == 0) {
        options.source.family = argv[2];
        at = 3;
    }
    if (argc - at < 3) {
        fprintf(stderr, "usage: print_steps [--family PAGE] MODEL CONTEXT ID...\n");
        return 2;
    }
    if (convert_temporary(argv[at], &options, &fd, &error) != STATUS_OK ||
        modelfile_open(&file, argv[at], fd, &error) != STATUS_OK)
        fail(error.text);
    run_steps(file, (uint32_t)strtoul(argv[at + 1], NULL, 10), (const char *const *)argv + at + 2,
              (size_t)(argc - at) - 2);
    modelfile_close(file);
    return fflush(stdout) == 0 ? 0 : 1;
}
