/* The tile operations of AMX, as amx.c uses them: eight tile registers of up to 16 rows of 64
 * bytes. Tile numbers are constants.
 *
 *     TILE_CONFIGURE(config)          shapes of all tiles
 *     TILE_ZERO(c)
 *     TILE_LOAD(t, memory, stride)    rows, a stride apart
 *     TILE_STORE(t, memory, stride)
 *     TILE_DOT(c, a, b)               c[m][n] += sum over k, i of a[m][4 k + i] * b[k][4 n + i],
 *                                     signed bytes times signed bytes, in int32
 *     TILE_DOT_UNSIGNED(c, a, b)      the same with unsigned bytes in b
 *     TILE_RELEASE()
 *     TILE_SETTLE()                   keeps the compiler from moving earlier stores past the loads
 *                                     that follow
 *
 * With AMX_EMULATED they are plain C, so that the tests can check amx.c on machines without AMX. */
#ifndef AMX_TILES_H
#define AMX_TILES_H

#include <immintrin.h>
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

static inline void tile_dot(int c, int a, int b, bool b_unsigned) {
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

#define TILE_CONFIGURE(shapes) (tiles.config = *(shapes))
#define TILE_ZERO(c) memset(tiles.tile[c], 0, sizeof tiles.tile[c])
#define TILE_LOAD(t, memory, stride) tile_load(t, memory, stride)
#define TILE_STORE(t, memory, stride) tile_store(t, memory, stride)
#define TILE_DOT(c, a, b) tile_dot(c, a, b, false)
#define TILE_DOT_UNSIGNED(c, a, b) tile_dot(c, a, b, true)
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
#define TILE_RELEASE() _tile_release()
/* gcc's _tile_loadd does not declare that it reads memory, so stores could move past it. Its tile
 * stores do declare theirs. */
#define TILE_SETTLE() __asm__ volatile("" : : : "memory")

#endif
#endif
