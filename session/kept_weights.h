/* Which part of a model's weights stays in memory when not all of them fit.
 *
 * A pass reads the weights in the order of the file. When they do not fit, the kernel gives up the
 * pages that were used longest ago, which are the ones that the next pass needs first: every pass
 * then reads the whole file from disk, however much of it the memory could hold. Here the file is
 * divided into chunks. Of those that products read, as many as fit stay, spread evenly over the
 * file (tables of which a token reads a few rows are left to the kernel), and each of the others is
 * given up as soon as a pass has multiplied with it: unmapped (MADV_DONTNEED) and dropped from the
 * page cache (posix_fadvise), which also works for files that the user neither owns nor may write,
 * where MADV_PAGEOUT does nothing. A pass then reads from disk what exceeds the memory, and no
 * more.
 *
 * In a mixture of experts, the kernel keeps what was used last. The experts of a pass are asked for
 * (MADV_WILLNEED) as soon as the router has chosen them, if the memory holds all that a layer
 * uses, which long prompts exceed: a page fault would read what lies around it, up to the disk's
 * read-ahead size, which is mostly experts that nothing uses.
 *
 * It is advice to the kernel alone: no bit of a result depends on it. The kernel keeps pages that
 * another process has mapped as well. Files that were copied into memory are left alone, because
 * MADV_DONTNEED would clear the copy.
 *
 * There is no reading ahead of dense models here. The products' own faults make the kernel read
 * megabytes ahead in large pages; MADV_WILLNEED, which reads pages of 4 KiB, halved the speed, and
 * threads that fault the next chunks in (MADV_POPULATE_READ) did not raise it. */
#ifndef KEPT_WEIGHTS_H
#define KEPT_WEIGHTS_H

#include "model.h"

typedef struct KeptWeights KeptWeights;

/* Returns how many bytes of the file stay when `free_bytes` of memory can be taken: at least half
 * of them, and seven eighths where that leaves room for the largest matrix. SIZE_MAX: all, and
 * there is nothing to advise: the file fits, or is a copy in memory. */
size_t kept_weights_bytes(const ModelFile *file, double free_bytes);

/* Advises the kernel in each pass of the model, as its observer. `chunk`:
 * bytes that stay or go together, a multiple of the page size; 0: 4 MiB. Returns NULL for a copy in
 * memory and without memory; the model then runs as before. Closed after the model. */
KeptWeights *kept_weights_open(Model *model, const ModelFile *file, size_t kept, size_t chunk);
void kept_weights_close(KeptWeights *kept);

/* What kept_weights_open has added to the model, for tests. */
PassObserver *kept_weights_observer(KeptWeights *kept);

typedef struct KeptWeightsCounts {
    size_t multiplied; /* chunks that products have read */
    size_t passing;    /* chunks that do not stay */
    size_t given_up;   /* how often one was */
    size_t asked;      /* how many experts were asked for */
} KeptWeightsCounts;

KeptWeightsCounts kept_weights_counts(const KeptWeights *kept);

#endif
