#include "kernels/superblocks.h"

#include <math.h>

const int8_t superblocks_table_q4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
const int8_t superblocks_table_mxfp4[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

const int8_t superblocks_table_iq2[16] = {8, 25, 43, -8, -25, -43};
const int8_t superblocks_table_iq1[16] = {-7, 1, 9, -9, -1, 7};
const int8_t superblocks_table_iq3_xxs[16] = {-62, -52, -44, -36, -28, -20, -12, -4,
                                              4,   12,  20,  28,  36,  44,  52,  62};
const int8_t superblocks_table_iq3_s[16] = {-15, -13, -11, -9, -7, -5, -3, -1,
                                            1,   3,   5,   7,  9,  11, 13, 15};

const int8_t superblocks_table_q1_0[16] = {-1, 1};

const int8_t superblocks_table_iq2_k[16] = {-31, -13, 1, 17};
const int8_t superblocks_table_iq3_k[16] = {-63, -40, -23, -10, 1, 13, 28, 47};
const int8_t superblocks_table_iq5_k[32] = {
    -126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
    -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121};
const int8_t superblocks_table_iq6_k[64] = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

/* From this exponent on the largest level, 12, times the scale is infinite. */
enum { MXFP4_TOO_LARGE = 253 };

static size_t groups_of(TensorType type, size_t cols) {
    return tensor_padded_cols(type, cols) / type_group(type);
}

static size_t superblocks_bytes(TensorType type, size_t cols) {
    size_t whole = groups_of(type, cols) / superblock_groups(type);
    size_t rest = groups_of(type, cols) % superblock_groups(type);
    size_t bytes = whole * superblock_bytes(type);
    size_t padded = round_up(rest, superblock_groups_beside(type));
    if (rest) bytes += superblock_header_bytes(type) + padded * superblock_group_bytes(type);
    return round_up(bytes, LINE_BYTES);
}

/* ---- Reading ---- */

/* Half-float number r of an array in a superblock. */
static uint16_t half_bits(const uint8_t *halves, size_t r) {
    uint16_t bits;
    memcpy(&bits, halves + r * sizeof bits, sizeof bits);
    return bits;
}

static float half_at(const uint8_t *halves, size_t r) {
    return numbers_half_to_float(half_bits(halves, r));
}

/* Field number i of `bits` bits in the lines of row r. */
static int field_at(const uint8_t *lines, size_t bits, size_t i, size_t r) {
    const size_t line = 32 / bits;
    uint8_t byte = lines[i / line * LINE_BYTES + 4 * r + i % 4];
    return byte >> i % line / 4 * bits & ((1 << bits) - 1);
}

static bool is_raised(TensorType type, const uint8_t *superblock, size_t g, size_t r) {
    if (!weight_types[type].raise) return false;
    if (superblock_scales(type) == SCALES_WIDE_PARTS)
        return superblock[superblock_scales_at(type, g) + r] & 1;
    return superblock_raised(superblock, g) >> r & 1;
}

/* The value of input i of group g of a superblock in row r. */
static int32_t code_at(TensorType type, const uint8_t *superblock, size_t g, size_t i, size_t r) {
    const size_t lower = superblock_lower_bits(type), upper = superblock_upper_bits(type);
    const uint8_t *lines = superblock + superblock_lines_at(type, g);
    int code = field_at(lines, lower, i, r);
    if (upper) {
        size_t before = g % superblock_groups_beside(type) * type_group(type);
        code |= field_at(lines + superblock_upper_at(type, g), upper, before + i, r) << lower;
    }
    if (!type_has_table(type)) return code - weight_types[type].zero;
    return superblock_table(type)[code] +
           (is_raised(type, superblock, g, r) ? weight_types[type].raise : 0);
}

/* The integer that the superblock's float16 scale is multiplied by for group g. */
static int part_at(TensorType type, const uint8_t *superblock, size_t g, size_t r) {
    uint8_t byte = superblock[superblock_scales_at(type, g) + r];
    switch (superblock_scales(type)) {
    case SCALES_SIGNED_PARTS:
        return (int8_t)byte;
    case SCALES_NIBBLE_PARTS:
        return byte & 15;
    case SCALES_6_BIT_PARTS:
        return ((byte >> g % 2 * 4 & 15) |
                (superblock[superblock_pairs_at(type, g) + r] >> g % 4 * 2 & 3) << 4) -
               32;
    case SCALES_WIDE_PARTS:
        return (int8_t)(byte | 1);
    case SCALES_ODD_PARTS:
        return 2 * (byte >> g % 2 * 4 & 15) + 1;
    default:
        return byte;
    }
}

static float float_at(const uint8_t *floats, size_t r) {
    float value;
    memcpy(&value, floats + r * sizeof value, sizeof value);
    return value;
}

static float scale_at(TensorType type, const uint8_t *superblock, size_t g, size_t r) {
    const uint8_t *own = superblock + superblock_scales_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return half_at(own, r);
    if (superblock_scales(type) == SCALES_POWERS) return mxfp4_scale(own[r]);
    if (superblock_scales(type) == SCALES_FLOAT_PARTS)
        return float_at(superblock, r) * superblock_small_float(own[r]);
    const float whole =
        superblock_scale_is_float(type) ? float_at(superblock, r) : half_at(superblock, r);
    return whole * ((float)part_at(type, superblock, g, r) * superblock_part_unit(type));
}

static float minimum_at(TensorType type, const uint8_t *superblock, size_t g, size_t r) {
    const uint8_t *own = superblock + superblock_minima_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return half_at(own, r);
    uint8_t byte = own[r];
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) byte >>= 4;
    return half_at(superblock + SUPERBLOCK_MINIMA, r) * (float)byte;
}

/* Reads a group of a type with a codebook. */
static void read_points(TensorType type, const uint8_t *superblock, size_t g, size_t r,
                        WeightGroup *group) {
    const uint8_t *points = codebook_points(type);
    CodebookGroup open;
    codebook_open(type, superblock, g, &open);
    group->scale =
        numbers_half_to_float(open.scales[r]) * ((float)open.parts[r] * superblock_part_unit(type));
    group->minimum = 0.0f;
    for (size_t i = 0; i < type_group(type); i++)
        group->codes[i] = codebook_level(type, points, &open, i, r);
}

static void read_group(TensorType type, size_t cols, const uint8_t *panel, size_t g, size_t r,
                       WeightGroup *group) {
    const uint8_t *superblock = superblock_of(type, panel, g);
    (void)cols;
    g %= superblock_groups(type);
    if (type_has_codebook(type)) {
        read_points(type, superblock, g, r, group);
        return;
    }
    group->scale = scale_at(type, superblock, g, r);
    group->minimum = type_has_minima(type) ? minimum_at(type, superblock, g, r) : 0.0f;
    for (size_t i = 0; i < type_group(type); i++)
        group->codes[i] = code_at(type, superblock, g, i, r);
}

const PanelReader superblock_reader = {superblocks_bytes, read_group};

static bool is_finite_half(uint16_t bits) {
    return (bits & 0x7C00) != 0x7C00;
}

/* Tells whether the scales of group g (and the superblock's minima) of row r are finite. */
static bool is_good(TensorType type, const uint8_t *superblock, size_t g, size_t r) {
    const uint8_t *own = superblock + superblock_scales_at(type, g);
    if (type_has_codebook(type)) {
        CodebookGroup open;
        codebook_open(type, superblock, g, &open);
        return is_finite_half(open.scales[r]);
    }
    if (superblock_scales(type) == SCALES_POWERS) return own[r] < MXFP4_TOO_LARGE;
    if (superblock_scales(type) == SCALES_HALVES)
        return is_finite_half(half_bits(own, r)) &&
               (!type_has_minima(type) ||
                is_finite_half(half_bits(superblock + superblock_minima_at(type, g), r)));
    if (superblock_scale_is_float(type))
        return fabsf(float_at(superblock, r)) <= SUPERBLOCK_LARGEST_SCALE;
    return is_finite_half(half_bits(superblock, r)) &&
           (!type_has_minima(type) || is_finite_half(half_bits(superblock + SUPERBLOCK_MINIMA, r)));
}

size_t superblocks_bad_row(TensorType type, size_t cols, const uint8_t *panel) {
    size_t groups = groups_of(type, cols),
           step = superblock_has_parts(type) ? superblock_groups(type) : 1;
    for (size_t g = 0; g < groups; g += step)
        for (size_t r = 0; r < PANEL_ROWS; r++)
            if (!is_good(type, superblock_of(type, panel, g), g % superblock_groups(type), r))
                return r;
    return PANEL_ROWS;
}

/* ---- Writing ---- */

/* Writes the scale (and minimum) of group g of a superblock for row r; those of `rows` are at `at`.
 */
static void pack_scales(TensorType type, const SuperblockCodes *rows, size_t at, size_t g, size_t r,
                        uint8_t *superblock) {
    uint8_t *own = superblock + superblock_scales_at(type, g) + r;
    const uint8_t *sub = rows->sub_scales + at;
    if (weight_types[type].raise && superblock_scales(type) != SCALES_WIDE_PARTS) {
        const uint16_t raised =
            (uint16_t)(superblock_raised(superblock, g) | (rows->sub_minima[at] & 1) << r);
        memcpy(superblock + superblock_raised_at(g), &raised, sizeof raised);
    }
    switch (superblock_scales(type)) {
    case SCALES_HALVES:
        if (g % superblock_shared(type) == 0) memcpy(own + r, &rows->scales[at], 2);
        if (type_has_minima(type))
            memcpy(superblock + superblock_minima_at(type, g) + 2 * r, &rows->minima[at], 2);
        break;
    case SCALES_NIBBLE_PARTS:
        *own = (uint8_t)((*sub & 15) | rows->sub_minima[at] << 4);
        break;
    case SCALES_6_BIT_PARTS: {
        int part = (*sub + 32) & 63;
        *own |= (uint8_t)((part & 15) << g % 2 * 4);
        superblock[superblock_pairs_at(type, g) + r] |= (uint8_t)(part >> 4 << g % 4 * 2);
        break;
    }
    case SCALES_WIDE_PARTS:
        *own = (uint8_t)(*sub * 2 | (rows->sub_minima[at] & 1));
        break;
    case SCALES_ODD_PARTS:
        *own |= (uint8_t)((*sub & 15) << g % 2 * 4);
        break;
    default:
        *own = *sub;
        if (type_has_minima(type))
            superblock[superblock_minima_at(type, g) + r] = rows->sub_minima[at];
    }
}

/* Writes the header of the superblock that begins with group `first` and has n groups; it is zeros
 * before. */
static void pack_header(TensorType type, const SuperblockCodes *rows, size_t groups, size_t first,
                        size_t n, uint8_t *superblock) {
    size_t number = first / superblock_groups(type);
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        size_t row = r * groups;
        if (superblock_scale_is_float(type)) {
            memcpy(superblock + 4 * r, &rows->scales[row + number], 2);
            memcpy(superblock + 4 * r + 2, &rows->minima[row + number], 2);
        } else if (superblock_has_parts(type)) {
            memcpy(superblock + 2 * r, &rows->scales[row + number], 2);
        }
        if (type_has_minima(type) && superblock_has_parts(type))
            memcpy(superblock + SUPERBLOCK_MINIMA + 2 * r, &rows->minima[row + number], 2);
        for (size_t g = 0; g < n; g++) pack_scales(type, rows, row + first + g, g, r, superblock);
    }
}

static uint32_t load_word(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Adds the fields of `bits` bits from bit `from` of the codes[n] of a row to its words of the
 * lines, as numbers `first` and following. A word has 4 bytes of one row; four codes are packed at
 * once. */
static void pack_fields(const uint8_t *codes, size_t n, size_t from, size_t bits, size_t first,
                        uint8_t *lines) {
    const size_t line = 32 / bits;
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (size_t i = 0; i < n; i += 4) {
        uint8_t *at = lines + (first + i) / line * LINE_BYTES;
        uint32_t word = load_word(at);
        word |= (load_word(codes + i) >> from & mask) << (first + i) % line / 4 * bits;
        memcpy(at, &word, sizeof word);
    }
}

/* Writes the lines of group g of a superblock, which are zeros before; the codes of row r begin at
 * codes
 * + r * stride. */
static void pack_group(TensorType type, const uint8_t *codes, size_t stride, size_t g,
                       uint8_t *superblock) {
    const size_t n = type_group(type), lower = superblock_lower_bits(type);
    const size_t upper = superblock_upper_bits(type);
    uint8_t *lines = superblock + superblock_lines_at(type, g);
    for (size_t r = 0; r < PANEL_ROWS; r++, codes += stride, lines += 4) {
        pack_fields(codes, n, 0, lower, 0, lines);
        if (upper)
            pack_fields(codes, n, lower, upper, g % superblock_groups_beside(type) * n,
                        lines + superblock_upper_at(type, g));
    }
}

/* Writes n groups from `first` on of a type with a codebook. */
static void pack_points(TensorType type, const SuperblockCodes *rows, size_t groups, size_t first,
                        size_t n, uint8_t *superblock) {
    const size_t number = first / superblock_groups(type);
    for (size_t r = 0; r < PANEL_ROWS; r++)
        for (size_t g = 0; g < n; g++) {
            const size_t at = r * groups + first + g;
            codebook_pack(type, rows->codes + at * type_group(type),
                          rows->scales[r * groups + number], rows->sub_scales[at], g, r,
                          superblock);
        }
}

void superblocks_pack(TensorType type, size_t cols, const SuperblockCodes *rows, uint8_t *panel) {
    size_t padded = tensor_padded_cols(type, cols), groups = groups_of(type, cols);
    memset(panel, 0, superblocks_bytes(type, cols));
    for (size_t first = 0; first < groups; first += superblock_groups(type)) {
        size_t left = groups - first,
               n = left < superblock_groups(type) ? left : superblock_groups(type);
        uint8_t *superblock = panel + first / superblock_groups(type) * superblock_bytes(type);
        if (type_has_codebook(type)) {
            pack_points(type, rows, groups, first, n, superblock);
            continue;
        }
        pack_header(type, rows, groups, first, n, superblock);
        for (size_t g = 0; g < n; g++)
            pack_group(type, rows->codes + (first + g) * type_group(type), padded, g, superblock);
    }
}
