/* Models of a given shape with generated weights, for tests and benchmarks.
 *
 * SHAPE is "NAME" or "key=value,..." or "NAME,key=value,...": keys are the fields of Config (dim,
 * n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab_size, context, ...), and `tied`,
 * `bias` (0 or 1). Names: tinyllama-1.1b, stories15m, moe-8x2 (8 experts of which 2 are
 * active), tiny.
 *
 * Element i of the tensor `name` is center + spread * n / 2^20 with
 *     h = splitmix64(fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15)
 *     n = 2 * (h >> 44) + 1 - 2^20                                  (odd, |n| < 2^20)
 * in double, rounded to float32 once: the hash of the tests' fixtures. */
#ifndef FORMATS_RANDOM_H
#define FORMATS_RANDOM_H

#include "formats/source.h"

/* Fills a source whose path is "random:SHAPE". */
Status random_parse(Source *source, const char *shape, Error *error);

/* Elements [first, first + n) of the tensor. */
void random_values(const SourceTensor *tensor, uint64_t first, size_t n, float *out);

#endif
