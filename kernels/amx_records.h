/* The types of records.h for amx.c: the codes of a run of inputs as signed bytes, and its scales
 * and minima as float32. */
#ifndef AMX_RECORDS_H
#define AMX_RECORDS_H

#include <immintrin.h>

#include "kernels/records.h"

/* Codes of inputs 4 c to 4 c + 3 of a group, for 16 outputs: one line of signed bytes. */
static inline __m512i record_codes_512(TensorType type, const uint8_t *lines, size_t c) {
    __m512i both = _mm512_load_si512(lines + c / 2 * LINE_BYTES);
    if (c % 2) both = _mm512_srli_epi16(both, 4);
    __m512i code = _mm512_and_si512(both, _mm512_set1_epi8(15));
    if (type_has_table(type)) {
        const int8_t *table = record_table(type);
        __m128i levels = _mm_loadu_si128((const __m128i *)table);
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(levels), code);
    }
    if (!record_upper_bits(type)) return code;
    unsigned from = (unsigned)(record_upper_bits(type) * c);
    __m512i upper = _mm512_load_si512(lines + record_nibble_bytes(type));
    upper = from < 4 ? _mm512_slli_epi16(upper, 4 - from) : _mm512_srli_epi16(upper, from - 4);
    upper = _mm512_and_si512(upper, _mm512_set1_epi8(record_upper_mask(type)));
    code = _mm512_or_si512(code, upper);
    return _mm512_sub_epi8(code, _mm512_set1_epi8((char)weight_types[type].zero));
}

static inline __m512 halves_512(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Scales of group g of a record. */
static inline __m512 record_scales_512(TensorType type, const uint8_t *record, size_t g) {
    const uint8_t *own = record + record_scales_at(type, g);
    if (record_scales(type) == SCALES_HALVES) return halves_512(own);
    __m128i part = _mm_loadu_si128((const __m128i *)own);
    __m512i wide = _mm512_cvtepu8_epi32(part);
    if (record_scales(type) == SCALES_POWERS) {
        __m512i bits = _mm512_max_epu32(_mm512_slli_epi32(wide, 23), _mm512_set1_epi32(0x00400000));
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    if (record_scales(type) == SCALES_SIGNED_PARTS) wide = _mm512_cvtepi8_epi32(part);
    return _mm512_mul_ps(halves_512(record), _mm512_cvtepi32_ps(wide));
}

/* Minima of group g of a record. */
static inline __m512 record_minima_512(TensorType type, const uint8_t *record, size_t g) {
    __m128i part = _mm_loadu_si128((const __m128i *)(record + record_minima_at(type, g)));
    return _mm512_mul_ps(halves_512(record + RECORD_MINIMA),
                         _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(part)));
}

/* Unpacks groups [first, first + valid) of a panel and pads the results with zeros to `groups`
 * groups. */
static inline void unpack_records(TensorType type, const uint8_t *panel, size_t first, size_t valid,
                                  size_t groups, int8_t *codes, float (*scales)[PANEL_ROWS],
                                  float (*minima)[PANEL_ROWS]) {
    const size_t group = type_group(type);
    for (size_t g = 0; g < valid; g++) {
        const uint8_t *record = record_of(type, panel, first + g);
        const uint8_t *lines = record_lines(type, panel, first + g);
        const size_t number = (first + g) % record_groups(type);
        for (size_t c = 0; c < group / 4; c++)
            _mm512_store_si512(codes + g * group * PANEL_ROWS + c * LINE_BYTES,
                               record_codes_512(type, lines, c));
        _mm512_store_ps(scales[g], record_scales_512(type, record, number));
        if (type_has_minima(type))
            _mm512_store_ps(minima[g], record_minima_512(type, record, number));
    }
    memset(codes + valid * group * PANEL_ROWS, 0, (groups - valid) * group * PANEL_ROWS);
    memset(scales[valid], 0, (groups - valid) * sizeof *scales);
    memset(minima[valid], 0, (groups - valid) * sizeof *minima);
}

#endif
