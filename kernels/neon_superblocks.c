/* Products of the types of superblocks.h with NEON's dot product instructions: neon.c's method on
 * another layout. All codes fit into signed bytes as stored; a table look-up gives the levels. */
#include "kernels/neon_steps.h"
#include "kernels/superblocks.h"

/* Prefetch distance in bytes. */
enum { PREFETCH_DISTANCE = 4096 };

/* The levels of the type's table, for byte look-ups. */
typedef struct Levels {
    int8x16_t runs[MOST_TABLES]; /* [superblock_tables] */
    const uint8_t *points;       /* of a codebook */
} Levels;

INLINE Levels table_of(TensorType type) {
    Levels levels = {{vdupq_n_s8(0)}, NULL};
    if (type_has_codebook(type)) {
        levels.points = codebook_points(type);
        return levels;
    }
    for (size_t i = 0; type_has_table(type) && i < superblock_tables(type); i++)
        levels.runs[i] = vld1q_s8(superblock_table(type) + 16 * i);
    return levels;
}

/* The levels of codes, or the codes of types without a table; `raise` is added to levels. */
INLINE int8x16_t weights_of(TensorType type, uint8x16_t codes, const Levels *levels,
                            int8x16_t raise) {
    if (!type_has_table(type)) return vreinterpretq_s8_u8(codes);
    const int8x16_t *runs = levels->runs;
    int8x16_t found;
    if (superblock_tables(type) == 4) {
        found = vqtbl4q_s8((int8x16x4_t){{runs[0], runs[1], runs[2], runs[3]}}, codes);
    } else if (superblock_tables(type) == 2) {
        found = vqtbl2q_s8((int8x16x2_t){{runs[0], runs[1]}}, codes);
    } else {
        found = vqtbl1q_s8(runs[0], codes);
    }
    return weight_types[type].raise ? vaddq_s8(found, raise) : found;
}

/* Inputs 4 c to 4 c + 3 of a group of a type with a codebook, for four outputs. */
INLINE int8x16_t load_eights(TensorType type, const uint8_t *points, const CodebookGroup *open,
                             size_t c, size_t quarter) {
    const size_t e = c / 2, halves = codebook_halves(type);
    const uint16_t *p = open->points[halves == 2 ? c : e] + 4 * quarter;
    const uint8_t places[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const uint32_t bits = c % 2 ? 0x80402010 : 0x08040201;
    uint32_t words[4], four;
    for (size_t r = 0; r < 4; r++)
        memcpy(&words[r], points + (halves == 2 ? p[r] * 4 : p[r] * 8 + c % 2 * 4), 4);
    memcpy(&four, open->signs[e] + 4 * quarter, sizeof four);
    const int8x16_t levels = vreinterpretq_s8_u32(vld1q_u32(words));
    const uint8x16_t signs = vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(four)), vld1q_u8(places));
    const int8x16_t minus =
        vreinterpretq_s8_u8(vtstq_u8(signs, vreinterpretq_u8_u32(vdupq_n_u32(bits))));
    if (codebook_is_moved(type)) return vaddq_s8(levels, vorrq_s8(minus, vdupq_n_s8(1)));
    return vsubq_s8(veorq_s8(levels, minus), minus);
}

/* Inputs 4 c to 4 c + 3 of group g of a superblock, for four outputs. */
INLINE int8x16_t load_superblock_weights(TensorType type, const uint8_t *lines, size_t g, size_t c,
                                         size_t quarter, const Levels *table, int8x16_t raise) {
    const uint8_t *own = lines + 16 * quarter;
    const size_t bits = superblock_lower_bits(type), fields = 8 / bits; /* of a byte */
    uint8x16_t code = vld1q_u8(own + c / fields * LINE_BYTES);
    if (c % fields) code = vshlq_u8(code, vdupq_n_s8(-(int8_t)(c % fields * bits)));
    if (c % fields + 1 < fields)
        code = vandq_u8(code, vdupq_n_u8((uint8_t)superblock_lower_mask(type)));
    if (!superblock_upper_bits(type)) return weights_of(type, code, table, raise);
    int from = (int)(superblock_upper_bits(type) * c + superblock_upper_shift(type, g));
    uint8x16_t upper = vld1q_u8(own + superblock_upper_at(type, g));
    upper = vshlq_u8(upper, vdupq_n_s8((int8_t)((int)bits - from)));
    upper = vandq_u8(upper, vdupq_n_u8((uint8_t)superblock_upper_mask(type)));
    return weights_of(type, vorrq_u8(code, upper), table, raise);
}

/* Four float16 numbers as floats. */
INLINE float32x4_t load_4_halves(const uint8_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
}

/* Loads four bytes as four 32-bit numbers. */
INLINE uint32x4_t load_4_bytes(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)))));
}

/* What is added to the levels of group g of a superblock, 4 bytes for each of four outputs. */
INLINE int8x16_t load_raise(TensorType type, const uint8_t *superblock, size_t g, size_t quarter) {
    if (!weight_types[type].raise) return vdupq_n_s8(0);
    uint32x4_t rows, bits = vdupq_n_u32(1);
    if (superblock_scales(type) == SCALES_WIDE_PARTS) {
        rows = load_4_bytes(superblock + superblock_scales_at(type, g) + 4 * quarter);
    } else {
        const uint32_t places[4] = {1, 2, 4, 8};
        bits = vld1q_u32(places);
        rows = vdupq_n_u32((uint32_t)superblock_raised(superblock, g) >> 4 * quarter);
    }
    const uint32x4_t raised = vtstq_u32(rows, bits);
    return vandq_s8(vreinterpretq_s8_u32(raised), vdupq_n_s8((int8_t)weight_types[type].raise));
}

/* Scales of a group of a type with a codebook, for the outputs from 4 * quarter on. */
INLINE float32x4_t codebook_scales(TensorType type, const CodebookGroup *open, size_t quarter) {
    const float32x4_t parts = vcvtq_f32_u32(load_4_bytes(open->parts + 4 * quarter));
    return vmulq_f32(load_4_halves((const uint8_t *)(open->scales + 4 * quarter)),
                     vmulq_n_f32(parts, superblock_part_unit(type)));
}

/* Scales of group g of a superblock, for the outputs from 4 * quarter on. */
INLINE float32x4_t load_scales(TensorType type, const uint8_t *superblock, size_t g,
                               size_t quarter) {
    const uint8_t *own = superblock + superblock_scales_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return load_4_halves(own + 8 * quarter);
    uint32x4_t part = load_4_bytes(own + 4 * quarter);
    if (superblock_scales(type) == SCALES_POWERS) {
        uint32x4_t bits = vshlq_n_u32(part, 23);
        bits = vmaxq_u32(bits, vdupq_n_u32(0x00400000));
        return vmulq_n_f32(vreinterpretq_f32_u32(bits), 0.5f);
    }
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) {
        float32x4_t floats = vreinterpretq_f32_u32(vshlq_n_u32(part, 20));
        return vmulq_f32(vld1q_f32((const float *)superblock + 4 * quarter),
                         vmulq_n_f32(floats, 0x1p119f));
    }
    if (superblock_scales(type) == SCALES_WIDE_PARTS) {
        int32x4_t wide = vshlq_n_s32(vreinterpretq_s32_u32(vorrq_u32(part, vdupq_n_u32(1))), 24);
        return vmulq_f32(vld1q_f32((const float *)superblock + 4 * quarter),
                         vcvtq_f32_s32(vshrq_n_s32(wide, 24)));
    }
    float32x4_t scale = load_4_halves(superblock + 8 * quarter);
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) part = vandq_u32(part, vdupq_n_u32(15));
    if (superblock_scales(type) == SCALES_6_BIT_PARTS) {
        const uint8_t *pairs = superblock + superblock_pairs_at(type, g) + 4 * quarter;
        uint32x4_t low = vshlq_u32(part, vdupq_n_s32(-(int32_t)(g % 2 * 4)));
        uint32x4_t upper = vshlq_u32(load_4_bytes(pairs), vdupq_n_s32(-(int32_t)(g % 4 * 2)));
        upper = vshlq_n_u32(vandq_u32(upper, vdupq_n_u32(3)), 4);
        part = vorrq_u32(vandq_u32(low, vdupq_n_u32(15)), upper);
        int32x4_t wide = vsubq_s32(vreinterpretq_s32_u32(part), vdupq_n_s32(32));
        return vmulq_f32(scale, vcvtq_f32_s32(wide));
    }
    if (superblock_scales(type) == SCALES_SIGNED_PARTS) {
        int32x4_t wide = vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_u32(part), 24), 24);
        return vmulq_f32(scale, vcvtq_f32_s32(wide));
    }
    if (superblock_scales(type) == SCALES_ODD_PARTS) {
        part = vshlq_u32(part, vdupq_n_s32(-(int32_t)(g % 2 * 4)));
        part = vshlq_n_u32(vandq_u32(part, vdupq_n_u32(15)), 1);
        part = vorrq_u32(part, vdupq_n_u32(1));
        return vmulq_f32(scale, vmulq_n_f32(vcvtq_f32_u32(part), superblock_part_unit(type)));
    }
    return vmulq_f32(scale, vcvtq_f32_u32(part));
}

/* Minima of group g of a superblock, for the outputs from 4 * quarter on. */
INLINE float32x4_t load_minima(TensorType type, const uint8_t *superblock, size_t g,
                               size_t quarter) {
    const uint8_t *own = superblock + superblock_minima_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return load_4_halves(own + 8 * quarter);
    uint32x4_t part = load_4_bytes(own + 4 * quarter);
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) part = vshrq_n_u32(part, 4);
    return vmulq_f32(load_4_halves(superblock + SUPERBLOCK_MINIMA + 8 * quarter),
                     vcvtq_f32_u32(part));
}

/* Adds one group's products with a group of a packed block to the float sums. */
INLINE void add_superblock_group(TensorType type, size_t rows, const uint8_t *superblock, size_t g,
                                 const uint8_t *block, const Levels *table,
                                 float32x4_t (*acc)[QUARTERS]) {
    const uint8_t *lines = superblock + superblock_lines_at(type, g);
    const size_t group = type_group(type);
    const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
    const int32_t *offsets = (const int32_t *)block + 2 * rows;
    const int8_t *codes = (const int8_t *)block + ACTIVATION_HEADER * rows;
    int32x4_t dot[BLOCK_ROWS][QUARTERS];
    int8x16_t x[BLOCK_ROWS], raise[QUARTERS];
    CodebookGroup open;
    if (type_has_codebook(type)) codebook_open(type, superblock, g, &open);
    UNROLL
    for (size_t q = 0; q < QUARTERS; q++) raise[q] = load_raise(type, superblock, g, q);
#define STEP(r)                                                                                    \
    dot[r][0] = dot[r][1] = dot[r][2] = dot[r][3] =                                                \
        vdupq_n_s32(activation_offset(weight_types[type].zero, offsets[r]))
    EACH_ROW(rows, STEP);
#undef STEP
    UNROLL
    for (size_t c = 0; c < group / 4; c++) {
#define STEP(r)                                                                                    \
    if (c % 4 == 0) x[r] = vld1q_s8(codes + (r)*group + 4 * c)
        EACH_ROW(rows, STEP);
#undef STEP
        UNROLL
        for (size_t q = 0; q < QUARTERS; q++) {
            int8x16_t w = type_has_codebook(type)
                              ? load_eights(type, table->points, &open, c, q)
                              : load_superblock_weights(type, lines, g, c, q, table, raise[q]);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        dot[r][q] = dot_lane(dot[r][q], w, x[r], c % 4);                                           \
        IN_ORDER(dot[r][q]);                                                                       \
    } while (0)
            EACH_ROW(rows, STEP);
#undef STEP
        }
    }
    UNROLL
    for (size_t q = 0; q < QUARTERS; q++) {
        float32x4_t scale = type_has_codebook(type) ? codebook_scales(type, &open, q)
                                                    : load_scales(type, superblock, g, q);
        float32x4_t minimum = scale;
        if (type_has_minima(type)) minimum = load_minima(type, superblock, g, q);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        float32x4_t dots = vcvtq_f32_s32(dot[r][q]), factor = vmulq_n_f32(scale, x_scales[r]);     \
        acc[r][q] = vfmaq_f32(acc[r][q], dots, factor);                                            \
        if (type_has_minima(type))                                                                 \
            acc[r][q] = vfmsq_f32(acc[r][q], minimum, vdupq_n_f32(x_sums[r]));                     \
        if (sums_in_memory(rows)) IN_MEMORY(acc[r][q]);                                            \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const size_t per_superblock = superblock_groups(type);
    const uint8_t *superblock = matrix_panel(w, p);
    const Levels table = table_of(type);
    float32x4_t acc[BLOCK_ROWS][QUARTERS];
    start_sums(rows, acc);
    for (size_t first = 0; first < groups;
         first += per_superblock, superblock += superblock_bytes(type)) {
        size_t n = groups - first < per_superblock ? groups - first : per_superblock;
        for (size_t at = 0; at < superblock_header_bytes(type); at += LINE_BYTES)
            __builtin_prefetch(superblock + PREFETCH_DISTANCE + at);
        for (size_t g = 0; g < n; g++) {
            for (size_t at = 0; at < superblock_group_bytes(type); at += LINE_BYTES)
                __builtin_prefetch(superblock + superblock_lines_at(type, g) + PREFETCH_DISTANCE +
                                   at);
            add_superblock_group(type, rows, superblock, g, block, &table, acc);
            block += rows * activation_bytes(group);
        }
    }
    store_rows(rows, acc, out, stride, outputs);
}

EACH_SUPERBLOCK_TYPE(BLOCK_KERNEL)

const BlockKernels superblock_kernels_neon[TENSOR_TYPES] = {EACH_SUPERBLOCK_TYPE(BLOCK_ENTRY)};
