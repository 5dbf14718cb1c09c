#include "kernels/records.h"

const int8_t table_q4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
const int8_t table_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* From here on 12 times the scale is infinite. */
enum { MXFP4_TOO_LARGE = 253 };

size_t records_bytes(TensorType type, size_t groups) {
    size_t whole = groups / (RECORD_INPUTS / record_group(type));
    size_t rest = groups % (RECORD_INPUTS / record_group(type));
    size_t bytes = whole * record_bytes(type);
    if (rest) bytes += record_header_bytes(type) + rest * record_group_bytes(type);
    return bytes;
}

static uint16_t half_at(const uint8_t *p) {
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

/* ---- Reading ---- */

int record_code(TensorType type, const uint8_t *panel, size_t k, size_t r) {
    size_t group = record_group(type), i = k % group;
    const uint8_t *lines = record_lines(type, panel, k / group);
    int nibble = lines[i / 8 * LINE_BYTES + 4 * r + i % 4] >> (i % 8 < 4 ? 0 : 4) & 15;
    /* The line behind those of nibbles. */
    uint8_t upper = lines[(group / 8) * LINE_BYTES % record_group_bytes(type) + 4 * r + i % 4];
    switch (type) {
    case TENSOR_Q5_K:
        return nibble | (upper >> (i / 4) & 1) << 4;
    case TENSOR_Q6_K:
        return (nibble | (upper >> (2 * (i / 4)) & 3) << 4) - 32;
    case TENSOR_Q4_NL:
        return table_q4_nl[nibble];
    case TENSOR_MXFP4:
        return table_mxfp4[nibble];
    default:
        return nibble;
    }
}

float record_scale(TensorType type, const uint8_t *panel, size_t g, size_t r) {
    const uint8_t *record = record_of(type, panel, g);
    g %= RECORD_INPUTS / record_group(type);
    switch (type) {
    case TENSOR_Q6_K:
        return half_to_float(half_at(record + 2 * r)) * (float)(int8_t)record[64 + 16 * g + r];
    case TENSOR_Q4_NL:
        return half_to_float(half_at(record + 32 * g + 2 * r));
    case TENSOR_MXFP4:
        return mxfp4_scale(record[16 * g + r]);
    default:
        return half_to_float(half_at(record + 2 * r)) * (float)record[64 + 32 * g + r];
    }
}

float record_minimum(TensorType type, const uint8_t *panel, size_t g, size_t r) {
    if (!record_has_minima(type)) return 0.0f;
    const uint8_t *record = record_of(type, panel, g);
    g %= RECORD_INPUTS / record_group(type);
    return half_to_float(half_at(record + 32 + 2 * r)) * (float)record[64 + 32 * g + 16 + r];
}

size_t records_bad_row(TensorType type, size_t cols, const uint8_t *panel) {
    size_t groups = tensor_padded_cols(type, cols) / record_group(type);
    size_t per_record = RECORD_INPUTS / record_group(type);
    /* A record with sub-scales has one f16 scale a row; q4_nl has one for each group. */
    size_t step = record_has_table(type) ? 1 : per_record;
    for (size_t g = 0; g < groups; g += step) {
        const uint8_t *record = record_of(type, panel, g);
        const uint8_t *halves = record + 32 * (g % per_record);
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            bool bad;
            if (type == TENSOR_MXFP4) {
                bad = record[16 * (g % per_record) + r] >= MXFP4_TOO_LARGE;
            } else {
                bad = (half_at(halves + 2 * r) & 0x7C00) == 0x7C00;
            }
            if (record_has_minima(type)) bad |= (half_at(record + 32 + 2 * r) & 0x7C00) == 0x7C00;
            if (bad) return r;
        }
    }
    return PANEL_ROWS;
}

/* ---- Packing ---- */

static void pack_header(TensorType type, const RecordCodes *rows, size_t groups, size_t first,
                        size_t n, uint8_t *record) {
    size_t s = first / (RECORD_INPUTS / record_group(type));
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        size_t row = r * groups;
        if (!record_has_table(type)) memcpy(record + 2 * r, &rows->scales[row + s], 2);
        if (record_has_minima(type)) memcpy(record + 32 + 2 * r, &rows->minima[row + s], 2);
        for (size_t g = 0; g < n; g++) {
            size_t at = row + first + g;
            if (type == TENSOR_Q4_NL) {
                memcpy(record + 32 * g + 2 * r, &rows->scales[at], 2);
            } else if (type == TENSOR_MXFP4) {
                record[16 * g + r] = rows->sub_scales[at];
            } else if (type == TENSOR_Q6_K) {
                record[64 + 16 * g + r] = rows->sub_scales[at];
            } else {
                record[64 + 32 * g + r] = rows->sub_scales[at];
                record[64 + 32 * g + 16 + r] = rows->sub_minima[at];
            }
        }
    }
}

static uint32_t load_word(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* The lines of one group; codes[row * stride], of one input after another. Four codes at once:
 * a word of a line is 4 bytes of one row. */
static void pack_group(TensorType type, const uint8_t *codes, size_t stride, uint8_t *lines) {
    size_t group = record_group(type);
    for (size_t r = 0; r < PANEL_ROWS; r++, codes += stride) {
        uint32_t upper = 0;
        for (size_t i = 0; i < group; i += 8) {
            uint32_t a = load_word(codes + i), b = load_word(codes + i + 4);
            uint32_t word = (a & 0x0F0F0F0Fu) | (b & 0x0F0F0F0Fu) << 4;
            memcpy(lines + i / 8 * LINE_BYTES + 4 * r, &word, sizeof word);
            if (type == TENSOR_Q5_K)
                upper |= (a >> 4 & 0x01010101u) << i / 4 | (b >> 4 & 0x01010101u) << (i / 4 + 1);
            if (type == TENSOR_Q6_K)
                upper |= (a >> 4 & 0x03030303u) << i / 2 | (b >> 4 & 0x03030303u) << (i / 2 + 2);
        }
        if (type == TENSOR_Q5_K || type == TENSOR_Q6_K)
            memcpy(lines + group / 8 * LINE_BYTES + 4 * r, &upper, sizeof upper);
    }
}

void panel_pack_records(TensorType type, size_t cols, const RecordCodes *rows, uint8_t *panel) {
    size_t group = record_group(type), per_record = RECORD_INPUTS / group;
    size_t padded = tensor_padded_cols(type, cols), groups = padded / group;
    for (size_t first = 0; first < groups; first += per_record) {
        size_t n = groups - first < per_record ? groups - first : per_record;
        uint8_t *record = panel + first / per_record * record_bytes(type);
        memset(record, 0, record_header_bytes(type));
        pack_header(type, rows, groups, first, n, record);
        for (size_t g = 0; g < n; g++)
            pack_group(type, rows->codes + (first + g) * group, padded,
                       record + record_header_bytes(type) + g * record_group_bytes(type));
    }
}
