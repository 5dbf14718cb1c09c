/* Products of the types of records.h with AVX2: avx2.c's method on another layout.
 *
 * Products of unsigned codes are added in 16 bits as long as the sum cannot overflow: a whole group
 * of 4-bit codes (8 * 2 * 15 * 127 = 30480), half a group of 5-bit codes (31496), eight inputs of
 * 6-bit codes (32004). Levels of a table are split into magnitude and sign, and the sign moves to
 * the activation; their products are widened at once. */
#include "kernels/avx2_steps.h"
#include "kernels/records.h"

/* How many bytes ahead to prefetch. */
enum { AHEAD = 4096 };

/* The levels of the type's table, for a byte shuffle. */
INLINE __m256i table_of(TensorType type) {
    const int8_t *table = record_table(type);
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* Inputs 4 c to 4 c + 3 of a group, for 8 outputs: unsigned codes, or signed levels of the table.
 */
INLINE __m256i load_weights(TensorType type, const uint8_t *lines, size_t c, size_t half,
                            __m256i table) {
    const uint8_t *own = lines + 32 * half;
    __m256i both = load_codes(own + c / 2 * LINE_BYTES);
    if (c % 2) both = _mm256_srli_epi16(both, 4);
    __m256i code = _mm256_and_si256(both, _mm256_set1_epi8(15));
    if (type_has_table(type)) return _mm256_shuffle_epi8(table, code);
    if (!record_upper_bits(type)) return code;
    size_t from = record_upper_bits(type) * c;
    __m256i upper = load_codes(own + record_nibble_bytes(type));
    upper = from < 4 ? _mm256_slli_epi16(upper, (int)(4 - from))
                     : _mm256_srli_epi16(upper, (int)(from - 4));
    const __m256i mask = _mm256_set1_epi8(record_upper_mask(type));
    return _mm256_or_si256(code, _mm256_and_si256(upper, mask));
}

/* Dots of one group, dot[row][half], as if unsigned codes had no zero above 0. */
INLINE void dot_group(TensorType type, size_t rows, const uint8_t *lines, const int8_t *codes,
                      __m256i table, __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type);
    /* Pairs of products that fit into 16 bits when added up: 8, 4 or 2 for 4, 5 or 6 bits. */
    const size_t run = type_has_table(type) ? 1 : 8u >> record_upper_bits(type);
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t first = 0; first < group / 4; first += run) {
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            __m256i sums[BLOCK_ROWS];
#pragma GCC unroll 8
            for (size_t c = first; c < first + run; c++) {
                __m256i w = load_weights(type, lines, c, h, table), magnitude = w;
                if (type_has_table(type)) magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
                for (size_t r = 0; r < rows; r++) {
                    __m256i x = broadcast_4_codes(codes + r * group + 4 * c);
                    if (type_has_table(type)) x = _mm256_sign_epi8(x, w);
                    __m256i pairs = _mm256_maddubs_epi16(magnitude, x);
                    sums[r] = c > first ? _mm256_add_epi16(sums[r], pairs) : pairs;
                }
            }
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++)
                dot[r][h] = _mm256_add_epi32(dot[r][h], _mm256_madd_epi16(sums[r], ones));
        }
    }
}

INLINE __m256i load_bytes(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* Scales of group g of a record, for the outputs from 8 * half on. */
INLINE __m256 load_scales(TensorType type, const uint8_t *record, size_t g, size_t half) {
    const uint8_t *own = record + record_scales_at(type, g);
    if (record_scales(type) == SCALES_HALVES) return load_halves(own + 16 * half);
    if (record_scales(type) == SCALES_POWERS) {
        __m256i bits = _mm256_slli_epi32(load_bytes(own + 8 * half), 23);
        bits = _mm256_max_epu32(bits, _mm256_set1_epi32(0x00400000));
        return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0.5f));
    }
    __m256i part = load_bytes(own + 8 * half);
    if (record_scales(type) == SCALES_SIGNED_PARTS)
        part = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(own + 8 * half)));
    return _mm256_mul_ps(load_halves(record + 16 * half), _mm256_cvtepi32_ps(part));
}

/* Minima of group g of a record, for the outputs from 8 * half on. */
INLINE __m256 load_minima(TensorType type, const uint8_t *record, size_t g, size_t half) {
    __m256i part = load_bytes(record + record_minima_at(type, g) + 8 * half);
    return _mm256_mul_ps(load_halves(record + RECORD_MINIMA + 16 * half), _mm256_cvtepi32_ps(part));
}

/* Adds one group's products with a group of a packed block to the float sums. */
INLINE void add_group(TensorType type, size_t rows, const uint8_t *record, size_t g,
                      const uint8_t *lines, const uint8_t *block, __m256i table,
                      __m256 (*acc)[HALVES]) {
    const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
    const int32_t *offsets = (const int32_t *)block + 2 * rows;
    __m256i dot[BLOCK_ROWS][HALVES];
    dot_group(type, rows, lines, (const int8_t *)block + ACTIVATION_HEADER * rows, table, dot);
#pragma GCC unroll 2
    for (size_t h = 0; h < HALVES; h++) {
        __m256 scale = load_scales(type, record, g, h), minimum = scale;
        if (type_has_minima(type)) minimum = load_minima(type, record, g, h);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            __m256 x_scale = _mm256_set1_ps(x_scales[r]);
            __m256i whole =
                _mm256_set1_epi32(activation_offset(weight_types[type].zero, offsets[r]));
            __m256 value = _mm256_cvtepi32_ps(_mm256_add_epi32(dot[r][h], whole));
            acc[r][h] = _mm256_fmadd_ps(value, _mm256_mul_ps(scale, x_scale), acc[r][h]);
            if (!type_has_minima(type)) continue;
            acc[r][h] = _mm256_fnmadd_ps(_mm256_set1_ps(x_sums[r]), minimum, acc[r][h]);
        }
    }
}

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const size_t per_record = record_groups(type);
    const uint8_t *record = matrix_panel(w, p);
    const __m256i table = table_of(type);
    __m256 acc[BLOCK_ROWS][HALVES];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t first = 0; first < groups; first += per_record, record += record_bytes(type)) {
        size_t n = groups - first < per_record ? groups - first : per_record;
        const uint8_t *lines = record + record_header_bytes(type);
        for (size_t at = 0; at < record_header_bytes(type); at += LINE_BYTES)
            _mm_prefetch((const char *)record + AHEAD + at, _MM_HINT_T1);
        for (size_t g = 0; g < n; g++, lines += record_group_bytes(type)) {
#pragma GCC unroll 5
            for (size_t at = 0; at < record_group_bytes(type); at += LINE_BYTES)
                _mm_prefetch((const char *)lines + AHEAD + at, _MM_HINT_T1);
            add_group(type, rows, record, g, lines, block, table, acc);
            block += rows * activation_bytes(group);
        }
    }
    store_block(rows, acc, out, stride, outputs);
}

EACH_RECORD_TYPE(BLOCK_KERNEL)

const BlockKernels record_kernels_avx2[TENSOR_TYPES] = {EACH_RECORD_TYPE(BLOCK_ENTRY)};
