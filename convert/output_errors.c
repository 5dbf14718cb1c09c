#include "convert/output_errors.h"

#include <stdlib.h>
#include <string.h>

#include "layers/model_watch.h"
#include "session/logprobs.h"

enum { PIECE = 16 }; /* outputs whose sums one thread makes */

/* A matrix of the source, found by the address of its weights. */
typedef struct Place {
    const void *data;
    size_t tensor;
} Place;

/* Takes part in the source's forward pass. */
typedef struct Comparing {
    PassObserver observer; /* the first field: the forward pass hands it back */
    const ModelFile *variant;
    OutputError *errors;
    Place *places; /* [n_places], sorted by `data`, then by `tensor` */
    size_t n_places;
    const Kernels *kernels;
    MatmulMemory *memory;
    size_t max_rows; /* of one product */
    float *out;      /* [max_rows][the most outputs] */
    OutputError *pieces;
} Comparing;

static int by_place(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* The first tensor with these data; NULL: none, as of a part of a matrix. */
static const Place *find_place(const Comparing *c, const void *data) {
    size_t low = 0, high = c->n_places;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->places[middle].data < data) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->n_places && c->places[low].data == data ? &c->places[low] : NULL;
}

/* Adds the squares of rows [first, first + n) of a product, which are in `own`, and of their
 * differences from c->out. All threads call it. */
static void add_squares(const Comparing *c, size_t tensor, const Product *p, size_t first,
                        size_t n) {
    size_t outputs = p->w->rows, n_pieces = (outputs + PIECE - 1) / PIECE;
#pragma omp for schedule(static)
    for (size_t piece = 0; piece < n_pieces; piece++) {
        OutputError sum = {0.0, 0.0};
        size_t begin = piece * PIECE, end = begin + PIECE < outputs ? begin + PIECE : outputs;
        for (size_t r = 0; r < n; r++)
            for (size_t i = begin; i < end; i++) {
                double own = (double)p->out[(first + r) * p->stride + i];
                double difference = own - (double)c->out[r * outputs + i];
                sum.error += difference * difference;
                sum.square += own * own;
            }
        c->pieces[piece] = sum;
    }
#pragma omp single
    for (size_t piece = 0; piece < n_pieces; piece++) {
        c->errors[tensor].error += c->pieces[piece].error;
        c->errors[tensor].square += c->pieces[piece].square;
    }
}

static void compare_product(const Comparing *c, const ProductSet *set, const Product *p) {
    const Place *place = find_place(c, p->w->data);
    if (!place) return;
    Matrix other = modelfile_matrix(c->variant, modelfile_tensor(c->variant, place->tensor), 0);
    if (other.cols != p->w->cols || other.rows < p->w->rows) return;
    other.rows = p->w->rows;
    const Product product = {.w = &other, .out = c->out, .stride = other.rows};
    for (size_t first = 0; first < set->n_rows; first += c->max_rows) {
        size_t left = set->n_rows - first, n = left < c->max_rows ? left : c->max_rows;
        const ProductSet part = {.x = set->rows ? set->x : set->x + first * other.cols,
                                 .n_rows = n,
                                 .products = &product,
                                 .n_products = 1,
                                 .rows = set->rows ? set->rows + first : NULL};
        matmul(c->kernels, c->memory, other.cols, &part, 1);
        add_squares(c, place->tensor, p, first, n);
    }
}

static void compare(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    const Comparing *c = (const Comparing *)observer;
    for (size_t s = 0; s < n_sets; s++)
        for (size_t i = 0; i < sets[s].n_products; i++)
            compare_product(c, &sets[s], &sets[s].products[i]);
}

/* Lists the matrices and takes the memory that the largest of them needs. */
static Status prepare(Comparing *c, const ModelFile *source, const Model *model, Error *error) {
    size_t n = modelfile_n_tensors(source), rows = 1, cols = 1;
    c->places = malloc((n + 1) * sizeof *c->places);
    if (!c->places) return error_set(error, "no memory to compare types in");
    for (size_t i = 0; i < n; i++) {
        const FileTensor *t = modelfile_tensor(source, i);
        if (t->type == TENSOR_VECTOR) continue;
        c->places[c->n_places++] = (Place){modelfile_data(source, t), i};
        if (t->rows > rows) rows = (size_t)t->rows;
        if (t->cols > cols) cols = (size_t)t->cols;
    }
    qsort(c->places, c->n_places, sizeof *c->places, by_place);
    c->kernels = model_isa(model)->kernels;
    c->max_rows = logprobs_max_rows(model);
    if (c->max_rows > MATMUL_MAX_ROWS) c->max_rows = MATMUL_MAX_ROWS;
    c->out = malloc(c->max_rows * rows * sizeof *c->out);
    c->pieces = malloc((rows / PIECE + 1) * sizeof *c->pieces);
    c->memory = matmul_memory_new(c->kernels, c->max_rows, cols, model_threads(model));
    return c->out && c->pieces && c->memory ? STATUS_OK
                                            : error_set(error, "no memory to compare types in");
}

Status output_errors_measure(OutputError *errors, const ModelFile *source, const ModelFile *variant,
                             const TextWindows *windows, size_t most_rows,
                             const ConvertOptions *options, Error *error) {
    const ModelOptions model_options = {.n_threads = options->n_threads};
    Comparing c = {.observer = {.multiplied = compare, .reads_inputs = true},
                   .variant = variant,
                   .errors = errors};
    WindowRun run = {.most_rows = most_rows, .cancel = options->cancel};
    memset(errors, 0, modelfile_n_tensors(source) * sizeof *errors);
    if (model_open(&run.model, source, &model_options, error) != STATUS_OK) return STATUS_FAILED;
    Status status = prepare(&c, source, run.model, error);
    model_add_observer(run.model, &c.observer);
    if (status == STATUS_OK) status = text_windows_run(windows, &run, error);
    model_close(run.model);
    matmul_memory_free(c.memory);
    free(c.places);
    free(c.out);
    free(c.pieces);
    return status;
}

/* Compares the weights of both files row by row. */
Status output_errors_of_weights(OutputError *result, const ModelFile *source,
                                const ModelFile *variant, size_t tensor, Error *error) {
    const FileTensor *t = modelfile_tensor(source, tensor);
    const Matrix own = modelfile_matrix(source, t, 0);
    const Matrix other = modelfile_matrix(variant, modelfile_tensor(variant, tensor), 0);
    float *rows = malloc(2 * own.cols * sizeof *rows);
    if (!rows) return error_set(error, "no memory to compare types in");
    *result = (OutputError){0.0, 0.0};
    for (size_t r = 0; r < own.rows; r++) {
        matrix_row(&own, r, rows);
        matrix_row(&other, r, rows + own.cols);
        for (size_t k = 0; k < own.cols; k++) {
            double x = (double)rows[k], difference = x - (double)rows[own.cols + k];
            result->error += difference * difference;
            result->square += x * x;
        }
    }
    free(rows);
    return STATUS_OK;
}
