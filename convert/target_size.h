/* export --target-size: the type of each matrix, so that the file has a given size and is as near
 * to its source on a calibration text as types can make it.
 *
 * Whole passes cost time, so not every set of types is tried. For each type every matrix's error is
 * measured on its outputs (output_errors.h). What such an error does to the distributions of the
 * next token is measured by a whole pass for each matrix, in which it alone has another type: the
 * divergence (divergence.h) divided by the error is the matrix's weight. Small independent errors
 * add up in the divergence, so the sum of weighted errors is what the knapsack (knapsack.h)
 * minimizes. A whole pass measures its choice, another pass the largest type that all matrices can
 * have, and the choice with the smaller divergence is taken. Then the weights are measured again
 * around that choice, each by a pass in which one matrix has the source's type instead of the
 * chosen one, and the next choice replaces the first where a pass gives it a smaller divergence.
 *
 * The matrices of a layer's experts that have the same role (all w_up, say) have one type, because
 * few tokens reach each. */
#ifndef TARGET_SIZE_H
#define TARGET_SIZE_H

#include "convert/convert.h"

enum { TARGET_SIZE_TYPES = 12 }; /* types that are tried beside the source's own */

typedef struct TargetSize {
    uint64_t bytes; /* the most of the file; 0: `bits` is given */
    double bits;    /* the most for a weight of a matrix, on the average */
} TargetSize;

/* Reads "40M", "1.5G" (as size_parse has it) or "4.5b". */
Status target_size_parse(const char *text, TargetSize *target, Error *error);

/* Empty files for the source in each type, which the sandbox would refuse to make; the last one is
 * for the lossless conversion. -1: not open, or taken over by a ModelFile. */
typedef struct TargetSizeFiles {
    int fds[TARGET_SIZE_TYPES + 1];
} TargetSizeFiles;

void target_size_close(TargetSizeFiles *files);

struct Calibration;

/* Chooses for a parsed source, with `gguf` of the types that GGUF has blocks for. *mix (malloc'ed)
 * is for ConvertOptions.type, and *calibration for its importance; the caller frees both, also
 * after a failure. The table of the choice becomes metadata of the source. Fails where no types
 * reach the size, and says which size they reach. */
Status target_size_choose(Source *source, const TargetSize *target, bool gguf,
                          const InputFile *text, TargetSizeFiles *files,
                          const ConvertOptions *options, char **mix,
                          struct Calibration **calibration, Error *error);

#endif
