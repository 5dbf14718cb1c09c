/* Quantizes to the types of records.h.
 *
 * First each group is searched by itself for the scale (and minimum) with the smallest error. Then
 * the record gets its f16 scale, so that the largest group's scale becomes the largest sub-scale.
 * Each group takes, of the sub-scales nearest to its own scale, the one whose codes have the
 * smallest error. Last the f16 scales are fitted to all codes by least squares and the sub-scales
 * chosen again. */
#include <string.h>

#include "base/numbers.h"
#include "convert/quantize.h"
#include "convert/quantize_lanes.h"

enum { MAX_GROUP = 32, MAX_GROUPS = 16 };

typedef struct SubScaleGroup {
    float x[MAX_GROUP], weight[MAX_GROUP], q[MAX_GROUP];
    float scale, minimum;         /* the best ones for the group by itself */
    float sub_scale, sub_minimum; /* whole numbers */
    float error;
} SubScaleGroup;

typedef struct Record {
    SubScaleGroup groups[MAX_GROUPS];
    size_t n, group;   /* groups, and inputs of each */
    float low, high;   /* the smallest and the largest code */
    float least, most; /* the smallest and the largest sub-scale */
    bool with_minima;
    float scale, minimum; /* f16 values */
} Record;

INLINE float as_half(float x) {
    return half_to_float(float_to_half(x));
}

/* The nearest codes q for x ~ scale * q - minimum. */
INLINE void encode(const Record *r, const SubScaleGroup *g, float scale, float minimum, float *q) {
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    if (!(fabsf(inverse) < 1e37f)) inverse = 0.0f;
    for (size_t i = 0; i < r->group; i++)
        q[i] = round_even(clamp((g->x[i] + minimum) * inverse, r->low, r->high));
}

INLINE float error_of(const Record *r, const SubScaleGroup *g, float scale, float minimum,
                      const float *q) {
    return weighted_error(g->x, g->weight, r->group, scale, minimum, q);
}

/* The scale and minimum (0 where it would be negative) that suit fixed codes best. */
INLINE void fit(const Record *r, const SubScaleGroup *g, const float *q, float *scale,
                float *minimum) {
    const LineSums s = line_sums(g->x, g->weight, r->group, q);
    float determinant = s.w * s.wqq - s.wq * s.wq;
    *minimum = 0.0f;
    *scale = s.wqq > 0.0f ? s.wxq / s.wqq : 0.0f;
    if (!r->with_minima || !(determinant > 0.0f)) return;
    float m = (s.wq * s.wxq - s.wqq * s.wx) / determinant;
    if (m <= 0.0f) return;
    *minimum = m;
    *scale = (s.w * s.wxq - s.wx * s.wq) / determinant;
}

/* Codes the group with a scale, refines it, and keeps it when it is the best so far. */
INLINE void try_group(const Record *r, SubScaleGroup *g, float scale, float minimum) {
    float q[MAX_GROUP];
    encode(r, g, scale, minimum, q);
    fit(r, g, q, &scale, &minimum);
    float error = error_of(r, g, scale, minimum, q);
    if (!(error < g->error)) return;
    g->error = error;
    g->scale = scale;
    g->minimum = minimum;
}

/* Searches the best scale (and minimum) of the group by itself. */
FOR_EACH_ISA static void search_group(const Record *r, SubScaleGroup *g) {
    enum { STEPS = 10 };
    float low = g->x[0], high = g->x[0], extreme = 0.0f;
    for (size_t i = 0; i < r->group; i++) {
        low = g->x[i] < low ? g->x[i] : low;
        high = g->x[i] > high ? g->x[i] : high;
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    }
    g->error = INFINITY;
    g->scale = g->minimum = 0.0f;
    if (extreme == 0.0f) return;
    if (low > 0.0f) low = 0.0f;
    for (int k = -STEPS; k <= STEPS; k++) {
        if (!r->with_minima) {
            try_group(r, g, extreme / (r->low + 0.15f * (float)k), 0.0f);
            try_group(r, g, extreme / (r->high + 0.15f * (float)k), 0.0f);
        } else if (high == low) {
            g->minimum = -low;
        } else {
            try_group(r, g, (high - low) / (r->high + 0.1f * (float)k), -low);
        }
    }
}

/* Chooses the group's sub-scale (and sub-minimum): the nearest ones are tried. */
FOR_EACH_ISA static void choose_parts(const Record *r, SubScaleGroup *g) {
    float scale = r->scale != 0.0f ? round_even(clamp(g->scale / r->scale, r->least, r->most)) : 0;
    float minimum =
        r->minimum != 0.0f ? round_even(clamp(g->minimum / r->minimum, 0.0f, r->most)) : 0;
    int reach = r->with_minima ? 1 : 0;
    /* All zeros, which is better than what f16 rounds the tiniest scales to. */
    memset(g->q, 0, sizeof g->q);
    g->sub_scale = g->sub_minimum = 0.0f;
    g->error = error_of(r, g, 0.0f, 0.0f, g->q);
    for (int i = -1; i <= 1; i++)
        for (int k = -reach; k <= reach; k++) {
            float q[MAX_GROUP], s = scale + (float)i, m = minimum + (float)k;
            if (s < r->least || s > r->most || m < 0.0f || m > 63.0f) continue;
            encode(r, g, r->scale * s, r->minimum * m, q);
            float error = error_of(r, g, r->scale * s, r->minimum * m, q);
            if (!(error < g->error)) continue;
            g->error = error;
            g->sub_scale = s;
            g->sub_minimum = m;
            memcpy(g->q, q, sizeof q);
        }
}

/* Fits the record's f16 scale and minimum to all codes and sub-scales by least squares. */
FOR_EACH_ISA static void fit_record(Record *r) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t k = 0; k < r->n; k++) {
        const SubScaleGroup *g = &r->groups[k];
        for (size_t i = 0; i < r->group; i++) {
            double a = (double)(g->sub_scale * g->q[i]), b = -(double)g->sub_minimum;
            double w = (double)g->weight[i], x = (double)g->x[i];
            aa += w * a * a, ab += w * a * b, bb += w * b * b;
            ax += w * a * x, bx += w * b * x;
        }
    }
    double determinant = aa * bb - ab * ab;
    double scale = aa > 0 ? ax / aa : 0, minimum = (double)r->minimum;
    if (r->with_minima && determinant > 1e-9 * aa * bb) {
        scale = (ax * bb - bx * ab) / determinant;
        minimum = (bx * aa - ax * ab) / determinant;
    } else if (r->with_minima && aa > 0) {
        scale = (ax - minimum * ab) / aa;
    }
    if (fabs(scale) < 65000.0) r->scale = as_half((float)scale);
    if (minimum >= 0 && minimum < 65000.0) r->minimum = as_half((float)minimum);
}

/* Chooses the sub-scales of all groups and returns the error. */
static float choose_all(Record *r) {
    float error = 0.0f;
    for (size_t k = 0; k < r->n; k++) {
        choose_parts(r, &r->groups[k]);
        error += r->groups[k].error;
    }
    return error;
}

static void quantize_record(Record *r) {
    float scale = 0.0f, minimum = 0.0f;
    for (size_t k = 0; k < r->n; k++) {
        search_group(r, &r->groups[k]);
        if (fabsf(r->groups[k].scale) > fabsf(scale)) scale = r->groups[k].scale;
        if (r->groups[k].minimum > minimum) minimum = r->groups[k].minimum;
    }
    /* The largest sub-scale of a symmetric type is -128, so the scale gets the opposite sign. */
    r->scale = as_half(clamp(scale / (r->with_minima ? 63.0f : -128.0f), -65504.0f, 65504.0f));
    r->minimum = as_half(clamp(minimum / 63.0f, 0.0f, 65504.0f));
    float error = choose_all(r);
    for (int round = 0; round < 2; round++) {
        Record other = *r;
        fit_record(&other);
        float now = choose_all(&other);
        if (!(now < error)) break;
        error = now;
        *r = other;
    }
}

/* Fills in a group's values and the weights of its errors, as in quantize.c. Without importance,
 * types of 4 bits, where every error is large, take the square root of those weights, so that small
 * values lose less. */
static void fill_group(TensorType type, SubScaleGroup *g, const float *x, const float *importance,
                       size_t group) {
    float unit = inverse_mean_square(x, group);
    for (size_t i = 0; i < group; i++) {
        float by_size = 1.0f + x[i] * x[i] * unit;
        if (type_is_4_bit(type)) by_size = sqrtf(by_size);
        g->x[i] = x[i];
        g->weight[i] = importance ? importance[i] : by_size;
    }
}

/* ---- The types whose levels are those of a table, with one scale a group ---- */

/* The nearest levels of the table for x[n] ~ scale * table[code]. */
FOR_EACH_ISA static void code_levels(const int8_t *table, const float *x, size_t n, float scale,
                                     uint8_t *codes) {
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < n; i++) {
        float at = x[i] * inverse, nearest = INFINITY;
        for (int c = 0; c < 16; c++) {
            float distance = fabsf(at - (float)table[c]);
            codes[i] = distance < nearest ? (uint8_t)c : codes[i];
            nearest = distance < nearest ? distance : nearest;
        }
    }
}

/* The error of the codes[n]; *fitted is the scale that suits them best. */
static float level_error(const int8_t *table, const SubScaleGroup *g, size_t n, float scale,
                         const uint8_t *codes, float *fitted) {
    float error = 0.0f, wxq = 0.0f, wqq = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float q = (float)table[codes[i]], d = g->x[i] - scale * q;
        error += g->weight[i] * (d * d);
        wxq += g->weight[i] * g->x[i] * q;
        wqq += g->weight[i] * q * q;
    }
    *fitted = wqq > 0.0f ? wxq / wqq : 0.0f;
    return error;
}

/* Codes group k with a scale and stores it in `row` when it is the best so far. */
static void try_levels(TensorType type, const SubScaleGroup *g, float scale, float *best,
                       const RecordCodes *row, size_t k) {
    const int8_t *table = record_table(type);
    const size_t n = type_group(type);
    uint8_t codes[MAX_GROUP] = {0};
    float fitted;
    code_levels(table, g->x, n, scale, codes);
    float error = level_error(table, g, n, scale, codes, &fitted);
    if (record_scales(type) == SCALES_HALVES) {
        scale = as_half(clamp(fitted, -65504.0f, 65504.0f));
        code_levels(table, g->x, n, scale, codes);
        error = level_error(table, g, n, scale, codes, &fitted);
    }
    if (!(error < *best)) return;
    *best = error;
    memcpy(row->codes + n * k, codes, n);
    if (record_scales(type) == SCALES_HALVES) row->scales[k] = float_to_half(scale);
}

/* Tries the scales with which the extreme weight lies about at one of the table's ends. */
static void try_ends(TensorType type, const SubScaleGroup *g, float extreme, const RecordCodes *row,
                     size_t k) {
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

static void quantize_levels(TensorType type, const SubScaleGroup *g, const RecordCodes *row,
                            size_t k) {
    const size_t n = type_group(type);
    float extreme = 0.0f, best = INFINITY;
    for (size_t i = 0; i < n; i++)
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    memset(row->codes + n * k, 0, n);
    if (record_scales(type) == SCALES_HALVES) {
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

/* ---- All ---- */

static void store_record(TensorType type, const Record *r, size_t first, const RecordCodes *row) {
    size_t s = first / (RECORD_INPUTS / r->group);
    row->scales[s] = float_to_half(r->scale);
    if (r->with_minima) row->minima[s] = float_to_half(r->minimum);
    float zero = (float)weight_types[type].zero;
    for (size_t k = 0; k < r->n; k++) {
        const SubScaleGroup *g = &r->groups[k];
        row->sub_scales[first + k] = (uint8_t)(int)g->sub_scale;
        if (r->with_minima) row->sub_minima[first + k] = (uint8_t)(int)g->sub_minimum;
        for (size_t i = 0; i < r->group; i++)
            row->codes[(first + k) * r->group + i] = (uint8_t)(int)(g->q[i] + zero);
    }
}

void quantize_records(TensorType type, size_t padded_cols, const float *x, const float *importance,
                      const RecordCodes *row) {
    const TensorTypeInfo *info = &weight_types[type];
    bool is_signed = info->scales == SCALES_SIGNED_PARTS;
    Record r = {.group = info->group,
                .with_minima = info->has_min,
                .low = (float)-info->zero,
                .high = (float)((1 << info->bits) - 1 - info->zero),
                .least = is_signed ? -128.0f : 0.0f,
                .most = is_signed ? 127.0f : 63.0f};
    size_t groups = padded_cols / r.group, per_record = record_groups(type);
    for (size_t first = 0; first < groups; first += per_record) {
        r.n = groups - first < per_record ? groups - first : per_record;
        for (size_t k = 0; k < r.n; k++) {
            size_t at = (first + k) * r.group;
            fill_group(type, &r.groups[k], x + at, importance ? importance + at : NULL, r.group);
            if (type_has_table(type)) quantize_levels(type, &r.groups[k], row, first + k);
        }
        if (type_has_table(type)) continue;
        quantize_record(&r);
        store_record(type, &r, first, row);
    }
}
