#include "adapters/lora.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "core/forward_steps.h"
#include "kernels/panel_pack.h"
#include "layers/experts/mixture.h"
#include "layers/model_watch.h"

enum {
    MOST_TARGETS = 8,   /* of one input that are computed together */
    MOST_WIDTH = 16384, /* columns of outputs at a time, which bounds the working memory */
};

static const uint32_t NONE = UINT32_MAX;

/* What one adapter adds to one matrix of the model. */
typedef struct Part {
    Matrix a; /* rank x cols; its data may be another part's */
    Matrix b; /* rows x rank */
    bool owns_a;
    float scale;
} Part;

/* A matrix of the model that some adapter adds to. */
typedef struct Target {
    /* Its weights in the file: their address identifies the matrix in a pass, or the rows of it
     * that are a rank's (core/model_row.h: Exchange). */
    const uint8_t *data;
    size_t bytes;
    Linear *linear;    /* the model's, which has lent its bias; NULL: it has none */
    const float *lent; /* the bias that it gets back */
    const float *bias; /* of all rows, added before the adapters; NULL: none */
    bool is_output;    /* multiplies only the rows that want logits */
    uint32_t expert;   /* multiplies only the rows that chose this one; NONE: no expert's */
    Part *parts;       /* [LORA_MOST], without data where the adapter adds nothing; owned */
} Target;

/* An adapter's addition to the embedding of a token: scale * token_factor[token] dim_factor. */
typedef struct EmbeddingPart {
    float *token_factor; /* [vocab_size][rank], owned; NULL: none */
    float *dim_factor;   /* [rank][dim], owned */
    size_t rank;
    float scale;
} EmbeddingPart;

/* The rows of a pass by adapter: all rows, or only the rows that want logits. */
typedef struct RowLists {
    size_t n_rows;
    size_t n[LORA_MOST]; /* rows of each adapter ... */
    uint32_t *rows;      /* [adapters][max_rows] ... in rising order */
    uint32_t *place;     /* [adapters][max_rows] row r is number place[r] of its list; else NONE */
    bool dense[LORA_MOST]; /* the rows follow each other */
} RowLists;

struct Lora {
    PassObserver observer; /* the first field: the forward pass hands it back */
    Model *model;
    const ModelFile *file;
    size_t n; /* adapters */
    size_t bytes[LORA_MOST], n_matrices[LORA_MOST];
    Target *targets; /* sorted by `data` */
    size_t n_targets, targets_capacity;
    EmbeddingPart embedding[LORA_MOST];
    size_t widest, deepest, most_cols; /* rows, rank and cols of the parts, at most */

    uint64_t *selected; /* [n_selected], by sequence; the others have all adapters */
    size_t n_selected, selected_capacity;

    /* A pass. */
    const Row *pass_rows;
    uint64_t *masks;   /* [max_rows] adapters of each row */
    RowLists lists[2]; /* of all rows; of those that want logits */
    RowLists *chosen;  /* [n_threads] of the rows of an expert; NULL: no adapter adds to one */
    Barrier barrier;
    MatmulMemory *matmul;
    size_t block;    /* columns of outputs at a time */
    float *gathered; /* [max_rows][most_cols] inputs of adapters whose rows are not dense */
    float *inner;    /* [max_rows][MOST_TARGETS * deepest] A x */
    float *outer;    /* [max_rows][block] B (A x) */
    float *sums;     /* [n_threads][dim], of embeddings */
};

/* ---- The model's matrices ---- */

/* The number of the expert that has the matrix of this name; NONE: it is not an expert's. */
static uint32_t expert_of(const Model *m, const char *name) {
    unsigned layer, expert;
    bool found = sscanf(name, "layers.%u.experts.%u.", &layer, &expert) == 2;
    return found && expert < m->config->experts.count ? expert : NONE;
}

/* The linear map of the model that has this matrix, whose bias the forward pass adds; NULL: it is
 * none of those whose bias is known. */
static Linear *find_linear(Model *m, const char *name, const uint8_t *data, size_t bytes) {
    unsigned layer;
    int at = 0;
    if (strcmp(name, "output") == 0) return &m->weights.output;
    if (sscanf(name, "layers.%u.%n", &layer, &at) != 1 || at == 0 || layer >= m->weights.n_layers)
        return NULL;
    LayerWeights *w = &m->weights.layers[layer];
    uint32_t expert = expert_of(m, name);
    FeedForward *f = expert != NONE && w->experts ? &w->experts[expert] : &w->ffn;
    Linear *const all[] = {&w->wq,        &w->wk,          &w->wv,         &w->wo,
                           &f->gate,      &f->up,          &f->down,       &w->router,
                           &w->shared.up, &w->shared.gate, &w->shared.down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->w.data >= data && all[i]->w.data < data + bytes) return all[i];
    return NULL;
}

/* Whether the matrix multiplies rows of a pass in one known order: all of them, those that want
 * logits, or those that chose an expert. Prediction layers have passes of their own. */
static bool takes_known_rows(const Lora *lora, const char *name) {
    unsigned layer;
    int at = 0;
    if (strcmp(name, "output") == 0) return true;
    if (sscanf(name, "layers.%u.%n", &layer, &at) != 1 || at == 0) return false;
    return layer < lora->model->config->n_layers && strncmp(name + at, "k_b.", 4) != 0 &&
           strncmp(name + at, "v_b.", 4) != 0;
}

/* Whether another tensor has the same data, except that an output head may share the embedding's.
 */
static bool is_shared(const ModelFile *file, const FileTensor *tensor) {
    bool is_output = strcmp(tensor->name, "output") == 0;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *other = modelfile_tensor(file, i);
        if (other != tensor && other->offset == tensor->offset &&
            !(is_output && strcmp(other->name, "token_embedding") == 0))
            return true;
    }
    return false;
}

/* The target that these weights are of, whole or in part; NULL: none. */
static Target *find_target(const Lora *lora, const uint8_t *data) {
    size_t first = 0, end = lora->n_targets; /* it is before `end`, and not before `first` */
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;
        if (lora->targets[middle].data <= data)
            first = middle;
        else
            end = middle;
    }
    if (first == end) return NULL;
    Target *target = &lora->targets[first];
    return data >= target->data && data < target->data + target->bytes ? target : NULL;
}

/* Adds the model's matrix to the targets, and takes its bias over. */
static Status add_target(Lora *lora, const FileTensor *tensor, Target **out, Error *error) {
    const uint8_t *data = modelfile_data(lora->file, tensor);
    char name[MODELFILE_NAME_BYTES + 8];
    *out = find_target(lora, data);
    if (*out) return STATUS_OK;
    if (!array_reserve(&lora->targets, &lora->targets_capacity, lora->n_targets + 1,
                       sizeof *lora->targets))
        return error_set(error, "no memory for adapters");
    Linear *linear = find_linear(lora->model, tensor->name, data, (size_t)tensor->bytes);
    snprintf(name, sizeof name, "%s.bias", tensor->name);
    const FileTensor *bias = modelfile_find(lora->file, name);
    if (!linear && bias)
        return error_set(error, "adds to '%s', which has a bias: only a merged model has both",
                         tensor->name);
    Target target = {.data = data,
                     .bytes = (size_t)tensor->bytes,
                     .linear = linear,
                     .lent = linear ? linear->bias : NULL,
                     .bias = linear && linear->bias ? modelfile_data(lora->file, bias) : NULL,
                     .is_output = strcmp(tensor->name, "output") == 0,
                     .expert = expert_of(lora->model, tensor->name),
                     .parts = calloc(LORA_MOST, sizeof *target.parts)};
    if (!target.parts) return error_set(error, "no memory for adapters");
    if (linear) linear->bias = NULL;
    size_t at = lora->n_targets++;
    while (at > 0 && lora->targets[at - 1].data > data) {
        lora->targets[at] = lora->targets[at - 1];
        at--;
    }
    lora->targets[at] = target;
    *out = &lora->targets[at];
    return STATUS_OK;
}

/* ---- Adding adapters ---- */

/* Packs x[rows][cols] into panels of a float type, malloc'ed. */
static Status pack(Lora *lora, Matrix *out, TensorType type, size_t rows, size_t cols,
                   const float *x, Error *error) {
    size_t bytes, panel_bytes;
    float *panel_rows = calloc(PANEL_ROWS * cols, sizeof *panel_rows);
    uint8_t *data = NULL;
    if (tensor_matrix_bytes(type, rows, cols, &bytes) &&
        tensor_panel_bytes(type, cols, &panel_bytes))
        data = aligned_alloc(64, round_up(bytes, 64));
    if (!panel_rows || !data) {
        free(panel_rows);
        free(data);
        return error_set(error, "no memory for adapters");
    }
    *out = (Matrix){type, rows, cols, panel_bytes, data};
    for (size_t p = 0; p < matrix_panels(out); p++) {
        size_t n = matrix_panel_outputs(out, p);
        memset(panel_rows, 0, PANEL_ROWS * cols * sizeof *panel_rows);
        memcpy(panel_rows, x + p * PANEL_ROWS * cols, n * cols * sizeof *x);
        panel_pack_floats(type, cols, panel_rows, data + p * panel_bytes);
    }
    free(panel_rows);
    lora->bytes[lora->n] += bytes;
    return STATUS_OK;
}

static float *copy_floats(const float *x, size_t n) {
    float *copy = malloc(n * sizeof *copy);
    if (copy) memcpy(copy, x, n * sizeof *copy);
    return copy;
}

/* Copies an adapter's factors of the embedding. */
static Status add_embedding(Lora *lora, const LoraMatrix *matrix, Error *error) {
    EmbeddingPart *part = &lora->embedding[lora->n];
    size_t rank = matrix->rank;
    part->rank = rank;
    part->scale = matrix->scale;
    part->token_factor = copy_floats(matrix->rows_factor, matrix->rows * rank);
    part->dim_factor = copy_floats(matrix->cols_factor, rank * matrix->cols);
    lora->bytes[lora->n] += (matrix->rows + matrix->cols) * rank * sizeof(float);
    return part->token_factor && part->dim_factor ? STATUS_OK
                                                  : error_set(error, "no memory for adapters");
}

/* An earlier matrix of the adapter with the same A; n: none. */
static size_t find_same_a(const LoraMatrix *matrices, size_t n, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (matrices[k].cols_factor == matrices[i].cols_factor) return k;
    return n;
}

/* Adds the factors of matrices[i] to their target; a factor A that an earlier matrix has is shared.
 */
static Status add_matrix(Lora *lora, const LoraMatrix *matrices, size_t n, size_t i, Matrix *a,
                         Error *error) {
    const LoraMatrix *matrix = &matrices[i];
    const FileTensor *tensor = modelfile_find(lora->file, matrix->name);
    Target *target;
    if (!tensor || tensor->type == TENSOR_VECTOR || tensor->rows != matrix->rows ||
        tensor->cols != matrix->cols)
        return error_set(error,
                         "adds %zu x %zu to '%s', which the model does not have in this shape",
                         matrix->rows, matrix->cols, matrix->name);
    if (strcmp(matrix->name, "token_embedding") == 0) return add_embedding(lora, matrix, error);
    if (!takes_known_rows(lora, matrix->name) || is_shared(lora->file, tensor))
        return error_set(error, "adds to '%s', which only a merged model can have (export --lora)",
                         matrix->name);
    if (add_target(lora, tensor, &target, error) != STATUS_OK) return STATUS_FAILED;
    Part *part = &target->parts[lora->n];
    if (part->a.data) return error_set(error, "adds to '%s' twice", matrix->name);
    size_t same = find_same_a(matrices, n, i);
    if (same < n) {
        part->a = a[same];
    } else if (pack(lora, &part->a, matrix->cols_type, matrix->rank, matrix->cols,
                    matrix->cols_factor, error) == STATUS_OK) {
        part->owns_a = true;
    } else {
        return STATUS_FAILED;
    }
    a[i] = part->a;
    part->scale = matrix->scale;
    lora->widest = size_max(lora->widest, matrix->rows);
    lora->deepest = size_max(lora->deepest, matrix->rank);
    lora->most_cols = size_max(lora->most_cols, matrix->cols);
    return pack(lora, &part->b, matrix->rows_type, matrix->rows, matrix->rank, matrix->rows_factor,
                error);
}

Status lora_add(Lora *lora, const LoraMatrix *matrices, size_t n, Error *error) {
    if (lora->n == LORA_MOST) return error_set(error, "more than %d adapters", LORA_MOST);
    Matrix *a = calloc(n + 1, sizeof *a);
    Status status = a ? STATUS_OK : error_set(error, "no memory for adapters");
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = add_matrix(lora, matrices, n, i, a, error);
    free(a);
    lora->n_matrices[lora->n++] = n;
    return status;
}

/* ---- A pass ---- */

uint64_t lora_selected(const Lora *lora, int32_t sequence) {
    return (size_t)sequence < lora->n_selected ? lora->selected[sequence] : lora_all(lora);
}

static void add_row(const Lora *lora, RowLists *lists, uint64_t mask) {
    uint32_t row = (uint32_t)lists->n_rows++;
    size_t max_rows = lora->model->max_rows;
    for (size_t j = 0; j < lora->n; j++) {
        uint32_t *list = lists->rows + j * max_rows;
        lists->place[j * max_rows + row] = NONE;
        if (!(mask >> j & 1)) continue;
        if (lists->n[j] > 0 && list[lists->n[j] - 1] + 1 != row) lists->dense[j] = false;
        lists->place[j * max_rows + row] = (uint32_t)lists->n[j];
        list[lists->n[j]++] = row;
    }
}

static void clear_rows(const Lora *lora, RowLists *lists) {
    lists->n_rows = 0;
    for (size_t j = 0; j < lora->n; j++) lists->n[j] = 0, lists->dense[j] = true;
}

/* The lists of a thread's own for the rows that chose the expert, in the order in which the mixture
 * multiplies them (layers/experts/mixture.c). */
static const RowLists *rows_of_expert(const Lora *lora, uint32_t expert) {
    const Model *m = lora->model;
    RowLists *lists = &lora->chosen[omp_get_thread_num()];
    const MixtureRows choices = mixture_choices(m);
    clear_rows(lora, lists);
    for (uint32_t i = choices.first[expert]; i < choices.first[expert + 1]; i++)
        add_row(lora, lists, lora->masks[choices.slots[i] / m->config->experts.per_token]);
    return lists;
}

/* PassObserver.begin */
static size_t begin(PassObserver *observer, const Row *rows, size_t n, const float **x) {
    (void)x;
    Lora *lora = (Lora *)observer;
    lora->pass_rows = rows;
    for (int i = 0; i < 2; i++) clear_rows(lora, &lora->lists[i]);
    for (size_t i = 0; i < n; i++) {
        lora->masks[i] = lora_selected(lora, rows[i].sequence);
        add_row(lora, &lora->lists[0], lora->masks[i]);
        if (rows[i].wants_logits) add_row(lora, &lora->lists[1], lora->masks[i]);
    }
    return 0;
}

/* PassObserver.embedded: adds the adapters of a row to the embedding x[dim] of its token. */
static void embedded(PassObserver *observer, size_t row, float *x) {
    const Lora *lora = (const Lora *)observer;
    const Numeric *numeric = lora->model->isa->numeric;
    size_t dim = lora->model->config->dim;
    float *sum = lora->sums + (size_t)omp_get_thread_num() * dim;
    for (size_t j = 0; j < lora->n; j++) {
        const EmbeddingPart *part = &lora->embedding[j];
        if (!part->token_factor || !(lora->masks[row] >> j & 1)) continue;
        const float *factor = part->token_factor + (size_t)lora->pass_rows[row].token * part->rank;
        memset(sum, 0, dim * sizeof *sum);
        for (size_t k = 0; k < part->rank; k++)
            numeric->add_scaled(sum, part->dim_factor + k * dim, factor[k], dim);
        numeric->add_scaled(x, sum, part->scale, dim);
    }
}

/* A product of the set that is being completed. */
typedef struct Job {
    const Target *target;
    const Product *product;
    size_t first; /* row of the target that the product's first row is */
} Job;

/* Some adapters, as many as the working memory has rows for, on the products of a set. */
typedef struct Group {
    const RowLists *lists;
    Job jobs[MOST_TARGETS];
    size_t n_jobs;
    size_t adapters[LORA_MOST], first_slot[LORA_MOST]; /* rows of memory of each: its first one */
    size_t n, n_slots;
    float *inner[LORA_MOST][MOST_TARGETS]; /* A x of each part */
} Group;

static const Part *part_of(const Group *g, size_t k, size_t job) {
    const Part *part = &g->jobs[job].target->parts[g->adapters[k]];
    return part->a.data ? part : NULL;
}

/* Chooses the next adapters, from number `from` on, whose rows fit the working memory. Returns the
 * number of the first one that is left. */
static size_t lora_choose(const Lora *lora, Group *g, size_t from) {
    g->n = g->n_slots = 0;
    for (; from < lora->n; from++) {
        bool adds = false;
        for (size_t t = 0; t < g->n_jobs; t++) adds = adds || g->jobs[t].target->parts[from].a.data;
        if (!adds || g->lists->n[from] == 0) continue;
        if (g->n_slots + g->lists->n[from] > lora->model->max_rows) break;
        g->adapters[g->n] = from;
        g->first_slot[g->n++] = g->n_slots;
        g->n_slots += g->lists->n[from];
    }
    return from;
}

/* Copies the rows of adapters whose rows do not follow each other. */
static void lora_gather(Lora *lora, const Group *g, const float *x, size_t cols) {
    bool any = false;
    for (size_t k = 0; k < g->n; k++) {
        size_t j = g->adapters[k];
        const uint32_t *rows = g->lists->rows + j * lora->model->max_rows;
        if (g->lists->dense[j]) continue;
        any = true;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < g->lists->n[j]; i++)
            memcpy(lora->gathered + (g->first_slot[k] + i) * cols, x + rows[i] * cols,
                   cols * sizeof *x);
    }
    if (any) barrier_wait(&lora->barrier);
}

/* The products of one call of matmul. Every thread has its own copy. */
typedef struct Sets {
    ProductSet sets[LORA_MOST * MOST_TARGETS];
    Product products[LORA_MOST * MOST_TARGETS];
    Matrix blocks[LORA_MOST * MOST_TARGETS]; /* parts of matrices */
    size_t n, n_products;
} Sets;

static void multiply(Lora *lora, const Sets *s, size_t cols) {
    if (s->n) matmul(lora->model->isa->kernels, lora->matmul, cols, s->sets, s->n);
}

/* inner = A x, for all adapters and products of the group. Parts that share A share the result. */
static void multiply_inner(Lora *lora, Group *g, const float *x, size_t cols, Sets *s) {
    float *at = lora->inner;
    s->n = s->n_products = 0;
    for (size_t k = 0; k < g->n; k++) {
        size_t j = g->adapters[k], n = g->lists->n[j], first = s->n_products;
        const float *in = g->lists->dense[j] ? x + g->lists->rows[j * lora->model->max_rows] * cols
                                             : lora->gathered + g->first_slot[k] * cols;
        for (size_t t = 0; t < g->n_jobs; t++) {
            const Part *part = part_of(g, k, t);
            size_t same = 0;
            if (!part) continue;
            while (same < t &&
                   !(part_of(g, k, same) && part_of(g, k, same)->a.data == part->a.data))
                same++;
            if (same < t) {
                g->inner[k][t] = g->inner[k][same];
                continue;
            }
            g->inner[k][t] = at;
            s->products[s->n_products++] = (Product){&part->a, at, part->a.rows};
            at += n * part->a.rows;
        }
        s->sets[s->n++] = (ProductSet){in, n, s->products + first, s->n_products - first, NULL};
    }
    multiply(lora, s, cols);
}

/* Some columns of a product's output. */
typedef struct Piece {
    size_t job, first, width; /* columns */
    size_t at;                /* in lora->outer, times the group's slots */
} Piece;

/* outer = B inner for the pieces: [slots][width] for each. One call of matmul for each rank. */
static void multiply_outer(Lora *lora, const Group *g, const Piece *pieces, size_t n_pieces,
                           Sets *s) {
    for (size_t rank = 0, next;; rank = next) {
        next = SIZE_MAX; /* the next larger rank */
        s->n = s->n_products = 0;
        for (size_t p = 0; p < n_pieces; p++) {
            const Piece *piece = &pieces[p];
            for (size_t k = 0; k < g->n; k++) {
                const Part *part = part_of(g, k, piece->job);
                if (!part) continue;
                if (part->b.cols > rank && part->b.cols < next) next = part->b.cols;
                if (part->b.cols != rank) continue;
                Matrix *block = &s->blocks[s->n];
                *block = part->b;
                block->rows = piece->width;
                block->data +=
                    (g->jobs[piece->job].first + piece->first) / PANEL_ROWS * block->panel_bytes;
                float *out = lora->outer + piece->at * g->n_slots + g->first_slot[k] * piece->width;
                s->products[s->n] = (Product){block, out, piece->width};
                s->sets[s->n] = (ProductSet){g->inner[k][piece->job], g->lists->n[g->adapters[k]],
                                             &s->products[s->n], 1, NULL};
                s->n++;
            }
        }
        multiply(lora, s, rank);
        if (next == SIZE_MAX) return;
    }
}

/* Adds the bias, the first time, and the adapters' outputs. */
static void add_pieces(Lora *lora, const Group *g, const Piece *pieces, size_t n_pieces,
                       bool with_bias) {
    const Numeric *numeric = lora->model->isa->numeric;
    size_t max_rows = lora->model->max_rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < g->lists->n_rows; i++) {
        for (size_t p = 0; p < n_pieces; p++) {
            const Piece *piece = &pieces[p];
            const Job *job = &g->jobs[piece->job];
            float *y = job->product->out + i * job->product->stride + piece->first;
            if (with_bias && job->target->bias)
                numeric->add_scaled(y, job->target->bias + job->first + piece->first, 1.0f,
                                    piece->width);
            for (size_t k = 0; k < g->n; k++) {
                const Part *part = part_of(g, k, piece->job);
                uint32_t place = g->lists->place[g->adapters[k] * max_rows + i];
                if (!part || place == NONE) continue;
                const float *add = lora->outer + piece->at * g->n_slots +
                                   (g->first_slot[k] + place) * piece->width;
                numeric->add_scaled(y, add, part->scale, piece->width);
            }
        }
    }
    barrier_wait(&lora->barrier);
}

/* Adds the outputs of the adapters to all products, in pieces of columns that fit the working
 * memory. */
static void complete_columns(Lora *lora, const Group *g, bool with_bias, Sets *s) {
    Piece pieces[MOST_TARGETS];
    size_t n = 0, used = 0;
    for (size_t t = 0; t < g->n_jobs; t++) {
        size_t rows = g->jobs[t].product->w->rows;
        for (size_t first = 0, width; first < rows; first += width) {
            width = rows - first < lora->block ? rows - first : lora->block;
            if (used + width > lora->block) {
                multiply_outer(lora, g, pieces, n, s);
                add_pieces(lora, g, pieces, n, with_bias);
                n = used = 0;
            }
            pieces[n++] = (Piece){t, first, width, used};
            used += width;
        }
    }
    multiply_outer(lora, g, pieces, n, s);
    add_pieces(lora, g, pieces, n, with_bias);
}

/* Completes the products of the group's jobs, all of one input x. */
static void complete_jobs(Lora *lora, Group *g, const float *x, size_t cols) {
    Sets sets; /* not cleared: it is long */
    size_t next = 0;
    bool first = true;
    bool has_bias = false;
    for (size_t t = 0; t < g->n_jobs; t++) has_bias = has_bias || g->jobs[t].target->bias;
    do {
        next = lora_choose(lora, g, next);
        if (g->n == 0 && !(first && has_bias)) return; /* no row has any of them */
        lora_gather(lora, g, x, cols);
        multiply_inner(lora, g, x, cols, &sets);
        complete_columns(lora, g, first, &sets);
        first = false;
    } while (next < lora->n);
}

/* PassObserver.multiplied: adds B A x to the products whose matrix has adapters. */
static void multiplied(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    Lora *lora = (Lora *)observer;
    for (size_t s = 0; s < n_sets; s++) {
        Group g; /* likewise */
        g.n_jobs = 0;
        for (size_t i = 0; i < sets[s].n_products; i++) {
            const Product *product = &sets[s].products[i];
            const Matrix *w = product->w;
            const Target *target = find_target(lora, w->data);
            if (!target) continue;
            if (target->expert == NONE)
                g.lists = &lora->lists[target->is_output];
            else if (g.n_jobs == 0)
                g.lists = rows_of_expert(lora, target->expert); /* the set's other products', too */
            if (g.lists->n_rows != sets[s].n_rows) continue;
            size_t first = (size_t)(w->data - target->data) / w->panel_bytes * PANEL_ROWS;
            g.jobs[g.n_jobs++] = (Job){target, product, first};
            if (g.n_jobs == MOST_TARGETS) {
                complete_jobs(lora, &g, sets[s].x, w->cols);
                g.n_jobs = 0;
            }
        }
        if (g.n_jobs) complete_jobs(lora, &g, sets[s].x, g.jobs[0].product->w->cols);
    }
}

/* ---- Opening, closing, questions ---- */

Status lora_new(Lora **out, Model *model, const ModelFile *file, Error *error) {
    Lora *lora = calloc(1, sizeof *lora);
    if (!lora) return error_set(error, "no memory for adapters");
    lora->observer = (PassObserver){
        .begin = begin, .embedded = embedded, .multiplied = multiplied, .reads_inputs = true};
    lora->model = model;
    lora->file = file;
    *out = lora;
    return STATUS_OK;
}

/* Floats [rows][width], 64-byte aligned; NULL: no memory. */
static float *lora_allocate(size_t rows, size_t width) {
    size_t n;
    if (!size_mul(rows, width, &n) || n > SIZE_MAX / 8) return NULL;
    return aligned_alloc(64, round_up(n ? n * sizeof(float) : 1, 64));
}

static bool allocate_lists(const Lora *lora, RowLists *lists) {
    size_t n = lora->n * lora->model->max_rows;
    lists->rows = malloc(n * sizeof *lists->rows);
    lists->place = malloc(n * sizeof *lists->place);
    return lists->rows && lists->place;
}

static void free_lists(RowLists *lists) {
    free(lists->rows);
    free(lists->place);
}

/* Memory for rows_of_expert, where a target needs it. */
static bool allocate_chosen(Lora *lora) {
    size_t n = (size_t)lora->model->n_threads, first = 0;
    while (first < lora->n_targets && lora->targets[first].expert == NONE) first++;
    if (first == lora->n_targets) return true;
    lora->chosen = calloc(n, sizeof *lora->chosen);
    bool fits = lora->chosen != NULL;
    for (size_t i = 0; fits && i < n; i++) fits = allocate_lists(lora, &lora->chosen[i]);
    return fits;
}

Status lora_begin(Lora *lora, Error *error) {
    const Model *m = lora->model;
    size_t n = m->max_rows, widest = 2 * lora->widest;
    lora->block = round_up(widest < MOST_WIDTH ? widest : MOST_WIDTH, PANEL_ROWS);
    lora->masks = calloc(n, sizeof *lora->masks);
    lora->gathered = lora_allocate(n, lora->most_cols);
    lora->inner = lora_allocate(n, MOST_TARGETS * lora->deepest);
    lora->outer = lora_allocate(n, lora->block);
    lora->sums = lora_allocate((size_t)m->n_threads, m->config->dim);
    lora->matmul = matmul_memory_new(m->isa->kernels, n, size_max(lora->most_cols, lora->deepest),
                                     m->n_threads);
    if (lora->n == 0 || !lora->masks || !lora->gathered || !lora->inner || !lora->outer ||
        !lora->sums || !lora->matmul || !allocate_lists(lora, &lora->lists[0]) ||
        !allocate_lists(lora, &lora->lists[1]) || !allocate_chosen(lora))
        return error_set(error, "no memory for adapters");
    model_add_observer(lora->model, &lora->observer);
    return STATUS_OK;
}

void lora_free(Lora *lora) {
    if (!lora) return;
    model_remove_observer(lora->model, &lora->observer);
    for (size_t i = 0; i < lora->n_targets; i++) {
        for (size_t j = 0; j < LORA_MOST; j++) {
            const Part *part = &lora->targets[i].parts[j];
            if (part->owns_a) free((void *)part->a.data);
            free((void *)part->b.data);
        }
        free(lora->targets[i].parts);
        if (lora->targets[i].linear) lora->targets[i].linear->bias = lora->targets[i].lent;
    }
    for (size_t j = 0; j < LORA_MOST; j++) {
        free(lora->embedding[j].token_factor);
        free(lora->embedding[j].dim_factor);
    }
    for (int i = 0; i < 2; i++) free_lists(&lora->lists[i]);
    for (int i = 0; lora->chosen && i < lora->model->n_threads; i++) free_lists(&lora->chosen[i]);
    free(lora->chosen);
    matmul_memory_free(lora->matmul);
    free(lora->targets);
    free(lora->selected);
    free(lora->masks);
    free(lora->gathered);
    free(lora->inner);
    free(lora->outer);
    free(lora->sums);
    free(lora);
}

uint64_t lora_all(const Lora *lora) {
    return ((uint64_t)1 << lora->n) - 1;
}

bool lora_select(Lora *lora, int32_t sequence, uint64_t adapters) {
    size_t n = (size_t)sequence + 1;
    if (!array_reserve(&lora->selected, &lora->selected_capacity, n, sizeof *lora->selected))
        return false;
    for (; lora->n_selected < n; lora->n_selected++)
        lora->selected[lora->n_selected] = lora_all(lora);
    lora->selected[sequence] = adapters;
    return true;
}

PassObserver *lora_observer(Lora *lora) {
    return &lora->observer;
}

size_t lora_bytes(const Lora *lora, size_t i) {
    return lora->bytes[i];
}

size_t lora_n_matrices(const Lora *lora, size_t i) {
    return lora->n_matrices[i];
}
