/* What FlashAttention's blocks save: `bench --attention`.
 *
 * One head attends over n positions, causally, in two ways: as attention_forward does it, in blocks
 * with an online softmax; and by the textbook, which writes all scores of all queries into one
 * matrix, masks it, takes its softmax row by row, and multiplies it with the values. The textbook's
 * products are those of the model's matrices (kernels/matmul.h), tiles and all: what differs is
 * that a whole matrix is written and read, and that its masked half is computed as well. */
#ifndef BENCH_ATTENTION_H
#define BENCH_ATTENTION_H

#include "core/isa.h"

typedef struct AttentionSpeed {
    double blocks, textbook;          /* seconds, medians of rounds that alternate */
    double block_bytes, matrix_bytes; /* of scores that are held at a time */
    double difference;                /* the largest between both outputs */
} AttentionSpeed;

/* Measures n positions of a head of head_dim numbers. Fails when there is no memory. */
Status bench_attention(const Isa *isa, int n_threads, uint32_t head_dim, size_t n,
                       AttentionSpeed *out, Error *error);

#endif
