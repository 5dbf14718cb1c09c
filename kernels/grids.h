/* The codebooks of GGUF's types of 1 to 3 bits: points on a grid with few levels. codebooks.c reads
 * them. */
#ifndef KERNELS_GRIDS_H
#define KERNELS_GRIDS_H

#include <stddef.h>
#include <stdint.h>

/* A codebook as a set of numbers, one for each point, ascending with the point's index. Digit i of
 * a number in `base`, the lowest first, is the level of coordinate i. Bit k of words[w] says that
 * the number 64 w + k is in the set. */
typedef struct Grid {
    uint8_t base, digits;
    uint8_t n_before;
    uint16_t before[13]; /* [n_before]: how many numbers of the set are below word 8 i */
    const uint64_t *words;
} Grid;

extern const Grid grid_iq2_xxs, grid_iq2_xs, grid_iq2_s; /* 256, 512, 1024 points of 8 */
extern const Grid grid_iq1;                              /* 2048 of 8: IQ1_S and IQ1_M */
extern const Grid grid_iq3_xxs, grid_iq3_s;              /* 256, 512 of 4 */

#endif
