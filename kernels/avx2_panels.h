/* How the tiles of avx2_tile.h go through panels, for the kernel files of AVX2 and AVX-VNNI.
 *
 * Few rows read a panel as it is stored, from its first byte to its last. With many rows a run of
 * RUN inputs of a panel is unpacked once, and all blocks of rows pass over it; their sums go on in
 * the output. */
#ifndef KERNELS_AVX2_PANELS_H
#define KERNELS_AVX2_PANELS_H

#include "kernels/avx2_tile.h"
#include "kernels/panel_scales.h"

/* A panel as it is stored. */
typedef struct Panel {
    const uint8_t *data;             /* lines, or superblocks */
    const uint16_t *scales, *minima; /* of FAMILY_CODES */
    size_t bytes;
} Panel;

INLINE Panel packed_panel(TensorType type, const Matrix *w, size_t p) {
    if (is_superblock_type(type)) return (Panel){matrix_panel(w, p), NULL, NULL, w->panel_bytes};
    return (Panel){matrix_panel(w, p), matrix_scales(type, w, p), matrix_minima(type, w, p),
                   w->panel_bytes};
}

INLINE GroupWeights packed_group(TensorType type, const Panel *panel, size_t g) {
    if (!is_superblock_type(type))
        return (GroupWeights){.lines = panel->data + g * group_bytes(type),
                              .scales = (const uint8_t *)(panel->scales + g * PANEL_ROWS),
                              .minima = (const uint8_t *)(panel->minima + g * PANEL_ROWS)};
    const size_t i = g % superblock_groups(type);
    const uint8_t *superblock = panel->data + g / superblock_groups(type) * superblock_bytes(type);
    return (GroupWeights){.lines = superblock + superblock_lines_at(type, i),
                          .scales = superblock + superblock_scales_at(type, i),
                          .minima = superblock + superblock_minima_at(type, i),
                          .superblock = superblock,
                          .g = i};
}

/* Takes a group of a type with a codebook apart, into `open`. */
INLINE void open_group(TensorType type, GroupWeights *weights, CodebookGroup *open) {
    if (!type_has_codebook(type)) return;
    codebook_open(type, weights->superblock, weights->g, open);
    IN_MEMORY(*open); /* numbers are loaded one by one, not taken out of registers */
    weights->open = open;
}

/* Loads the sums of a tile from the output, or starts them at 0. `outputs`: of the panel. */
INLINE void start_sums(size_t rows, bool go_on, const float *out, size_t stride, size_t outputs,
                       __m256 (*sums)[HALVES]) {
#define STEP(r)                                                                                    \
    do {                                                                                           \
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();                                             \
        if (go_on && outputs == PANEL_ROWS) {                                                      \
            sums[r][0] = _mm256_loadu_ps(out + (r)*stride);                                        \
            sums[r][1] = _mm256_loadu_ps(out + (r)*stride + 8);                                    \
        } else if (go_on) {                                                                        \
            memcpy(sums[r], out + (r)*stride, outputs * sizeof *out);                              \
        }                                                                                          \
        if ((rows) > FEW_ROWS) IN_MEMORY(sums[r][0]);                                              \
        if ((rows) > FEW_ROWS) IN_MEMORY(sums[r][1]);                                              \
    } while (0)
    EACH_ROW(rows, STEP);
#undef STEP
}

INLINE void store_sums(size_t rows, const __m256 (*sums)[HALVES], float *out, size_t stride,
                       size_t outputs) {
#define STEP(r)                                                                                    \
    do {                                                                                           \
        if (outputs == PANEL_ROWS) {                                                               \
            _mm256_storeu_ps(out + (r)*stride, sums[r][0]);                                        \
            _mm256_storeu_ps(out + (r)*stride + 8, sums[r][1]);                                    \
        } else {                                                                                   \
            memcpy(out + (r)*stride, sums[r], outputs * sizeof *out);                              \
        }                                                                                          \
    } while (0)
    EACH_ROW(rows, STEP);
#undef STEP
}

/* ---- Few rows ---- */

/* How many bytes ahead the lines of a superblock are prefetched. */
enum { PREFETCH_DISTANCE = 4096 };

/* Prefetches the scales of a later group, PREFETCH_DISTANCE bytes or prefetch_groups after group g,
 * and its lines, which of few rows add_group prefetches one by one. Returns its lines. */
INLINE const uint8_t *prefetch_group(TensorType type, size_t rows, const Panel *panel, size_t g,
                                     size_t groups, const GroupWeights *now) {
    const uint8_t *lines = now->lines + PREFETCH_DISTANCE;
    const bool superblocks = is_superblock_type(type);
    const size_t bytes = superblocks ? superblock_group_bytes(type) : group_bytes(type);
    if (!superblocks) {
        lines = prefetch_scales(type, 1, panel->bytes, panel->data, panel->scales, panel->minima, g,
                                groups);
    } else if (now->g == 0) {
        for (size_t at = 0; at < superblock_header_bytes(type); at += LINE_BYTES)
            _mm_prefetch((const char *)now->superblock + PREFETCH_DISTANCE + at, _MM_HINT_T1);
    }
    if (rows <= FEW_ROWS) return lines;
    UNROLL
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        _mm_prefetch((const char *)lines + at, _MM_HINT_T1);
    return lines;
}

/* A BlockKernel with type and rows known to the compiler. */
INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const Levels table = table_of(type);
    const Panel panel = packed_panel(type, w, p);
    CodebookGroup open;
    __m256 sums[BLOCK_ROWS][HALVES];
    start_sums(rows, false, out, stride, outputs, sums);
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        GroupWeights weights = packed_group(type, &panel, g);
        open_group(type, &weights, &open);
        weights.later = prefetch_group(type, rows, &panel, g, groups, &weights);
        add_group(type, PACKED, rows, &weights, block, &table, sums);
    }
    store_sums(rows, sums, out, stride, outputs);
}

/* ---- Many rows ---- */

/* Unpacking pays from about MANY_ROWS rows on, which make blocks of 4 to 6; from SOON_ROWS on where
 * codes take longer to be taken apart, and after FEW_MOST rows where a block of more rows would
 * spill (avx2_superblocks.h).
 *
 * A run's codes fill the first-level cache of 32 KiB and are read again from the second level, in
 * order, which a processor foresees. Shorter runs stay in the first level and are slower all the
 * same (512 inputs by 8 to 10% on a Zen 3, with 512 rows): a tile begins and ends more often, and
 * its sums come from and go to lines of the output that lie far apart. */
enum { MANY_ROWS = 16, SOON_ROWS = 7, FEW_MOST = 4, RUN = 2048 };

/* Splitting pays from SPLIT_ROWS rows on for codes of 8 bits, from SOON_ROWS on for levels. */
enum { SPLIT_ROWS = 13 };

/* A run of a panel. With AVX-VNNI the codes of 8-bit types stay in the panel. */
typedef struct Unpacked {
    float scales[RUN / 16][2][PANEL_ROWS]; /* scales, minima */
    int32_t starts[RUN / 16][PANEL_ROWS];  /* of signed products */
    uint8_t codes[RUN * PANEL_ROWS];
} Unpacked;
_Static_assert(sizeof(Unpacked) <= SCRATCH_BYTES, "scratch");

/* Bytes of the unpacked codes of a group: a run of signed ones has half as many inputs. */
INLINE size_t unpacked_bytes(TensorType type) {
    return type_group(type) * PANEL_ROWS * (is_signed_product(type) ? 2 : 1);
}

/* Splits a group's codes of 8 outputs into magnitudes and masks, for dots_split. */
INLINE void unpack_split(TensorType type, const GroupWeights *w, size_t half, const Levels *table,
                         uint8_t *codes, int32_t *starts) {
    const size_t group = type_group(type);
    const __m256i raise = load_raise(type, PACKED, w, half), zero = _mm256_setzero_si256();
    __m256i below = zero; /* magnitudes below zero: at most 16 * 2 * 128 in 16 bits */
    codes += half * group * PANEL_ROWS;
    UNROLL
    for (size_t c = 0; c < group / 4; c++, codes += SPLIT_BYTES) {
        __m256i weights = load_weights(type, PACKED, w->lines, w->g, c, half, table, raise);
        __m256i size = _mm256_abs_epi8(weights), mask = _mm256_cmpgt_epi8(zero, weights);
        _mm256_store_si256((__m256i *)codes, size);
        _mm256_store_si256((__m256i *)(codes + 32), mask);
        below = _mm256_sub_epi16(below, _mm256_maddubs_epi16(size, mask));
    }
    _mm256_store_si256((__m256i *)(starts + 8 * half),
                       _mm256_madd_epi16(below, _mm256_set1_epi16(1)));
}

/* Unpacks a group's points of 8 outputs, to raised levels. */
INLINE void unpack_eights(TensorType type, const GroupWeights *w, size_t half, const Levels *table,
                          uint8_t *codes) {
    const __m256i raised = _mm256_set1_epi8((char)raised_by(type));
    codes += 32 * half;
    UNROLL
    for (size_t e = 0; e < type_group(type) / EIGHT; e++, codes += 2 * LINE_BYTES) {
        const Eights eights = load_eights(type, table->points, w->open, e, half);
        __m256 weights[2];
        UNROLL
        for (size_t i = 0; i < 2; i++)
            weights[i] = _mm256_castsi256_ps(
                _mm256_add_epi8(_mm256_sign_epi8(eights.levels[i], eights.signs[i]), raised));
        _mm256_store_ps((float *)codes, _mm256_shuffle_ps(weights[0], weights[1], 0x88));
        _mm256_store_ps((float *)(codes + LINE_BYTES),
                        _mm256_shuffle_ps(weights[0], weights[1], 0xDD));
    }
}

/* Unpacks groups [first, first + n) of a panel. */
INLINE void unpack_run(TensorType type, const Panel *panel, size_t first, size_t n, Unpacked *to) {
    const size_t group = type_group(type);
    const Levels table = table_of(type);
    for (size_t g = 0; g < n; g++) {
        CodebookGroup open;
        GroupWeights weights = packed_group(type, panel, first + g);
        open_group(type, &weights, &open);
        uint8_t *codes = to->codes + g * unpacked_bytes(type);
        UNROLL
        for (size_t h = 0; h < HALVES; h++) {
            _mm256_store_ps(to->scales[g][0] + 8 * h, load_scales(type, PACKED, &weights, h));
            if (type_has_minima(type))
                _mm256_store_ps(to->scales[g][1] + 8 * h, load_minima(type, PACKED, &weights, h));
            if (type_has_codebook(type)) {
                unpack_eights(type, &weights, h, &table, codes);
                continue;
            }
            if (is_signed_product(type)) {
                unpack_split(type, &weights, h, &table, codes, to->starts[g]);
                continue;
            }
            if (type_is_8_bit(type)) continue;
            const __m256i raise = load_raise(type, PACKED, &weights, h);
            UNROLL
            for (size_t c = 0; c < group / 4; c++)
                _mm256_store_si256(
                    (__m256i *)(codes + c * LINE_BYTES + 32 * h),
                    load_weights(type, PACKED, weights.lines, weights.g, c, h, &table, raise));
        }
    }
}

/* A tile's place in the output. */
typedef struct TileOutput {
    float *out;
    size_t stride, outputs;
    bool go_on; /* from the sums of the run before */
} TileOutput;

/* The lines to prefetch while a tile is multiplied: its part of the next panel. A core cannot keep
 * them all in flight at once, so a few are asked for with each group. */
typedef struct PrefetchRange {
    const uint8_t *from, *last;
} PrefetchRange;

/* Lines to prefetch with each group: all of a small group (one block), or a part of up to 8 (three
 * blocks, the fewest of types with larger groups, or two of at most 5). Of q8_64's 16 some are left
 * to the processor. */
enum { PREFETCH_LINES = 3 };

INLINE void prefetch_lines(PrefetchRange *range) {
    UNROLL
    for (size_t i = 0; i < PREFETCH_LINES; i++) {
        _mm_prefetch((const char *)range->from, _MM_HINT_T1);
        range->from += range->from < range->last ? LINE_BYTES : 0;
    }
}

/* Adds n groups of an unpacked run to the sums of `rows` rows. */
INLINE void multiply_tile(TensorType type, size_t rows, size_t n, const uint8_t *lines,
                          const Unpacked *from, const uint8_t *block, const TileOutput *to,
                          PrefetchRange range) {
    const size_t group = type_group(type);
    __m256 sums[BLOCK_ROWS][HALVES];
    start_sums(rows, to->go_on, to->out, to->stride, to->outputs, sums);
    const Levels no_levels = {{_mm256_setzero_si256()}, NULL};
    for (size_t g = 0; g < n; g++, block += rows * activation_bytes(group)) {
        const GroupWeights weights = {.lines = lines + g * unpacked_bytes(type),
                                      .starts = (const uint8_t *)from->starts[g],
                                      .scales = (const uint8_t *)from->scales[g][0],
                                      .minima = (const uint8_t *)from->scales[g][1]};
        prefetch_lines(&range);
        add_group(type, UNPACKED, rows, &weights, block, &no_levels, sums);
    }
    store_sums(rows, sums, to->out, to->stride, to->outputs);
}

/* Calls multiply_tile with rows known to the compiler. */
typedef void TileKernel(size_t rows, size_t n, const uint8_t *lines, const Unpacked *from,
                        const uint8_t *block, const TileOutput *to, PrefetchRange range);

/* A ManyKernel with the type known to the compiler. */
INLINE void multiply_many(TensorType type, TileKernel *tile, const Product *product,
                          const uint8_t *input, size_t n_rows, size_t begin, size_t end,
                          Unpacked *scratch) {
    const Matrix *w = product->w;
    const size_t group = type_group(type), groups = activation_groups(group, w->cols);
    const size_t row_bytes = groups * activation_bytes(group);
    const size_t run = RUN * PANEL_ROWS / unpacked_bytes(type);
    const bool in_panel = VNNI && type_is_8_bit(type);
    const size_t blocks = block_count(n_rows, BLOCK_ROWS);
    for (size_t first = 0; first < groups; first += run) {
        const size_t n = groups - first < run ? groups - first : run;
        for (size_t p = begin; p < end; p++) {
            const Panel panel = packed_panel(type, w, p);
            const uint8_t *stored = packed_group(type, &panel, first).lines, *next = stored;
            unpack_run(type, &panel, first, n, scratch);
            next += p + 1 < end ? w->panel_bytes : 0;
            const size_t fetched =
                (n * group * weight_types[type].bits / 8 * PANEL_ROWS + SUPERBLOCK_PARTS) /
                    LINE_BYTES / blocks +
                1;
            for (size_t b = 0; b < blocks; b++) {
                const size_t start = block_start(n_rows, blocks, b);
                const size_t rows = block_start(n_rows, blocks, b + 1) - start;
                const TileOutput to = {product->out + start * product->stride + p * PANEL_ROWS,
                                       product->stride, matrix_panel_outputs(w, p), first > 0};
                const PrefetchRange range = {next, next + (fetched - 1) * LINE_BYTES};
                next += fetched * LINE_BYTES;
                tile(rows, n, in_panel ? stored : scratch->codes, scratch,
                     input + start * row_bytes + first * rows * activation_bytes(group), &to,
                     range);
            }
        }
    }
}

/* ---- The kernels of a type ---- */

#define ROWS_CASE(type, count)                                                                     \
    case count:                                                                                    \
        multiply_block(TENSOR_##type, w, p, count, block, out, stride, outputs);                   \
        break
#define TILE_CASE(type, count)                                                                     \
    case count:                                                                                    \
        multiply_tile(TENSOR_##type, count, n, lines, from, block, to, range);                     \
        break

/* Define block_TYPE: for all numbers of rows, and for at most FEW_MOST. */
#define BLOCK_KERNEL(type)                                                                         \
    static void block_##type(const Matrix *w, size_t p, size_t rows, const uint8_t *block,         \
                             float *out, size_t stride, size_t outputs) {                          \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1);                                                                    \
            ROWS_CASE(type, 2);                                                                    \
            ROWS_CASE(type, 3);                                                                    \
            ROWS_CASE(type, 4);                                                                    \
            ROWS_CASE(type, 5);                                                                    \
            ROWS_CASE(type, 6);                                                                    \
        }                                                                                          \
    }
#define FEW_BLOCK_KERNEL(type)                                                                     \
    static void block_##type(const Matrix *w, size_t p, size_t rows, const uint8_t *block,         \
                             float *out, size_t stride, size_t outputs) {                          \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1);                                                                    \
            ROWS_CASE(type, 2);                                                                    \
            ROWS_CASE(type, 3);                                                                    \
            ROWS_CASE(type, 4);                                                                    \
        }                                                                                          \
    }

/* Define tile_TYPE: for types that are unpacked from MANY_ROWS rows on, and from fewer. Seven rows
 * are a block of 3 and one of 4. */
#define TILE_CASES(type)                                                                           \
    TILE_CASE(type, 4);                                                                            \
    TILE_CASE(type, 5);                                                                            \
    TILE_CASE(type, 6)
#define LATE_TILE_KERNEL(type)                                                                     \
    static void tile_##type(size_t rows, size_t n, const uint8_t *lines, const Unpacked *from,     \
                            const uint8_t *block, const TileOutput *to, PrefetchRange range) {     \
        switch (rows) { TILE_CASES(type); }                                                        \
    }
#define TILE_KERNEL(type)                                                                          \
    static void tile_##type(size_t rows, size_t n, const uint8_t *lines, const Unpacked *from,     \
                            const uint8_t *block, const TileOutput *to, PrefetchRange range) {     \
        switch (rows) {                                                                            \
            TILE_CASE(type, 3);                                                                    \
            TILE_CASES(type);                                                                      \
        }                                                                                          \
    }

/* Defines many_TYPE, which multiplies what it unpacks with a tile that may be another type's. */
#define MANY_KERNEL(type, tile)                                                                    \
    static void many_##type(const Product *product, const uint8_t *input, size_t n_rows,           \
                            size_t begin, size_t end, void *scratch) {                             \
        multiply_many(TENSOR_##type, tile, product, input, n_rows, begin, end, scratch);           \
    }

#define PANEL_KERNELS(type)                                                                        \
    BLOCK_KERNEL(type)                                                                             \
    LATE_TILE_KERNEL(type)                                                                         \
    MANY_KERNEL(type, tile_##type)

/* The same with the tile of another type. */
#define SHARED_KERNELS(type)                                                                       \
    BLOCK_KERNEL(type)                                                                             \
    MANY_KERNEL(type, TILE_OF_##type)
#define FEW_SHARED_KERNELS(type)                                                                   \
    FEW_BLOCK_KERNEL(type)                                                                         \
    MANY_KERNEL(type, TILE_OF_##type)

/* The entries of these in a table of BlockKernels, for types that are unpacked from MANY_ROWS,
 * SOON_ROWS and FEW_MOST + 1 rows on, or, where AVX2 splits them, from SPLIT_ROWS or SOON_ROWS. */
#define ENTRY_FROM(type, rows)                                                                     \
    [TENSOR_##type] = {                                                                            \
        .block_rows = BLOCK_ROWS, .block = block_##type, .many_rows = rows, .many = many_##type},
#define PANEL_ENTRY(type) ENTRY_FROM(type, MANY_ROWS)
#define SOON_ENTRY(type) ENTRY_FROM(type, SOON_ROWS)
#define FEW_ENTRY(type) ENTRY_FROM(type, FEW_MOST + 1)
#define SPLIT_ENTRY(type) ENTRY_FROM(type, VNNI ? MANY_ROWS : SPLIT_ROWS)
#define SPLIT_SOON_ENTRY(type) ENTRY_FROM(type, VNNI ? MANY_ROWS : SOON_ROWS)

/* The entries of FAMILY_CODES. */
#define CODE_ENTRIES                                                                               \
    PANEL_ENTRY(Q4) PANEL_ENTRY(Q4_MIN) SPLIT_ENTRY(Q8) SPLIT_ENTRY(Q8_64) SPLIT_ENTRY(Q8_MIN)
#define COUNT_TYPE(type) +1
_Static_assert((EACH_CODE_TYPE(COUNT_TYPE)) == 5, "each type of EACH_CODE_TYPE has an entry");

#endif
