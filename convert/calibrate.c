#include "convert/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "layers/model_watch.h"

enum { PRIOR = 16 }; /* weight of importance 1 against the measured one, in tokens */

/* Statistics of the inputs of one matrix. */
typedef struct Inputs {
    const void *data; /* its weights: their address identifies the matrix in the forward pass */
    size_t tensor, cols;
    uint64_t n;        /* rows of inputs that it was multiplied with */
    double *sums;      /* [cols] sums of squares */
    float *importance; /* [cols] */
} Inputs;

struct Calibration {
    size_t n_matrices, n_tensors;
    Inputs *matrices;   /* sorted by `data` */
    Inputs **of_tensor; /* [n_tensors]; NULL: a vector */
};

/* ---- The sums --------------------------------------------------------------------------------
 */

static int by_address(const void *a, const void *b) {
    const Inputs *x = a, *y = b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static Inputs *calibrate_find(const Calibration *c, const void *data) {
    const Inputs key = {.data = data};
    return bsearch(&key, c->matrices, c->n_matrices, sizeof key, by_address);
}

/* Adds the squares of in[n][cols], called by every thread of the forward pass. A thread sums its
 * own columns, over the rows in their order, so the result does not depend on the number of
 * threads. */
static void add_squares(const Calibration *c, const Matrix *w, const float *in, size_t n) {
    Inputs *inputs = calibrate_find(c, w->data);
    enum { PIECE = 64 };
    size_t cols = w->cols, n_pieces = (cols + PIECE - 1) / PIECE;
#pragma omp for schedule(static)
    for (size_t p = 0; p < n_pieces; p++) {
        size_t end = (p + 1) * PIECE < cols ? (p + 1) * PIECE : cols;
        for (size_t r = 0; r < n; r++)
            for (size_t k = p * PIECE; k < end; k++)
                inputs->sums[k] += (double)in[r * cols + k] * (double)in[r * cols + k];
        if (p == 0) inputs->n += n;
    }
}

/* Takes part in the forward pass: adds the squares of the inputs of all products. */
typedef struct Summing {
    PassObserver observer; /* the first field: the forward pass hands it back */
    const Calibration *calibration;
} Summing;

static void sum_inputs(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    const Calibration *c = ((const Summing *)observer)->calibration;
    for (size_t s = 0; s < n_sets; s++)
        for (size_t i = 0; i < sets[s].n_products; i++)
            add_squares(c, sets[s].products[i].w, sets[s].x, sets[s].n_rows);
}

/* Fills in `matrices` and `of_tensor`. Tensors that share their data (tied embeddings) are one
 * matrix. */
static Status list_matrices(Calibration *c, const ModelFile *file, Error *error) {
    c->n_tensors = modelfile_n_tensors(file);
    c->matrices = calloc(c->n_tensors + 1, sizeof *c->matrices);
    c->of_tensor = calloc(c->n_tensors + 1, sizeof *c->of_tensor);
    if (!c->matrices || !c->of_tensor) return error_set(error, "no memory to calibrate in");
    for (size_t i = 0; i < c->n_tensors; i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        if (t->type == TENSOR_VECTOR) continue;
        c->matrices[c->n_matrices++] =
            (Inputs){.data = modelfile_data(file, t), .tensor = i, .cols = (size_t)t->cols};
    }
    qsort(c->matrices, c->n_matrices, sizeof *c->matrices, by_address);
    size_t n = 0;
    for (size_t i = 0; i < c->n_matrices; i++)
        if (n == 0 || c->matrices[n - 1].data != c->matrices[i].data)
            c->matrices[n++] = c->matrices[i];
    c->n_matrices = n;
    for (size_t i = 0; i < n; i++) {
        c->matrices[i].sums = calloc(c->matrices[i].cols, sizeof(double));
        if (!c->matrices[i].sums) return error_set(error, "no memory to calibrate in");
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        if (t->type != TENSOR_VECTOR) c->of_tensor[i] = calibrate_find(c, modelfile_data(file, t));
    }
    return STATUS_OK;
}

/* Makes the importance of the sums: mean squares relative to their mean, drawn towards 1 as if
 * PRIOR tokens had shown that. */
static Status make_importance(Inputs *inputs, Error *error) {
    double all = 0.0, n = (double)inputs->n;
    for (size_t k = 0; k < inputs->cols; k++) all += inputs->sums[k];
    double mean = all / (double)inputs->cols;
    if (inputs->n == 0 || !(mean > 0.0)) return STATUS_OK; /* no token reached the matrix */
    inputs->importance = calloc(round_up(inputs->cols, 64), sizeof *inputs->importance);
    if (!inputs->importance) return error_set(error, "no memory to calibrate in");
    for (size_t k = 0; k < inputs->cols; k++)
        inputs->importance[k] = (float)((n * (inputs->sums[k] / mean) + PRIOR) / (n + PRIOR));
    return STATUS_OK;
}

/* ---- The run ---------------------------------------------------------------------------------
 */

typedef struct Reporting {
    const ConvertOptions *options;
    size_t n_tokens;
} Reporting;

static Status report_tokens(void *context, const float *logits, size_t first, size_t n,
                            size_t tokens, Error *error) {
    (void)logits, (void)first, (void)n, (void)error;
    const Reporting *r = context;
    if (r->options->progress)
        r->options->progress(CONVERT_CALIBRATING, tokens, r->n_tokens,
                             r->options->progress_context);
    return STATUS_OK;
}

static Status run_text(const Calibration *c, const ModelFile *file, const TextWindows *windows,
                       const ConvertOptions *options, Error *error) {
    const ModelOptions model_options = {.n_threads = options->n_threads};
    Summing summing = {{.multiplied = sum_inputs, .reads_inputs = true}, c};
    Reporting reporting = {options, windows->ids.length};
    WindowRun run = {.rows = report_tokens, .context = &reporting, .cancel = options->cancel};
    if (model_open(&run.model, file, &model_options, error) != STATUS_OK) return STATUS_FAILED;
    model_add_observer(run.model, &summing.observer);
    Status status = text_windows_run(windows, &run, error);
    model_close(run.model);
    return status;
}

Status calibrate_windows(Calibration **out, const ModelFile *file, const TextWindows *windows,
                         const ConvertOptions *options, Error *error) {
    Calibration *c = calloc(1, sizeof *c);
    Status status = c ? STATUS_OK : error_set(error, "no memory to calibrate in");
    if (status == STATUS_OK) status = list_matrices(c, file, error);
    if (status == STATUS_OK) status = run_text(c, file, windows, options, error);
    for (size_t i = 0; status == STATUS_OK && i < c->n_matrices; i++)
        status = make_importance(&c->matrices[i], error);
    if (status == STATUS_OK) {
        *out = c;
    } else {
        calibration_free(c);
    }
    return status;
}

Status calibrate(Calibration **out, const ModelFile *file, const InputFile *text,
                 const ConvertOptions *options, Error *error) {
    TextWindows windows;
    Status status = text_windows_open(&windows, file, text, TEXT_WINDOW, error);
    if (status == STATUS_OK) status = calibrate_windows(out, file, &windows, options, error);
    text_windows_close(&windows);
    return status;
}

Status calibrate_lossless(const Source *source, const InputFile *text, int *fd,
                          const ConvertOptions *options, ModelFile **file, Error *error) {
    ConvertOptions lossless = *options;
    lossless.type = NULL;
    lossless.note = NULL;
    if (source->tokenizer.size == 0)
        return error_set(error, "%s: has no tokenizer to read %s with: give one with -z FILE",
                         source->path, text->path);
    Status status = convert_parsed(source, &lossless, *fd, error);
    if (status != STATUS_OK) return status;
    int taken = *fd;
    *fd = -1;
    return modelfile_open(file, source->path, taken, error);
}

Status calibrate_source(Calibration **out, const Source *source, const InputFile *text, int *fd,
                        const ConvertOptions *options, Error *error) {
    ModelFile *file;
    Status status = calibrate_lossless(source, text, fd, options, &file, error);
    if (status != STATUS_OK) return status;
    status = calibrate(out, file, text, options, error);
    modelfile_close(file);
    return status;
}

void calibration_free(Calibration *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_matrices; i++) {
        free(c->matrices[i].sums);
        free(c->matrices[i].importance);
    }
    free(c->matrices);
    free(c->of_tensor);
    free(c);
}

const float *calibration_importance(const Calibration *c, size_t tensor) {
    return c->of_tensor[tensor] ? c->of_tensor[tensor]->importance : NULL;
}

const float *calibration_importance_of(size_t tensor, void *context) {
    return calibration_importance(context, tensor);
}
