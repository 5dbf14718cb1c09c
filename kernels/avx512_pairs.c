/* Products of many rows with AVX-512 VNNI: avx512.c's method on two panels at a time.
 *
 * A core with two 512-bit ports multiplies twice in a cycle, but loads twice as well: here each
 * activation is loaded once for two panels, where avx512.c's block of 12 rows loads it for every
 * product. A pair of panels is unpacked once, to unsigned bytes and float32 scales, before all
 * blocks of rows pass over it, at most 6 rows at a time: so one kernel serves many types. 8-bit
 * codes are read where they are. A product of many inputs is cut into runs, whose sums go on in the
 * output. */
#include "kernels/avx512_pairs.h"

#include "kernels/avx512_unpack.h"

enum { PAIR = 2, PAIR_ROWS = BLOCK_ROWS / 2, PAIR_SUMS = PAIR * PAIR_ROWS };

/* Most inputs of a run: an unpacked pair stays in the second-level cache. With few rows the
 * unpacking counts, and a run stays in the first. */
enum { RUN = 4096, SHORT_RUN = 1024, FEW_ROWS = 64, RUN_GROUPS = RUN / 16 };

typedef struct PairScratch {
    int8_t codes[PAIR][RUN * PANEL_ROWS];
    float scales[PAIR][RUN_GROUPS][PANEL_ROWS];
    float minima[PAIR][RUN_GROUPS][PANEL_ROWS];
} PairScratch;

_Static_assert(sizeof(PairScratch) <= SCRATCH_BYTES, "scratch");

/* An unpacked run of a pair. The codes of the second panel lie panel_bytes after those of the
 * first. */
typedef struct PairWeights {
    const uint8_t *codes;
    size_t panel_bytes;
    const PairScratch *unpacked; /* scales, minima */
} PairWeights;

/* The sums of a block: out[row * stride + i] of the pair's outputs; and what to prefetch meanwhile,
 * a part of the panels that come next: for each group `fetch_lines` lines, `fetch_step` bytes after
 * those of the group before. */
typedef struct PairSums {
    float *out;
    size_t stride;
    __mmask16 outputs[PAIR]; /* the last panel may have fewer than 16 */
    bool go_on;              /* from the run before, or start at 0 */
    const uint8_t *fetch;
    size_t fetch_lines, fetch_step;
} PairSums;

/* Rows [first, first + rows) of a packed block of `of` rows, from the group on with which the run
 * begins. */
typedef struct PairRows {
    const uint8_t *block;
    size_t of, first;
} PairRows;

/* Adds `groups` groups of `rows` rows to their sums. With `flips`, the codes are signed. */
INLINE void multiply_pair(size_t group, bool with_minima, bool flips, size_t rows, size_t groups,
                          const PairRows *x, const PairWeights *w, const PairSums *sums) {
    const size_t step = x->of * activation_bytes(group);
    const uint8_t *header = x->block + x->first * sizeof(float);
    const uint8_t *codes = x->block + x->of * ACTIVATION_HEADER + x->first * group;
    const __m512i flip = _mm512_set1_epi8(-128);
    __m512 acc[PAIR_SUMS];
#define STEP(i)                                                                                    \
    do {                                                                                           \
        size_t j = (i) / rows, r = (i) % rows;                                                     \
        const float *out = sums->out + r * sums->stride + j * PANEL_ROWS;                          \
        acc[i] = _mm512_setzero_ps();                                                              \
        if (sums->go_on) acc[i] = _mm512_maskz_loadu_ps(sums->outputs[j], out);                    \
    } while (0)
    EACH(PAIR * rows, STEP);
#undef STEP
    const uint8_t *fetch = sums->fetch;
    for (size_t g = 0; g < groups; g++, header += step, codes += step) {
        for (size_t i = 0; i < sums->fetch_lines; i++)
            _mm_prefetch(fetch + i * LINE_BYTES, _MM_HINT_T1);
        fetch += sums->fetch_step;
        const float *x_scales = (const float *)header, *x_sums = x_scales + x->of;
        const int32_t *offsets = (const int32_t *)header + 2 * x->of;
        const uint8_t *lines = w->codes + g * group * PANEL_ROWS;
        __m512i dot[PAIR_SUMS];
#define STEP(i) dot[i] = _mm512_set1_epi32(with_minima ? 0 : offsets[(i) % rows])
        EACH(PAIR * rows, STEP);
#undef STEP
        UNROLL
        for (size_t k = 0; k < group; k += 4) {
            const uint8_t *line = lines + k * PANEL_ROWS;
            __m512i a = _mm512_load_si512(line), b = _mm512_load_si512(line + w->panel_bytes);
            if (flips) a = _mm512_xor_si512(a, flip), b = _mm512_xor_si512(b, flip);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m512i four = broadcast_once(codes + (r)*group + k);                                      \
        dot[r] = _mm512_dpbusd_epi32(dot[r], a, four);                                             \
        IN_ORDER(dot[r]);                                                                          \
        dot[rows + r] = _mm512_dpbusd_epi32(dot[rows + r], b, four);                               \
        IN_ORDER(dot[rows + r]);                                                                   \
    } while (0)
            EACH(rows, STEP);
#undef STEP
        }
#define STEP(i)                                                                                    \
    do {                                                                                           \
        size_t j = (i) / rows, r = (i) % rows;                                                     \
        __m512 factor =                                                                            \
            _mm512_mul_ps(_mm512_load_ps(w->unpacked->scales[j][g]), _mm512_set1_ps(x_scales[r])); \
        acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i]), factor, acc[i]);                      \
        if (with_minima)                                                                           \
            acc[i] = _mm512_fnmadd_ps(_mm512_set1_ps(x_sums[r]),                                   \
                                      _mm512_load_ps(w->unpacked->minima[j][g]), acc[i]);          \
    } while (0)
        EACH(PAIR * rows, STEP);
#undef STEP
    }
#define STEP(i)                                                                                    \
    do {                                                                                           \
        size_t j = (i) / rows, r = (i) % rows;                                                     \
        float *out = sums->out + r * sums->stride + j * PANEL_ROWS;                                \
        _mm512_mask_storeu_ps(out, sums->outputs[j], acc[i]);                                      \
    } while (0)
    EACH(PAIR * rows, STEP);
#undef STEP
}

/* multiply_pair with a number of rows known to the compiler. */
#define PAIR_CASE(count)                                                                           \
    case count:                                                                                    \
        multiply_pair(group, with_minima, flips, count, groups, x, w, sums);                       \
        break
#define PAIR_KERNEL(name, group_size, minima, signed_codes)                                        \
    static void name(size_t rows, size_t groups, const PairRows *x, const PairWeights *w,          \
                     const PairSums *sums) {                                                       \
        enum { group = group_size, with_minima = minima, flips = signed_codes };                   \
        switch (rows) {                                                                            \
            PAIR_CASE(1);                                                                          \
            PAIR_CASE(2);                                                                          \
            PAIR_CASE(3);                                                                          \
            PAIR_CASE(4);                                                                          \
            PAIR_CASE(5);                                                                          \
            PAIR_CASE(6);                                                                          \
        }                                                                                          \
    }
PAIR_KERNEL(pair_16, 16, false, false)
PAIR_KERNEL(pair_16_minima, 16, true, false)
PAIR_KERNEL(pair_32, 32, false, false)
PAIR_KERNEL(pair_32_signed, 32, false, true)
PAIR_KERNEL(pair_32_minima, 32, true, false)
PAIR_KERNEL(pair_64_signed, 64, false, true)

typedef void PairKernel(size_t rows, size_t groups, const PairRows *x, const PairWeights *w,
                        const PairSums *sums);

/* True for types whose codes need no unpacking. */
static bool reads_in_place(TensorType type) {
    return !is_superblock_type(type) && !type_is_4_bit(type);
}

static PairKernel *kernel_of(TensorType type) {
    if (type_group(type) == 16) return type_has_minima(type) ? pair_16_minima : pair_16;
    if (type_group(type) == 64) return pair_64_signed;
    if (type_has_minima(type)) return pair_32_minima;
    return reads_in_place(type) ? pair_32_signed : pair_32;
}

/* A run of a pair: groups [first, first + n) of panels p and p + 1, or of panel p twice where that
 * is the last one. */
typedef struct PairRun {
    size_t p, panels, first, n;
} PairRun;

static PairWeights unpack_pair(const Matrix *w, PairRun run, PairScratch *to) {
    /* Without minima the codes are signed, and 128 makes them unsigned (activations.h). */
    const char flip = type_has_minima(w->type) ? 0 : -128;
    const bool in_place = reads_in_place(w->type);
    for (size_t j = 0; j < PAIR; j++)
        unpack_groups(
            w, run.p + (j < run.panels ? j : 0), run.first, run.n,
            &(Unpacked){in_place ? NULL : to->codes[j], to->scales[j], to->minima[j], flip});
    if (!in_place) return (PairWeights){(const uint8_t *)to->codes[0], sizeof to->codes[0], to};
    /* A last panel alone is multiplied twice as well. */
    return (PairWeights){matrix_panel(w, run.p) + run.first * group_bytes(w->type),
                         run.panels == PAIR ? w->panel_bytes : 0, to};
}

/* Passes all rows over an unpacked run: each block in two halves. */
static void multiply_run(const Product *product, const uint8_t *input, size_t n_rows, PairRun run,
                         const PairWeights *weights) {
    const Matrix *w = product->w;
    const size_t group = type_group(w->type), groups = activation_groups(group, w->cols);
    const size_t blocks = block_count(n_rows, BLOCK_ROWS);
    const size_t bytes = PAIR * w->panel_bytes, steps = 2 * blocks * groups;
    const uint8_t *next = matrix_panel(w, run.p) + bytes;
    PairKernel *kernel = kernel_of(w->type);
    PairSums sums = {.stride = product->stride, .go_on = run.first > 0};
    sums.fetch_step = bytes / steps;
    sums.fetch_lines = bytes / steps / LINE_BYTES + 1;
    for (size_t j = 0; j < run.panels; j++)
        sums.outputs[j] = (__mmask16)((1u << matrix_panel_outputs(w, run.p + j)) - 1);
    for (size_t half = 0; half < 2 * blocks; half++) {
        size_t start = block_start(n_rows, blocks, half / 2);
        size_t of = block_start(n_rows, blocks, half / 2 + 1) - start;
        size_t from = half % 2 * (of / 2), rows = half % 2 ? of - of / 2 : of / 2;
        PairRows x = {input + (start * groups + run.first * of) * activation_bytes(group), of,
                      from};
        sums.out = product->out + (start + from) * product->stride + run.p * PANEL_ROWS;
        sums.fetch = next + bytes * (2 * blocks * run.first + half * run.n) / steps;
        kernel(rows, run.n, &x, weights, &sums);
    }
}

/* Prefetches the scales and minima of panels [p, end), a pair at most, which unpacking the pair
 * reads first: they lie at the end of a panel, where multiply_run's prefetching comes last. */
static void fetch_scales(const Matrix *w, size_t p, size_t end) {
    if (is_superblock_type(w->type)) return;
    const size_t lines = tensor_lines_bytes(w->type, w->cols);
    for (size_t j = p; j < end && j < p + PAIR; j++)
        for (size_t at = lines; at < w->panel_bytes; at += LINE_BYTES)
            _mm_prefetch(matrix_panel(w, j) + at, _MM_HINT_T1);
}

void avx512_pairs_multiply(const Product *product, const uint8_t *input, size_t n_rows,
                           size_t begin, size_t end, void *scratch) {
    const size_t group = type_group(product->w->type);
    const size_t groups = activation_groups(group, product->w->cols);
    const size_t most = (n_rows < FEW_ROWS ? SHORT_RUN : RUN) / group;
    for (size_t p = begin; p < end; p += PAIR) {
        for (size_t first = 0; first < groups; first += most) {
            PairRun run = {p, end - p < PAIR ? end - p : PAIR, first,
                           groups - first < most ? groups - first : most};
            PairWeights weights = unpack_pair(product->w, run, scratch);
            if (first == 0) fetch_scales(product->w, p + PAIR, end);
            multiply_run(product, input, n_rows, run, &weights);
        }
    }
}
