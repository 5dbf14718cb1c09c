/* Products of bf16_act with AMX-BF16, for more rows than a block of AVX-512 takes; kernels_amx does
 * everything else.
 *
 * TDPBF16PS is what docs/numerics.md defines: for each of 16 rows by 16 outputs it sums the even
 * and the odd inputs of a block of 32 apart, in order, each step one fma, and adds both sums to the
 * tile. A block of a panel is its second factor as it lies in the file. The instruction takes
 * denormal numbers for 0, which bf16_act has none of: activations below 2^-40 are packed as 0, and
 * weights are scanned before they are multiplied. A panel with weights below 2^-40, which only a
 * damaged or hostile file has, is multiplied by fma from there on.
 *
 * A stripe of 8 panels is multiplied in runs of 256 inputs, two tiles of rows by two panels at a
 * time: both tiles of rows stay in the first-level cache while the panels pass by. Between runs the
 * sums are in scratch. */
#include <stdlib.h>

#include "base/lines.h"
#include "kernels/amx_tiles.h"
#include "kernels/bfloat.h"
#include "kernels/bfloat_witness.h"
#include "kernels/float.h"
#include "kernels/lanes.h"

#ifndef AMX_BF16_KERNELS
#define AMX_BF16_KERNELS kernels_amx_bf16
#define REST kernels_amx
#endif

enum {
    TILE_ROWS = 16,
    TILE_BYTES = TILE_ROWS * LINE_BYTES, /* 16 rows of 32 inputs, or 32 inputs of 16 outputs */
    STRIPE = 8,
    RUN = 256,
    AMX_MIN_ROWS = 13,
    NARROW = 64, /* floats of an output's row */
    ROW_TILES = MATMUL_MAX_ROWS / TILE_ROWS
};

typedef struct Scratch {
    float sums[ROW_TILES][STRIPE][TILE_ROWS][PANEL_ROWS];
    uint8_t last[STRIPE][TILE_BYTES]; /* a panel's last block, filled up with zeros */
    bool by_fma[STRIPE];              /* weights below 2^-40 have been seen in the panel */
} Scratch;
_Static_assert(sizeof(Scratch) <= AMX_SCRATCH_BYTES, "scratch");

static size_t block_count_of(size_t n_inputs) {
    return (n_inputs + BFLOAT_BLOCK - 1) / BFLOAT_BLOCK;
}

/* Blocks [first, first + n) of all inputs, multiplied for all row tiles by the panels of a stripe.
 */
typedef struct Run {
    const uint8_t *input; /* packed: [row tile][block], TILE_BYTES each */
    const uint8_t *lines; /* of the first panel */
    size_t panel_bytes;
    size_t blocks; /* of a row */
    size_t first, n;
    size_t row_tiles, panels;
    bool last_padded; /* the run's last block is in scratch */
} Run;

/* Block `block` of a panel of the stripe. */
static inline const uint8_t *weights_at(const Run *run, const Scratch *s, size_t panel,
                                        size_t block) {
    if (run->last_padded && block + 1 == run->blocks) return s->last[panel];
    return run->lines + panel * run->panel_bytes + block * TILE_BYTES;
}

/* Adds the run to the sums of row tiles t and t + 1 (or, where `rows` is 1, of tile t) by panels p
 * and p + 1 (or p). */
LANES_INLINE void multiply_tiles(const Run *run, size_t rows, size_t panels, size_t t, size_t p,
                                 Scratch *s) {
    const uint8_t *x = run->input + t * run->blocks * TILE_BYTES;
    const uint8_t *next_x = x + run->blocks * TILE_BYTES;
    TILE_SETTLE();
    if (run->first == 0) {
        TILE_ZERO(0);
        if (panels > 1) TILE_ZERO(1);
        if (rows > 1) TILE_ZERO(2);
        if (rows > 1 && panels > 1) TILE_ZERO(3);
    } else {
        TILE_LOAD(0, s->sums[t][p], LINE_BYTES);
        if (panels > 1) TILE_LOAD(1, s->sums[t][p + 1], LINE_BYTES);
        if (rows > 1) TILE_LOAD(2, s->sums[t + 1][p], LINE_BYTES);
        if (rows > 1 && panels > 1) TILE_LOAD(3, s->sums[t + 1][p + 1], LINE_BYTES);
    }
    for (size_t b = run->first; b < run->first + run->n; b++) {
        TILE_LOAD(4, x + b * TILE_BYTES, LINE_BYTES);
        TILE_LOAD(6, weights_at(run, s, p, b), LINE_BYTES);
        TILE_DOT_BFLOAT(0, 4, 6);
        if (panels > 1) {
            TILE_LOAD(7, weights_at(run, s, p + 1, b), LINE_BYTES);
            TILE_DOT_BFLOAT(1, 4, 7);
        }
        if (rows > 1) {
            TILE_LOAD(5, next_x + b * TILE_BYTES, LINE_BYTES);
            TILE_DOT_BFLOAT(2, 5, 6);
            if (panels > 1) TILE_DOT_BFLOAT(3, 5, 7);
        }
    }
    TILE_STORE(0, s->sums[t][p], LINE_BYTES);
    if (panels > 1) TILE_STORE(1, s->sums[t][p + 1], LINE_BYTES);
    if (rows > 1) TILE_STORE(2, s->sums[t + 1][p], LINE_BYTES);
    if (rows > 1 && panels > 1) TILE_STORE(3, s->sums[t + 1][p + 1], LINE_BYTES);
    TILE_SETTLE();
}

/* The same for one tile, by fma. */
static void multiply_by_fma(const Run *run, size_t t, size_t p, Scratch *s) {
    const uint8_t *tile = run->input + t * run->blocks * TILE_BYTES;
    for (size_t r = 0; r < TILE_ROWS; r++) {
        lanes acc = run->first ? lanes_load(s->sums[t][p][r]) : lanes_zero();
        for (size_t b = run->first; b < run->first + run->n; b++) {
            const uint16_t *x = (const uint16_t *)(tile + b * TILE_BYTES + r * LINE_BYTES);
            const uint8_t *line = weights_at(run, s, p, b);
            lanes even = lanes_zero(), odd = even;
            for (size_t k = 0; k < BFLOAT_BLOCK; k += 2, line += LINE_BYTES) {
                even = lanes_fma(lanes_bfloat_low(line), lanes_set(bfloat_to_float(x[k])), even);
                odd = lanes_fma(lanes_bfloat_high(line), lanes_set(bfloat_to_float(x[k + 1])), odd);
            }
            acc = lanes_add(acc, lanes_add(even, odd));
        }
        lanes_store(s->sums[t][p][r], acc);
    }
}

/* Looks through a run's weights, which also brings them into the cache, and copies the panels' last
 * block where it must be filled up. */
static void look_through(const Matrix *w, const Run *run, Scratch *s) {
    size_t from = run->first * BFLOAT_BLOCK, to = from + run->n * BFLOAT_BLOCK;
    if (to > w->cols) to = round_up(w->cols, 2);
    for (size_t p = 0; p < run->panels; p++) {
        const uint8_t *panel = run->lines + p * run->panel_bytes;
        const uint16_t *weights = (const uint16_t *)panel + from * PANEL_ROWS;
        if (bfloat_any_low(weights, (to - from) * PANEL_ROWS)) s->by_fma[p] = true;
        if (!run->last_padded) continue;
        size_t at = (run->blocks - 1) * TILE_BYTES, used = to * PANEL_ROWS * sizeof *weights - at;
        memcpy(s->last[p], panel + at, used);
        memset(s->last[p] + used, 0, TILE_BYTES - used);
        /* After an odd number of inputs a hostile file may have anything, NaN too. */
        uint16_t *line = (uint16_t *)(s->last[p] + used - LINE_BYTES);
        for (size_t i = 1; w->cols % 2 && i < 2 * PANEL_ROWS; i += 2) line[i] = 0;
    }
}

/* Multiplies a run of inputs of all row tiles by all panels, two by two where both panels go by
 * tiles. Those with weights below 2^-40, which tiles would flush, go by fma. */
static void multiply_run(const Run *run, Scratch *s) {
    for (size_t t = 0; t < run->row_tiles; t += 2)
        for (size_t p = 0; p < run->panels; p += 2) {
            const bool two_rows = t + 1 < run->row_tiles, two_panels = p + 1 < run->panels;
            if (two_panels && !s->by_fma[p] && !s->by_fma[p + 1]) {
                if (two_rows) multiply_tiles(run, 2, 2, t, p, s);
                if (!two_rows) multiply_tiles(run, 1, 2, t, p, s);
                continue;
            }
            for (size_t i = p; i < p + 1 + two_panels; i++) {
                if (s->by_fma[i]) {
                    multiply_by_fma(run, t, i, s);
                    if (two_rows) multiply_by_fma(run, t + 1, i, s);
                } else if (two_rows) {
                    multiply_tiles(run, 2, 1, t, i, s);
                } else {
                    multiply_tiles(run, 1, 1, t, i, s);
                }
            }
        }
}

/* Stores a stripe's sums to the output; past the caches where whole lines allow, because ordinary
 * stores a row apart hold up the tile stores. Products of attention are narrow and read at once. */
static void store_sums(const Product *product, size_t n_rows, size_t begin, size_t panels,
                       const Scratch *s) {
    const bool narrow = product->stride <= NARROW;
    for (size_t row = 0; row < n_rows; row++)
        for (size_t p = 0; p < panels; p++) {
            size_t outputs = matrix_panel_outputs(product->w, begin + p);
            const float *sums = s->sums[row / TILE_ROWS][p][row % TILE_ROWS];
            float *out = product->out + row * product->stride + (begin + p) * PANEL_ROWS;
            if (outputs == PANEL_ROWS && !narrow && (uintptr_t)out % LINE_BYTES == 0) {
                _mm256_stream_ps(out, _mm256_loadu_ps(sums));
                _mm256_stream_ps(out + 8, _mm256_loadu_ps(sums + 8));
            } else {
                memcpy(out, sums, outputs * sizeof *out);
            }
        }
}

/* Multiplies `panels` panels, at most STRIPE, from `begin` on, by all rows. */
static void multiply_stripe(const Product *product, const uint8_t *input, size_t n_rows,
                            size_t begin, size_t panels, Scratch *s) {
    const Matrix *w = product->w;
    const size_t blocks = block_count_of(w->cols);
    memset(s->by_fma, 0, sizeof s->by_fma);
    for (size_t first = 0; first < blocks; first += RUN / BFLOAT_BLOCK) {
        size_t left = blocks - first;
        Run run = {.input = input,
                   .lines = matrix_panel(w, begin),
                   .panel_bytes = w->panel_bytes,
                   .blocks = blocks,
                   .first = first,
                   .n = left < RUN / BFLOAT_BLOCK ? left : RUN / BFLOAT_BLOCK,
                   .row_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS,
                   .panels = panels};
        run.last_padded = first + run.n == blocks && w->cols % BFLOAT_BLOCK != 0;
        look_through(w, &run, s);
        multiply_run(&run, s);
    }
    store_sums(product, n_rows, begin, panels, s);
}

/* ---- the table ---- */

static bool by_tiles(size_t form, size_t n_rows) {
    return form == FORM_BFLOATS && n_rows >= AMX_MIN_ROWS;
}

static size_t input_bytes(size_t form, size_t n_rows, size_t n_inputs) {
    if (!by_tiles(form, n_rows)) return REST.input_bytes(form, n_rows, n_inputs);
    size_t bytes = round_up(n_rows, TILE_ROWS) * block_count_of(n_inputs) * LINE_BYTES;
    size_t fewer = REST.input_bytes(form, AMX_MIN_ROWS - 1, n_inputs); /* in float32 */
    return bytes > fewer ? bytes : fewer;
}

static size_t pack_tasks(size_t form, size_t n_rows) {
    return by_tiles(form, n_rows) ? round_up(n_rows, TILE_ROWS) : REST.pack_tasks(form, n_rows);
}

/* Writes a row's activations as bfloat16 into its place in the tiles, with zeros after the last
 * input; rows that fill up the last tile are zeros. Fewer rows are packed as avx512's. */
static void pack(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (!by_tiles(form, n_rows)) {
        REST.pack(form, x, n_rows, n_inputs, task, input);
        return;
    }
    const size_t blocks = block_count_of(n_inputs);
    uint8_t *tile = (uint8_t *)input + task / TILE_ROWS * blocks * TILE_BYTES;
    x += task * n_inputs;
    for (size_t b = 0; b < blocks; b++, x += BFLOAT_BLOCK) {
        uint16_t *to = (uint16_t *)(tile + b * TILE_BYTES + task % TILE_ROWS * LINE_BYTES);
        size_t left = task < n_rows ? n_inputs - b * BFLOAT_BLOCK : 0;
        if (left >= BFLOAT_BLOCK) {
            for (size_t k = 0; k < BFLOAT_BLOCK; k++) to[k] = bfloat_round_floored(x[k]);
        } else {
            for (size_t k = 0; k < BFLOAT_BLOCK; k++)
                to[k] = k < left ? bfloat_round_floored(x[k]) : 0;
        }
    }
}

/* All tiles hold 16 rows of 64 bytes: 0 to 3 sums, 4 and 5 activations, 6 and 7 weights. */
static void configure(void) {
    TileConfig config = {.palette = 1};
    for (int t = 0; t < 8; t++) config.rows[t] = TILE_ROWS, config.row_bytes[t] = LINE_BYTES;
    TILE_CONFIGURE(&config);
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    if (!by_tiles(type_input_form(product->w->type), n_rows)) {
        REST.multiply(product, input, n_rows, begin, end, scratch);
        return;
    }
    configure();
    for (size_t p = begin; p < end; p += STRIPE)
        multiply_stripe(product, input, n_rows, p, end - p < STRIPE ? end - p : STRIPE, scratch);
    _mm_sfence(); /* before the barrier behind which others read what was streamed */
    TILE_RELEASE();
}

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    if (type_input_form(type) != FORM_BFLOATS) return REST.spin(type, rounds);
    configure();
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
    TILE_ZERO(6);
    TILE_ZERO(7);
    for (size_t r = 0; r < rounds; r++) {
        TILE_DOT_BFLOAT(0, 4, 6);
        TILE_DOT_BFLOAT(1, 5, 6);
        TILE_DOT_BFLOAT(2, 4, 7);
        TILE_DOT_BFLOAT(3, 5, 7);
    }
    TILE_RELEASE();
    return 2.0 * 4 * TILE_ROWS * PANEL_ROWS * BFLOAT_BLOCK * (double)rounds;
}

/* Kernels.agrees */
static bool agrees(void) {
    void *scratch = lines_new(AMX_BF16_KERNELS.scratch_bytes);
    bool same = scratch && witness_agrees(&AMX_BF16_KERNELS, &REST, scratch);
    free(scratch);
    return same;
}

const Kernels AMX_BF16_KERNELS = {
    .name = "amx_bf16",
    .stripe = STRIPE,
    .scratch_bytes = AMX_SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
    .agrees = agrees,
};
