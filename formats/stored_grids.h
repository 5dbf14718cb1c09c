/* The codebooks of GGUF's types of 1 to 3 bits: points on a grid of few levels. */
#ifndef FORMATS_STORED_GRIDS_H
#define FORMATS_STORED_GRIDS_H

#include <stddef.h>
#include <stdint.h>

/* A codebook's points as numbers, which rise with the point's index: digit i, the lowest first, is
 * the level of coordinate i. Bit k of word w says that 64 w + k is one of them. */
typedef struct Grid {
    uint8_t base, digits;
    uint8_t n_before;
    uint16_t before[13]; /* how many numbers are below word 8 i */
    const uint64_t *words;
} Grid;

extern const Grid grid_iq2_xxs, grid_iq2_xs, grid_iq2_s; /* 256, 512, 1024 points of 8 */
extern const Grid grid_iq1;                              /* 2048 of 8: IQ1_S and IQ1_M */
extern const Grid grid_iq3_xxs, grid_iq3_s;              /* 256, 512 of 4 */

/* The levels [grid->digits] of point number `index`, which the grid has. */
void grid_point(const Grid *grid, size_t index, uint8_t *levels);

#endif
