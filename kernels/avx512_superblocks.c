/* Products of the types of superblocks.h with AVX-512 VNNI: avx512.c's method on another layout.
 *
 * Codes of 2 to 6 bits are unsigned as stored and need only a few shifts. A byte shuffle looks up
 * the levels of a table, raised by 128. The scale of a group is computed from scale and sub-scale
 * for each group; the product is exact. */
#include "kernels/avx512_pairs.h"
#include "kernels/avx512_parts.h"

/* How many bytes ahead to prefetch into the first-level cache; measured fastest on Zen 5, where
 * prefetching into the second level leaves a core at 25 GB/s instead of 30. */
enum { PREFETCH_DISTANCE = 8192 };

/* Codes that are their nibble, without upper bits or a table. */
INLINE bool is_nibbles(TensorType type) {
    return weight_types[type].bits == 4 && !type_has_table(type);
}

INLINE __m512i load_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* Moves the upper bits of inputs 4 c to 4 c + 3 to their place above the lower bits; other bits
 * remain. */
INLINE __m512i upper_bits(TensorType type, __m512i upper, size_t c) {
    size_t from = superblock_upper_bits(type) * c, to = superblock_lower_bits(type);
    if (from < to) return _mm512_slli_epi16(upper, (unsigned)(to - from));
    return from > to ? _mm512_srli_epi16(upper, (unsigned)(from - to)) : upper;
}

/* The line of upper bits of group g of a superblock, its fields from the lowest bits on. */
INLINE __m512i load_upper_bits(TensorType type, const uint8_t *lines, size_t g) {
    if (!superblock_upper_bits(type)) return _mm512_setzero_si512();
    __m512i upper = _mm512_loadu_si512(lines + superblock_upper_at(type, g));
    if (superblock_groups_beside(type) == 1) return upper;
    return _mm512_srl_epi16(upper, _mm_cvtsi64_si128((int64_t)superblock_upper_shift(type, g)));
}

/* Lower bits of inputs 4 c to 4 c + 3 of a group, for 16 outputs. */
INLINE __m512i lower_bits(TensorType type, const uint8_t *lines, size_t c) {
    const size_t bits = superblock_lower_bits(type), fields = 8 / bits; /* of a byte */
    __m512i code = _mm512_loadu_si512(lines + c / fields * LINE_BYTES);
    if (c % fields) code = _mm512_srli_epi16(code, (unsigned)(c % fields * bits));
    return _mm512_and_si512(code, _mm512_set1_epi8(superblock_lower_mask(type)));
}

/* Loads inputs 8 i to 8 i + 7 of a group as unsigned bytes, for 16 outputs: the first four in *a,
 * the others in *b. `upper` is the group's line of upper bits, and `raise` is added to levels. With
 * `unshifted`, upper nibbles stay in the upper half of their bytes. `open` is a group with a
 * codebook. */
INLINE void load_8_inputs(TensorType type, bool unshifted, const uint8_t *lines, size_t i,
                          __m512i upper, const Levels512 *levels, __m512i raise,
                          const CodebookGroup *open, __m512i *a, __m512i *b) {
    if (type_has_codebook(type)) {
        const __m512i flip = _mm512_set1_epi8(-128);
        *a = _mm512_xor_si512(eights_512(type, levels->points, open, 2 * i), flip);
        *b = _mm512_xor_si512(eights_512(type, levels->points, open, 2 * i + 1), flip);
        return;
    }
    *a = lower_bits(type, lines, 2 * i);
    *b = unshifted
             ? _mm512_andnot_si512(lower_nibbles(), _mm512_loadu_si512(lines + i * LINE_BYTES))
             : lower_bits(type, lines, 2 * i + 1);
    if (superblock_upper_bits(type)) {
        const __m512i mask = _mm512_set1_epi8(superblock_upper_mask(type));
        *a = _mm512_ternarylogic_epi32(*a, upper_bits(type, upper, 2 * i), mask, 0xF8);
        *b = _mm512_ternarylogic_epi32(*b, upper_bits(type, upper, 2 * i + 1), mask, 0xF8);
    }
    if (type_has_table(type)) {
        *a = look_up_512(type, levels, *a);
        *b = look_up_512(type, levels, *b);
    }
    if (weight_types[type].raise) {
        *a = _mm512_add_epi8(*a, raise);
        *b = _mm512_add_epi8(*b, raise);
    }
}

/* Scales of group g of a superblock. */
INLINE __m512 load_scales(TensorType type, const uint8_t *superblock, size_t g) {
    const uint8_t *own = superblock + superblock_scales_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return load_halves(own);
    if (superblock_scales(type) == SCALES_POWERS) {
        __m512i bits = _mm512_slli_epi32(load_bytes(own), 23);
        bits = _mm512_max_epu32(bits, _mm512_set1_epi32(0x00400000));
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0.5f));
    }
    return _mm512_mul_ps(superblock_scale_512(type, superblock),
                         superblock_factors_512(type, superblock, g));
}

/* Minima of group g of a superblock. */
INLINE __m512 load_minima(TensorType type, const uint8_t *superblock, size_t g) {
    const uint8_t *own = superblock + superblock_minima_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return load_halves(own);
    __m512i part = load_bytes(own);
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) part = _mm512_srli_epi32(part, 4);
    return _mm512_mul_ps(load_halves(superblock + SUPERBLOCK_MINIMA), _mm512_cvtepi32_ps(part));
}

/* Adds up the integer products of a group's lines with a block's codes. */
INLINE void add_products(TensorType type, size_t rows, const uint8_t *superblock, size_t g,
                         const uint8_t *codes, const Levels512 *levels, const CodebookGroup *open,
                         Dots *dots) {
    const size_t group = type_group(type);
    const uint8_t *lines = superblock + superblock_lines_at(type, g);
    const __m512i raise = superblock_raise_512(type, superblock, g);
    const bool nibbles = is_nibbles(type), unshifted = upper_unshifted(nibbles, 1, rows);
    const __m512i upper = load_upper_bits(type, lines, g);
    UNROLL
    for (size_t at = 0; at < superblock_group_bytes(type); at += LINE_BYTES)
        _mm_prefetch(lines + PREFETCH_DISTANCE + at, _MM_HINT_T0);
    UNROLL
    for (size_t i = 0; i < group / 8; i++) {
        __m512i a, b;
        load_8_inputs(type, unshifted, lines, i, upper, levels, raise, open, &a, &b);
        add_8_inputs(nibbles, 1, rows, 0, a, b, codes + 8 * i, group, dots);
    }
}

/* Adds the products of group g of a superblock with a group of a packed block to the float sums. */
INLINE void add_group(TensorType type, size_t rows, const uint8_t *superblock, size_t g,
                      const uint8_t *block, const Levels512 *levels, __m512 *acc) {
    const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
    const int32_t *offsets = (const int32_t *)block + 2 * rows;
    const uint32_t raised = type_has_table(type) ? 128 : weight_types[type].zero;
    CodebookGroup open;
    Dots dots;
    if (type_has_codebook(type)) codebook_open(type, superblock, g, &open);
    start_dots(raised, 1, rows, offsets, &dots);
    add_products(type, rows, superblock, g, block + ACTIVATION_HEADER * rows, levels, &open, &dots);
    __m512 scale = type_has_codebook(type) ? codebook_scales_512(type, &open)
                                           : load_scales(type, superblock, g);
    __m512 minimum = scale;
    if (type_has_minima(type)) minimum = load_minima(type, superblock, g);
    add_scaled(is_nibbles(type), type_has_minima(type), 1, rows, 0, scale, minimum, x_scales,
               x_sums, &dots, acc);
}

/* Multiplies one panel by `rows` rows. The panel is read from its first byte to its last, however
 * few the rows are: memory gives more to one stream of ascending addresses than to several side by
 * side. What is prefetched past a panel's end is the beginning of the next. */
INLINE void multiply_block(TensorType type, size_t panels, size_t rows, const Matrix *w, size_t p,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const size_t per_superblock = superblock_groups(type);
    const uint8_t *superblock = matrix_panel(w, p);
    const Levels512 levels = levels_512(type, -128);
    __m512 acc[BLOCK_SUMS];
#define STEP(r) acc[r] = _mm512_setzero_ps()
    EACH(rows, STEP);
#undef STEP
    for (size_t first = 0; first < groups;
         first += per_superblock, superblock += superblock_bytes(type)) {
        size_t n = groups - first < per_superblock ? groups - first : per_superblock;
        UNROLL
        for (size_t at = 0; at < superblock_header_bytes(type); at += LINE_BYTES)
            _mm_prefetch(superblock + PREFETCH_DISTANCE + at, _MM_HINT_T0);
        for (size_t g = 0; g < n; g++) {
            add_group(type, rows, superblock, g, block, &levels, acc);
            block += rows * activation_bytes(group);
        }
    }
    store_block(panels, rows, acc, out, stride, outputs);
}

EACH_SUPERBLOCK_TYPE(BLOCK_KERNEL)

const BlockKernels superblock_kernels_avx512[TENSOR_TYPES] = {EACH_SUPERBLOCK_TYPE(BLOCK_ENTRY)};
