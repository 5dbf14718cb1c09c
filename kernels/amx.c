/* Products of the quantized types with AMX, for more rows than AVX-512 takes at once;
 * kernels_avx512 does everything else.
 *
 * A tile multiplication gives the integer dots of 16 rows of activations by a panel's 16
 * outputs for one group. They leave the tile through memory: a ring of four tiles (4 KB, in
 * the first-level cache), from which vector instructions load them, scale them and add them to
 * the 16 by 16 float sums, which stay in registers. The tile unit runs four groups ahead, so
 * that its work and its stores hide behind those of the vector unit, which is the slower one.
 *
 * A stripe of 8 panels is multiplied in runs of 512 inputs: for each run the scales are widened and
 * 4-bit weights unpacked once, then all rows pass over the run, 32 at a time. Between runs the
 * sums are in scratch. Zero codes and scales pad the last run to a multiple of four groups; adding
 * 0 * 0 leaves a sum as it is, because a sum that began as +0 is never -0. */
#include "kernels/amx_tiles.h"
#include "kernels/avx512_unpack.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    TILE_ROWS = 16,
    STRIPE = 8,
    RUN = 512,
    RUN_GROUPS = RUN / 16,
    AMX_MIN_ROWS = 13,
    ROW_TILES = MATMUL_MAX_ROWS / TILE_ROWS
};

typedef struct AmxScratch {
    int32_t ring[4][TILE_ROWS][PANEL_ROWS];
    float scales[STRIPE][RUN_GROUPS][PANEL_ROWS];
    float minima[STRIPE][RUN_GROUPS][PANEL_ROWS];
    int8_t codes[STRIPE][RUN * PANEL_ROWS];
    float sums[ROW_TILES][STRIPE][TILE_ROWS][PANEL_ROWS];
} AmxScratch;
_Static_assert(sizeof(AmxScratch) <= AMX_SCRATCH_BYTES, "scratch");

/* A run: a range of inputs (groups), multiplied for all row tiles of 16 rows by the panels of a
 * stripe. */
typedef struct Run {
    const uint8_t *input; /* packed activations of the run's first group, first tile of rows */
    size_t tile_bytes;    /* from one tile of rows to the next */
    const int8_t *weights;
    size_t panel_bytes; /* of weights, from one panel to the next */
    size_t groups;      /* a multiple of 4 */
    size_t row_tiles, panels;
    bool first;           /* sums start at 0 instead of those in scratch */
    const uint8_t *fetch; /* to prefetch: the next run's part of panel 0, in the file */
    size_t fetch_bytes;   /* of a group in one panel */
    size_t fetch_panel_bytes;
} Run;

/* A tile of 16 rows by a panel, over one run. */
typedef struct AmxJob {
    size_t row_tile, panel;
} AmxJob;

/* Returns the job after `job`: two row tiles by one panel, whose weights are then in the
 * first-level cache, then the same two by the next panel. */
INLINE AmxJob next_job(const Run *run, AmxJob job) {
    if (job.row_tile % 2 == 0 && job.row_tile + 1 < run->row_tiles) {
        job.row_tile++;
        return job;
    }
    size_t pair = job.row_tile / 2 * 2;
    if (job.panel + 1 < run->panels) return (AmxJob){pair, job.panel + 1};
    return (AmxJob){pair + 2, 0};
}

INLINE size_t input_step(size_t group) {
    return TILE_ROWS * activation_bytes(group);
}
enum { SUMS = TILE_ROWS * sizeof(float), CODES = TILE_ROWS * ACTIVATION_HEADER };

/* Scales four rows of the dots in a ring slot and adds them to their sums; x is one group of the
 * packed rows. */
INLINE void add_dots(bool with_minima, __m512 *acc, int32_t (*dots)[PANEL_ROWS], const uint8_t *x,
                     const float *w_scales, const float *w_minima, size_t first) {
    const float *x_scales = (const float *)x, *x_sums = (const float *)(x + SUMS);
    __m512 w_scale = _mm512_load_ps(w_scales), w_min = w_scale;
    if (with_minima) w_min = _mm512_load_ps(w_minima);
#pragma GCC unroll 4
    for (size_t i = first; i < first + 4; i++) {
        __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots[i]));
        __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(x_scales[i]));
        acc[i] = _mm512_fmadd_ps(dot, scale, acc[i]);
        if (with_minima) acc[i] = _mm512_fnmadd_ps(_mm512_set1_ps(x_sums[i]), w_min, acc[i]);
    }
}

/* Properties of a type, as constants in the functions made for it. */
typedef struct Kind {
    size_t group;
    bool with_minima, is_unsigned;
} Kind;

/* Both factors of a job's group: packed activations and weights. */
typedef struct Factors {
    const uint8_t *x;
    const int8_t *w;
} Factors;

INLINE Factors factors(Kind kind, const Run *run, AmxJob job, size_t g) {
    return (Factors){run->input + job.row_tile * run->tile_bytes + g * input_step(kind.group),
                     run->weights + job.panel * run->panel_bytes + g * kind.group * PANEL_ROWS};
}

#define LOAD_INPUT(a, f, i) TILE_LOAD(a, (f).x + (i)*input_step(kind.group) + CODES, kind.group)
#define LOAD_WEIGHTS(b, f, i) TILE_LOAD(b, (f).w + (i)*kind.group * PANEL_ROWS, LINE_BYTES)
/* Tile `c` becomes the dots of the factors in tiles a and b. */
#define MULTIPLY(c, a, b)                                                                          \
    do {                                                                                           \
        TILE_ZERO(c);                                                                              \
        if (kind.is_unsigned) {                                                                    \
            TILE_DOT_UNSIGNED(c, a, b);                                                            \
        } else {                                                                                   \
            TILE_DOT(c, a, b);                                                                     \
        }                                                                                          \
    } while (0)
/* Loads the factors of group i after f into tiles a and b; tile `c` becomes their dots. */
#define MULTIPLY_GROUP(c, a, b, f, i)                                                              \
    do {                                                                                           \
        LOAD_INPUT(a, f, i);                                                                       \
        LOAD_WEIGHTS(b, f, i);                                                                     \
        MULTIPLY(c, a, b);                                                                         \
    } while (0)

INLINE void fetch_lines(const uint8_t *lines, size_t bytes) {
    for (size_t byte = 0; byte < bytes; byte += LINE_BYTES) _mm_prefetch(lines + byte, _MM_HINT_T0);
}

/* Adds four rows of the dots in ring slot i. TILE_SETTLE keeps the compiler from moving them. */
#define ADD_FOUR(i, first)                                                                         \
    do {                                                                                           \
        add_dots(kind.with_minima, acc, scratch->ring[i], now.x + (i)*input_step(kind.group),      \
                 scratch->scales[job.panel][g + (i)], scratch->minima[job.panel][g + (i)], first); \
        TILE_SETTLE();                                                                             \
    } while (0)

/* One of four steps, i = 0 to 3, of run_job. The tile unit multiplies a group that comes four
 * groups later and stores the tile `stored`, which it multiplied in the step before. The vector
 * unit meanwhile adds the dots in ring slot i to the sums. Both units take turns four rows at a
 * time: the processor looks no further ahead than some three tile instructions, and with all four
 * of a step in a row a product takes 1.3 to 1.5 times as long. */
#define STEP(i, stored, a, b)                                                                      \
    do {                                                                                           \
        ADD_FOUR(i, 0);                                                                            \
        LOAD_INPUT(a, later, i);                                                                   \
        ADD_FOUR(i, 4);                                                                            \
        LOAD_WEIGHTS(b, later, i);                                                                 \
        ADD_FOUR(i, 8);                                                                            \
        TILE_STORE(stored, scratch->ring[stored], LINE_BYTES);                                     \
        ADD_FOUR(i, 12);                                                                           \
        MULTIPLY(i, a, b);                                                                         \
        fetch_lines(fetch + (g + (i)) * fetch_bytes, fetch_bytes);                                 \
    } while (0)

/* Does one job, four groups a turn. Before and after each turn the dots of the next three groups
 * are in ring slots 0 to 2 and those of the fourth are in tile 3. At a job's end these are the
 * first four groups of the job `next`. */
INLINE void run_job(Kind kind, const Run *run, AmxJob job, AmxJob next, AmxScratch *scratch) {
    __m512 acc[TILE_ROWS];
    /* The jobs of the first row tile prefetch the next run of their panel. */
    const uint8_t *fetch = run->fetch + job.panel * run->fetch_panel_bytes;
    const size_t fetch_bytes = job.row_tile == 0 ? run->fetch_bytes : 0;
    float(*sums)[PANEL_ROWS] = scratch->sums[job.row_tile][job.panel];
#pragma GCC unroll 16
    for (size_t i = 0; i < TILE_ROWS; i++)
        acc[i] = run->first ? _mm512_setzero_ps() : _mm512_load_ps(sums[i]);
    for (size_t g = 0; g < run->groups; g += 4) {
        bool last = g + 4 == run->groups;
        Factors now = factors(kind, run, job, g);
        Factors later = last ? factors(kind, run, next, 0) : factors(kind, run, job, g + 4);
        STEP(0, 3, 4, 6);
        STEP(1, 0, 5, 7);
        STEP(2, 1, 4, 6);
        STEP(3, 2, 5, 7);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < TILE_ROWS; i++) _mm512_store_ps(sums[i], acc[i]);
}

/* Does all jobs of a run. The first four groups are multiplied ahead, into the ring slots and the
 * tile where run_job expects them. The last job, which has no next one, multiplies its own first
 * groups once more; nobody reads those dots. */
INLINE void run_jobs(Kind kind, const Run *run, AmxScratch *scratch) {
    AmxJob job = {0, 0};
    Factors first = factors(kind, run, job, 0);
    TILE_SETTLE();
    MULTIPLY_GROUP(0, 4, 6, first, 0);
    MULTIPLY_GROUP(1, 5, 7, first, 1);
    MULTIPLY_GROUP(2, 4, 6, first, 2);
    MULTIPLY_GROUP(3, 5, 7, first, 3);
    TILE_STORE(0, scratch->ring[0], LINE_BYTES);
    TILE_STORE(1, scratch->ring[1], LINE_BYTES);
    TILE_STORE(2, scratch->ring[2], LINE_BYTES);
    while (job.row_tile < run->row_tiles) {
        AmxJob next = next_job(run, job);
        bool last = next.row_tile >= run->row_tiles;
        run_job(kind, run, job, last ? job : next, scratch);
        job = next;
    }
}

/* Unpacks groups first ... first + valid - 1 of the run's panels, from panel `begin` on, into
 * scratch, and points the run at the codes there. 8-bit lines that need no padding are used in
 * place. */
static void unpack_run(const Matrix *w, size_t begin, size_t first, size_t valid, Run *run,
                       AmxScratch *scratch) {
    const TensorType type = w->type;
    const bool in_place = !is_superblock_type(type) && !type_is_4_bit(type) && run->groups == valid;
    const size_t bytes = type_group(type) * PANEL_ROWS, padding = run->groups - valid;
    for (size_t p = 0; p < run->panels; p++) {
        float(*scales)[PANEL_ROWS] = scratch->scales[p], (*minima)[PANEL_ROWS] = scratch->minima[p];
        int8_t *codes = in_place ? NULL : scratch->codes[p];
        unpack_groups(w, begin + p, first, valid, &(Unpacked){codes, scales, minima, 0});
        if (codes) memset(codes + valid * bytes, 0, padding * bytes);
        memset(scales[valid], 0, padding * sizeof *scales);
        memset(minima[valid], 0, padding * sizeof *minima);
    }
    if (in_place) return;
    run->weights = scratch->codes[0];
    run->panel_bytes = sizeof scratch->codes[0];
}

/* Groups of a packed row: a multiple of four. */
static size_t padded_groups(size_t group, size_t n_inputs) {
    return round_up(activation_groups(group, n_inputs), 4);
}

/* Stores the sums of all rows by the stripe to the output; past the caches where whole lines allow,
 * because ordinary stores a row apart hold up the tile stores. */
static void store_sums(const Product *product, size_t n_rows, size_t begin, size_t panels,
                       const AmxScratch *scratch) {
    for (size_t row = 0; row < n_rows; row++)
        for (size_t p = 0; p < panels; p++) {
            __mmask16 outputs =
                (__mmask16)((1u << matrix_panel_outputs(product->w, begin + p)) - 1);
            __m512 sums = _mm512_load_ps(scratch->sums[row / TILE_ROWS][p][row % TILE_ROWS]);
            float *out = product->out + row * product->stride + (begin + p) * PANEL_ROWS;
            if (outputs == 0xFFFF && (uintptr_t)out % LINE_BYTES == 0) {
                _mm512_stream_ps(out, sums);
            } else {
                _mm512_mask_storeu_ps(out, outputs, sums);
            }
        }
}

/* run_jobs with the kind known to the compiler. */
static void run_jobs_of(TensorType type, const Run *run, AmxScratch *scratch) {
    const TensorTypeInfo *info = &weight_types[type];
    if (info->group == 64) {
        run_jobs((Kind){64, false, false}, run, scratch);
    } else if (info->group == 16 && info->has_min) {
        run_jobs((Kind){16, true, false}, run, scratch);
    } else if (info->group == 16) {
        run_jobs((Kind){16, false, false}, run, scratch);
    } else if (!info->has_min) {
        run_jobs((Kind){32, false, false}, run, scratch);
    } else if (info->bits < 8) {
        run_jobs((Kind){32, true, false}, run, scratch);
    } else {
        run_jobs((Kind){32, true, true}, run, scratch);
    }
}

/* Multiplies `panels` panels, at most STRIPE, from `begin` on, by all rows. */
static void multiply_stripe(const Product *product, const uint8_t *input, size_t n_rows,
                            size_t begin, size_t panels, AmxScratch *scratch) {
    const Matrix *w = product->w;
    const TensorType type = w->type;
    const bool superblocks = is_superblock_type(type);
    const size_t group = type_group(type);
    const size_t groups = activation_groups(group, w->cols);
    /* A run is two superblocks, or as many lines. */
    const size_t bytes =
        superblocks ? superblock_bytes(type) / superblock_groups(type) : group_bytes(type);
    for (size_t first = 0; first < groups; first += RUN / group) {
        size_t valid = groups - first < RUN / group ? groups - first : RUN / group;
        Run run = {
            .input = input + first * input_step(group),
            .tile_bytes = padded_groups(group, w->cols) * input_step(group),
            .weights = (const int8_t *)matrix_panel(w, begin) + first * bytes,
            .panel_bytes = w->panel_bytes,
            .groups = round_up(valid, 4),
            .row_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS,
            .panels = panels,
            .first = first == 0,
            .fetch = matrix_panel(w, begin) + (first + valid) * bytes,
            .fetch_bytes = bytes,
            .fetch_panel_bytes = w->panel_bytes,
        };
        if (first + valid == groups) run.fetch = matrix_panel(w, begin) + panels * w->panel_bytes;
        unpack_run(w, begin, first, valid, &run, scratch);
        run_jobs_of(type, &run, scratch);
    }
    store_sums(product, n_rows, begin, panels, scratch);
}

/* ---- the table ---- */

static bool by_tiles(size_t form, size_t n_rows) {
    return form_is_codes(form) && n_rows >= AMX_MIN_ROWS;
}

static size_t input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    if (!by_tiles(group, n_rows)) return kernels_avx512.input_bytes(group, n_rows, n_inputs);
    return round_up(n_rows, TILE_ROWS) * padded_groups(group, n_inputs) * activation_bytes(group);
}

static size_t pack_tasks(size_t group, size_t n_rows) {
    return by_tiles(group, n_rows) ? round_up(n_rows, TILE_ROWS)
                                   : kernels_avx512.pack_tasks(group, n_rows);
}

static void pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t row,
                 void *input) {
    if (!by_tiles(group, n_rows)) {
        kernels_avx512.pack(group, x, n_rows, n_inputs, row, input);
        return;
    }
    size_t groups = row < n_rows ? activation_groups(group, n_inputs) : 0, r = row % TILE_ROWS;
    size_t padded = padded_groups(group, n_inputs), step = input_step(group);
    uint8_t *tile = (uint8_t *)input + row / TILE_ROWS * padded * step;
    if (groups > 0) quantize_row_by_group(group, x + row * n_inputs, n_inputs, r, TILE_ROWS, tile);
    tile += groups * step;
    for (size_t g = groups; g < padded; g++, tile += step) {
        ((float *)tile)[r] = ((float *)(tile + SUMS))[r] = 0.0f;
        memset(tile + CODES + r * group, 0, group);
    }
}

/* Sets the shapes of the tiles: 0 to 3 hold sums, 4 and 5 rows of activations, 6 and 7 weights. */
static void configure(size_t group) {
    TileConfig config = {.palette = 1};
    for (int t = 0; t < 4; t++) config.rows[t] = TILE_ROWS, config.row_bytes[t] = LINE_BYTES;
    for (int t = 4; t < 6; t++) config.rows[t] = TILE_ROWS, config.row_bytes[t] = (uint16_t)group;
    for (int t = 6; t < 8; t++)
        config.rows[t] = (uint8_t)(group / 4), config.row_bytes[t] = LINE_BYTES;
    TILE_CONFIGURE(&config);
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    const Matrix *w = product->w;
    size_t group = type_group(w->type);
    if (!by_tiles(group, n_rows)) {
        kernels_avx512.multiply(product, input, n_rows, begin, end, scratch);
        return;
    }
    configure(group);
    for (size_t p = begin; p < end; p += STRIPE)
        multiply_stripe(product, input, n_rows, p, end - p < STRIPE ? end - p : STRIPE, scratch);
    _mm_sfence(); /* before the barrier behind which others read what was streamed */
    TILE_RELEASE();
}

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    if (!type_group(type)) return kernels_avx512.spin(type, rounds);
    configure(64);
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
    TILE_ZERO(6);
    TILE_ZERO(7);
    for (size_t r = 0; r < rounds; r++) {
        TILE_DOT(0, 4, 6);
        TILE_DOT(1, 5, 6);
        TILE_DOT(2, 4, 7);
        TILE_DOT(3, 5, 7);
    }
    TILE_RELEASE();
    return 2.0 * 4 * TILE_ROWS * PANEL_ROWS * 64 * (double)rounds;
}

#ifndef AMX_KERNELS
#define AMX_KERNELS kernels_amx
#endif

const Kernels AMX_KERNELS = {
    .name = "amx",
    .stripe = STRIPE,
    .scratch_bytes = AMX_SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
