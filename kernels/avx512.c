/* Products of the quantized types with AVX-512 VNNI.
 *
 * vpdpbusd adds four products of an unsigned and a signed byte to each of 16 sums, just what a
 * line holds for 16 outputs. Signed weights are made unsigned by adding 128; the sums start
 * at the activations' offset, -128 * (sum of codes), which takes it out again.
 *
 * Up to FEW_ROWS rows stand in registers and the weights stream past them once, at the speed
 * of the memory. More rows are multiplied in blocks of BLOCK_ROWS by two panels: a run of
 * weights is made unsigned and its scales float32 in scratch, all blocks pass over it from the
 * cache, and meanwhile the next run is fetched. Between runs the sums rest in scratch. */
#include <immintrin.h>

#include "activations.h"
#include "internal.h"

#define INLINE static inline __attribute__((always_inline))

enum { FEW_ROWS = 8, BLOCK_ROWS = 6, PANELS = 2, RUN = 512, AHEAD = 4096 };
enum { RUN_GROUPS = RUN / 32, RUN_LINES = RUN / 4 };

/* Of one thread: a run of unsigned weights with scales and minima, and the sums of all rows. */
typedef struct Scratch {
    uint8_t codes[PANELS][RUN_LINES][LINE_BYTES];
    float scales[PANELS][RUN_GROUPS][PANEL_ROWS];
    float minima[PANELS][RUN_GROUPS][PANEL_ROWS];
    float sums[MATMUL_MAX_ROWS][PANELS][PANEL_ROWS];
} Scratch;
_Static_assert(sizeof(Scratch) <= SCRATCH_BYTES, "scratch");

INLINE __m512 load_halves(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE bool is_signed_8(TensorType type) {
    return type == TENSOR_Q8 || type == TENSOR_Q8_64;
}

INLINE bool is_4_bit(TensorType type) {
    return type == TENSOR_Q4 || type == TENSOR_Q4_MIN;
}

INLINE bool has_minima(TensorType type) {
    return type == TENSOR_Q4_MIN || type == TENSOR_Q8_MIN;
}

INLINE size_t group_of(TensorType type) {
    return type == TENSOR_Q8_64 ? 64 : 32;
}

INLINE __m512i broadcast_4_codes(const uint8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm512_set1_epi32(codes);
}

/* acc + (float)dot * (w_scale * x_scale) - (float)sum_x * (w_min * x_scale) */
INLINE __m512 add_group(__m512 acc, __m512i dot, __m512 w_scale, __m512 x_scale) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(w_scale, x_scale), acc);
}
INLINE __m512 subtract_minimum(__m512 acc, int32_t offset, __m512 w_min, __m512 x_scale) {
    __m512 sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(-offset >> 7));
    return _mm512_fnmadd_ps(sum, _mm512_mul_ps(w_min, x_scale), acc);
}

/* ---- few rows: one panel, weights straight from the file ---- */

/* The sums' start for this type: weights are raised by 128, by 8 or not at all. */
INLINE __m512i first_sum(TensorType type, int32_t offset) {
    if (has_minima(type)) return _mm512_setzero_si512();
    return _mm512_set1_epi32(type == TENSOR_Q4 ? offset >> 4 : offset);
}

/* One panel by all `rows` rows of the only block; out[row * stride], `store` masks the tail. */
INLINE void few_rows(TensorType type, size_t rows, const Matrix *w, size_t p, const uint8_t *block,
                     float *out, size_t stride, __mmask16 store) {
    const size_t group = group_of(type);
    const uint8_t *line = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    const __m512i low = _mm512_set1_epi8(15), bias = _mm512_set1_epi8(-128);
    size_t groups = activation_groups(group, w->cols);
    __m512 acc[FEW_ROWS];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    for (size_t g = 0; g < groups; g++) {
        const float *x_scales = (const float *)block;
        const int32_t *offsets = (const int32_t *)block + rows;
        const uint8_t *codes = block + 8 * rows;
        __m512i dot[FEW_ROWS], dot2[FEW_ROWS]; /* two sums a row hide each other's latency */
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            dot[r] = first_sum(type, offsets[r]);
            dot2[r] = _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < group; k += 8) {
            __m512i a = _mm512_load_si512(line), b;
            _mm_prefetch(line + AHEAD, _MM_HINT_T0);
            if (is_4_bit(type)) {
                b = _mm512_and_si512(_mm512_srli_epi16(a, 4), low);
                a = _mm512_and_si512(a, low);
                line += LINE_BYTES;
            } else {
                b = _mm512_load_si512(line + LINE_BYTES);
                _mm_prefetch(line + LINE_BYTES + AHEAD, _MM_HINT_T0);
                line += 2 * LINE_BYTES;
            }
            if (is_signed_8(type)) {
                a = _mm512_xor_si512(a, bias);
                b = _mm512_xor_si512(b, bias);
            }
#pragma GCC unroll 8
            for (size_t r = 0; r < rows; r++) {
                const uint8_t *x = codes + r * group + k;
                dot[r] = _mm512_dpbusd_epi32(dot[r], a, broadcast_4_codes(x));
                if (rows < 4) {
                    dot2[r] = _mm512_dpbusd_epi32(dot2[r], b, broadcast_4_codes(x + 4));
                } else {
                    dot[r] = _mm512_dpbusd_epi32(dot[r], b, broadcast_4_codes(x + 4));
                }
            }
        }
        __m512 scale = load_halves(scales + g * PANEL_ROWS), minimum = scale;
        if (has_minima(type)) minimum = load_halves(minima + g * PANEL_ROWS);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            __m512 x_scale = _mm512_set1_ps(x_scales[r]);
            if (rows < 4) dot[r] = _mm512_add_epi32(dot[r], dot2[r]);
            acc[r] = add_group(acc[r], dot[r], scale, x_scale);
            if (has_minima(type)) acc[r] = subtract_minimum(acc[r], offsets[r], minimum, x_scale);
        }
        block += rows * activation_bytes(group);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) _mm512_mask_storeu_ps(out + r * stride, store, acc[r]);
}

#define FEW_ROWS_OF(type, rows, ...)                                                               \
    switch (rows) {                                                                                \
    case 1:                                                                                        \
        few_rows(type, 1, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 2:                                                                                        \
        few_rows(type, 2, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 3:                                                                                        \
        few_rows(type, 3, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 4:                                                                                        \
        few_rows(type, 4, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 5:                                                                                        \
        few_rows(type, 5, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 6:                                                                                        \
        few_rows(type, 6, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 7:                                                                                        \
        few_rows(type, 7, __VA_ARGS__);                                                            \
        break;                                                                                     \
    case 8:                                                                                        \
        few_rows(type, 8, __VA_ARGS__);                                                            \
        break;                                                                                     \
    }

static void multiply_few_rows(const Product *product, const uint8_t *block, size_t rows, size_t p) {
    const Matrix *w = product->w;
    float *out = product->out + p * PANEL_ROWS;
    __mmask16 store = (__mmask16)((1u << panel_outputs(w, p)) - 1);
    switch ((int)w->type) {
    case TENSOR_Q8:
        FEW_ROWS_OF(TENSOR_Q8, rows, w, p, block, out, product->stride, store);
        break;
    case TENSOR_Q8_64:
        FEW_ROWS_OF(TENSOR_Q8_64, rows, w, p, block, out, product->stride, store);
        break;
    case TENSOR_Q4:
        FEW_ROWS_OF(TENSOR_Q4, rows, w, p, block, out, product->stride, store);
        break;
    case TENSOR_Q4_MIN:
        FEW_ROWS_OF(TENSOR_Q4_MIN, rows, w, p, block, out, product->stride, store);
        break;
    case TENSOR_Q8_MIN:
        FEW_ROWS_OF(TENSOR_Q8_MIN, rows, w, p, block, out, product->stride, store);
        break;
    }
}

/* ---- many rows: blocks of rows by two panels, weights from scratch ---- */

/* Lines of a run as unsigned bytes, 4 inputs a line. Signed weights, 4-bit ones too, are
 * raised by 128. */
static void prepare_lines(TensorType type, const uint8_t *line, size_t n_inputs,
                          uint8_t (*out)[LINE_BYTES]) {
    const __m512i low = _mm512_set1_epi8(15);
    if (is_4_bit(type)) {
        const __m512i raise = _mm512_set1_epi8(type == TENSOR_Q4 ? 120 : 0);
        for (size_t i = 0; i < n_inputs / 4; i += 2, line += LINE_BYTES) {
            __m512i both = _mm512_load_si512(line);
            __m512i a = _mm512_and_si512(both, low);
            __m512i b = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
            _mm512_store_si512(out[i], _mm512_add_epi8(a, raise));
            _mm512_store_si512(out[i + 1], _mm512_add_epi8(b, raise));
        }
        return;
    }
    const __m512i flip = _mm512_set1_epi8(is_signed_8(type) ? -128 : 0);
    for (size_t i = 0; i < n_inputs / 4; i++, line += LINE_BYTES)
        _mm512_store_si512(out[i], _mm512_xor_si512(_mm512_load_si512(line), flip));
}

static void widen_halves(const uint16_t *halves, size_t groups, float (*out)[PANEL_ROWS]) {
    for (size_t g = 0; g < groups; g++)
        _mm512_store_ps(out[g], load_halves(halves + g * PANEL_ROWS));
}

/* Fetched while a run is multiplied: the lines of the next one, `bytes` a group and panel. */
typedef struct Fetch {
    const uint8_t *from;
    size_t panel_bytes, bytes;
} Fetch;

/* `rows` rows by two panels over the run's groups; the sums are read (unless the run is the
 * first) from and written to sums[rows]. */
INLINE void multiply_block(size_t group, bool with_minima, size_t rows, const Scratch *scratch,
                           const uint8_t *block, size_t groups, bool first,
                           float (*sums)[PANELS][PANEL_ROWS], Fetch fetch) {
    __m512 acc[BLOCK_ROWS][PANELS];
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < PANELS; p++)
            acc[r][p] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[r][p]);
    const uint8_t(*line)[LINE_BYTES] = scratch->codes[0];
    for (size_t g = 0; g < groups; g++) {
        const float *x_scales = (const float *)block;
        const int32_t *offsets = (const int32_t *)block + rows;
        const uint8_t *codes = block + 8 * rows;
        __m512i dot[BLOCK_ROWS][PANELS];
#pragma GCC unroll 6
        for (size_t r = 0; r < rows; r++)
            dot[r][0] = dot[r][1] = _mm512_set1_epi32(with_minima ? 0 : offsets[r]);
#pragma GCC unroll 16
        for (size_t k = 0; k < group; k += 4, line++) {
            __m512i a = _mm512_load_si512(line), b = _mm512_load_si512(line + RUN_LINES);
#pragma GCC unroll 6
            for (size_t r = 0; r < rows; r++) {
                __m512i x = broadcast_4_codes(codes + r * group + k);
                dot[r][0] = _mm512_dpbusd_epi32(dot[r][0], a, x);
                dot[r][1] = _mm512_dpbusd_epi32(dot[r][1], b, x);
            }
        }
        for (size_t i = 0; i < fetch.bytes; i += LINE_BYTES) {
            _mm_prefetch(fetch.from + i, _MM_HINT_T1);
            _mm_prefetch(fetch.from + fetch.panel_bytes + i, _MM_HINT_T1);
        }
        fetch.from += fetch.bytes;
#pragma GCC unroll 2
        for (size_t p = 0; p < PANELS; p++) {
            __m512 scale = _mm512_load_ps(scratch->scales[p][g]);
#pragma GCC unroll 6
            for (size_t r = 0; r < rows; r++)
                acc[r][p] = add_group(acc[r][p], dot[r][p], scale, _mm512_set1_ps(x_scales[r]));
            if (!with_minima) continue;
            __m512 minimum = _mm512_load_ps(scratch->minima[p][g]);
#pragma GCC unroll 6
            for (size_t r = 0; r < rows; r++)
                acc[r][p] =
                    subtract_minimum(acc[r][p], offsets[r], minimum, _mm512_set1_ps(x_scales[r]));
        }
        block += rows * activation_bytes(group);
    }
#pragma GCC unroll 6
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t p = 0; p < PANELS; p++) _mm512_store_ps(sums[r][p], acc[r][p]);
}

#define BLOCK_OF(group, with_minima, rows, ...)                                                    \
    switch (rows) {                                                                                \
    case 1:                                                                                        \
        multiply_block(group, with_minima, 1, __VA_ARGS__);                                        \
        break;                                                                                     \
    case 2:                                                                                        \
        multiply_block(group, with_minima, 2, __VA_ARGS__);                                        \
        break;                                                                                     \
    case 3:                                                                                        \
        multiply_block(group, with_minima, 3, __VA_ARGS__);                                        \
        break;                                                                                     \
    case 4:                                                                                        \
        multiply_block(group, with_minima, 4, __VA_ARGS__);                                        \
        break;                                                                                     \
    case 5:                                                                                        \
        multiply_block(group, with_minima, 5, __VA_ARGS__);                                        \
        break;                                                                                     \
    case 6:                                                                                        \
        multiply_block(group, with_minima, 6, __VA_ARGS__);                                        \
        break;                                                                                     \
    }

static void multiply_block_of(TensorType type, size_t rows, const Scratch *scratch,
                              const uint8_t *block, size_t groups, bool first,
                              float (*sums)[PANELS][PANEL_ROWS], Fetch fetch) {
    if (type == TENSOR_Q8_64) {
        BLOCK_OF(64, false, rows, scratch, block, groups, first, sums, fetch);
    } else if (has_minima(type)) {
        BLOCK_OF(32, true, rows, scratch, block, groups, first, sums, fetch);
    } else {
        BLOCK_OF(32, false, rows, scratch, block, groups, first, sums, fetch);
    }
}

/* All rows' sums of the panels p ... p + panels - 1 go to their place in the output. */
static void store_sums(const Product *product, size_t n_rows, size_t p, size_t panels,
                       const Scratch *scratch) {
    for (size_t i = 0; i < panels; i++) {
        __mmask16 store = (__mmask16)((1u << panel_outputs(product->w, p + i)) - 1);
        float *out = product->out + (p + i) * PANEL_ROWS;
        for (size_t row = 0; row < n_rows; row++, out += product->stride)
            _mm512_mask_storeu_ps(out, store, _mm512_load_ps(scratch->sums[row][i]));
    }
}

/* Panels p and p + 1 (or p alone, the last) for all rows. */
static void multiply_stripe(const Product *product, const uint8_t *input, size_t n_rows, size_t p,
                            size_t panels, Scratch *scratch) {
    const Matrix *w = product->w;
    size_t group = group_of(w->type), groups = activation_groups(group, w->cols);
    size_t blocks = block_count(n_rows, BLOCK_ROWS), row_bytes = activation_bytes(group);
    size_t group_bytes = is_4_bit(w->type) ? group / 8 * LINE_BYTES : group / 4 * LINE_BYTES;
    const uint8_t *panel = matrix_panel(w, p);
    for (size_t g = 0; g < groups; g += RUN / group) {
        size_t n = groups - g < RUN / group ? groups - g : RUN / group;
        for (size_t i = 0; i < panels; i++) {
            prepare_lines(w->type, panel + i * w->panel_bytes + g * group_bytes, n * group,
                          scratch->codes[i]);
            widen_halves(matrix_scales(w, p + i) + g * PANEL_ROWS, n, scratch->scales[i]);
            if (has_minima(w->type))
                widen_halves(matrix_minima(w, p + i) + g * PANEL_ROWS, n, scratch->minima[i]);
        }
        Fetch fetch = {panel + (g + n) * group_bytes, w->panel_bytes, group_bytes};
        if (g + n == groups) fetch.from = panel + panels * w->panel_bytes;
        for (size_t b = 0; b < blocks; b++) {
            size_t start = block_start(n_rows, blocks, b);
            size_t rows = block_start(n_rows, blocks, b + 1) - start;
            multiply_block_of(w->type, rows, scratch,
                              input + (start * groups + g * rows) * row_bytes, n, g == 0,
                              scratch->sums + start, fetch);
            fetch.bytes = 0;
        }
    }
    store_sums(product, n_rows, p, panels, scratch);
}

/* ---- the table ---- */

static size_t rows_per_block(size_t n_rows) {
    return n_rows <= FEW_ROWS ? FEW_ROWS : BLOCK_ROWS;
}

static size_t input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    if (!group) return float_avx512.input_bytes(n_rows, n_inputs);
    return n_rows * activation_groups(group, n_inputs) * activation_bytes(group);
}

static size_t pack_tasks(size_t group, size_t n_rows) {
    return group ? n_rows : float_avx512.pack_tasks(n_rows);
}

static void pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (!group) {
        float_avx512.pack(x, n_rows, n_inputs, task, input);
        return;
    }
    pack_activation_row(group, x, n_rows, n_inputs, task, rows_per_block(n_rows), input);
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    if (!tensor_type_info(product->w->type)->group) {
        float_avx512.multiply(product, input, n_rows, begin, end, scratch);
        return;
    }
    if (n_rows <= FEW_ROWS) {
        for (size_t p = begin; p < end; p++) multiply_few_rows(product, input, n_rows, p);
        return;
    }
    for (size_t p = begin; p < end; p += PANELS)
        multiply_stripe(product, input, n_rows, p, end - p < PANELS ? end - p : PANELS, scratch);
}

const Kernels kernels_avx512 = {
    .name = "avx512",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
};
