/* A run of groups of a panel, unpacked for many rows of activations (amx.c, avx512_pairs.c): the
 * codes as bytes, and scales and minima as float32. */
#ifndef AVX512_UNPACK_H
#define AVX512_UNPACK_H

#include <immintrin.h>
#include <string.h>

#include "kernels/avx512_parts.h"
#include "kernels/block_kernels.h"
#include "kernels/panel_scales.h"

#define UNPACK_INLINE static inline __attribute__((always_inline))

/* Where the groups go. Each code's byte is its value, flipped by xor with `flip`. */
typedef struct Unpacked {
    int8_t *codes;               /* [groups][group / 4 lines of 64 bytes]; NULL: not wanted, for
                                    FAMILY_CODES only */
    float (*scales)[PANEL_ROWS]; /* [groups] */
    float (*minima)[PANEL_ROWS]; /* [groups]; untouched for types without minima */
    char flip;
} Unpacked;

/* Codes of inputs 4 c to 4 c + 3 of group g of a superblock, for 16 outputs: one line of signed
 * bytes. `raise` is added to levels. */
UNPACK_INLINE __m512i superblock_codes_512(TensorType type, const uint8_t *lines, size_t g,
                                           size_t c, const Levels512 *levels, __m512i raise) {
    const size_t bits = superblock_lower_bits(type), fields = 8 / bits; /* of a byte */
    __m512i code = _mm512_loadu_si512(lines + c / fields * LINE_BYTES);
    code = _mm512_srli_epi16(code, (unsigned)(c % fields * bits));
    code = _mm512_and_si512(code, _mm512_set1_epi8(superblock_lower_mask(type)));
    if (superblock_upper_bits(type)) {
        const unsigned from = (unsigned)(superblock_upper_bits(type) * c), to = (unsigned)bits;
        const __m128i shift = _mm_cvtsi64_si128((int64_t)superblock_upper_shift(type, g));
        __m512i upper = _mm512_loadu_si512(lines + superblock_upper_at(type, g));
        if (superblock_groups_beside(type) > 1) upper = _mm512_srl_epi16(upper, shift);
        upper =
            from < to ? _mm512_slli_epi16(upper, to - from) : _mm512_srli_epi16(upper, from - to);
        upper = _mm512_and_si512(upper, _mm512_set1_epi8(superblock_upper_mask(type)));
        code = _mm512_or_si512(code, upper);
    }
    if (type_has_table(type)) return _mm512_add_epi8(look_up_512(type, levels, code), raise);
    return _mm512_sub_epi8(code, _mm512_set1_epi8((char)weight_types[type].zero));
}

UNPACK_INLINE __m512 halves_512(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Scales of group g of a superblock. */
UNPACK_INLINE __m512 superblock_scales_512(TensorType type, const uint8_t *superblock, size_t g) {
    const uint8_t *own = superblock + superblock_scales_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return halves_512(own);
    if (superblock_scales(type) == SCALES_POWERS) {
        __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)own));
        __m512i bits = _mm512_max_epu32(_mm512_slli_epi32(wide, 23), _mm512_set1_epi32(0x00400000));
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    return _mm512_mul_ps(superblock_scale_512(type, superblock),
                         superblock_factors_512(type, superblock, g));
}

/* Minima of group g of a superblock. */
UNPACK_INLINE __m512 superblock_minima_512(TensorType type, const uint8_t *superblock, size_t g) {
    const uint8_t *own = superblock + superblock_minima_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return halves_512(own);
    __m128i part = _mm_loadu_si128((const __m128i *)own);
    __m512i wide = _mm512_cvtepu8_epi32(part);
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) wide = _mm512_srli_epi32(wide, 4);
    return _mm512_mul_ps(halves_512(superblock + SUPERBLOCK_MINIMA), _mm512_cvtepi32_ps(wide));
}

UNPACK_INLINE void unpack_superblocks(TensorType type, const uint8_t *panel, size_t first,
                                      size_t valid, const Unpacked *to) {
    const size_t group = type_group(type);
    const __m512i flip = _mm512_set1_epi8(to->flip);
    const Levels512 levels = levels_512(type, 0);
    for (size_t g = 0; g < valid; g++) {
        const uint8_t *superblock = superblock_of(type, panel, first + g);
        const uint8_t *lines = superblock_lines(type, panel, first + g);
        const size_t number = (first + g) % superblock_groups(type);
        const __m512i raise = superblock_raise_512(type, superblock, number);
        if (type_has_codebook(type)) {
            CodebookGroup open;
            codebook_open(type, superblock, number, &open);
            for (size_t c = 0; c < group / 4; c++)
                _mm512_store_si512(
                    to->codes + g * group * PANEL_ROWS + c * LINE_BYTES,
                    _mm512_xor_si512(eights_512(type, levels.points, &open, c), flip));
            _mm512_store_ps(to->scales[g], codebook_scales_512(type, &open));
            continue;
        }
        for (size_t c = 0; c < group / 4; c++) {
            __m512i line = superblock_codes_512(type, lines, number, c, &levels, raise);
            _mm512_store_si512(to->codes + g * group * PANEL_ROWS + c * LINE_BYTES,
                               _mm512_xor_si512(line, flip));
        }
        _mm512_store_ps(to->scales[g], superblock_scales_512(type, superblock, number));
        if (type_has_minima(type))
            _mm512_store_ps(to->minima[g], superblock_minima_512(type, superblock, number));
    }
}

/* The codes of a type of FAMILY_CODES. */
UNPACK_INLINE void unpack_codes(TensorType type, const uint8_t *lines, size_t valid,
                                const Unpacked *to) {
    const size_t bytes = valid * type_group(type) * PANEL_ROWS;
    const __m512i low = _mm512_set1_epi8(15), flip = _mm512_set1_epi8(to->flip);
    const __m512i zero = _mm512_set1_epi8((char)weight_types[type].zero);
    for (size_t i = 0; type_is_4_bit(type) && i < bytes; i += 2 * LINE_BYTES) {
        __m512i both = _mm512_load_si512(lines + i / 2);
        __m512i a = _mm512_sub_epi8(_mm512_and_si512(both, low), zero);
        __m512i b = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), low), zero);
        _mm512_store_si512(to->codes + i, _mm512_xor_si512(a, flip));
        _mm512_store_si512(to->codes + i + LINE_BYTES, _mm512_xor_si512(b, flip));
    }
    for (size_t i = 0; !type_is_4_bit(type) && i < bytes; i += LINE_BYTES)
        _mm512_store_si512(to->codes + i, _mm512_xor_si512(_mm512_load_si512(lines + i), flip));
}

UNPACK_INLINE void widen_halves(const uint16_t *halves, size_t valid, float (*out)[PANEL_ROWS]) {
    for (size_t g = 0; g < valid; g++)
        _mm512_store_ps(out[g], halves_512((const uint8_t *)(halves + g * PANEL_ROWS)));
}

/* unpack_groups with the type known to the compiler. */
UNPACK_INLINE void unpack_groups_of(TensorType type, const Matrix *w, size_t p, size_t first,
                                    size_t valid, const Unpacked *to) {
    const uint8_t *panel = matrix_panel(w, p);
    if (is_superblock_type(type)) {
        unpack_superblocks(type, panel, first, valid, to);
        return;
    }
    const size_t at = first * PANEL_ROWS;
    if (to->codes) unpack_codes(type, panel + first * group_bytes(type), valid, to);
    widen_halves(matrix_scales(type, w, p) + at, valid, to->scales);
    if (type_has_minima(type)) widen_halves(matrix_minima(type, w, p) + at, valid, to->minima);
}

/* Unpacks groups [first, first + valid) of panel p. */
static void unpack_groups(const Matrix *w, size_t p, size_t first, size_t valid,
                          const Unpacked *to) {
#define UNPACK_CASE(type)                                                                          \
    case TENSOR_##type:                                                                            \
        unpack_groups_of(TENSOR_##type, w, p, first, valid, to);                                   \
        break;
    switch (w->type) {
        EACH_CODE_TYPE(UNPACK_CASE)
        EACH_SUPERBLOCK_TYPE(UNPACK_CASE)
    default:
        break;
    }
#undef UNPACK_CASE
}

#endif
