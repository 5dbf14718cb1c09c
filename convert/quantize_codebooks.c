#include "convert/quantize_codebooks.h"

#include <math.h>

#include "base/numbers.h"

/* Inputs that have one sub-scale: two groups or one. */
enum { MOST_UNIT = 32, MOST_UNITS = 16 };

enum { MOST_POINTS = 2048, MOST_LEVELS = 8, MOST_PATTERNS = 256 };

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

/* A codebook taken apart, so that a search need not multiply for each point: half of a point's
 * inputs have one of few patterns of levels, which many points share. */
typedef struct Patterns {
    TensorType type;
    size_t n_points, n; /* n inputs of a point, 4 or 8 */
    size_t n_levels;    /* different ones */
    int8_t levels[MOST_LEVELS];
    uint8_t halves[2][MOST_POINTS]; /* the pattern of a point's first inputs, and of its last */
} Patterns;

static size_t pattern_digit(Patterns *patterns, int8_t level) {
    size_t k = 0;
    while (k < patterns->n_levels && patterns->levels[k] != level) k++;
    if (k == patterns->n_levels) patterns->levels[patterns->n_levels++] = level;
    return k;
}

/* A pattern is a number whose digits, 2 bits for four inputs and 3 bits for two, are levels. */
static size_t digit_bits(const Patterns *patterns) {
    return patterns->n == EIGHT ? 2 : 3;
}

static void find_patterns(TensorType type, Patterns *patterns) {
    const int8_t *level = (const int8_t *)codebook_points(type);
    *patterns = (Patterns){
        .type = type, .n_points = codebook_size(type), .n = EIGHT / codebook_halves(type)};
    for (size_t p = 0; p < patterns->n_points; p++)
        for (size_t half = 0; half < 2; half++) {
            size_t pattern = 0;
            for (size_t i = 0; i < patterns->n / 2; i++)
                pattern |= pattern_digit(patterns, *level++) << digit_bits(patterns) * i;
            patterns->halves[half][p] = (uint8_t)pattern;
        }
}

/* errors[pattern] of n numbers y[n], whose levels are all `move` higher. */
static void pattern_errors(const Patterns *patterns, const float *y, const float *weight, size_t n,
                           int move, float errors[MOST_PATTERNS]) {
    size_t made = 1;
    errors[0] = 0.0f;
    for (size_t i = 0; i < n; i++, made <<= digit_bits(patterns)) {
        /* The first ones are overwritten last: they are what the others are made of. */
        for (size_t k = patterns->n_levels; k-- > 0;) {
            const float d = y[i] - (float)(patterns->levels[k] + move);
            for (size_t p = 0; p < made; p++) errors[k * made + p] = errors[p] + weight[i] * d * d;
        }
    }
}

/* The point next to the numbers y[n], whose levels are all `move` higher. */
static size_t nearest_point(const Patterns *patterns, const float *y, const float *weight,
                            int move) {
    const size_t n = patterns->n / 2;
    float first[MOST_PATTERNS], last[MOST_PATTERNS], least = INFINITY;
    size_t best = 0;
    pattern_errors(patterns, y, weight, n, move, first);
    pattern_errors(patterns, y + n, weight + n, n, move, last);
    for (size_t p = 0; p < patterns->n_points; p++) {
        const float error = first[patterns->halves[0][p]] + last[patterns->halves[1][p]];
        if (error < least) least = error, best = p;
    }
    return best;
}

/* Chooses the code of eight inputs: points of their magnitudes, then their signs. Where the number
 * of minus signs must be even, the input has the wrong one for which that costs least. */
static void choose_eight(const Patterns *patterns, const float *x, const float *weight, float scale,
                         int move, uint8_t *codes) {
    const TensorType type = patterns->type;
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
        points[h] = nearest_point(patterns, y + h * n, weight + h * n, move);
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

static void fit_moved(const Patterns *patterns, const Unit *unit, float scale, int move, Fit *fit) {
    float with_x = 0.0f, squares = 0.0f;
    *fit = (Fit){.error = 0.0f};
    for (size_t i = 0; i < unit->n; i += EIGHT)
        choose_eight(patterns, unit->x + i, unit->weight + i, scale, move, fit->codes + i);
    for (size_t i = 0; i < unit->n; i++) {
        const float level = level_of(patterns->type, fit->codes + i / EIGHT * EIGHT, i % EIGHT);
        const float d = unit->x[i] - scale * level;
        fit->error += unit->weight[i] * d * d;
        with_x += unit->weight[i] * unit->x[i] * level;
        squares += unit->weight[i] * level * level;
    }
    fit->scale = squares > 0.0f && with_x > 0.0f ? with_x / squares : scale;
}

/* The codes that suit the unit best with this scale. */
static void fit_unit(const Patterns *patterns, const Unit *unit, float scale, Fit *fit) {
    const bool moved = codebook_is_moved(patterns->type);
    Fit lower;
    fit_moved(patterns, unit, scale, moved ? 1 : 0, fit);
    if (!moved) return;
    fit_moved(patterns, unit, scale, -1, &lower);
    if (lower.error < fit->error) *fit = lower;
}

/* The scale with which the unit's error is smallest, searched around the one that makes its extreme
 * input the largest level. */
static float search_scale(const Patterns *patterns, const Unit *unit) {
    float extreme = 0.0f, least = INFINITY, best = 0.0f;
    for (size_t i = 0; i < unit->n; i++) extreme = fmaxf(extreme, fabsf(unit->x[i]));
    for (int t = -2; t <= 5 && extreme > 1e-30f; t++) {
        const float scale =
            extreme / ((float)weight_types[patterns->type].largest * (1.0f + 0.1f * (float)t));
        Fit fit;
        fit_unit(patterns, unit, scale, &fit);
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
static void quantize_superblock(const Patterns *patterns, size_t n, const float *x,
                                const float *importance, const SuperblockCodes *row) {
    const TensorType type = patterns->type;
    const size_t most = unit_inputs(type), group = type_group(type);
    const float unit_of_part = superblock_part_unit(type);
    float scales[MOST_UNITS] = {0.0f}, largest = 0.0f;
    Unit units[MOST_UNITS];
    size_t n_units = 0;
    for (size_t at = 0; at < n; at += most, n_units++) {
        units[n_units] = (Unit){.n = n - at < most ? n - at : most, .x = x + at};
        set_weights(&units[n_units], importance ? importance + at : NULL);
        scales[n_units] = search_scale(patterns, &units[n_units]);
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
        if (whole > 0.0f) fit_unit(patterns, &units[k], whole * (2.0f * part + 1.0f), &fit);
        memcpy(row->codes + k * most, fit.codes, units[k].n);
        memset(row->sub_scales + first, (int)part, groups);
    }
}

void quantize_codebooks(TensorType type, size_t n, const float *x, const float *importance,
                        const SuperblockCodes *row) {
    const size_t groups = SUPERBLOCK_INPUTS / type_group(type);
    SuperblockCodes at = *row;
    Patterns patterns;
    find_patterns(type, &patterns);
    for (size_t first = 0; first < n; first += SUPERBLOCK_INPUTS) {
        const size_t left = n - first;
        quantize_superblock(&patterns, left < SUPERBLOCK_INPUTS ? left : SUPERBLOCK_INPUTS,
                            x + first, importance ? importance + first : NULL, &at);
        at.codes += SUPERBLOCK_INPUTS, at.sub_scales += groups, at.scales++;
    }
}
