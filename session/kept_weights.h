/* Which part of a model's weights stays in memory when not all of them fit.
 *
 * A pass reads the weights in the order of the file. When they do not fit, the kernel gives up the
 * pages that were used longest ago, which are the ones that the next pass needs first: every pass
 * then reads the whole file from disk, however much of it the memory could hold. Here the file is
 * divided into chunks. As many of them as fit stay, spread evenly over the file, and each of the
 * others is given up (MADV_PAGEOUT) as soon as a pass has multiplied with it. A pass then reads
 * from disk what exceeds the memory, and no more.
 *
 * It is advice to the kernel alone: no bit of a result depends on it. The kernel keeps pages that
 * another process has mapped as well. It ignores the advice, and reports success, for a file that
 * the user neither owns nor may write. A kernel without MADV_PAGEOUT (before Linux 5.4) goes on as
 * without the advice.
 *
 * There is no reading ahead here. The products' own faults make the kernel read megabytes ahead in
 * large pages; MADV_WILLNEED, which reads pages of 4 KiB, halved the speed, and threads that fault
 * the next chunks in (MADV_POPULATE_READ) did not raise it. */
#ifndef KEPT_WEIGHTS_H
#define KEPT_WEIGHTS_H

#include "model.h"

typedef struct KeptWeights KeptWeights;

/* Returns how many bytes of the file stay when `free_bytes` of memory can be taken; SIZE_MAX: all,
 * and there is nothing to advise. That holds for files that fit, and for mixtures of experts, whose
 * passes read here and there: the kernel's choice, what was used last, is a good one for them. */
size_t kept_weights_bytes(const ModelFile *file, double free_bytes);

/* Advises the kernel after each product of the model, by its hook (model_set_hook): a hook that is
 * set later ends that. `chunk`: bytes that stay or go together, a multiple of the page size; 0:
 * 4 MiB. Returns NULL without memory; the model then runs as before. Closed after the model. */
KeptWeights *kept_weights_open(Model *model, const ModelFile *file, size_t kept, size_t chunk);
void kept_weights_close(KeptWeights *kept);

/* Chunks that do not stay, and how often one was given up. */
typedef struct KeptWeightsCounts {
    size_t passing, given_up;
} KeptWeightsCounts;

KeptWeightsCounts kept_weights_counts(const KeptWeights *kept);

#endif
