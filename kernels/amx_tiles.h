/* The tile operations of AMX, as amx.c and amx_bf16.c use them: eight tile registers of up to 16
 * rows of 64 bytes. Tile numbers are constants.
 *
 *     TILE_CONFIGURE(config)          shapes of all tiles
 *     TILE_ZERO(c)
 *     TILE_LOAD(t, memory, stride)    rows, a stride apart
 *     TILE_STORE(t, memory, stride)
 *     TILE_DOT(c, a, b)               c[m][n] += sum over k, i of a[m][4 k + i] * b[k][4 n + i],
 *                                     signed bytes times signed bytes, in int32
 *     TILE_DOT_UNSIGNED(c, a, b)      the same with unsigned bytes in b
 *     TILE_DOT_BFLOAT(c, a, b)        c[m][n] += (sum over k of a[m][2 k] * b[k][2 n]) +
 *                                     (sum over k of a[m][2 k + 1] * b[k][2 n + 1]), bfloat16 times
 *                                     bfloat16 in float32, each step one fma from +0, in the order
 *                                     of k; denormal numbers count as 0
 *     TILE_RELEASE()
 *     TILE_SETTLE()                   keeps the compiler from moving earlier stores past the loads
 *                                     that follow
 *
 * With AMX_EMULATED they are plain C, so that the tests can check both on machines without AMX. */
#ifndef AMX_TILES_H
#define AMX_TILES_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The argument of ldtilecfg: Intel's Software Developer's Manual, volume 1, chapter 18. */
typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;
_Static_assert(sizeof(TileConfig) == 64, "the processor reads 64 bytes");

/* Working memory of a thread (Kernels.scratch_bytes). */
enum { AMX_SCRATCH_BYTES = 512 * 1024 };

#ifdef AMX_EMULATED

typedef struct Tiles {
    TileConfig config;
    uint8_t tile[8][16][64];
} Tiles;
static _Thread_local Tiles tiles;

static inline void tile_load(int t, const void *memory, size_t stride) {
    for (int row = 0; row < tiles.config.rows[t]; row++)
        memcpy(tiles.tile[t][row], (const uint8_t *)memory + (size_t)row * stride,
               tiles.config.row_bytes[t]);
}

static inline void tile_store(int t, void *memory, size_t stride) {
    for (int row = 0; row < tiles.config.rows[t]; row++)
        memcpy((uint8_t *)memory + (size_t)row * stride, tiles.tile[t][row],
               tiles.config.row_bytes[t]);
}

static inline __attribute__((unused)) void tile_dot(int c, int a, int b, bool b_unsigned) {
    for (int m = 0; m < tiles.config.rows[c]; m++)
        for (int n = 0; n < tiles.config.row_bytes[c] / 4; n++) {
            int32_t sum;
            memcpy(&sum, &tiles.tile[c][m][4 * n], sizeof sum);
            for (int k = 0; k < tiles.config.rows[b]; k++)
                for (int i = 0; i < 4; i++) {
                    uint8_t byte = tiles.tile[b][k][4 * n + i];
                    sum += (int8_t)tiles.tile[a][m][4 * k + i] * (b_unsigned ? byte : (int8_t)byte);
                }
            memcpy(&tiles.tile[c][m][4 * n], &sum, sizeof sum);
        }
}

static inline float tile_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* Number i of a row of bfloat16. */
static inline float tile_bfloat(const uint8_t *row, int i) {
    uint32_t bits = (uint32_t)row[2 * i] << 16 | (uint32_t)row[2 * i + 1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return tile_flushed(x);
}

static inline __attribute__((unused)) void tile_dot_bfloat(int c, int a, int b) {
    for (int m = 0; m < tiles.config.rows[c]; m++)
        for (int n = 0; n < tiles.config.row_bytes[c] / 4; n++) {
            float all, sums[2] = {0.0f, 0.0f};
            memcpy(&all, &tiles.tile[c][m][4 * n], sizeof all);
            for (int k = 0; k < tiles.config.rows[b]; k++)
                for (int i = 0; i < 2; i++)
                    sums[i] = tile_flushed(fmaf(tile_bfloat(tiles.tile[a][m], 2 * k + i),
                                                tile_bfloat(tiles.tile[b][k], 2 * n + i), sums[i]));
            all = tile_flushed(tile_flushed(all) + tile_flushed(sums[0] + sums[1]));
            memcpy(&tiles.tile[c][m][4 * n], &all, sizeof all);
        }
}

#define TILE_CONFIGURE(shapes) (tiles.config = *(shapes))
#define TILE_ZERO(c) memset(tiles.tile[c], 0, sizeof tiles.tile[c])
#define TILE_LOAD(t, memory, stride) tile_load(t, memory, stride)
#define TILE_STORE(t, memory, stride) tile_store(t, memory, stride)
#define TILE_DOT(c, a, b) tile_dot(c, a, b, false)
#define TILE_DOT_UNSIGNED(c, a, b) tile_dot(c, a, b, true)
#define TILE_DOT_BFLOAT(c, a, b) tile_dot_bfloat(c, a, b)
#define TILE_RELEASE() memset(&tiles.config, 0, sizeof tiles.config)
#define TILE_SETTLE() ((void)0)

#else

/* gcc 12 declares only 8 bytes as the input of _tile_loadconfig; the barrier makes it write all 64.
 */
static inline void tile_configure(const TileConfig *config) {
    __asm__ volatile("" : : "r"(config) : "memory");
    _tile_loadconfig(config);
}

#define TILE_CONFIGURE(config) tile_configure(config)
#define TILE_ZERO(c) _tile_zero(c)
#define TILE_LOAD(t, memory, stride) _tile_loadd(t, memory, stride)
#define TILE_STORE(t, memory, stride) _tile_stored(t, memory, stride)
#define TILE_DOT(c, a, b) _tile_dpbssd(c, a, b)
#define TILE_DOT_UNSIGNED(c, a, b) _tile_dpbsud(c, a, b)
#define TILE_DOT_BFLOAT(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_RELEASE() _tile_release()
/* gcc's _tile_loadd does not declare that it reads memory, so stores could move past it. Its tile
 * stores do declare theirs. */
#define TILE_SETTLE() __asm__ volatile("" : : : "memory")

#endif
#endif
