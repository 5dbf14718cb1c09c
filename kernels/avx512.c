/* Products of the quantized types with AVX-512 VNNI.
 *
 * vpdpbusd adds four products of an unsigned and a signed byte to each of 16 sums, and a line holds
 * four inputs of each of 16 outputs. Signed weights are made unsigned by adding 128; the sums start
 * at the activations' offset, -128 * (sum of codes), which takes it out again. A block of up to
 * 12 rows has its integer and its float sums in registers while the weights stream past. */
#include "kernels/avx512_pairs.h"

/* Loads eight inputs of the 16 outputs as unsigned bytes: inputs 0 to 3 in *a, 4 to 7 in *b. With
 * `unshifted`, upper nibbles stay in the upper half of their bytes. */
INLINE void load_8_inputs(TensorType type, bool unshifted, const uint8_t *line, __m512i *a,
                          __m512i *b) {
    *a = _mm512_load_si512(line);
    if (type_is_4_bit(type)) {
        const __m512i low = lower_nibbles();
        *b = unshifted ? _mm512_andnot_si512(low, *a)
                       : _mm512_and_si512(_mm512_srli_epi16(*a, 4), low);
        *a = _mm512_and_si512(*a, low);
        return;
    }
    *b = _mm512_load_si512(line + LINE_BYTES);
    if (weight_types[type].is_signed) {
        const __m512i flip = _mm512_set1_epi8(-128);
        *a = _mm512_xor_si512(*a, flip);
        *b = _mm512_xor_si512(*b, flip);
    }
}

/* Multiplies `panels` neighbouring panels by `rows` rows. One row takes four panels at a time,
 * which keeps more of the memory busy than one panel and loads each activation once for all of
 * them. */
INLINE void multiply_block(TensorType type, size_t panels, size_t rows, const Matrix *w, size_t p,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const size_t panel_bytes = w->panel_bytes;
    const uint8_t *panel = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(type, w, p), *minima = matrix_minima(type, w, p);
    const bool nibbles = type_is_4_bit(type), unshifted = upper_unshifted(nibbles, panels, rows);
    const uint32_t raised = weight_types[type].is_signed ? 128 : weight_types[type].zero;
    __m512 acc[BLOCK_SUMS];
#define STEP(i) acc[i] = _mm512_setzero_ps()
    EACH(panels * rows, STEP);
#undef STEP
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
        const int32_t *offsets = (const int32_t *)block + 2 * rows;
        const uint8_t *codes = block + ACTIVATION_HEADER * rows;
        const uint8_t *line = panel + g * group_bytes(type);
        const uint8_t *ahead =
            prefetch_scales(type, panels, panel_bytes, panel, scales, minima, g, groups);
        Dots dots;
        start_dots(raised, panels, rows, offsets, &dots);
        UNROLL
        for (size_t k = 0; k < group; k += 8) {
            size_t at = k * group_bytes(type) / group;
#define STEP(j)                                                                                    \
    do {                                                                                           \
        const uint8_t *own = line + (j)*panel_bytes + at, *next = ahead + (j)*panel_bytes + at;    \
        __m512i a, b;                                                                              \
        load_8_inputs(type, unshifted, own, &a, &b);                                               \
        _mm_prefetch(next, _MM_HINT_T0);                                                           \
        if (!nibbles) _mm_prefetch(next + LINE_BYTES, _MM_HINT_T0);                                \
        add_8_inputs(nibbles, panels, rows, j, a, b, codes + k, group, &dots);                     \
    } while (0)
            EACH_PANEL(panels, STEP);
#undef STEP
        }
#define STEP(j)                                                                                    \
    do {                                                                                           \
        size_t at = (j) * (panel_bytes / sizeof *scales) + g * PANEL_ROWS;                         \
        __m512 scale = load_halves(scales + at), minimum = scale;                                  \
        if (type_has_minima(type)) minimum = load_halves(minima + at);                             \
        add_scaled(nibbles, type_has_minima(type), panels, rows, j, scale, minimum, x_scales,      \
                   x_sums, &dots, acc);                                                            \
    } while (0)
        EACH_PANEL(panels, STEP);
#undef STEP
    }
    store_block(panels, rows, acc, out, stride, outputs);
}

EACH_CODE_TYPE(BLOCK_KERNEL)
EACH_CODE_TYPE(STREAM_KERNEL)

static const BlockKernels block_kernels[TENSOR_TYPES] = {EACH_CODE_TYPE(STREAM_ENTRY)};

#define FLOAT_KERNELS float_avx512
#define SUPERBLOCK_KERNELS superblock_kernels_avx512
#include "kernels/block_table.h"

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    if (!type_group(type)) return float_avx512.spin(rounds);
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
