#include "kernels/records.h"

const int8_t records_table_q4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
const int8_t records_table_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* From this exponent on the largest level, 12, times the scale is infinite. */
enum { MXFP4_TOO_LARGE = 253 };

static size_t groups_of(TensorType type, size_t cols) {
    return tensor_padded_cols(type, cols) / type_group(type);
}

static size_t records_bytes(TensorType type, size_t cols) {
    size_t whole = groups_of(type, cols) / record_groups(type);
    size_t rest = groups_of(type, cols) % record_groups(type);
    size_t bytes = whole * record_bytes(type);
    if (rest) bytes += record_header_bytes(type) + rest * record_group_bytes(type);
    return bytes;
}

/* ---- Reading ---- */

/* Half-float number r of an array in a record. */
static uint16_t half_bits(const uint8_t *halves, size_t r) {
    uint16_t bits;
    memcpy(&bits, halves + r * sizeof bits, sizeof bits);
    return bits;
}

static float half_at(const uint8_t *halves, size_t r) {
    return numbers_half_to_float(half_bits(halves, r));
}

/* The value of input i of a group in row r. */
static int32_t code_at(TensorType type, const uint8_t *lines, size_t i, size_t r) {
    size_t bits = record_upper_bits(type);
    int code = lines[i / 8 * LINE_BYTES + 4 * r + i % 4] >> (i % 8 < 4 ? 0 : 4) & 15;
    if (type_has_table(type)) return record_table(type)[code];
    if (bits) {
        uint8_t upper = lines[record_nibble_bytes(type) + 4 * r + i % 4];
        code |= (upper >> (i / 4 * bits) & ((1 << bits) - 1)) << 4;
    }
    return code - weight_types[type].zero;
}

static float scale_at(TensorType type, const uint8_t *record, size_t g, size_t r) {
    const uint8_t *own = record + record_scales_at(type, g);
    switch (record_scales(type)) {
    case SCALES_HALVES:
        return half_at(own, r);
    case SCALES_POWERS:
        return mxfp4_scale(own[r]);
    case SCALES_SIGNED_PARTS:
        return half_at(record, r) * (float)(int8_t)own[r];
    default:
        return half_at(record, r) * (float)own[r];
    }
}

static void read_group(TensorType type, size_t cols, const uint8_t *panel, size_t g, size_t r,
                       WeightGroup *group) {
    const uint8_t *record = record_of(type, panel, g), *lines = record_lines(type, panel, g);
    (void)cols;
    g %= record_groups(type);
    group->scale = scale_at(type, record, g, r);
    group->minimum = 0.0f;
    if (type_has_minima(type))
        group->minimum =
            half_at(record + RECORD_MINIMA, r) * (float)record[record_minima_at(type, g) + r];
    for (size_t i = 0; i < type_group(type); i++) group->codes[i] = code_at(type, lines, i, r);
}

const PanelReader record_reader = {records_bytes, read_group};

static bool is_finite_half(uint16_t bits) {
    return (bits & 0x7C00) != 0x7C00;
}

/* Tells whether the scales of group g (and the record's minima) of row r are finite. */
static bool is_good(TensorType type, const uint8_t *record, size_t g, size_t r) {
    const uint8_t *own = record + record_scales_at(type, g);
    if (record_scales(type) == SCALES_POWERS) return own[r] < MXFP4_TOO_LARGE;
    if (record_scales(type) == SCALES_HALVES) return is_finite_half(half_bits(own, r));
    return is_finite_half(half_bits(record, r)) &&
           (!type_has_minima(type) || is_finite_half(half_bits(record + RECORD_MINIMA, r)));
}

size_t records_bad_row(TensorType type, size_t cols, const uint8_t *panel) {
    size_t groups = groups_of(type, cols), step = record_has_parts(type) ? record_groups(type) : 1;
    for (size_t g = 0; g < groups; g += step)
        for (size_t r = 0; r < PANEL_ROWS; r++)
            if (!is_good(type, record_of(type, panel, g), g % record_groups(type), r)) return r;
    return PANEL_ROWS;
}

/* ---- Writing ---- */

/* Writes the header of the record that begins with group `first` and has n groups. */
static void pack_header(TensorType type, const RecordCodes *rows, size_t groups, size_t first,
                        size_t n, uint8_t *record) {
    size_t number = first / record_groups(type);
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        size_t row = r * groups;
        if (record_has_parts(type)) memcpy(record + 2 * r, &rows->scales[row + number], 2);
        if (type_has_minima(type))
            memcpy(record + RECORD_MINIMA + 2 * r, &rows->minima[row + number], 2);
        for (size_t g = 0; g < n; g++) {
            uint8_t *own = record + record_scales_at(type, g);
            if (record_scales(type) == SCALES_HALVES) {
                memcpy(own + 2 * r, &rows->scales[row + first + g], 2);
            } else {
                own[r] = rows->sub_scales[row + first + g];
            }
            if (type_has_minima(type))
                record[record_minima_at(type, g) + r] = rows->sub_minima[row + first + g];
        }
    }
}

static uint32_t load_word(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Writes the lines of one group; the codes of row r begin at codes + r * stride. Four codes are
 * packed at once: a 32-bit word of a line belongs to one row. */
static void pack_group(TensorType type, const uint8_t *codes, size_t stride, uint8_t *lines) {
    const size_t bits = record_upper_bits(type);
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (size_t r = 0; r < PANEL_ROWS; r++, codes += stride) {
        uint32_t upper = 0;
        for (size_t i = 0; i < type_group(type); i += 8) {
            uint32_t a = load_word(codes + i), b = load_word(codes + i + 4);
            uint32_t word = (a & 0x0F0F0F0Fu) | (b & 0x0F0F0F0Fu) << 4;
            memcpy(lines + i / 8 * LINE_BYTES + 4 * r, &word, sizeof word);
            upper |= (a >> 4 & mask) << i / 4 * bits | (b >> 4 & mask) << (i / 4 + 1) * bits;
        }
        if (bits) memcpy(lines + record_nibble_bytes(type) + 4 * r, &upper, sizeof upper);
    }
}

void records_pack(TensorType type, size_t cols, const RecordCodes *rows, uint8_t *panel) {
    size_t padded = tensor_padded_cols(type, cols), groups = groups_of(type, cols);
    for (size_t first = 0; first < groups; first += record_groups(type)) {
        size_t left = groups - first, n = left < record_groups(type) ? left : record_groups(type);
        uint8_t *record = panel + first / record_groups(type) * record_bytes(type);
        memset(record, 0, record_header_bytes(type));
        pack_header(type, rows, groups, first, n, record);
        for (size_t g = 0; g < n; g++)
            pack_group(type, rows->codes + (first + g) * type_group(type), padded,
                       record + record_header_bytes(type) + g * record_group_bytes(type));
    }
}
