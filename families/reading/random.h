/* Models of a given shape with generated weights, for tests and benchmarks.
 *
 * SHAPE is "NAME" or "key=value,..." or "NAME,key=value,...". The keys are the fields of Config
 * (dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab_size, context, ...) and `tied`,
 * `bias` (0 or 1), `window` (`window_pattern` N: not of every N-th layer) and `dense` (layers
 * before the first with experts). With latent_dim, all layers have latent attention. With
 * `full_head_dim`, layers without a window have heads of that width and a RoPE table of their own,
 * and the last `shared_layers` layers read the keys of earlier ones. With state_kernel, every
 * `attend`-th layer (4) attends, and the others are gated DeltaNet where there are state_heads,
 * else short convolutions. With `weight_groups` N, the layers share the weights of N: those that
 * follow each other the same. The names are those of docs/sizes.md,
 * among them paper-base, gpt2, llama2-7b, tinyllama-1.1b, mla-16b (latent attention), delta-4b
 * (gated DeltaNet) and tiny. random_values.h says what the weights are. */
#ifndef FAMILIES_READING_RANDOM_H
#define FAMILIES_READING_RANDOM_H

#include "formats/containers/source.h"

/* Fills a source whose path is "random:SHAPE". */
Status random_parse(Source *source, const char *shape, Error *error);

#endif
