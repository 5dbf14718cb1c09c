/* The types of records.h, as amx.c multiplies them: codes of a run of inputs as signed bytes, and
 * scales and minima as float32. */
#ifndef AMX_RECORDS_H
#define AMX_RECORDS_H

#include <immintrin.h>

#include "kernels/records.h"

/* 16 bytes times four: the codes of 4 inputs (number c of the group's) of the 16 outputs. */
static inline __m512i record_codes_512(TensorType type, const uint8_t *lines, size_t c) {
    __m512i both = _mm512_load_si512(lines + c / 2 * LINE_BYTES);
    if (c % 2) both = _mm512_srli_epi16(both, 4);
    __m512i code = _mm512_and_si512(both, _mm512_set1_epi8(15));
    if (record_has_table(type)) {
        const int8_t *table = record_table(type);
        __m128i levels = _mm_loadu_si128((const __m128i *)table);
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(levels), code);
    }
    if (type == TENSOR_Q4_K) return code;
    unsigned bits = type == TENSOR_Q5_K ? 1 : 2, from = bits * (unsigned)c;
    __m512i upper = _mm512_load_si512(lines + record_group(type) / 8 * LINE_BYTES);
    upper = from < 4 ? _mm512_slli_epi16(upper, 4 - from) : _mm512_srli_epi16(upper, from - 4);
    upper = _mm512_and_si512(upper, _mm512_set1_epi8(type == TENSOR_Q5_K ? 0x10 : 0x30));
    code = _mm512_or_si512(code, upper);
    return type == TENSOR_Q6_K ? _mm512_sub_epi8(code, _mm512_set1_epi8(32)) : code;
}

static inline __m512 record_scales_512(TensorType type, const uint8_t *record, size_t g) {
    if (type == TENSOR_Q4_NL)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(record + 32 * g)));
    if (type == TENSOR_MXFP4) {
        __m512i part = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(record + 16 * g)));
        __m512i bits = _mm512_max_epu32(_mm512_slli_epi32(part, 23), _mm512_set1_epi32(0x00400000));
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)record));
    const uint8_t *parts = record + 64 + (type == TENSOR_Q6_K ? 16 : 32) * g;
    __m128i part = _mm_loadu_si128((const __m128i *)parts);
    __m512i wide = type == TENSOR_Q6_K ? _mm512_cvtepi8_epi32(part) : _mm512_cvtepu8_epi32(part);
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(wide));
}

static inline __m512 record_minima_512(const uint8_t *record, size_t g) {
    __m512 minimum = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(record + 32)));
    __m128i part = _mm_loadu_si128((const __m128i *)(record + 64 + 32 * g + 16));
    return _mm512_mul_ps(minimum, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(part)));
}

/* Groups [first, first + valid) of a panel; the rest of `groups` becomes zero. */
static inline void unpack_records(TensorType type, const uint8_t *panel, size_t first, size_t valid,
                                  size_t groups, int8_t *codes, float (*scales)[PANEL_ROWS],
                                  float (*minima)[PANEL_ROWS]) {
    const size_t group = record_group(type), per_record = RECORD_INPUTS / group;
    const bool with_minima = record_has_minima(type);
    for (size_t g = 0; g < valid; g++) {
        const uint8_t *record = record_of(type, panel, first + g);
        const uint8_t *lines = record_lines(type, panel, first + g);
        for (size_t c = 0; c < group / 4; c++)
            _mm512_store_si512(codes + g * group * PANEL_ROWS + c * LINE_BYTES,
                               record_codes_512(type, lines, c));
        _mm512_store_ps(scales[g], record_scales_512(type, record, (first + g) % per_record));
        if (with_minima)
            _mm512_store_ps(minima[g], record_minima_512(record, (first + g) % per_record));
    }
    memset(codes + valid * group * PANEL_ROWS, 0, (groups - valid) * group * PANEL_ROWS);
    memset(scales[valid], 0, (groups - valid) * sizeof *scales);
    memset(minima[valid], 0, (groups - valid) * sizeof *minima);
}

#endif
