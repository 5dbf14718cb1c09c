#include "convert/quantize_codebooks.h"

#include <math.h>

#include "base/numbers.h"

/* Inputs that have one sub-scale: two groups or one. */
enum { MOST_UNIT = 32, MOST_UNITS = 16 };

/* A unit: its inputs, and how much their errors count. */
typedef struct Unit {
    size_t n;
    const float *x;
    float weight[MOST_UNIT];
} Unit;

/* A unit's codes (codebooks.h) with one scale: the sum of weighted squared errors, and the scale
 * that would make it smallest. */
typedef struct Fit {
    uint8_t codes[MOST_UNIT];
    float error, scale;
} Fit;

static size_t unit_inputs(TensorType type) {
    const bool by_16 = type == TENSOR_IQ2_XS || type == TENSOR_IQ2_S || type == TENSOR_IQ1_M;
    return by_16 ? 16 : 32;
}

static int most_part(TensorType type) {
    return codebook_is_moved(type) ? 7 : 15;
}

/* The point next to the n numbers y[n], whose levels are all `move` higher. */
static size_t nearest_point(TensorType type, const float *y, const float *weight, size_t n,
                            int move) {
    const int8_t *levels = (const int8_t *)codebook_points(type);
    size_t best = 0;
    float least = INFINITY;
    for (size_t p = 0; p < codebook_size(type); p++, levels += n) {
        float error = 0.0f;
        for (size_t i = 0; i < n; i++) {
            const float d = y[i] - (float)(levels[i] + move);
            error += weight[i] * d * d;
        }
        if (error < least) least = error, best = p;
    }
    return best;
}

/* Chooses the code of eight inputs: points of their magnitudes, then their signs. Where the number
 * of minus signs must be even, the input has the wrong one for which that costs least. */
static void choose_eight(TensorType type, const float *x, const float *weight, float scale,
                         int move, uint8_t *codes) {
    const size_t halves = codebook_halves(type), n = EIGHT / halves;
    const int8_t *levels = (const int8_t *)codebook_points(type);
    float y[EIGHT], cheapest = INFINITY;
    size_t points[2] = {0}, wrong = 0;
    uint32_t signs = 0;
    for (size_t i = 0; i < EIGHT; i++) {
        y[i] = move ? x[i] / scale : fabsf(x[i]) / scale;
        if (!move && x[i] < 0.0f) signs |= 1u << i;
    }
    for (size_t h = 0; h < halves; h++)
        points[h] = nearest_point(type, y + h * n, weight + h * n, n, move);
    for (size_t i = 0; i < EIGHT; i++) {
        const float cost = weight[i] * y[i] * (float)levels[points[i / n] * n + i % n];
        if (cost < cheapest) cheapest = cost, wrong = i;
    }
    if (codebook_is_even(type) && __builtin_parity(signs)) signs ^= 1u << wrong;
    codes[EIGHT_POINT] = (uint8_t)points[0];
    codes[EIGHT_UPPER] = (uint8_t)(points[0] >> 8);
    codes[EIGHT_SECOND] = (uint8_t)points[1];
    codes[EIGHT_SECOND_UPPER] = (uint8_t)(points[1] >> 8);
    codes[EIGHT_SIGNS] = (uint8_t)(move ? move < 0 : signs);
}

/* The level that a chosen code gives input i. */
static float level_of(TensorType type, const uint8_t *codes, size_t i) {
    const size_t n = EIGHT / codebook_halves(type);
    const size_t point = i < n ? codes[EIGHT_POINT] | (size_t)codes[EIGHT_UPPER] << 8
                               : codes[EIGHT_SECOND] | (size_t)codes[EIGHT_SECOND_UPPER] << 8;
    const int level = (int8_t)codebook_points(type)[point * n + i % n];
    if (codebook_is_moved(type)) return (float)(codes[EIGHT_SIGNS] ? level - 1 : level + 1);
    return (float)(codes[EIGHT_SIGNS] >> i & 1 ? -level : level);
}

static void fit_moved(TensorType type, const Unit *unit, float scale, int move, Fit *fit) {
    float with_x = 0.0f, squares = 0.0f;
    *fit = (Fit){.error = 0.0f};
    for (size_t i = 0; i < unit->n; i += EIGHT)
        choose_eight(type, unit->x + i, unit->weight + i, scale, move, fit->codes + i);
    for (size_t i = 0; i < unit->n; i++) {
        const float level = level_of(type, fit->codes + i / EIGHT * EIGHT, i % EIGHT);
        const float d = unit->x[i] - scale * level;
        fit->error += unit->weight[i] * d * d;
        with_x += unit->weight[i] * unit->x[i] * level;
        squares += unit->weight[i] * level * level;
    }
    fit->scale = squares > 0.0f && with_x > 0.0f ? with_x / squares : scale;
}

/* The codes that suit the unit best with this scale. */
static void fit_unit(TensorType type, const Unit *unit, float scale, Fit *fit) {
    Fit lower;
    fit_moved(type, unit, scale, codebook_is_moved(type) ? 1 : 0, fit);
    if (!codebook_is_moved(type)) return;
    fit_moved(type, unit, scale, -1, &lower);
    if (lower.error < fit->error) *fit = lower;
}

/* The scale with which the unit's error is smallest, searched around the one that makes its extreme
 * input the largest level. */
static float search_scale(TensorType type, const Unit *unit) {
    float extreme = 0.0f, least = INFINITY, best = 0.0f;
    for (size_t i = 0; i < unit->n; i++) extreme = fmaxf(extreme, fabsf(unit->x[i]));
    for (int t = -2; t <= 5 && extreme > 1e-30f; t++) {
        const float scale =
            extreme / ((float)weight_types[type].largest * (1.0f + 0.1f * (float)t));
        Fit fit;
        fit_unit(type, unit, scale, &fit);
        if (fit.error < least) least = fit.error, best = fit.scale;
    }
    return best;
}

static void set_weights(Unit *unit, const float *importance) {
    float mean = 0.0f;
    for (size_t i = 0; i < unit->n; i++) mean += unit->x[i] * unit->x[i] / (float)unit->n;
    for (size_t i = 0; i < unit->n; i++) {
        unit->weight[i] = importance ? importance[i] : mean + unit->x[i] * unit->x[i];
        if (!(unit->weight[i] >= 1e-37f)) unit->weight[i] = 1e-37f;
    }
}

/* Quantizes the n inputs of a superblock; `row` begins with it. */
static void quantize_superblock(TensorType type, size_t n, const float *x, const float *importance,
                                const SuperblockCodes *row) {
    const size_t most = unit_inputs(type), group = type_group(type);
    const float unit_of_part = superblock_part_unit(type);
    float scales[MOST_UNITS] = {0.0f}, largest = 0.0f;
    Unit units[MOST_UNITS];
    size_t n_units = 0;
    for (size_t at = 0; at < n; at += most, n_units++) {
        units[n_units] = (Unit){.n = n - at < most ? n - at : most, .x = x + at};
        set_weights(&units[n_units], importance ? importance + at : NULL);
        scales[n_units] = search_scale(type, &units[n_units]);
        largest = fmaxf(largest, scales[n_units]);
    }
    const uint16_t half =
        numbers_float_to_half(largest / (unit_of_part * (float)(2 * most_part(type) + 1)));
    const float whole = numbers_half_to_float(half) * unit_of_part;
    row->scales[0] = half;
    for (size_t k = 0; k < n_units; k++) {
        const size_t first = k * most / group, groups = units[k].n / group;
        float part = whole > 0.0f ? rintf((scales[k] / whole - 1.0f) / 2.0f) : 0.0f;
        part = fminf(fmaxf(part, 0.0f), (float)most_part(type));
        Fit fit = {.error = 0.0f};
        if (whole > 0.0f) fit_unit(type, &units[k], whole * (2.0f * part + 1.0f), &fit);
        memcpy(row->codes + k * most, fit.codes, units[k].n);
        memset(row->sub_scales + first, (int)part, groups);
    }
}

void quantize_codebooks(TensorType type, size_t n, const float *x, const float *importance,
                        const SuperblockCodes *row) {
    const size_t groups = SUPERBLOCK_INPUTS / type_group(type);
    SuperblockCodes at = *row;
    for (size_t first = 0; first < n; first += SUPERBLOCK_INPUTS) {
        const size_t left = n - first;
        quantize_superblock(type, left < SUPERBLOCK_INPUTS ? left : SUPERBLOCK_INPUTS, x + first,
                            importance ? importance + first : NULL, &at);
        at.codes += SUPERBLOCK_INPUTS, at.sub_scales += groups, at.scales++;
    }
}
