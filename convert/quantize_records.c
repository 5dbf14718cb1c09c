/* Quantizing to the types of records.h.
 *
 * First each group for itself: the scale (and minimum) that several tries and least squares find.
 * Then the record: its f16 scale lets the largest group's be a sub-scale of full size; each
 * group's sub-scale is the best of the nearest ones, by the error of the codes that it gives; the
 * f16 scales are fitted to all codes by least squares, and the sub-scales chosen once more. */
#include <string.h>

#include "base/numbers.h"
#include "convert/quantize_lanes.h"

enum { MAX_GROUP = 32, MAX_GROUPS = 16 };

typedef struct Group {
    float x[MAX_GROUP], weight[MAX_GROUP], q[MAX_GROUP];
    float scale, minimum;         /* what suits the group best by itself */
    float sub_scale, sub_minimum; /* whole numbers */
    float error;
} Group;

typedef struct Record {
    Group groups[MAX_GROUPS];
    size_t n, group;   /* groups, and inputs of each */
    float low, high;   /* the smallest and the largest code */
    float least, most; /* the same of sub-scales */
    bool with_minima;
    float scale, minimum; /* f16 values */
} Record;

INLINE float as_half(float x) {
    return half_to_float(float_to_half(x));
}

/* The nearest codes for x ~ scale * q - minimum. */
INLINE void encode(const Record *r, const Group *g, float scale, float minimum, float *q) {
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    if (!(fabsf(inverse) < 1e37f)) inverse = 0.0f;
    for (size_t i = 0; i < r->group; i++)
        q[i] = round_even(clamp((g->x[i] + minimum) * inverse, r->low, r->high));
}

INLINE float error_of(const Record *r, const Group *g, float scale, float minimum, const float *q) {
    float sum[LANES] = {0};
    for (size_t i = 0; i < r->group; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float d = g->x[i + l] - (scale * q[i + l] - minimum);
            sum[l] += g->weight[i + l] * (d * d);
        }
    return fold(sum);
}

/* Scale and minimum (0 where it would be negative) that suit the codes best. */
INLINE void fit(const Record *r, const Group *g, const float *q, float *scale, float *minimum) {
    float sums[5][LANES] = {{0}};
    for (size_t i = 0; i < r->group; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float w = g->weight[i + l], x = g->x[i + l], code = q[i + l];
            sums[0][l] += w;
            sums[1][l] += w * code;
            sums[2][l] += w * (code * code);
            sums[3][l] += w * x;
            sums[4][l] += w * (x * code);
        }
    float w = fold(sums[0]), wq = fold(sums[1]), wqq = fold(sums[2]);
    float wx = fold(sums[3]), wxq = fold(sums[4]), determinant = w * wqq - wq * wq;
    *minimum = 0.0f;
    *scale = wqq > 0.0f ? wxq / wqq : 0.0f;
    if (!r->with_minima || !(determinant > 0.0f)) return;
    float m = (wq * wxq - wqq * wx) / determinant;
    if (m <= 0.0f) return;
    *minimum = m;
    *scale = (w * wxq - wx * wq) / determinant;
}

INLINE void try_group(const Record *r, Group *g, float scale, float minimum) {
    float q[MAX_GROUP];
    encode(r, g, scale, minimum, q);
    fit(r, g, q, &scale, &minimum);
    float error = error_of(r, g, scale, minimum, q);
    if (!(error < g->error)) return;
    g->error = error;
    g->scale = scale;
    g->minimum = minimum;
}

/* The group by itself. */
FOR_EACH_ISA static void search_group(const Record *r, Group *g) {
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

/* The best sub-scale (and sub-minimum) of the nearest ones. */
FOR_EACH_ISA static void choose_parts(const Record *r, Group *g) {
    float scale = r->scale != 0.0f ? round_even(clamp(g->scale / r->scale, r->least, r->most)) : 0;
    float minimum =
        r->minimum != 0.0f ? round_even(clamp(g->minimum / r->minimum, 0.0f, r->most)) : 0;
    int reach = r->with_minima ? 1 : 0;
    /* Nothing at all, which is better than what f16 makes of the tiniest scales. */
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

/* The f16 scale and minimum that suit all codes and sub-scales best. */
FOR_EACH_ISA static void fit_record(Record *r) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t k = 0; k < r->n; k++) {
        const Group *g = &r->groups[k];
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
    /* A symmetric type's largest sub-scale is -128: the sign of the scale takes it back. */
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

/* What errors count, as in quantize.c; but where 4 bits make every error large, the root of it,
 * which gives up less of the small weights. */
static void fill_group(TensorType type, Group *g, const float *x, const float *importance,
                       size_t group) {
    float unit = inverse_mean_square(x, group);
    for (size_t i = 0; i < group; i++) {
        float by_size = 1.0f + x[i] * x[i] * unit;
        if (type_is_4_bit(type)) by_size = sqrtf(by_size);
        g->x[i] = x[i];
        g->weight[i] = importance ? importance[i] : by_size;
    }
}

/* Two types have a scale a group and nothing above it: the levels are those of a table. */
FOR_EACH_ISA static void code_levels(const int8_t *table, const float *x, float scale,
                                     uint8_t *codes) {
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < 32; i++) {
        float at = x[i] * inverse, nearest = INFINITY;
        for (int c = 0; c < 16; c++) {
            float distance = fabsf(at - (float)table[c]);
            codes[i] = distance < nearest ? (uint8_t)c : codes[i];
            nearest = distance < nearest ? distance : nearest;
        }
    }
}

static float level_error(const int8_t *table, const Group *g, float scale, const uint8_t *codes,
                         float *fitted) {
    float error = 0.0f, wxq = 0.0f, wqq = 0.0f;
    for (size_t i = 0; i < 32; i++) {
        float q = (float)table[codes[i]], d = g->x[i] - scale * q;
        error += g->weight[i] * (d * d);
        wxq += g->weight[i] * g->x[i] * q;
        wqq += g->weight[i] * q * q;
    }
    *fitted = wqq > 0.0f ? wxq / wqq : 0.0f;
    return error;
}

static void try_levels(TensorType type, const Group *g, float scale, float *best,
                       const RecordCodes *row, size_t k) {
    const int8_t *table = record_table(type);
    uint8_t codes[32] = {0};
    float fitted;
    code_levels(table, g->x, scale, codes);
    float error = level_error(table, g, scale, codes, &fitted);
    if (record_scales(type) == SCALES_HALVES) {
        scale = as_half(clamp(fitted, -65504.0f, 65504.0f));
        code_levels(table, g->x, scale, codes);
        error = level_error(table, g, scale, codes, &fitted);
    }
    if (!(error < *best)) return;
    *best = error;
    memcpy(row->codes + 32 * k, codes, 32);
    if (record_scales(type) == SCALES_HALVES) row->scales[k] = float_to_half(scale);
}

static void quantize_levels(TensorType type, const Group *g, const RecordCodes *row, size_t k) {
    float extreme = 0.0f, best = INFINITY;
    for (size_t i = 0; i < 32; i++)
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    memset(row->codes + 32 * k, 0, 32);
    if (type == TENSOR_Q4_NL) {
        row->scales[k] = 0;
        for (int t = -7; t <= 7 && extreme != 0.0f; t++)
            try_levels(type, g, extreme / (-127.0f + 4.0f * (float)t), &best, row, k);
        for (int t = -7; t <= 7 && extreme != 0.0f; t++)
            try_levels(type, g, extreme / (113.0f + 4.0f * (float)t), &best, row, k);
        return;
    }
    row->sub_scales[k] = 0;
    if (extreme == 0.0f) return;
    /* 12 * 2^(e - 128) reaches the largest for the middle one of these. */
    int middle = ilogbf(fabsf(extreme)) - 3 + 128;
    for (int e = middle - 1; e <= middle + 1; e++) {
        float before = best;
        if (e < 0 || e > 252) continue;
        try_levels(type, g, mxfp4_scale((uint8_t)e), &best, row, k);
        if (best < before) row->sub_scales[k] = (uint8_t)e;
    }
}

static void store_record(TensorType type, const Record *r, size_t first, const RecordCodes *row) {
    size_t s = first / (RECORD_INPUTS / r->group);
    row->scales[s] = float_to_half(r->scale);
    if (r->with_minima) row->minima[s] = float_to_half(r->minimum);
    float zero = (float)weight_types[type].zero;
    for (size_t k = 0; k < r->n; k++) {
        const Group *g = &r->groups[k];
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
