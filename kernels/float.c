/* Products of the float types, on lanes: acc = fma(w[k], x[k], acc) in the order of k.
 *
 * One row of activations is read as it is, and several panels run side by side so that the
 * sums do not wait for each other. More rows are packed in blocks, [input][row of the block],
 * and a block by PANELS panels of sums stays in registers. The inputs are cut into runs of
 * RUN, so that a run of weights, widened to float32 where need be, stays in the cache while
 * all blocks pass over it; between runs the sums rest in scratch. */
#include "../lanes.h"
#include "activations.h"
#include "internal.h"

/* Registers: ROWS * PANELS sums, PANELS weights, one activation. */
#if defined(__AVX512F__)
enum { ROWS = 12, PANELS = 2 };
#else
enum { ROWS = 6, PANELS = 1 };
#endif
enum { ROW_PANELS = 4, RUN = 256, AHEAD = 2048 };

/* Of one thread: a run of widened weights, and the sums of all rows. */
typedef struct Scratch {
    float weights[PANELS][RUN][LANES];
    float sums[MATMUL_MAX_ROWS][PANELS][LANES];
} Scratch;
_Static_assert(sizeof(Scratch) <= SCRATCH_BYTES, "scratch");

/* What to fetch into the cache while one run is multiplied: the weights of the next. */
typedef struct Fetch {
    const uint8_t *from;
    size_t panel_bytes, input_bytes;
} Fetch;

/* `rows` x `panels` sums over n inputs. weights: [panels][RUN or more][16], panel_floats apart;
 * x[n][rows]; from (NULL: zeros) and to: [rows] of panels * 16 floats, a stride apart. */
LANES_INLINE void multiply_tile(size_t rows, size_t panels, const float *weights,
                                size_t panel_floats, const float *x, size_t n, const float *from,
                                size_t from_stride, float *to, size_t to_stride, Fetch fetch) {
    lanes sums[ROWS][PANELS];
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++)
            sums[r][p] = from ? lanes_load(from + r * from_stride + p * LANES) : lanes_zero();
    for (size_t k = 0; k < n; k++) {
        lanes w[PANELS];
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++) {
            w[p] = lanes_load(weights + p * panel_floats + k * LANES);
            __builtin_prefetch(fetch.from + p * fetch.panel_bytes + k * fetch.input_bytes, 0, 2);
        }
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) {
            lanes v = lanes_set(x[k * rows + r]);
#pragma GCC unroll 2
            for (size_t p = 0; p < panels; p++) sums[r][p] = lanes_fma(w[p], v, sums[r][p]);
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++) lanes_store(to + r * to_stride + p * LANES, sums[r][p]);
}

/* multiply_tile with the number of rows known to the compiler. */
LANES_INLINE void multiply_rows(size_t rows, size_t panels, const float *weights,
                                size_t panel_floats, const float *x, size_t n, const float *from,
                                size_t from_stride, float *to, size_t to_stride, Fetch fetch) {
#define ROWS_CASE(count)                                                                           \
    case count:                                                                                    \
        multiply_tile(count, panels, weights, panel_floats, x, n, from, from_stride, to,           \
                      to_stride, fetch);                                                           \
        break
    switch (rows) {
        ROWS_CASE(1);
        ROWS_CASE(2);
        ROWS_CASE(3);
        ROWS_CASE(4);
        ROWS_CASE(5);
        ROWS_CASE(6);
#if defined(__AVX512F__)
        ROWS_CASE(7);
        ROWS_CASE(8);
        ROWS_CASE(9);
        ROWS_CASE(10);
        ROWS_CASE(11);
        ROWS_CASE(12);
#endif
    }
}

static void multiply_one_panel(size_t rows, const float *weights, size_t panel_floats,
                               const float *x, size_t n, const float *from, size_t from_stride,
                               float *to, size_t to_stride, Fetch fetch) {
    multiply_rows(rows, 1, weights, panel_floats, x, n, from, from_stride, to, to_stride, fetch);
}

static void multiply_panels(size_t rows, const float *weights, size_t panel_floats, const float *x,
                            size_t n, const float *from, size_t from_stride, float *to,
                            size_t to_stride, Fetch fetch) {
    multiply_rows(rows, PANELS, weights, panel_floats, x, n, from, from_stride, to, to_stride,
                  fetch);
}

/* Bytes that one input takes in the lines of a panel. */
LANES_INLINE size_t input_line_bytes(TensorType type) {
    return type == TENSOR_F32 ? LINE_BYTES : LINE_BYTES / 2;
}

/* Inputs first ... first + n - 1 of a panel as float32, [n][16]; `first` is even. */
static void widen(TensorType type, const uint8_t *panel, size_t first, size_t n,
                  float (*out)[LANES]) {
    const uint8_t *line = panel + first * (LINE_BYTES / 2);
    if (type == TENSOR_F16) {
        for (size_t k = 0; k < n; k++)
            lanes_store(out[k], lanes_load_half((const uint16_t *)line + k * LANES));
        return;
    }
    for (size_t k = 0; k < n; k += 2, line += LINE_BYTES) {
        lanes_store(out[k], lanes_bfloat_low(line));
        if (k + 1 < n) lanes_store(out[k + 1], lanes_bfloat_high(line));
    }
}

/* Panels p ... p + panels - 1 (all of the matrix, `outputs` of them in it) for all rows. */
static void multiply_stripe(const Product *product, const float *x, size_t n_rows, size_t p,
                            size_t panels, Scratch *scratch) {
    const Matrix *w = product->w;
    size_t blocks = block_count(n_rows, ROWS), line_bytes = input_line_bytes(w->type);
    size_t outputs = (panels - 1) * LANES + panel_outputs(w, p + panels - 1);
    const uint8_t *panel = matrix_panel(w, p);
    for (size_t first = 0; first < w->cols; first += RUN) {
        size_t n = w->cols - first < RUN ? w->cols - first : RUN;
        bool last = first + n == w->cols, whole = outputs == panels * LANES;
        const float *weights = (const float *)(panel + first * LINE_BYTES);
        size_t panel_floats = w->panel_bytes / sizeof(float);
        if (w->type != TENSOR_F32) {
            for (size_t i = 0; i < panels; i++)
                widen(w->type, panel + i * w->panel_bytes, first, n, scratch->weights[i]);
            weights = scratch->weights[0][0];
            panel_floats = RUN * LANES;
        }
        Fetch fetch = {panel + (first + n) * line_bytes, w->panel_bytes, line_bytes};
        if (last) fetch.from = panel + panels * w->panel_bytes;
        for (size_t b = 0; b < blocks; b++) {
            size_t start = block_start(n_rows, blocks, b);
            size_t rows = block_start(n_rows, blocks, b + 1) - start;
            const float *from = first ? scratch->sums[start][0] : NULL;
            float *to = scratch->sums[start][0];
            size_t stride = PANELS * LANES, to_stride = stride;
            if (last && whole) {
                to = product->out + start * product->stride + p * LANES;
                to_stride = product->stride;
            }
            (panels == 1 ? multiply_one_panel : multiply_panels)(
                rows, weights, panel_floats, x + start * w->cols + first * rows, n, from, stride,
                to, to_stride, fetch);
            /* Fetched once; after that look at a line that is there. */
            fetch = (Fetch){(const uint8_t *)weights, 0, 0};
        }
        for (size_t row = 0; last && !whole && row < n_rows; row++)
            memcpy(product->out + row * product->stride + p * LANES, scratch->sums[row],
                   outputs * sizeof(float));
    }
}

/* One row of activations by `panels` panels, into out[panels][16]. */
LANES_INLINE void multiply_row(TensorType type, size_t panels, const uint8_t *panel,
                               size_t panel_bytes, const float *x, size_t n, float *out) {
    lanes sums[ROW_PANELS];
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++) sums[p] = lanes_zero();
    size_t k = 0;
    for (; type == TENSOR_F32 && k < n; k++, panel += LINE_BYTES) {
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++) {
            const uint8_t *line = panel + p * panel_bytes;
            __builtin_prefetch(line + AHEAD, 0, 3);
            sums[p] = lanes_fma(lanes_load((const float *)line), lanes_set(x[k]), sums[p]);
        }
    }
    for (; k + 1 < n; k += 2, panel += LINE_BYTES) {
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++) {
            const uint8_t *line = panel + p * panel_bytes;
            __builtin_prefetch(line + AHEAD, 0, 3);
            bool half = type == TENSOR_F16;
            lanes a = half ? lanes_load_half((const uint16_t *)line) : lanes_bfloat_low(line);
            lanes b =
                half ? lanes_load_half((const uint16_t *)line + LANES) : lanes_bfloat_high(line);
            sums[p] = lanes_fma(a, lanes_set(x[k]), sums[p]);
            sums[p] = lanes_fma(b, lanes_set(x[k + 1]), sums[p]);
        }
    }
    for (; k < n; k++) {
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++) {
            const uint8_t *line = panel + p * panel_bytes;
            lanes a = type == TENSOR_F16 ? lanes_load_half((const uint16_t *)line)
                                         : lanes_bfloat_low(line);
            sums[p] = lanes_fma(a, lanes_set(x[k]), sums[p]);
        }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++) lanes_store(out + p * LANES, sums[p]);
}

static void multiply_row_of(TensorType type, size_t panels, const uint8_t *panel,
                            size_t panel_bytes, const float *x, size_t n, float *out) {
#define TYPE_CASE(name, count)                                                                     \
    case name:                                                                                     \
        multiply_row(name, count, panel, panel_bytes, x, n, out);                                  \
        break
    if (panels == ROW_PANELS) {
        switch ((int)type) {
            TYPE_CASE(TENSOR_F32, ROW_PANELS);
            TYPE_CASE(TENSOR_F16, ROW_PANELS);
            TYPE_CASE(TENSOR_BF16, ROW_PANELS);
        }
        return;
    }
    for (size_t p = 0; p < panels; p++, panel += panel_bytes, out += LANES) {
        switch ((int)type) {
            TYPE_CASE(TENSOR_F32, 1);
            TYPE_CASE(TENSOR_F16, 1);
            TYPE_CASE(TENSOR_BF16, 1);
        }
    }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    const Matrix *w = product->w;
    size_t step = n_rows == 1 ? ROW_PANELS : PANELS;
    for (size_t p = begin; p < end; p += step) {
        size_t panels = end - p < step ? end - p : step;
        if (n_rows > 1) {
            /* PANELS or, at the end of the matrix, one. */
            multiply_stripe(product, input, n_rows, p, panels, scratch);
            continue;
        }
        float tail[ROW_PANELS * LANES], *out = product->out + p * LANES;
        bool whole = (p + panels) * LANES <= w->rows;
        multiply_row_of(w->type, panels, matrix_panel(w, p), w->panel_bytes, input, w->cols,
                        whole ? out : tail);
        if (!whole) memcpy(out, tail, (w->rows - p * LANES) * sizeof *out);
    }
}

static size_t input_bytes(size_t n_rows, size_t n_inputs) {
    return n_rows > 1 ? n_rows * n_inputs * sizeof(float) : 0;
}

static size_t pack_tasks(size_t n_rows) {
    return n_rows > 1 ? block_count(n_rows, ROWS) : 0;
}

static void pack(const float *x, size_t n_rows, size_t n_inputs, size_t task, void *input) {
    size_t blocks = block_count(n_rows, ROWS), start = block_start(n_rows, blocks, task);
    size_t rows = block_start(n_rows, blocks, task + 1) - start;
    float *block = (float *)input + start * n_inputs;
    for (size_t k = 0; k < n_inputs; k++)
        for (size_t r = 0; r < rows; r++) block[k * rows + r] = x[(start + r) * n_inputs + k];
}

static double spin(size_t rounds) {
    enum { SUMS = ROWS * PANELS };
    volatile float zero = 0.0f;
    lanes sums[SUMS], a = lanes_set(zero), b = lanes_set(zero);
    float start[LANES]; /* all different: equal sums would be computed once */
    for (int i = 0; i < LANES; i++) start[i] = zero + (float)i;
#pragma GCC unroll 24
    for (size_t i = 0; i < SUMS; i++)
        sums[i] = lanes_add(lanes_load(start), lanes_set((float)(LANES * i)));
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 24
        for (size_t i = 0; i < SUMS; i++) sums[i] = lanes_fma(a, b, sums[i]);
#pragma GCC unroll 24
    for (size_t i = 1; i < SUMS; i++) sums[0] = lanes_add(sums[0], sums[i]);
    zero = lanes_sum(sums[0]);
    return 2.0 * LANES * SUMS * (double)rounds;
}

const FloatKernels FOR_ISA(float) = {
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
