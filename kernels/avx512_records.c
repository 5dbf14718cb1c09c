/* Products of the types of records.h with AVX-512 VNNI: avx512.c's method on another layout.
 *
 * 4-, 5- and 6-bit codes are unsigned as stored and need no more than a few shifts; levels of a
 * table are looked up, 128 raised, with a byte shuffle. The scale of a group, scale times
 * sub-scale, is made anew for each group: its product is exact. */
#include "kernels/avx512.h"
#include "kernels/records.h"

/* Bytes that are asked for ahead of time in a panel, and in each of several: what streamed fastest
 * on Zen 4. */
enum { AHEAD_BLOCK = 4096, AHEAD_STREAMS = 1024, AHEAD_STREAMS_Q5_K = 2048 };

INLINE __m512i load_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* The table's levels, each raised by 128, for a byte shuffle. */
INLINE __m512i raised_table(TensorType type) {
    const int8_t *table = record_table(type);
    __m128i levels = _mm_loadu_si128((const __m128i *)table);
    return _mm512_broadcast_i32x4(_mm_xor_si128(levels, _mm_set1_epi8(-128)));
}

/* The upper bits of 4 inputs (number c of the group's), in their place above a nibble. */
INLINE __m512i upper_bits(TensorType type, __m512i upper, size_t c) {
    size_t bits = type == TENSOR_Q5_K ? 1 : 2, from = bits * c;
    if (from < 4) return _mm512_slli_epi16(upper, (unsigned)(4 - from));
    return from > 4 ? _mm512_srli_epi16(upper, (unsigned)(from - 4)) : upper;
}

/* Eight inputs of the 16 outputs, as unsigned bytes: 4 in *a, 4 in *b; line i of the group. */
INLINE void load_8_inputs(TensorType type, const uint8_t *lines, size_t i, __m512i upper,
                          __m512i table, __m512i *a, __m512i *b) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i both = _mm512_load_si512(lines + i * LINE_BYTES);
    *b = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    *a = _mm512_and_si512(both, low);
    if (record_has_table(type)) {
        *a = _mm512_shuffle_epi8(table, *a);
        *b = _mm512_shuffle_epi8(table, *b);
    } else if (type != TENSOR_Q4_K) {
        const __m512i mask = _mm512_set1_epi8(type == TENSOR_Q5_K ? 0x10 : 0x30);
        *a = _mm512_ternarylogic_epi32(*a, upper_bits(type, upper, 2 * i), mask, 0xF8);
        *b = _mm512_ternarylogic_epi32(*b, upper_bits(type, upper, 2 * i + 1), mask, 0xF8);
    }
}

/* Where a row's integer sums start: weights are raised by 128, by 32 or not at all. */
INLINE __m512i first_sum(TensorType type, int32_t offset) {
    if (record_has_minima(type)) return _mm512_setzero_si512();
    return _mm512_set1_epi32(type == TENSOR_Q6_K ? offset >> 2 : offset);
}

/* Scales of group g of a record. */
INLINE __m512 load_scales(TensorType type, const uint8_t *record, size_t g) {
    if (type == TENSOR_Q4_NL) return load_halves(record + 32 * g);
    if (type == TENSOR_MXFP4) {
        __m512i bits = _mm512_slli_epi32(load_bytes(record + 16 * g), 23);
        bits = _mm512_max_epu32(bits, _mm512_set1_epi32(0x00400000));
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    __m512i part = load_bytes(record + 64 + 32 * g);
    if (type == TENSOR_Q6_K)
        part = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(record + 64 + 16 * g)));
    return _mm512_mul_ps(load_halves(record), _mm512_cvtepi32_ps(part));
}

INLINE __m512 load_minima(const uint8_t *record, size_t g) {
    __m512i part = load_bytes(record + 64 + 32 * g + 16);
    return _mm512_mul_ps(load_halves(record + 32), _mm512_cvtepi32_ps(part));
}

/* One group of `panels` neighbouring panels by `rows` rows. */
INLINE void add_group(TensorType type, size_t panels, size_t rows, size_t panel_bytes,
                      const uint8_t *record, size_t g, const uint8_t *lines, const uint8_t *ahead,
                      const uint8_t *block, __m512i table, __m512 *acc) {
    const size_t group = record_group(type);
    const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
    const int32_t *offsets = (const int32_t *)block + 2 * rows;
    const uint8_t *codes = block + ACTIVATION_HEADER * rows;
    const __m512i low = _mm512_set1_epi8(15);
    /* With few sums there are two each, to hide the latency; those of upper nibbles, which stay
     * where they are, are then 16 times what they should be, which costs less than to shift each
     * line. */
    __m512i dot[BLOCK_SUMS], dot2[BLOCK_SUMS];
    const bool sixteenfold = type == TENSOR_Q4_K && panels * rows <= 4;
    const bool doubled = panels * rows < 4 || sixteenfold;
#pragma GCC unroll 12
    for (size_t i = 0; i < panels * rows; i++) {
        dot[i] = first_sum(type, offsets[i % rows]);
        dot2[i] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < panels; j++) {
        const uint8_t *own = lines + j * panel_bytes;
        __m512i upper = _mm512_setzero_si512();
        if (type == TENSOR_Q5_K || type == TENSOR_Q6_K)
            upper = _mm512_load_si512(own + group / 8 * LINE_BYTES);
#pragma GCC unroll 5
        for (size_t at = 0; at < record_group_bytes(type); at += LINE_BYTES)
            _mm_prefetch(ahead + j * panel_bytes + at, _MM_HINT_T1);
#pragma GCC unroll 4
        for (size_t line = 0; line < group / 8; line++) {
            __m512i a, b;
            load_8_inputs(type, own, line, upper, table, &a, &b);
            if (sixteenfold)
                b = _mm512_andnot_si512(low, _mm512_load_si512(own + line * LINE_BYTES));
#pragma GCC unroll 12
            for (size_t r = 0; r < rows; r++) {
                const uint8_t *x = codes + r * group + 8 * line;
                size_t i = j * rows + r;
                __m512i *second = doubled ? &dot2[i] : &dot[i];
                dot[i] = _mm512_dpbusd_epi32(dot[i], a, broadcast_4_codes(x));
                *second = _mm512_dpbusd_epi32(*second, b, broadcast_4_codes(x + 4));
            }
        }
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < panels; j++) {
        __m512 scale = load_scales(type, record + j * panel_bytes, g), minimum = scale;
        if (record_has_minima(type)) minimum = load_minima(record + j * panel_bytes, g);
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) {
            size_t i = j * rows + r;
            __m512 x_scale = _mm512_set1_ps(x_scales[r]);
            if (sixteenfold) dot2[i] = _mm512_srai_epi32(dot2[i], 4);
            if (doubled) dot[i] = _mm512_add_epi32(dot[i], dot2[i]);
            acc[i] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i]), _mm512_mul_ps(scale, x_scale), acc[i]);
            if (!record_has_minima(type)) continue;
            acc[i] = _mm512_fnmadd_ps(_mm512_set1_ps(x_sums[r]), minimum, acc[i]);
        }
    }
}

INLINE void multiply_block(TensorType type, size_t panels, size_t rows, const Matrix *w, size_t p,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = record_group(type), groups = activation_groups(group, w->cols);
    const size_t panel_bytes = w->panel_bytes, per_record = RECORD_INPUTS / group;
    const uint8_t *record = matrix_panel(w, p);
    const __m512i table = raised_table(type);
    const size_t streams = type == TENSOR_Q5_K ? AHEAD_STREAMS_Q5_K : AHEAD_STREAMS;
    const size_t step = panels > 1 ? streams : AHEAD_BLOCK;
    const uint8_t *end = record + panel_bytes; /* past it the next panels are fetched */
    const size_t turn = (panels - 1) * panel_bytes;
    __m512 acc[BLOCK_SUMS];
#pragma GCC unroll 12
    for (size_t i = 0; i < panels * rows; i++) acc[i] = _mm512_setzero_ps();
    for (size_t first = 0; first < groups; first += per_record, record += record_bytes(type)) {
        size_t n = groups - first < per_record ? groups - first : per_record;
        const uint8_t *lines = record + record_header_bytes(type);
        const uint8_t *header = record + step < end ? record + step : record + step + turn;
#pragma GCC unroll 4
        for (size_t j = 0; j < panels; j++)
#pragma GCC unroll 5
            for (size_t at = 0; at < record_header_bytes(type); at += LINE_BYTES)
                _mm_prefetch(header + j * panel_bytes + at, _MM_HINT_T1);
        for (size_t g = 0; g < n; g++, lines += record_group_bytes(type)) {
            const uint8_t *ahead = lines + step < end ? lines + step : lines + step + turn;
            add_group(type, panels, rows, panel_bytes, record, g, lines, ahead, block, table, acc);
            block += rows * activation_bytes(group);
        }
    }
    store_block(panels, rows, acc, out, stride, outputs);
}

BLOCK_KERNEL(block_q4_k, TENSOR_Q4_K)
BLOCK_KERNEL(block_q5_k, TENSOR_Q5_K)
BLOCK_KERNEL(block_q6_k, TENSOR_Q6_K)
BLOCK_KERNEL(block_q4_nl, TENSOR_Q4_NL)
BLOCK_KERNEL(block_mxfp4, TENSOR_MXFP4)

const BlockKernels record_kernels_avx512[TENSOR_TYPES] = {
    [TENSOR_Q4_K] = {BLOCK_ROWS, block_q4_k, STREAM_ROWS, block_q4_k_stream},
    [TENSOR_Q5_K] = {BLOCK_ROWS, block_q5_k, STREAM_ROWS, block_q5_k_stream},
    [TENSOR_Q6_K] = {BLOCK_ROWS, block_q6_k, STREAM_ROWS, block_q6_k_stream},
    [TENSOR_Q4_NL] = {BLOCK_ROWS, block_q4_nl, STREAM_ROWS, block_q4_nl_stream},
    [TENSOR_MXFP4] = {BLOCK_ROWS, block_mxfp4, STREAM_ROWS, block_mxfp4_stream},
};
