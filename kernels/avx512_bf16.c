/* Products of bf16_act with AVX512-BF16, for more rows than a block; kernels_avx512 does everything
 * else.
 *
 * VDPBF16PS adds two products to each of 16 sums, one after the other. Where both are of even
 * inputs or both of odd ones, these are the sums that docs/numerics.md defines. A run of a panel is
 * brought into that order once, in scratch, for all rows. The instruction takes denormal numbers
 * for 0, which bf16_act has none of: activations below 2^-40 are packed as 0, and the weights of a
 * run are scanned. A panel with weights below 2^-40, which only a damaged or hostile file has, is
 * multiplied by fma from there on. */
#include <stdlib.h>

#include "base/lines.h"
#include "kernels/bfloat.h"
#include "kernels/bfloat_pairs.h"
#include "kernels/bfloat_witness.h"
#include "kernels/float.h"
#include "kernels/order.h"
#include "kernels/row_blocks.h"

#ifndef AVX512_BF16_KERNELS
#define AVX512_BF16_KERNELS kernels_avx512_bf16
#define REST kernels_avx512
#endif

/* A block's registers: its even and its odd sums, and a pair of weights of each kind. RUN is in
 * inputs. */
enum { ROWS = 12, MIN_ROWS = ROWS + 1, RUN = 512, QUAD = 4 };

typedef struct Scratch {
    uint8_t pairs[RUN / QUAD][2]
                 [LINE_BYTES]; /* of four inputs of the panel, the even and the odd */
    float sums[MATMUL_MAX_ROWS][PANEL_ROWS];
} Scratch;
_Static_assert(sizeof(Scratch) <= SCRATCH_BYTES, "scratch");

/* A row's inputs are filled up with zeros to whole blocks. For each four inputs a block of rows has
 * two words of each row, the even pair and the odd one: [four inputs][row][2]. */
static size_t padded_inputs(size_t n_inputs) {
    return round_up(n_inputs, BFLOAT_BLOCK);
}

/* Adds n inputs, whole blocks, to the sums of `rows` rows. */
LANES_INLINE void multiply_rows(size_t rows, const uint32_t *x, size_t n, bool first,
                                const Scratch *s, float (*sums)[PANEL_ROWS]) {
    const uint8_t(*pairs)[LINE_BYTES] = s->pairs[0];
    for (size_t at = 0; at < n; at += BFLOAT_BLOCK) {
        lanes even[ROWS], odd[ROWS];
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) even[r] = odd[r] = lanes_zero();
        for (size_t k = 0; k < BFLOAT_BLOCK; k += QUAD, x += 2 * rows, pairs += 2) {
            const Pairs of_even = pairs_load(pairs[0]), of_odd = pairs_load(pairs[1]);
#pragma GCC unroll 12
            for (size_t r = 0; r < rows; r++) {
                even[r] = pairs_dot(even[r], of_even, x[2 * r]);
                odd[r] = pairs_dot(odd[r], of_odd, x[2 * r + 1]);
            }
        }
        const bool starts = first && at == 0;
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) {
            lanes before = starts ? lanes_zero() : lanes_load(sums[r]);
            lanes_store(sums[r], lanes_add(before, lanes_add(even[r], odd[r])));
        }
    }
}

/* multiply_rows with the number of rows known to the compiler: a block of more than ROWS rows is
 * cut into blocks of at least half as many. */
static void multiply_block(size_t rows, const uint32_t *x, size_t n, bool first, const Scratch *s,
                           float (*sums)[PANEL_ROWS]) {
    switch (rows) {
#define ROWS_CASE(count)                                                                           \
    case count:                                                                                    \
        multiply_rows(count, x, n, first, s, sums);                                                \
        break
        ROWS_CASE(6);
        ROWS_CASE(7);
        ROWS_CASE(8);
        ROWS_CASE(9);
        ROWS_CASE(10);
        ROWS_CASE(11);
        ROWS_CASE(12);
    }
}

/* The same by fma, of the panel's own lines. */
static void multiply_by_fma(size_t rows, const uint32_t *x, size_t n, bool first,
                            const uint8_t *lines, float (*sums)[PANEL_ROWS]) {
    for (size_t r = 0; r < rows; r++) {
        lanes acc = first ? lanes_zero() : lanes_load(sums[r]);
        for (size_t k = 0; k < n; k += BFLOAT_BLOCK) {
            lanes sum[2] = {lanes_zero(), lanes_zero()};
            for (size_t i = k; i < k + BFLOAT_BLOCK && i < n; i++) {
                const uint8_t *line = lines + i / 2 * LINE_BYTES;
                uint32_t word = x[i / QUAD * 2 * rows + 2 * r + i % 2];
                lanes w = i % 2 ? lanes_bfloat_high(line) : lanes_bfloat_low(line);
                lanes v =
                    lanes_set(float_from_bits(i % QUAD < 2 ? word & 0xFFFF0000u : word << 16));
                sum[i % 2] = lanes_fma(w, v, sum[i % 2]);
            }
            acc = lanes_add(acc, lanes_add(sum[0], sum[1]));
        }
        lanes_store(sums[r], acc);
    }
}

/* Brings n inputs from `lines` into pairs, filled up with zeros to whole blocks. After an odd
 * number of inputs a hostile file may have anything, NaN too. */
static void make_pairs(const uint8_t *lines, size_t n, Scratch *s) {
    static const _Alignas(LINE_BYTES) uint8_t zeros[LINE_BYTES];
    _Alignas(LINE_BYTES) uint16_t half[2 * PANEL_ROWS] = {0}; /* the last line of an odd number */
    const uint8_t *last = lines + n / 2 * LINE_BYTES;
    for (size_t i = 0; n % 2 && i < 2 * PANEL_ROWS; i += 2) half[i] = ((const uint16_t *)last)[i];
    for (size_t k = 0; k < padded_inputs(n); k += QUAD) {
        const uint8_t *quad[2];
        for (size_t i = 0; i < 2; i++) {
            const size_t at = k + 2 * i;
            quad[i] = at >= n       ? zeros
                      : at + 1 == n ? (const uint8_t *)half
                                    : lines + at / 2 * LINE_BYTES;
        }
        pairs_store(s->pairs[k / QUAD][0], pairs_even(quad[0], quad[1]));
        pairs_store(s->pairs[k / QUAD][1], pairs_odd(quad[0], quad[1]));
    }
}

/* Multiplies panel p by all rows, in runs of inputs whose pairs fit the cache. From the first run
 * with weights below 2^-40 on, which the pairs' instruction would flush, it goes by fma. */
static void multiply_panel(const Product *product, const uint32_t *input, size_t n_rows, size_t p,
                           Scratch *s) {
    const Matrix *w = product->w;
    const size_t words = padded_inputs(w->cols) / 2; /* of a row */
    const size_t blocks = block_count(n_rows, ROWS), outputs = matrix_panel_outputs(w, p);
    bool by_fma = false;
    for (size_t first = 0; first < w->cols; first += RUN) {
        size_t n = w->cols - first < RUN ? w->cols - first : RUN;
        const uint8_t *lines = matrix_panel(w, p) + first / 2 * LINE_BYTES;
        by_fma = by_fma || bfloat_any_low((const uint16_t *)lines, round_up(n, 2) * PANEL_ROWS);
        if (!by_fma) make_pairs(lines, n, s);
        for (size_t b = 0; b < blocks; b++) {
            size_t start = block_start(n_rows, blocks, b);
            size_t rows = block_start(n_rows, blocks, b + 1) - start;
            /* One block of rows after another, each as [four inputs][row][2] (pack). */
            const uint32_t *x = input + start * words + first / 2 * rows;
            if (by_fma) {
                multiply_by_fma(rows, x, n, first == 0, lines, s->sums + start);
            } else {
                multiply_block(rows, x, padded_inputs(n), first == 0, s, s->sums + start);
            }
        }
    }
    for (size_t row = 0; row < n_rows; row++)
        memcpy(product->out + row * product->stride + p * PANEL_ROWS, s->sums[row],
               outputs * sizeof(float));
}

/* ---- the table ---- */

#ifndef BFLOAT_PAIRS_EMULATED
/* AMD's Zen 4 and Zen 5 begin twice as many of these products as fma; Intel's begin fewer, and are
 * slower with them (an Emerald Rapids: 36 to 39 GMAC/s a core instead of 57 to 62). */
static bool is_faster(void) {
    return __builtin_cpu_is("amd");
}
#endif

static bool by_pairs(size_t form, size_t n_rows) {
    return form == FORM_BFLOATS && n_rows >= MIN_ROWS;
}

static size_t input_bytes(size_t form, size_t n_rows, size_t n_inputs) {
    if (!by_pairs(form, n_rows)) return REST.input_bytes(form, n_rows, n_inputs);
    size_t bytes = n_rows * padded_inputs(n_inputs) * sizeof(uint16_t);
    size_t fewer = REST.input_bytes(form, MIN_ROWS - 1, n_inputs); /* in float32 */
    return bytes > fewer ? bytes : fewer;
}

static size_t pack_tasks(size_t form, size_t n_rows) {
    return by_pairs(form, n_rows) ? block_count(n_rows, ROWS) : REST.pack_tasks(form, n_rows);
}

static uint32_t input_at(const float *x, size_t k, size_t n_inputs) {
    return k < n_inputs ? bfloat_round_floored(x[k]) : 0;
}

static void pack(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (!by_pairs(form, n_rows)) {
        REST.pack(form, x, n_rows, n_inputs, task, input);
        return;
    }
    size_t blocks = block_count(n_rows, ROWS), start = block_start(n_rows, blocks, task);
    size_t rows = block_start(n_rows, blocks, task + 1) - start, padded = padded_inputs(n_inputs);
    uint32_t *to = (uint32_t *)input + start * padded / 2;
    for (size_t k = 0; k < padded; k += QUAD)
        for (size_t r = 0; r < rows; r++) {
            const float *row = x + (start + r) * n_inputs;
            for (size_t odd = 0; odd < 2; odd++)
                *to++ =
                    input_at(row, k + odd, n_inputs) << 16 | input_at(row, k + 2 + odd, n_inputs);
        }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    if (!by_pairs(type_input_form(product->w->type), n_rows)) {
        REST.multiply(product, input, n_rows, begin, end, scratch);
        return;
    }
    for (size_t p = begin; p < end; p++) multiply_panel(product, input, n_rows, p, scratch);
}

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    if (type_input_form(type) != FORM_BFLOATS) return REST.spin(type, rounds);
    enum { SUMS = 16 };
    static const _Alignas(LINE_BYTES) uint8_t zeros[LINE_BYTES];
    volatile uint32_t x = 0;
    volatile float kept;
    const Pairs pairs = pairs_load(zeros);
    const uint32_t factor = x;
    lanes sums[SUMS];
#pragma GCC unroll 16
    for (size_t i = 0; i < SUMS; i++) sums[i] = lanes_set((float)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 16
        for (size_t i = 0; i < SUMS; i++) sums[i] = pairs_dot(sums[i], pairs, factor);
#pragma GCC unroll 16
    for (size_t i = 1; i < SUMS; i++) sums[0] = lanes_add(sums[0], sums[i]);
    kept = lanes_sum(sums[0]);
    (void)kept;
    return 2.0 * 2 * LANES * SUMS * (double)rounds;
}

/* Kernels.agrees */
static bool agrees(void) {
    void *scratch = lines_new(SCRATCH_BYTES);
    bool same = scratch && witness_agrees(&AVX512_BF16_KERNELS, &REST, scratch);
    free(scratch);
    return same;
}

const Kernels AVX512_BF16_KERNELS = {
    .name = "avx512_bf16",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
    .agrees = agrees,
#ifndef BFLOAT_PAIRS_EMULATED
    .is_faster = is_faster,
#endif
};
