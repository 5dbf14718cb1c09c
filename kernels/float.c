/* Products of the float types, on lanes: acc = fma(w[k], x[k], acc) in the order of k.
 *
 * A single row of activations is read unpacked, for several panels at a time, so that their sums
 * hide each other's latency. More rows are packed in blocks, [input][row of the block], and the
 * sums of a block by PANELS panels stay in registers. One block passes over all inputs at once. For
 * several blocks the inputs are cut into runs of RUN, so that a run of weights (widened to float32
 * where rows are many) stays in the cache while all blocks pass over it; between runs the sums are
 * in scratch. */
#include "kernels/float.h"

#include <string.h>

#include "kernels/bfloat.h"
#include "kernels/lanes.h"
#include "kernels/order.h"
#include "kernels/row_blocks.h"

/* Registers: ROWS * PANELS sums, PANELS weights, one activation. Runs are as long as was fastest:
 * with AVX2 on a Zen 3, 1024 inputs are 20% faster than 256 (512 rows; f16). */
#if defined(__AVX512F__)
enum { ROWS = 12, PANELS = 2, RUN = 256 };
#else
enum { ROWS = 6, PANELS = 1, RUN = 1024 };
#endif
enum { ROW_PANELS = 4, PREFETCH_DISTANCE = 2048 };

/* More rows than this read 16-bit weights widened. Fewer widen them in registers, which a Zen 4
 * does beside the multiplications: with AVX2 it pays there up to 64 rows of f16 and 24 of bf16,
 * with AVX-512 up to 24 and 64. Where the same units convert and multiply, one in seven
 * instructions is lost. */
enum { WIDEN_ROWS = 24 };

/* A thread's working memory: a run of widened weights, and the sums of all rows. */
typedef struct FloatScratch {
    float weights[PANELS][RUN][LANES];
    float sums[MATMUL_MAX_ROWS][PANELS][LANES];
} FloatScratch;
_Static_assert(sizeof(FloatScratch) <= SCRATCH_BYTES, "scratch");

/* What to prefetch while a tile is multiplied: weights or activations that come later, with each
 * input of each panel one address. */
typedef struct Fetch {
    const uint8_t *from;
    size_t panel_bytes, input_bytes; /* steps from panel to panel and from input to input */
} Fetch;

/* Bytes of one input in the lines of a panel. */
LANES_INLINE size_t input_line_bytes(TensorType type) {
    return type == TENSOR_F32 ? LINE_BYTES : LINE_BYTES / 2;
}

/* The 16 weights of input k (or, if `odd`, k + 1), where `line` is the address of input k and k is
 * even. */
LANES_INLINE lanes load_weights(TensorType type, const uint8_t *line, bool odd) {
    if (type == TENSOR_F32) return lanes_load((const float *)line + odd * LANES);
    if (type == TENSOR_F16) return lanes_load_half((const uint16_t *)line + odd * LANES);
    return odd ? lanes_bfloat_high(line) : lanes_bfloat_low(line);
}

/* Where the sums of a tile are loaded from (NULL: they start at zero) and stored to: for each row
 * panels * 16 floats, a stride apart. */
typedef struct Tile {
    const float *from;
    float *to;
    size_t from_stride, to_stride;
} Tile;

/* Adds n inputs to the sums of `rows` rows by `panels` panels. The panels' lines are panel_bytes
 * apart; the activations are x[n][rows]. */
LANES_INLINE void multiply_tile(TensorType type, size_t rows, size_t panels, const uint8_t *lines,
                                size_t panel_bytes, const float *x, size_t n, Tile tile,
                                Fetch fetch) {
    lanes sums[ROWS][PANELS];
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++)
            sums[r][p] =
                tile.from ? lanes_load(tile.from + r * tile.from_stride + p * LANES) : lanes_zero();
    for (size_t k = 0; k < n; k += 2) {
        const uint8_t *line = lines + k * input_line_bytes(type);
#pragma GCC unroll 2
        for (size_t odd = 0; odd < 2; odd++) {
            if (odd && k + 1 == n) break;
            lanes w[PANELS];
#pragma GCC unroll 2
            for (size_t p = 0; p < panels; p++) {
                w[p] = load_weights(type, line + p * panel_bytes, odd);
                __builtin_prefetch(
                    fetch.from + p * fetch.panel_bytes + (k + odd) * fetch.input_bytes, 0, 2);
            }
#pragma GCC unroll 12
            for (size_t r = 0; r < rows; r++) {
                lanes v = lanes_set(x[(k + odd) * rows + r]);
#pragma GCC unroll 2
                for (size_t p = 0; p < panels; p++) sums[r][p] = lanes_fma(w[p], v, sums[r][p]);
            }
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++)
            lanes_store(tile.to + r * tile.to_stride + p * LANES, sums[r][p]);
}

/* Sums of multiply_blocked: of a tile, or of one row by ROW_PANELS panels. */
enum { BLOCKED_SUMS = ROWS * PANELS > ROW_PANELS ? ROWS *PANELS : ROW_PANELS };

/* multiply_tile for bf16_act, whose lines are of `type` and never widened, which was slower: pairs
 * of an even and an odd input. In a block the even inputs come first. Their sums wait on the stack
 * for those of the odd ones, and so do the tile's, which leaves the registers to the sums that
 * inputs are added to. */
LANES_INLINE void multiply_blocked(TensorType type, size_t rows, size_t panels,
                                   const uint8_t *lines, size_t panel_bytes, const float *x,
                                   size_t n, Tile tile, Fetch fetch) {
    lanes all[BLOCKED_SUMS], even[BLOCKED_SUMS];
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++)
            all[r * panels + p] =
                tile.from ? lanes_load(tile.from + r * tile.from_stride + p * LANES) : lanes_zero();
    for (size_t first = 0; first < n; first += BFLOAT_BLOCK) {
        const size_t inputs = n - first < BFLOAT_BLOCK ? n - first : BFLOAT_BLOCK;
#pragma GCC unroll 2
        for (size_t odd = 0; odd < 2; odd++) {
            const size_t end = first + inputs;
            const uint8_t *line = lines + first / 2 * LINE_BYTES;
            lanes sums[BLOCKED_SUMS];
#pragma GCC unroll 24
            for (size_t i = 0; i < rows * panels; i++) sums[i] = lanes_zero();
            for (size_t k = first + odd; k < end; k += 2, line += LINE_BYTES) {
                lanes w[ROW_PANELS];
#pragma GCC unroll 4
                for (size_t p = 0; p < panels; p++) {
                    w[p] = load_weights(type, line + p * panel_bytes, odd);
                    const uint8_t *next =
                        fetch.from + p * fetch.panel_bytes + k * fetch.input_bytes;
                    /* With one row, a line is fetched with its even input. */
                    if (rows == 1 && !odd) __builtin_prefetch(next, 0, 3);
                    if (rows > 1) __builtin_prefetch(next, 0, 2);
                }
#pragma GCC unroll 12
                for (size_t r = 0; r < rows; r++) {
                    lanes v = lanes_set(x[k * rows + r]);
#pragma GCC unroll 4
                    for (size_t p = 0; p < panels; p++)
                        sums[r * panels + p] = lanes_fma(w[p], v, sums[r * panels + p]);
                }
            }
#pragma GCC unroll 24
            for (size_t i = 0; i < rows * panels; i++) {
                if (odd) all[i] = lanes_add(all[i], lanes_add(even[i], sums[i]));
                if (!odd) even[i] = sums[i];
                IN_MEMORY(all[i]);
                IN_MEMORY(even[i]);
            }
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (size_t p = 0; p < panels; p++)
            lanes_store(tile.to + r * tile.to_stride + p * LANES, all[r * panels + p]);
}

/* Functions that call multiply_tile with type, panels and rows known to the compiler. */
typedef void TileKernel(size_t rows, const uint8_t *lines, size_t panel_bytes, const float *x,
                        size_t n, Tile tile, Fetch fetch);

#define ROWS_CASE(multiply, type, panels, count)                                                   \
    case count:                                                                                    \
        multiply(type, count, panels, lines, panel_bytes, x, n, tile, fetch);                      \
        break
#if defined(__AVX512F__)
#define MORE_ROWS(multiply, type, panels)                                                          \
    ROWS_CASE(multiply, type, panels, 7);                                                          \
    ROWS_CASE(multiply, type, panels, 8);                                                          \
    ROWS_CASE(multiply, type, panels, 9);                                                          \
    ROWS_CASE(multiply, type, panels, 10);                                                         \
    ROWS_CASE(multiply, type, panels, 11);                                                         \
    ROWS_CASE(multiply, type, panels, 12)
#else
#define MORE_ROWS(multiply, type, panels)
#endif
#define TILE_KERNEL(name, multiply, type, panels)                                                  \
    static void name(size_t rows, const uint8_t *lines, size_t panel_bytes, const float *x,        \
                     size_t n, Tile tile, Fetch fetch) {                                           \
        switch (rows) {                                                                            \
            ROWS_CASE(multiply, type, panels, 1);                                                  \
            ROWS_CASE(multiply, type, panels, 2);                                                  \
            ROWS_CASE(multiply, type, panels, 3);                                                  \
            ROWS_CASE(multiply, type, panels, 4);                                                  \
            ROWS_CASE(multiply, type, panels, 5);                                                  \
            ROWS_CASE(multiply, type, panels, 6);                                                  \
            MORE_ROWS(multiply, type, panels);                                                     \
        }                                                                                          \
    }

/* The kernels by one panel (one_) and by PANELS (all_). Those in _act are of TENSOR_BF16_ACT, in
 * _widened_act of its lines once widened to float32. */
TILE_KERNEL(one_f32, multiply_tile, TENSOR_F32, 1)
TILE_KERNEL(one_f16, multiply_tile, TENSOR_F16, 1)
TILE_KERNEL(one_bf16, multiply_tile, TENSOR_BF16, 1)
TILE_KERNEL(one_bf16_act, multiply_blocked, TENSOR_BF16, 1)
TILE_KERNEL(all_f32, multiply_tile, TENSOR_F32, PANELS)
TILE_KERNEL(all_f16, multiply_tile, TENSOR_F16, PANELS)
TILE_KERNEL(all_bf16, multiply_tile, TENSOR_BF16, PANELS)
TILE_KERNEL(all_bf16_act, multiply_blocked, TENSOR_BF16, PANELS)

/* The tile kernel of a type by one panel, or by PANELS; `widened`: of float32 lines that were
 * widened from it. */
static TileKernel *tile_kernel(TensorType type, bool one, bool widened) {
    if (type == TENSOR_BF16_ACT) return one ? one_bf16_act : all_bf16_act;
    if (type == TENSOR_F32 || widened) return one ? one_f32 : all_f32;
    if (type == TENSOR_F16) return one ? one_f16 : all_f16;
    return one ? one_bf16 : all_bf16;
}

/* Widens inputs first ... first + n - 1 of a panel to float32, [n][16]; `first` is even. */
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

/* The tile of the rows from `start` on by the panels from p on. Its sums are in scratch between
 * runs; after the last run whole panels go straight to the output. */
static Tile tile_of(const Product *product, size_t start, size_t p, bool to_output,
                    FloatScratch *scratch) {
    float *sums = scratch->sums[start][0];
    Tile tile = {sums, sums, PANELS * LANES, PANELS * LANES};
    if (to_output) {
        tile.to = product->out + start * product->stride + p * LANES;
        tile.to_stride = product->stride;
    }
    return tile;
}

/* Multiplies `panels` panels (PANELS, or 1 at the end of the matrix) from p on by all rows. */
static void multiply_stripe(const Product *product, const float *x, size_t n_rows, size_t p,
                            size_t panels, FloatScratch *scratch) {
    const Matrix *w = product->w;
    const size_t blocks = block_count(n_rows, ROWS), line_bytes = input_line_bytes(w->type);
    const size_t outputs = (panels - 1) * LANES + matrix_panel_outputs(w, p + panels - 1);
    const bool whole = outputs == panels * LANES;
    const bool widened = n_rows > WIDEN_ROWS && w->type != TENSOR_F32 && w->type != TENSOR_BF16_ACT;
    const size_t run = blocks > 1 ? RUN : w->cols; /* one block needs no runs */
    const uint8_t *panel = matrix_panel(w, p);
    TileKernel *kernel = tile_kernel(w->type, panels == 1, widened);
    for (size_t first = 0; first < w->cols; first += run) {
        size_t n = w->cols - first < run ? w->cols - first : run;
        bool last = first + n == w->cols;
        const uint8_t *lines = panel + first * line_bytes;
        size_t panel_bytes = w->panel_bytes;
        /* The lines that come next: with one block those ahead, else the next run or stripe. */
        const uint8_t *ahead = lines + (blocks > 1 ? n * line_bytes : PREFETCH_DISTANCE);
        if (last && blocks > 1) ahead = panel + panels * panel_bytes;
        if (widened) {
            for (size_t i = 0; i < panels; i++)
                widen(w->type, panel + i * panel_bytes, first, n, scratch->weights[i]);
            lines = (const uint8_t *)scratch->weights;
            panel_bytes = sizeof scratch->weights[0];
        }
        for (size_t b = 0; b < blocks; b++) {
            size_t start = block_start(n_rows, blocks, b);
            size_t rows = block_start(n_rows, blocks, b + 1) - start;
            Tile tile = tile_of(product, start, p, last && whole, scratch);
            if (first == 0) tile.from = NULL;
            /* Beside the last block the next lines are fetched, because what was fetched before
             * all of x passed by would be lost again; beside the others, the next activations. */
            Fetch fetch = {ahead, w->panel_bytes, line_bytes};
            if (b + 1 < blocks) {
                const float *next = x + (start + rows) * w->cols + first * rows;
                fetch = (Fetch){(const uint8_t *)next, 0, rows * sizeof *x};
            }
            kernel(rows, lines, panel_bytes, x + start * w->cols + first * rows, n, tile, fetch);
        }
    }
    for (size_t row = 0; !whole && row < n_rows; row++)
        memcpy(product->out + row * product->stride + p * LANES, scratch->sums[row],
               outputs * sizeof(float));
}

/* Multiplies one row of activations by `panels` panels, into out[panels][16]. */
LANES_INLINE void multiply_row(TensorType type, size_t panels, const uint8_t *panel,
                               size_t panel_bytes, const float *x, size_t n, float *out) {
    if (type == TENSOR_BF16_ACT) {
        const Tile tile = {.to = out};
        const Fetch fetch = {panel + PREFETCH_DISTANCE, panel_bytes, input_line_bytes(type)};
        multiply_blocked(TENSOR_BF16, 1, panels, panel, panel_bytes, x, n, tile, fetch);
        return;
    }
    lanes sums[ROW_PANELS];
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++) sums[p] = lanes_zero();
    for (size_t k = 0; k < n; k += 2) {
        const uint8_t *line = panel + k * input_line_bytes(type);
#pragma GCC unroll 2
        for (size_t odd = 0; odd < 2; odd++) {
            if (odd && k + 1 == n) break;
            lanes v = lanes_set(x[k + odd]);
#pragma GCC unroll 4
            for (size_t p = 0; p < panels; p++) {
                const uint8_t *own = line + p * panel_bytes;
                if (!odd) __builtin_prefetch(own + PREFETCH_DISTANCE, 0, 3);
                if (odd && type == TENSOR_F32)
                    __builtin_prefetch(own + LINE_BYTES + PREFETCH_DISTANCE, 0, 3);
                sums[p] = lanes_fma(load_weights(type, own, odd), v, sums[p]);
            }
        }
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < panels; p++) lanes_store(out + p * LANES, sums[p]);
}

/* multiply_row with type and panels known to the compiler. */
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
            TYPE_CASE(TENSOR_BF16_ACT, ROW_PANELS);
        }
        return;
    }
    for (size_t p = 0; p < panels; p++, panel += panel_bytes, out += LANES) {
        switch ((int)type) {
            TYPE_CASE(TENSOR_F32, 1);
            TYPE_CASE(TENSOR_F16, 1);
            TYPE_CASE(TENSOR_BF16, 1);
            TYPE_CASE(TENSOR_BF16_ACT, 1);
        }
    }
}

/* FloatKernels.multiply: panels [begin, end), a stripe at a time, or for a single row of
 * activations ROW_PANELS at a time. Rows of w that only fill up its last panel do not reach `out`.
 */
static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    const Matrix *w = product->w;
    size_t step = n_rows == 1 ? ROW_PANELS : PANELS;
    for (size_t p = begin; p < end; p += step) {
        size_t panels = end - p < step ? end - p : step;
        if (n_rows > 1) {
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

/* A single row is read as it is, unless it must be rounded. */
static bool is_packed(size_t form, size_t n_rows) {
    return n_rows > 1 || form == FORM_BFLOATS;
}

static size_t input_bytes(size_t form, size_t n_rows, size_t n_inputs) {
    return is_packed(form, n_rows) ? n_rows * n_inputs * sizeof(float) : 0;
}

/* A block is packed in two halves of its inputs, so that two threads have as much to do where there
 * are three blocks. Inputs are divided between blocks of bf16_act, which keeps most lines in one
 * half.
 */
enum { HALVES = 2 };

static size_t pack_tasks(size_t form, size_t n_rows) {
    return is_packed(form, n_rows) ? HALVES * block_count(n_rows, ROWS) : 0;
}

/* Four numbers: what a transposition of 4 rows by 4 inputs moves at once. */
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
enum { FOUR = 4 };
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t FourPlaces __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (FourPlaces){__VA_ARGS__})
#endif

/* Inputs [k, k + FOUR) of FOUR rows, n_inputs apart, to the same places of FOUR lines of a block,
 * which are `rows` apart. */
static void transpose_4(const float *x, size_t n_inputs, float *block, size_t rows) {
    Four a = *(const Four *)x, b = *(const Four *)(x + n_inputs);
    Four c = *(const Four *)(x + 2 * n_inputs), d = *(const Four *)(x + 3 * n_inputs);
    Four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
    *(Four *)block = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(block + rows) = SHUFFLE(ab, cd, 2, 3, 6, 7);
    ab = SHUFFLE(a, b, 2, 6, 3, 7), cd = SHUFFLE(c, d, 2, 6, 3, 7);
    *(Four *)(block + 2 * rows) = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(block + 3 * rows) = SHUFFLE(ab, cd, 2, 3, 6, 7);
}

/* Packs n inputs of x's rows, which are n_inputs apart, into block[n][rows]. */
static void pack_piece(const float *x, size_t n_inputs, size_t rows, size_t n, float *block) {
    size_t k = 0;
    for (; rows >= FOUR && k + FOUR <= n; k += FOUR) {
        for (size_t r = 0; r + FOUR <= rows; r += FOUR)
            transpose_4(x + r * n_inputs + k, n_inputs, block + k * rows + r, rows);
        if (rows % FOUR) { /* the last four once more */
            size_t r = rows - FOUR;
            transpose_4(x + r * n_inputs + k, n_inputs, block + k * rows + r, rows);
        }
    }
    for (; k < n; k++)
        for (size_t r = 0; r < rows; r++) block[k * rows + r] = x[r * n_inputs + k];
}

/* Other cores have just read the lines of a block, so a store waits until its line has come back.
 * So pieces are transposed on the stack, and each line is then written once. */
static void pack(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    enum { PIECE = 256 };
    _Alignas(LINE_BYTES) float piece[PIECE * ROWS];
    size_t blocks = block_count(n_rows, ROWS), start = block_start(n_rows, blocks, task / HALVES);
    size_t rows = block_start(n_rows, blocks, task / HALVES + 1) - start;
    size_t half = round_up(n_inputs / HALVES, LANES), first = task % HALVES ? half : 0;
    size_t end = task % HALVES || half > n_inputs ? n_inputs : half;
    float *block = (float *)input + start * n_inputs;
    x += start * n_inputs;
    for (; first < end; first += PIECE) {
        size_t n = end - first < PIECE ? end - first : PIECE;
        pack_piece(x + first, n_inputs, rows, n, piece);
        for (size_t i = 0; form == FORM_BFLOATS && i < n * rows; i++)
            piece[i] = bfloat_activation(piece[i]);
        memcpy(block + first * rows, piece, n * rows * sizeof *piece);
    }
}

/* FloatKernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(size_t rounds) {
    enum { SUMS = ROWS * PANELS };
    volatile float zero = 0.0f;
    lanes sums[SUMS], a = lanes_set(zero), b = lanes_set(zero);
    float start[LANES]; /* all different, so that the compiler cannot merge equal sums */
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
