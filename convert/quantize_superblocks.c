/* Quantizes to the types of superblocks.h.
 *
 * First each group is searched by itself for the scale (and minimum) with the smallest error. Then
 * the superblock gets its f16 scale, so that the largest group's scale becomes the largest
 * sub-scale. Each group takes, of the sub-scales nearest to its own scale, the one whose codes have
 * the smallest error. Last the f16 scales are fitted to all codes by least squares and the
 * sub-scales chosen again. */
#include <string.h>

#include "base/numbers.h"
#include "convert/quantize.h"
#include "convert/quantize_codebooks.h"
#include "convert/quantize_superblocks.h"
#include "convert/quantize_lanes.h"

enum { MAX_GROUP = 32, MAX_SHARED = 256, MAX_GROUPS = 16, BESIDE = REGISTER_FLOATS /* groups */ };

/* A number of each of BESIDE groups. All groups are searched by the same steps, so that a vector
 * holds the same number of several groups, and every sum keeps its order: element i of a group adds
 * to partial sum i % LANES, as in quantize_lanes.h. */
typedef float Numbers __attribute__((vector_size(4 * BESIDE)));
typedef int32_t Bits __attribute__((vector_size(4 * BESIDE)));

/* Groups side by side. */
typedef struct Groups {
    Numbers x[MAX_GROUP], weight[MAX_GROUP];
    Numbers scale, minimum; /* the best ones for each group by itself */
} Groups;

/* The codes of groups follow from these and from the superblock's scale and minimum. */
typedef struct Parts {
    Numbers sub_scale, sub_minimum; /* whole numbers */
    Numbers error;
} Parts;

typedef struct Superblock {
    Groups groups[MAX_GROUPS / BESIDE];
    size_t n, group;   /* groups, and inputs of each */
    float low, high;   /* the smallest and the largest code */
    float least, most; /* the smallest and the largest sub-scale (with minima, sub-minimum) */
    bool with_minima;
} Superblock;

typedef struct Coded {
    float scale, minimum; /* f16 values */
    Parts parts[MAX_GROUPS / BESIDE];
    float error;
} Coded;

INLINE float as_half(float x) {
    return numbers_half_to_float(numbers_float_to_half(x));
}

/* ---- Operations on numbers of BESIDE groups ---- */

/* Macros, and pointers to Numbers: as arguments and results, vectors that are wider than the
 * registers of "default" would depend on the ABI of the instruction set, which compilers refuse in
 * functions that are inlined as well. */
#define ALL_EQUAL(x) ((Numbers){0} + (x))
#define SELECT(where, yes, no) ((Numbers)(((where) & (Bits)(yes)) | (~(where) & (Bits)(no))))
#define MAGNITUDES(x) ((Numbers)((Bits)(x)&0x7FFFFFFF))

/* *x = the nearest whole numbers from low to high. */
INLINE void round_within(Numbers *x, float low, float high) {
    Numbers within = *x;
    for (size_t k = 0; k < BESIDE; k++) within[k] = clamp((*x)[k], low, high);
    *x = (within + 12582912.0f) - 12582912.0f;
}

/* The nearest codes q[n] for x ~ scale * q - minimum. */
INLINE void encode(const Superblock *r, const Groups *g, size_t n, const Numbers *scale,
                   const Numbers *minimum, Numbers *q) {
    const Numbers zero = {0};
    Numbers inverse = SELECT(*scale != 0.0f, 1.0f / *scale, zero);
    inverse = SELECT(MAGNITUDES(inverse) < 1e37f, inverse, zero);
    for (size_t i = 0; i < n; i++) {
        q[i] = (g->x[i] + *minimum) * inverse;
        round_within(&q[i], r->low, r->high);
    }
}

/* ---- Each group by itself ---- */

/* Sums over a group that do not depend on its codes. */
typedef struct FixedSums {
    Numbers w, wx;
} FixedSums;

/* The sums of w and w x of a group. Each is the sum of LANES partial sums, of elements that stand
 * LANES apart. */
INLINE void sum_fixed(const Groups *g, size_t n, FixedSums *out) {
    FixedSums sums = {0};
    for (size_t l = 0; l < LANES; l++) {
        FixedSums part = {0};
        for (size_t i = l; i < n; i += LANES) {
            part.w += g->weight[i];
            part.wx += g->weight[i] * g->x[i];
        }
        sums.w += part.w;
        sums.wx += part.wx;
    }
    *out = sums;
}

/* The weighted squared errors of x ~ scale * q - minimum with the codes q[]. */
INLINE void sum_errors(const Groups *g, size_t n, const Numbers *scale, const Numbers *minimum,
                       const Numbers *q, Numbers *errors) {
    Numbers sum = {0};
    for (size_t l = 0; l < LANES; l++) {
        Numbers part = {0};
        for (size_t i = l; i < n; i += LANES) {
            Numbers d = g->x[i] - (*scale * q[i] - *minimum);
            part += g->weight[i] * (d * d);
        }
        sum += part;
    }
    *errors = sum;
}

/* Quantizes the groups with first_scale and first_minimum, fits a scale and a minimum to these
 * codes q by weighted least squares, sum w (x - (scale q - minimum))^2, and keeps them in the
 * groups whose error they make smaller than *best. Where the fitted minimum would not be positive
 * it is 0 and the scale is fitted alone. */
INLINE void try_groups(const Superblock *r, Groups *g, size_t n, const FixedSums *fixed,
                       const Numbers *first_scale, const Numbers *first_minimum, Numbers *best) {
    Numbers q[MAX_GROUP] = {{0}}, wq = {0}, wqq = {0}, wxq = {0}, errors;
    const Numbers zero = {0};
    encode(r, g, n, first_scale, first_minimum, q);
    for (size_t l = 0; l < LANES; l++) {
        Numbers part_wq = {0}, part_wqq = {0}, part_wxq = {0};
        for (size_t i = l; i < n; i += LANES) {
            part_wq += g->weight[i] * q[i];
            part_wqq += g->weight[i] * (q[i] * q[i]);
            part_wxq += g->weight[i] * (g->x[i] * q[i]);
        }
        wq += part_wq, wqq += part_wqq, wxq += part_wxq;
    }
    Numbers minimum = zero, scale = SELECT(wqq > 0.0f, wxq / wqq, zero);
    if (r->with_minima) {
        Numbers determinant = fixed->w * wqq - wq * wq;
        Numbers m = (wq * wxq - wqq * fixed->wx) / determinant;
        Bits both = (determinant > 0.0f) & ~(m <= 0.0f);
        minimum = SELECT(both, m, zero);
        scale = SELECT(both, (fixed->w * wxq - fixed->wx * wq) / determinant, scale);
    }
    sum_errors(g, n, &scale, &minimum, q, &errors);
    Bits better = errors < *best;
    *best = SELECT(better, errors, *best);
    g->scale = SELECT(better, scale, g->scale);
    g->minimum = SELECT(better, minimum, g->minimum);
}

/* Searches the best scale (and minimum) of each group separately. n is the superblock's group size,
 * a constant so that the compiler can unroll the loops. */
INLINE void search_groups_of(const Superblock *r, Groups *g, size_t n) {
    enum { STEPS = 10 };
    FixedSums fixed;
    Numbers low = g->x[0], high = g->x[0], extreme = {0}, best = ALL_EQUAL(INFINITY), scale;
    const Numbers zero = {0};
    sum_fixed(g, n, &fixed);
    for (size_t i = 0; i < n; i++) {
        low = SELECT(g->x[i] < low, g->x[i], low);
        high = SELECT(g->x[i] > high, g->x[i], high);
        extreme = SELECT(MAGNITUDES(g->x[i]) > MAGNITUDES(extreme), g->x[i], extreme);
    }
    g->scale = g->minimum = zero;
    low = SELECT(low > 0.0f, zero, low);
    const Numbers minimum = -low;
    for (int k = -STEPS; k <= STEPS; k++) {
        if (r->with_minima) {
            scale = (high - low) / (r->high + 0.1f * (float)k);
            try_groups(r, g, n, &fixed, &scale, &minimum, &best);
        } else {
            scale = extreme / (r->low + 0.15f * (float)k);
            try_groups(r, g, n, &fixed, &scale, &zero, &best);
            scale = extreme / (r->high + 0.15f * (float)k);
            try_groups(r, g, n, &fixed, &scale, &zero, &best);
        }
    }
    /* Groups of one value, and of zeros alone. */
    Bits flat = r->with_minima ? high == low : extreme == 0.0f;
    g->scale = SELECT(flat, zero, g->scale);
    g->minimum = SELECT(flat, SELECT(extreme == 0.0f, zero, minimum), g->minimum);
}

FOR_EACH_ISA static void search_groups(const Superblock *r, Groups *g) {
    if (r->group == 32)
        search_groups_of(r, g, 32);
    else
        search_groups_of(r, g, 16);
}

/* ---- The groups of a superblock ---- */

/* Chooses the groups' sub-scales (and sub-minima): the nearest ones are tried. */
INLINE void choose_parts_of(const Superblock *r, const Coded *c, const Groups *g, size_t n,
                            Parts *parts) {
    const Numbers zero = {0};
    Numbers q[MAX_GROUP] = {{0}}, scale = zero, minimum = zero, errors;
    const int reach = r->with_minima ? 1 : 0;
    if (c->scale != 0.0f) scale = g->scale / c->scale;
    if (c->minimum != 0.0f) minimum = g->minimum / c->minimum;
    round_within(&scale, r->least, r->most);
    round_within(&minimum, 0.0f, r->most);
    /* All zeros, which is better than what f16 rounds the tiniest scales to. */
    *parts = (Parts){0};
    sum_errors(g, n, &zero, &zero, q, &parts->error);
    for (int i = -1; i <= 1; i++)
        for (int k = -reach; k <= reach; k++) {
            Numbers s = scale + (float)i, m = minimum + (float)k;
            Numbers whole_scale = c->scale * s, whole_minimum = c->minimum * m;
            Bits allowed = ~((s < r->least) | (s > r->most) | (m < 0.0f) | (m > r->most));
            encode(r, g, n, &whole_scale, &whole_minimum, q);
            sum_errors(g, n, &whole_scale, &whole_minimum, q, &errors);
            Bits better = allowed & (errors < parts->error);
            parts->error = SELECT(better, errors, parts->error);
            parts->sub_scale = SELECT(better, s, parts->sub_scale);
            parts->sub_minimum = SELECT(better, m, parts->sub_minimum);
        }
}

FOR_EACH_ISA static void choose_parts(const Superblock *r, const Coded *c, const Groups *g,
                                      Parts *parts) {
    if (r->group == 32)
        choose_parts_of(r, c, g, 32, parts);
    else
        choose_parts_of(r, c, g, 16, parts);
}

/* The codes of the groups' elements, q[group]. */
FOR_EACH_ISA static void codes_of(const Superblock *r, const Coded *c, const Groups *g,
                                  const Parts *parts, Numbers *q) {
    const Numbers scale = c->scale * parts->sub_scale, minimum = c->minimum * parts->sub_minimum;
    encode(r, g, r->group, &scale, &minimum, q);
}

/* Fits the superblock's f16 scale and minimum to all codes and sub-scales by least squares. */
static void fit_superblock(const Superblock *r, Coded *c) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    Numbers q[MAX_GROUPS / BESIDE][MAX_GROUP];
    for (size_t k = 0; k < r->n; k += BESIDE)
        codes_of(r, c, &r->groups[k / BESIDE], &c->parts[k / BESIDE], q[k / BESIDE]);
    for (size_t k = 0; k < r->n; k++) {
        const Groups *g = &r->groups[k / BESIDE];
        const size_t at = k % BESIDE;
        const float sub_scale = c->parts[k / BESIDE].sub_scale[at];
        const double b = -(double)c->parts[k / BESIDE].sub_minimum[at];
        for (size_t i = 0; i < r->group; i++) {
            double a = (double)(sub_scale * q[k / BESIDE][i][at]);
            double w = (double)g->weight[i][at], x = (double)g->x[i][at];
            aa += w * a * a, ab += w * a * b, bb += w * b * b;
            ax += w * a * x, bx += w * b * x;
        }
    }
    double determinant = aa * bb - ab * ab;
    double scale = aa > 0 ? ax / aa : 0, minimum = (double)c->minimum;
    if (r->with_minima && determinant > 1e-9 * aa * bb) {
        scale = (ax * bb - bx * ab) / determinant;
        minimum = (bx * aa - ax * ab) / determinant;
    } else if (r->with_minima && aa > 0) {
        scale = (ax - minimum * ab) / aa;
    }
    if (fabs(scale) < 65000.0) c->scale = as_half((float)scale);
    if (minimum >= 0 && minimum < 65000.0) c->minimum = as_half((float)minimum);
}

/* Chooses the sub-scales of all groups, and sums up the error. */
static void choose_all(const Superblock *r, Coded *c) {
    for (size_t k = 0; k < r->n; k += BESIDE)
        choose_parts(r, c, &r->groups[k / BESIDE], &c->parts[k / BESIDE]);
    c->error = 0.0f;
    for (size_t k = 0; k < r->n; k++) c->error += c->parts[k / BESIDE].error[k % BESIDE];
}

/* Quantizes a superblock: searches each group, codes all with common scales, then fits scales and
 * codes to each other for up to two rounds. */
static void quantize_superblock(Superblock *r, Coded *best) {
    float scale = 0.0f, minimum = 0.0f;
    for (size_t k = 0; k < r->n; k += BESIDE) search_groups(r, &r->groups[k / BESIDE]);
    for (size_t k = 0; k < r->n; k++) {
        const Groups *g = &r->groups[k / BESIDE];
        if (fabsf(g->scale[k % BESIDE]) > fabsf(scale)) scale = g->scale[k % BESIDE];
        if (g->minimum[k % BESIDE] > minimum) minimum = g->minimum[k % BESIDE];
    }
    /* The largest sub-scale of a symmetric type is -128, so the scale gets the opposite sign. */
    best->scale =
        as_half(clamp(scale / (r->with_minima ? r->most : r->least), -65504.0f, 65504.0f));
    best->minimum = as_half(clamp(minimum / r->most, 0.0f, 65504.0f));
    choose_all(r, best);
    for (int round = 0; round < 2; round++) {
        Coded other = *best;
        fit_superblock(r, &other);
        choose_all(r, &other);
        if (!(other.error < best->error)) break;
        *best = other;
    }
}

/* Fills in the weights of a group's errors, as in quantize.c. Without importance,
 * types of 4 bits, where every error is large, take the square root of those weights, so that small
 * values lose less. */
static void weigh_group(TensorType type, float *weight, const float *x, const float *importance,
                        size_t group) {
    float unit = inverse_mean_square(x, group);
    for (size_t i = 0; i < group; i++) {
        float by_size = 1.0f + x[i] * x[i] * unit;
        if (type_is_4_bit(type)) by_size = sqrtf(by_size);
        weight[i] = importance ? importance[i] : by_size;
    }
}

/* ---- Types with a table of levels and one scale a group ---- */

enum { MAX_LEVELS = 16 * MOST_TABLES };

/* The number of codes. Codes without a level in the table have the level 0. */
static int level_count(TensorType type) {
    return 1 << weight_types[type].bits;
}

/* A table of levels, and for each whole number f from -129 to 127 the codes of the largest level
 * that is not above f and of the smallest one above it, so that the nearest level of x is one of
 * the two at floor(x), whatever the table's order. Among equal levels the first code counts. */
enum { LEVEL_STEPS = 257, FIRST_STEP = -129 };
typedef struct Levels {
    int8_t level[MAX_LEVELS];
    int n;
    uint8_t below[LEVEL_STEPS], above[LEVEL_STEPS];
} Levels;

static void find_neighbours(Levels *levels) {
    int16_t code[LEVEL_STEPS]; /* of the level FIRST_STEP + i; -1: there is none */
    int found = -1;
    memset(code, -1, sizeof code);
    for (int c = levels->n - 1; c >= 0; c--) code[levels->level[c] - FIRST_STEP] = (int16_t)c;
    for (int i = 0; i < LEVEL_STEPS; i++) {
        if (code[i] >= 0) found = code[i];
        levels->below[i] = (uint8_t)(found < 0 ? 0 : found);
    }
    found = -1;
    for (int i = LEVEL_STEPS - 1; i >= 0; i--) {
        levels->above[i] = (uint8_t)(found < 0 ? levels->below[i] : found);
        if (code[i] >= 0) found = code[i];
    }
    for (int i = 0; found >= 0 && FIRST_STEP + i < levels->level[found]; i++)
        levels->below[i] = (uint8_t)found;
}

/* The levels of a type with a table, raised or not. */
static void levels_of(Levels *levels, TensorType type, bool raised) {
    levels->n = level_count(type);
    for (int c = 0; c < levels->n; c++)
        levels->level[c] =
            (int8_t)(superblock_table(type)[c] + (raised ? weight_types[type].raise : 0));
    find_neighbours(levels);
}

typedef struct LevelGroup {
    float x[MAX_GROUP], weight[MAX_GROUP];
    const Levels *levels; /* [2]: the type's, and those raised */
} LevelGroup;

/* The nearest levels for x[n] ~ level[code] / inverse, found by looking at each level. */
FOR_EACH_ISA static void scan_levels(const Levels *levels, const float *x, size_t n, float inverse,
                                     uint8_t *codes) {
    for (size_t i = 0; i < n; i++) {
        float at = x[i] * inverse, nearest = INFINITY;
        codes[i] = 0;
        for (int c = 0; c < levels->n; c++) {
            float distance = fabsf(at - (float)levels->level[c]);
            codes[i] = distance < nearest ? (uint8_t)c : codes[i];
            nearest = distance < nearest ? distance : nearest;
        }
    }
}

/* The same by looking at two levels, where |x * inverse| < 2^20: distances to several levels on one
 * side of a larger number may round to the same. False where one is larger. */
FOR_EACH_ISA static bool look_up_levels(const Levels *levels, const float *x, size_t n,
                                        float inverse, uint8_t *codes) {
    bool near = true;
    for (size_t i = 0; i < n; i++) near &= fabsf(x[i] * inverse) < 0x1p20f;
    for (size_t i = 0; i < n && near; i++) {
        float at = x[i] * inverse;
        int step = (int)floorf(clamp(at, (float)FIRST_STEP, (float)(FIRST_STEP + LEVEL_STEPS - 1)));
        uint8_t below = levels->below[step - FIRST_STEP], above = levels->above[step - FIRST_STEP];
        float down = fabsf(at - (float)levels->level[below]);
        float up = fabsf(at - (float)levels->level[above]);
        codes[i] = down < up || (down == up && below < above) ? below : above;
    }
    return near;
}

/* The nearest levels for x[n] ~ scale * level[code]; of two that are as near the first code. Code 0
 * where x / scale is not finite. */
static void code_levels(const Levels *levels, const float *x, size_t n, float scale,
                        uint8_t *codes) {
    const int few = 8; /* levels that are scanned as fast as they are looked up */
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    if (levels->n <= few || !look_up_levels(levels, x, n, inverse, codes))
        scan_levels(levels, x, n, inverse, codes);
}

/* The error of the codes[n]; *fitted is the scale that suits them best. */
static float level_error(const Levels *levels, const float *x, const float *weight, size_t n,
                         float scale, const uint8_t *codes, float *fitted) {
    float error = 0.0f, wxq = 0.0f, wqq = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float q = (float)levels->level[codes[i]], d = x[i] - scale * q;
        error += weight[i] * (d * d);
        wxq += weight[i] * x[i] * q;
        wqq += weight[i] * q * q;
    }
    *fitted = wqq > 0.0f ? wxq / wqq : 0.0f;
    return error;
}

/* Codes group k with a scale and stores it in `row` when it is the best so far. */
static void try_levels(TensorType type, const LevelGroup *g, float scale, float *best,
                       const SuperblockCodes *row, size_t k) {
    const size_t n = type_group(type);
    uint8_t codes[MAX_GROUP];
    float fitted;
    code_levels(g->levels, g->x, n, scale, codes);
    float error = level_error(g->levels, g->x, g->weight, n, scale, codes, &fitted);
    if (superblock_scales(type) == SCALES_HALVES) {
        scale = as_half(clamp(fitted, -65504.0f, 65504.0f));
        code_levels(g->levels, g->x, n, scale, codes);
        error = level_error(g->levels, g->x, g->weight, n, scale, codes, &fitted);
    }
    if (!(error < *best)) return;
    *best = error;
    memcpy(row->codes + n * k, codes, n);
    if (superblock_scales(type) == SCALES_HALVES) row->scales[k] = numbers_float_to_half(scale);
}

/* Tries the scales with which the extreme weight lies about at one of the table's ends. */
static void try_ends(TensorType type, const LevelGroup *g, float extreme,
                     const SuperblockCodes *row, size_t k) {
    const float low = type == TENSOR_Q4_NL ? -127.0f : -12.0f;
    const float high = type == TENSOR_Q4_NL ? 113.0f : 12.0f,
                step = type == TENSOR_Q4_NL ? 4 : 0.375f;
    float best = INFINITY;
    row->scales[k] = 0;
    for (int t = -7; t <= 7 && extreme != 0.0f; t++)
        try_levels(type, g, extreme / (low + step * (float)t), &best, row, k);
    for (int t = -7; t <= 7 && extreme != 0.0f; t++)
        try_levels(type, g, extreme / (high + step * (float)t), &best, row, k);
}

/* Quantizes group k of a row in a type whose codes are levels of a table (MXFP4, ...): tries scales
 * around the one that its largest weight needs. */
static void quantize_levels(TensorType type, const LevelGroup *g, const SuperblockCodes *row,
                            size_t k) {
    const size_t n = type_group(type);
    float extreme = 0.0f, best = INFINITY;
    for (size_t i = 0; i < n; i++)
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    memset(row->codes + n * k, 0, n);
    if (superblock_scales(type) == SCALES_HALVES) {
        try_ends(type, g, extreme, row, k);
        return;
    }
    row->sub_scales[k] = 0;
    if (extreme == 0.0f) return;
    /* With the middle exponent the largest level, 12 * 2^(e - 128), is about the extreme weight. */
    int middle = ilogbf(fabsf(extreme)) - 3 + 128;
    for (int e = middle - 1; e <= middle + 1; e++) {
        float before = best;
        if (e < 0 || e > 252) continue;
        try_levels(type, g, mxfp4_scale((uint8_t)e), &best, row, k);
        if (best < before) row->sub_scales[k] = (uint8_t)e;
    }
}

/* ---- Types of levels whose scales are parts of one for the superblock ---- */

/* The superblock's scale is multiplied by this for a part. */
static float part_factor(TensorType type, int part) {
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) return superblock_small_float((uint8_t)part);
    if (superblock_scales(type) == SCALES_ODD_PARTS || superblock_scales(type) == SCALES_WIDE_PARTS)
        return (float)(2 * part + 1) * superblock_part_unit(type);
    return (float)part;
}

/* The smallest and the largest part. */
typedef struct PartRange {
    int least, most;
} PartRange;

enum { LARGEST_E4M3 = 126 }; /* 448 */

static PartRange part_range(TensorType type) {
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) return (PartRange){0, LARGEST_E4M3};
    if (superblock_scales(type) == SCALES_WIDE_PARTS) return (PartRange){-64, 63};
    if (superblock_scales(type) == SCALES_SIGNED_PARTS) return (PartRange){-128, 127};
    return superblock_scales(type) == SCALES_ODD_PARTS ? (PartRange){0, 15} : (PartRange){-32, 31};
}

/* The scale with which levels suit the group best, searched around those that make its extreme
 * weight the largest level. Levels that have both signs need no negative scale, and odd parts have
 * none. */
static float search_part_scale(TensorType type, const LevelGroup *g, size_t n) {
    const float largest = weight_types[type].largest;
    const int last_sign = part_range(type).least < 0 ? -1 : 1;
    float extreme = 0.0f, best = INFINITY, found = 0.0f;
    for (size_t i = 0; i < n; i++)
        if (fabsf(g->x[i]) > extreme) extreme = fabsf(g->x[i]);
    for (int sign = 1; sign >= last_sign; sign -= 2)
        for (int t = -7; t <= 7 && extreme > 0.0f; t++) {
            const float scale = (float)sign * extreme / (largest * (1.0f + 0.04f * (float)t));
            uint8_t codes[MAX_GROUP];
            float fitted;
            code_levels(g->levels, g->x, n, scale, codes);
            float error = level_error(g->levels, g->x, g->weight, n, scale, codes, &fitted);
            if (error < best && fitted * (float)sign > 0.0f) best = error, found = fitted;
        }
    return found;
}

/* The part whose factor is about `factor`. */
static int nearest_part(TensorType type, float factor) {
    const PartRange range = part_range(type);
    const float none = part_factor(type, 0), step = part_factor(type, 1) - none;
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) {
        /* The bits of a float rise with it; 20 of them are cut off. */
        factor = clamp(factor, 0.0f, part_factor(type, range.most));
        return (int)((float_bits(factor * 0x1p-119f) + (1u << 19)) >> 20);
    }
    factor = (factor - none) / step;
    return (int)floorf(clamp(factor + 0.5f, (float)range.least, (float)range.most));
}

/* Stores the scale of superblock k, and returns it as it is stored. */
static float store_superblock_scale(TensorType type, float scale, const SuperblockCodes *row,
                                    size_t k) {
    if (superblock_scale_is_float(type)) {
        scale = clamp(scale, -SUPERBLOCK_LARGEST_SCALE, SUPERBLOCK_LARGEST_SCALE);
        row->scales[k] = (uint16_t)float_bits(scale);
        row->minima[k] = (uint16_t)(float_bits(scale) >> 16);
        return scale;
    }
    scale = as_half(clamp(scale, -65504.0f, 65504.0f));
    row->scales[k] = numbers_float_to_half(scale);
    return scale;
}

/* Chooses the part of group k (the factor of `superblock_scale`) and the group's codes: the best of
 * the three parts nearest to `scale`, the scale that the group would have alone. */
static void choose_part(TensorType type, const LevelGroup *g, float scale, float superblock_scale,
                        const SuperblockCodes *row, size_t k) {
    const size_t n = type_group(type);
    const PartRange range = part_range(type);
    const int choices = weight_types[type].raise ? 2 : 1; /* not raised, or raised */
    const int nearest = superblock_scale != 0.0f ? nearest_part(type, scale / superblock_scale) : 0;
    float best = INFINITY;
    for (int i = 0; i < 3 * choices; i++) {
        const int part = nearest - 1 + i % 3;
        uint8_t codes[MAX_GROUP];
        const Levels *levels = g->levels + i / 3;
        float fitted, own = superblock_scale * part_factor(type, part);
        if (part < range.least || part > range.most) continue;
        code_levels(levels, g->x, n, own, codes);
        float error = level_error(levels, g->x, g->weight, n, own, codes, &fitted);
        if (!(error < best)) continue;
        best = error;
        row->sub_scales[k] = (uint8_t)part;
        if (choices > 1) row->sub_minima[k] = i >= 3;
        memcpy(row->codes + k * n, codes, n);
    }
}

/* Quantizes groups [first, first + n_groups), which are one superblock. A group's scale is the
 * superblock's scale times a small whole number, the group's part. */
static void quantize_part_superblock(TensorType type, const Levels *levels, size_t first,
                                     size_t n_groups, const float *x, const float *importance,
                                     const SuperblockCodes *row) {
    const size_t n = type_group(type);
    const PartRange range = part_range(type);
    LevelGroup groups[MAX_GROUPS];
    float scales[MAX_GROUPS], largest = 0.0f;
    for (size_t k = 0; k < n_groups; k++) {
        LevelGroup *g = &groups[k];
        g->levels = levels;
        memcpy(g->x, x + (first + k) * n, n * sizeof *x);
        weigh_group(type, g->weight, g->x, importance ? importance + (first + k) * n : NULL, n);
        scales[k] = search_part_scale(type, g, n);
        if (fabsf(scales[k]) > fabsf(largest)) largest = scales[k];
    }
    /* Signed parts reach one further below 0 than above it (-32 ... 31), so the largest scale gets
     * the least part. */
    const float extreme = part_factor(type, range.least < 0 ? range.least : range.most);
    const float scale =
        store_superblock_scale(type, largest / extreme, row, first / superblock_groups(type));
    for (size_t k = 0; k < n_groups; k++) {
        row->sub_scales[first + k] = 0;
        if (weight_types[type].raise) row->sub_minima[first + k] = 0;
        memset(row->codes + (first + k) * n, 0, n);
        choose_part(type, &groups[k], scales[k], scale, row, first + k);
    }
}

/* ---- Types of two or four levels, with a float16 scale for several groups ---- */

/* Quantizes the weights x[n] that share a scale, which stands in the row from group k on. For few
 * levels the best scale may be far below the extreme weight, so many are tried; each is refined
 * twice by least squares. */
static void quantize_shared(TensorType type, size_t k, size_t n, const float *x,
                            const float *importance, const SuperblockCodes *row) {
    Levels levels = {.n = level_count(type)};
    uint8_t codes[MAX_SHARED];
    float weight[MAX_SHARED], extreme = 0.0f, best = INFINITY;
    for (int c = 0; c < levels.n; c++)
        levels.level[c] = type_has_table(type) ? superblock_table(type)[c]
                                               : (int8_t)(c - (int)weight_types[type].zero);
    find_neighbours(&levels);
    weigh_group(type, weight, x, importance, n);
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > extreme) extreme = fabsf(x[i]);
    memset(row->codes + k * type_group(type), weight_types[type].zero, n);
    for (size_t g = 0; g < n / type_group(type); g++) row->scales[k + g] = 0;
    for (int t = -16; t <= 16 && extreme > 0.0f; t++) {
        float scale = extreme * (float)t / 16.0f;
        for (int round = 0; round < 3; round++) {
            float fitted, error;
            scale = as_half(clamp(scale, -65504.0f, 65504.0f));
            code_levels(&levels, x, n, scale, codes);
            error = level_error(&levels, x, weight, n, scale, codes, &fitted);
            if (error < best) {
                best = error;
                memcpy(row->codes + k * type_group(type), codes, n);
                for (size_t g = 0; g < n / type_group(type); g++)
                    row->scales[k + g] = numbers_float_to_half(scale);
            }
            scale = fitted;
        }
    }
}

/* ---- All ---- */

static void store_superblock(TensorType type, const Superblock *r, const Coded *c, size_t first,
                             const SuperblockCodes *row) {
    size_t s = first / (SUPERBLOCK_INPUTS / r->group);
    row->scales[s] = numbers_float_to_half(c->scale);
    if (r->with_minima) row->minima[s] = numbers_float_to_half(c->minimum);
    float zero = (float)weight_types[type].zero;
    for (size_t beside = 0; beside < r->n; beside += BESIDE) {
        const Parts *parts = &c->parts[beside / BESIDE];
        Numbers q[MAX_GROUP];
        codes_of(r, c, &r->groups[beside / BESIDE], parts, q);
        for (size_t k = 0; k < BESIDE && beside + k < r->n; k++) {
            size_t at = first + beside + k;
            row->sub_scales[at] = (uint8_t)(int)parts->sub_scale[k];
            if (r->with_minima) row->sub_minima[at] = (uint8_t)(int)parts->sub_minimum[k];
            for (size_t i = 0; i < r->group; i++)
                row->codes[at * r->group + i] = (uint8_t)(int)(q[i][k] + zero);
        }
    }
}

/* Lays the groups x[r->n][r->group] side by side; groups that are missing are zeros. */
static void fill_superblock(TensorType type, Superblock *r, const float *x,
                            const float *importance) {
    float weight[MAX_GROUP];
    memset(r->groups, 0, sizeof r->groups);
    for (size_t k = 0; k < r->n; k++) {
        size_t at = k * r->group;
        Groups *g = &r->groups[k / BESIDE];
        weigh_group(type, weight, x + at, importance ? importance + at : NULL, r->group);
        for (size_t i = 0; i < r->group; i++) {
            g->x[i][k % BESIDE] = x[at + i];
            g->weight[i][k % BESIDE] = weight[i];
        }
    }
}

/* Quantizes each group alone, for types with a table of levels. */
static void quantize_level_groups(TensorType type, const Levels *levels, size_t groups,
                                  const float *x, const float *importance,
                                  const SuperblockCodes *row) {
    const size_t n = type_group(type);
    for (size_t k = 0; k < groups; k++) {
        LevelGroup g = {.levels = levels};
        memcpy(g.x, x + k * n, n * sizeof *g.x);
        weigh_group(type, g.weight, g.x, importance ? importance + k * n : NULL, n);
        quantize_levels(type, &g, row, k);
    }
}

/* Quantizes a row to superblocks. The method depends on how the type stores its values and scales:
 * codebooks, parts with levels, one scale for several groups, float16 scales, levels, or
 * sub-scales. */
void quantize_superblocks(TensorType type, size_t padded_cols, const float *x,
                          const float *importance, const SuperblockCodes *row) {
    const TensorTypeInfo *info = &weight_types[type];
    if (type_has_codebook(type)) {
        quantize_codebooks(type, padded_cols, x, importance, row);
        return;
    }
    Superblock r = {.group = info->group,
                    .with_minima = info->has_min,
                    .low = (float)-info->zero,
                    .high = (float)((1 << info->bits) - 1 - info->zero),
                    .least = 0.0f,
                    .most = 63.0f};
    if (info->scales == SCALES_SIGNED_PARTS) r.least = -128.0f, r.most = 127.0f;
    if (info->scales == SCALES_6_BIT_PARTS) r.least = -32.0f, r.most = 31.0f;
    if (info->scales == SCALES_NIBBLE_PARTS) r.most = 15.0f;
    size_t groups = padded_cols / r.group, per_superblock = superblock_groups(type);
    const bool has_parts = type_has_table(type) && superblock_has_parts(type);
    Levels levels[2];
    for (int raised = 0; raised < 2 && type_has_table(type); raised++)
        levels_of(&levels[raised], type, raised);
    for (size_t k = 0; k < groups && has_parts; k += per_superblock)
        quantize_part_superblock(type, levels, k,
                                 groups - k < per_superblock ? groups - k : per_superblock, x,
                                 importance, row);
    if (has_parts) return;
    for (size_t k = 0; k < groups && info->shared; k += info->shared) {
        const size_t at = k * r.group, left = groups - k;
        quantize_shared(type, k, (left < info->shared ? left : info->shared) * r.group, x + at,
                        importance ? importance + at : NULL, row);
    }
    if (info->shared) return;
    if (info->scales == SCALES_HALVES && !info->has_table) {
        quantize_row(type, padded_cols, x, importance, row->codes, row->scales,
                     info->has_min ? row->minima : NULL);
        return;
    }
    if (type_has_table(type)) {
        quantize_level_groups(type, levels, groups, x, importance, row);
        return;
    }
    for (size_t first = 0; first < groups; first += per_superblock) {
        Coded best;
        size_t at = first * r.group;
        r.n = groups - first < per_superblock ? groups - first : per_superblock;
        fill_superblock(type, &r, x + at, importance ? importance + at : NULL);
        quantize_superblock(&r, &best);
        store_superblock(type, &r, &best, first, row);
    }
}
