/* Products of the quantized types with AVX-512 VNNI.
 *
 * vpdpbusd adds four products of an unsigned and a signed byte to each of 16 sums, just what a
 * line holds for 16 outputs. Signed weights are made unsigned by adding 128; the sums start
 * at the activations' offset, -128 * (sum of codes), which takes it out again. A block of up to
 * 12 rows has its integer and its float sums in registers while the weights stream past. */
#include "kernels/avx512.h"
#include "kernels/records.h"

/* Eight inputs of the 16 outputs, as unsigned bytes: 4 in *a, 4 in *b. `sixteenfold`: upper
 * nibbles stay where they are. */
INLINE void load_8_inputs(TensorType type, bool sixteenfold, const uint8_t *line, __m512i *a,
                          __m512i *b) {
    *a = _mm512_load_si512(line);
    if (is_4_bit(type)) {
        const __m512i low = _mm512_set1_epi8(15);
        *b = sixteenfold ? _mm512_andnot_si512(low, *a)
                         : _mm512_and_si512(_mm512_srli_epi16(*a, 4), low);
        *a = _mm512_and_si512(*a, low);
        return;
    }
    *b = _mm512_load_si512(line + LINE_BYTES);
    if (is_signed_8(type)) {
        const __m512i flip = _mm512_set1_epi8(-128);
        *a = _mm512_xor_si512(*a, flip);
        *b = _mm512_xor_si512(*b, flip);
    }
}

/* Where a row's integer sums start: weights are raised by 128, by 8 or not at all. */
INLINE __m512i first_sum(TensorType type, int32_t offset) {
    if (has_minima(type)) return _mm512_setzero_si512();
    return _mm512_set1_epi32(type == TENSOR_Q4 ? offset >> 4 : offset);
}

/* `panels` neighbouring panels by `rows` rows: one row streams four panels at a time, which keeps
 * more of the memory busy than one and needs each activation once for all of them. */
INLINE void multiply_block(TensorType type, size_t panels, size_t rows, const Matrix *w, size_t p,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = group_of(type), groups = activation_groups(group, w->cols);
    const size_t panel_bytes = w->panel_bytes;
    const uint8_t *panel = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    const bool sixteenfold = is_4_bit(type) && panels * rows <= 4;
    const bool doubled = panels * rows < 4 || sixteenfold;
    __m512 acc[BLOCK_SUMS];
#pragma GCC unroll 12
    for (size_t i = 0; i < panels * rows; i++) acc[i] = _mm512_setzero_ps();
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
        const int32_t *offsets = (const int32_t *)block + 2 * rows;
        const uint8_t *codes = block + ACTIVATION_HEADER * rows,
                      *line = panel + g * group_bytes(type);
        const uint8_t *ahead =
            fetch_ahead(type, panels, panel_bytes, panel, scales, minima, g, groups);
        /* With few sums there are two each, to hide the latency; those of upper nibbles are then 16
         * times what they should be, which costs less than to shift each line. */
        __m512i dot[BLOCK_SUMS], dot2[BLOCK_SUMS];
#pragma GCC unroll 12
        for (size_t i = 0; i < panels * rows; i++) {
            dot[i] = first_sum(type, offsets[i % rows]);
            dot2[i] = _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < group; k += 8) {
            size_t at = k * group_bytes(type) / group;
#pragma GCC unroll 4
            for (size_t j = 0; j < panels; j++) {
                __m512i a, b;
                load_8_inputs(type, sixteenfold, line + j * panel_bytes + at, &a, &b);
                _mm_prefetch(ahead + j * panel_bytes + at, _MM_HINT_T1);
                if (!is_4_bit(type))
                    _mm_prefetch(ahead + j * panel_bytes + at + LINE_BYTES, _MM_HINT_T1);
#pragma GCC unroll 12
                for (size_t r = 0; r < rows; r++) {
                    const uint8_t *x = codes + r * group + k;
                    size_t i = j * rows + r;
                    __m512i *second = doubled ? &dot2[i] : &dot[i];
                    dot[i] = _mm512_dpbusd_epi32(dot[i], a, broadcast_4_codes(x));
                    *second = _mm512_dpbusd_epi32(*second, b, broadcast_4_codes(x + 4));
                }
            }
        }
#pragma GCC unroll 4
        for (size_t j = 0; j < panels; j++) {
            size_t at = j * (panel_bytes / sizeof *scales) + g * PANEL_ROWS;
            __m512 scale = load_halves(scales + at), minimum = scale;
            if (has_minima(type)) minimum = load_halves(minima + at);
#pragma GCC unroll 12
            for (size_t r = 0; r < rows; r++) {
                size_t i = j * rows + r;
                __m512 x_scale = _mm512_set1_ps(x_scales[r]);
                if (sixteenfold) dot2[i] = _mm512_srai_epi32(dot2[i], 4);
                if (doubled) dot[i] = _mm512_add_epi32(dot[i], dot2[i]);
                acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i]), _mm512_mul_ps(scale, x_scale),
                                         acc[i]);
                if (!has_minima(type)) continue;
                acc[i] = _mm512_fnmadd_ps(_mm512_set1_ps(x_sums[r]), minimum, acc[i]);
            }
        }
    }
    store_block(panels, rows, acc, out, stride, outputs);
}

BLOCK_KERNEL(block_q8, TENSOR_Q8)
BLOCK_KERNEL(block_q8_64, TENSOR_Q8_64)
BLOCK_KERNEL(block_q4, TENSOR_Q4)
BLOCK_KERNEL(block_q4_min, TENSOR_Q4_MIN)
BLOCK_KERNEL(block_q8_min, TENSOR_Q8_MIN)

static const BlockKernels block_kernels[TENSOR_TYPES] = {
    [TENSOR_Q8] = {BLOCK_ROWS, block_q8, STREAM_ROWS, block_q8_stream},
    [TENSOR_Q8_64] = {BLOCK_ROWS, block_q8_64, STREAM_ROWS, block_q8_64_stream},
    [TENSOR_Q4] = {BLOCK_ROWS, block_q4, STREAM_ROWS, block_q4_stream},
    [TENSOR_Q4_MIN] = {BLOCK_ROWS, block_q4_min, STREAM_ROWS, block_q4_min_stream},
    [TENSOR_Q8_MIN] = {BLOCK_ROWS, block_q8_min, STREAM_ROWS, block_q8_min_stream},
};

#define FLOAT_KERNELS float_avx512
#define RECORD_KERNELS record_kernels_avx512
#include "kernels/block_table.h"

static double spin(bool integers, size_t rounds) {
    if (!integers) return float_avx512.spin(rounds);
    volatile int32_t zero = 0;
    __m512i sums[BLOCK_ROWS], a = _mm512_set1_epi32(zero);
#pragma GCC unroll 12
    for (size_t i = 0; i < BLOCK_ROWS; i++) sums[i] = _mm512_set1_epi32(zero + (int)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < BLOCK_ROWS; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], a, a);
#pragma GCC unroll 12
    for (size_t i = 1; i < BLOCK_ROWS; i++) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    zero = _mm512_reduce_add_epi32(sums[0]);
    return 2.0 * LINE_BYTES * BLOCK_ROWS * (double)rounds;
}

const Kernels kernels_avx512 = {
    .name = "avx512",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
