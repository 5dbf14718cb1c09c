#include "convert/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "prefill.h"
#include "session/logprobs.h"
#include "tokenizer.h"

enum {
    WINDOW = 512, /* tokens of the text that the model sees together, with the bos */
    PRIOR = 16    /* weight of importance 1 against the measured one, in tokens */
};

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

/* A run over the text. */
typedef struct Run {
    const ModelFile *file;
    const ConvertOptions *options;
    Tokenizer *tokenizer;
    TokenList ids;
    Model *model;
    KvCache *cache;
    int32_t bos;     /* the token that begins each window; -1: none */
    size_t first;    /* the running window's first token, without the bos */
    size_t max_rows; /* of one forward pass */
    float *logits;   /* [max_rows][vocab_size] */
    int32_t window[WINDOW];
} Run;

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
    PassHook hook; /* the first field: the forward pass hands it back */
    const Calibration *calibration;
} Summing;

static void sum_inputs(const PassHook *hook, const ProductSet *sets, size_t n_sets) {
    const Calibration *c = ((const Summing *)hook)->calibration;
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
static Status weigh(Inputs *inputs, Error *error) {
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

static Status open_tokenizer(Run *run, const InputFile *text, Error *error) {
    size_t bytes, vocab_size = modelfile_config(run->file)->vocab_size;
    const void *section = modelfile_section(run->file, SECTION_TOKENIZER, &bytes);
    if (!section)
        return error_set(error, "%s: has no tokenizer to read %s with", modelfile_path(run->file),
                         text->path);
    if (tokenizer_open(&run->tokenizer, section, bytes, error) != STATUS_OK) return STATUS_FAILED;
    tokenizer_limit(run->tokenizer, vocab_size);
    if (tokenizer_encode(run->tokenizer, (const char *)text->map, (size_t)text->bytes, NULL, 0,
                         &run->ids, error) != STATUS_OK)
        return error_prefix(error, "%s", text->path);
    return run->ids.length ? STATUS_OK : error_set(error, "%s: holds no token", text->path);
}

static Status open_run(Run *run, Error *error) {
    const ModelOptions options = {.n_threads = run->options->n_threads};
    if (model_open(&run->model, run->file, &options, error) != STATUS_OK) return STATUS_FAILED;
    const KvShape shape = model_kv_shape(run->model, model_kv_type(run->model));
    run->max_rows = logprobs_max_rows(run->model);
    run->logits =
        malloc(run->max_rows * model_config(run->model)->vocab_size * sizeof *run->logits);
    if (!run->logits) return error_set(error, "no memory to calibrate in");
    return kvcache_new(&run->cache, &shape, 1, 0, error);
}

/* Stops when the user asks to, else reports how much of the text has run. */
static Status check_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    const Run *run = context;
    const ConvertOptions *o = run->options;
    if (o->cancel && *o->cancel) {
        error_set(error, "interrupted");
        return STATUS_INTERRUPTED;
    }
    if (o->progress)
        o->progress(CONVERT_CALIBRATING, run->first + chunk->done - (run->bos >= 0),
                    run->ids.length, o->progress_context);
    return STATUS_OK;
}

/* Runs tokens [first, first + n) of the text, after the bos if there is one. All rows want logits,
 * because the inputs of the output head are summed up as well. */
static Status run_window(Run *run, size_t first, size_t n, Error *error) {
    size_t begin = run->bos >= 0;
    if (begin) run->window[0] = run->bos;
    memcpy(run->window + begin, run->ids.ids + first, n * sizeof *run->window);
    run->first = first;
    kvcache_reset(run->cache, 0, 0);
    const Prefill p = {.ids = run->window,
                       .n = begin + n,
                       .max_rows = run->max_rows,
                       .logits = run->logits,
                       .after_chunk = check_chunk,
                       .context = run};
    return prefill(run->model, run->cache, &p, error);
}

static Status run_text(Run *run, Error *error) {
    size_t context = model_context(run->model), window = context < WINDOW ? context : WINDOW;
    run->bos = tokenizer_adds_bos(run->tokenizer) ? tokenizer_bos(run->tokenizer) : -1;
    if (run->bos >= 0 && window > 1) window--;
    if (window == context) run->bos = -1; /* a context of one has no room for it */
    for (size_t first = 0; first < run->ids.length; first += window) {
        size_t left = run->ids.length - first;
        Status status = run_window(run, first, left < window ? left : window, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

Status calibrate(Calibration **out, const ModelFile *file, const InputFile *text,
                 const ConvertOptions *options, Error *error) {
    Run run = {.file = file, .options = options};
    Calibration *c = calloc(1, sizeof *c);
    Status status = c ? STATUS_OK : error_set(error, "no memory to calibrate in");
    if (status == STATUS_OK) status = list_matrices(c, file, error);
    if (status == STATUS_OK) status = open_tokenizer(&run, text, error);
    if (status == STATUS_OK) status = open_run(&run, error);
    if (status == STATUS_OK) {
        const Summing summing = {{.multiplied = sum_inputs}, c};
        model_set_hook(run.model, &summing.hook);
        status = run_text(&run, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < c->n_matrices; i++)
        status = weigh(&c->matrices[i], error);
    kvcache_free(run.cache);
    model_close(run.model);
    if (run.tokenizer) tokenizer_close(run.tokenizer);
    token_list_free(&run.ids);
    free(run.logits);
    if (status == STATUS_OK) {
        *out = c;
    } else {
        calibration_free(c);
    }
    return status;
}

Status calibrate_source(Calibration **out, const Source *source, const InputFile *text, int *fd,
                        const ConvertOptions *options, Error *error) {
    ConvertOptions lossless = *options;
    ModelFile *file;
    lossless.type = NULL;
    lossless.note = NULL;
    if (source->tokenizer.size == 0)
        return error_set(error, "%s: has no tokenizer to read %s with: give one with -z FILE",
                         source->path, text->path);
    Status status = convert_parsed(source, &lossless, *fd, error);
    if (status != STATUS_OK) return status;
    int taken = *fd;
    *fd = -1;
    if (modelfile_open(&file, source->path, taken, error) != STATUS_OK) return STATUS_FAILED;
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
