#include "kernels/codebooks.h"

#include <pthread.h>

#include "kernels/grids.h"

/* Magnitudes by level; of IQ1 with signs. */
typedef struct Book {
    const Grid *grid;
    size_t size;
    int8_t levels[8];
    uint8_t *points; /* [size][grid->digits] */
} Book;

enum { ALIGNED = 64 };
static _Alignas(ALIGNED) uint8_t iq2_xxs_points[256 * 8], iq2_xs_points[512 * 8],
    iq2_s_points[1024 * 8], iq1_points[2048 * 8], iq3_xxs_points[256 * 4], iq3_s_points[512 * 4];

static const Book books[CODEBOOKS] = {
    [CODEBOOK_IQ2_XXS] = {&grid_iq2_xxs, 256, {8, 25, 43}, iq2_xxs_points},
    [CODEBOOK_IQ2_XS] = {&grid_iq2_xs, 512, {8, 25, 43}, iq2_xs_points},
    [CODEBOOK_IQ2_S] = {&grid_iq2_s, 1024, {8, 25, 43}, iq2_s_points},
    [CODEBOOK_IQ1] = {&grid_iq1, 2048, {-8, 0, 8}, iq1_points},
    [CODEBOOK_IQ3_XXS] = {&grid_iq3_xxs, 256, {4, 12, 20, 28, 36, 44, 52, 62}, iq3_xxs_points},
    [CODEBOOK_IQ3_S] = {&grid_iq3_s, 512, {1, 3, 5, 7, 9, 11, 13, 15}, iq3_s_points},
};

/* Writes the points of a codebook: the digits of the numbers that are in its set. */
static void make_points(const Book *book) {
    const Grid *grid = book->grid;
    uint8_t *to = book->points;
    for (size_t word = 0; word < 8u * grid->n_before; word++)
        for (uint64_t bits = grid->words[word]; bits; bits &= bits - 1) {
            size_t number = 64 * word + (size_t)__builtin_ctzll(bits);
            for (size_t i = 0; i < grid->digits; i++, number /= grid->base)
                *to++ = (uint8_t)book->levels[number % grid->base];
        }
}

static void make_all(void) {
    for (size_t i = CODEBOOK_NONE + 1; i < CODEBOOKS; i++) make_points(&books[i]);
}

const uint8_t *codebook_points(TensorType type) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_all);
    return books[weight_types[type].codebook].points;
}

size_t codebook_size(TensorType type) {
    return books[weight_types[type].codebook].size;
}

/* ---- Writing ---- */

/* Adds bits to number r of 16 bits. */
static void add_u16(uint8_t *words, size_t r, uint32_t bits) {
    uint16_t word;
    memcpy(&word, words + r * sizeof word, sizeof word);
    word |= (uint16_t)bits;
    memcpy(words + r * sizeof word, &word, sizeof word);
}

/* Adds eight e of 32 inputs. */
static void pack_eight(TensorType type, const uint8_t *codes, size_t e, size_t r, uint8_t *inputs) {
    const size_t halves = codebook_halves(type);
    const uint32_t signs = codes[EIGHT_SIGNS], upper = codes[EIGHT_UPPER];
    uint8_t *rest = inputs + 4 * halves * PANEL_ROWS, *own = rest + e * PANEL_ROWS + r;
    uint8_t *pairs = rest + 4 * PANEL_ROWS + r;
    inputs[halves * e * PANEL_ROWS + r] = codes[EIGHT_POINT];
    if (halves == 2) inputs[(2 * e + 1) * PANEL_ROWS + r] = codes[EIGHT_SECOND];
    switch (type) {
    case TENSOR_IQ2_XXS:
    case TENSOR_IQ3_XXS_G:
        *own |= (uint8_t)(signs & 127);
        break;
    case TENSOR_IQ2_XS:
        *own = (uint8_t)((signs & 127) | upper << 7);
        break;
    case TENSOR_IQ2_S:
        *own = (uint8_t)signs;
        *pairs |= (uint8_t)((upper & 3) << 2 * e);
        break;
    case TENSOR_IQ3_S_G:
        *own = (uint8_t)signs;
        *pairs |= (uint8_t)(((upper & 1) | (codes[EIGHT_SECOND_UPPER] & 1u) << 1) << 2 * e);
        break;
    case TENSOR_IQ1_S: /* one bit moves the levels of 32 inputs */
        add_u16(rest, r, (upper & 7) << 3 * e | (e == 0 ? (signs & 1) << 15 : 0));
        break;
    default: /* IQ1_M */
        add_u16(rest, r, ((upper & 7) | (signs & 1) << 3) << 4 * e);
        break;
    }
}

/* Adds the scales of group g. Of two groups with one sub-scale the first has it. */
static void pack_scales(TensorType type, uint16_t scale, uint8_t sub_scale, size_t g, size_t r,
                        uint8_t *superblock, uint8_t *inputs) {
    uint8_t *rest = inputs + 4 * codebook_halves(type) * PANEL_ROWS;
    const bool first = g * weight_types[type].group % CODEBOOK_INPUTS == 0;
    if (type == TENSOR_IQ1_M) {
        for (size_t i = 0; g == 0 && i < 4; i++)
            add_u16(superblock + 2 * PANEL_ROWS * i, r, (scale >> 4 * i & 15u) << 12);
        add_u16(superblock + g / 4 * 2 * PANEL_ROWS, r, (sub_scale & 7u) << 3 * (g % 4));
        return;
    }
    memcpy(superblock + 2 * r, &scale, sizeof scale);
    if (codebook_has_nibbles(type)) {
        superblock[(2 + g / 2) * PANEL_ROWS + r] |= (uint8_t)((sub_scale & 15) << g % 2 * 4);
    } else if (first && type == TENSOR_IQ1_S) {
        add_u16(rest, r, (sub_scale & 7u) << 12);
    } else if (first) {
        for (size_t e = 0; e < 4; e++)
            rest[e * PANEL_ROWS + r] |= (uint8_t)((sub_scale >> e & 1) << 7);
    }
}

void codebook_pack(TensorType type, const uint8_t *codes, uint16_t scale, uint8_t sub_scale,
                   size_t g, size_t r, uint8_t *superblock) {
    const size_t group = weight_types[type].group, first = g * group / EIGHT % 4;
    uint8_t *inputs = superblock + codebook_header_bytes(type) +
                      g * group / CODEBOOK_INPUTS * codebook_inputs_bytes(type);
    for (size_t e = 0; e < group / EIGHT; e++)
        pack_eight(type, codes + e * EIGHT, first + e, r, inputs);
    pack_scales(type, scale, sub_scale, g, r, superblock, inputs);
}
