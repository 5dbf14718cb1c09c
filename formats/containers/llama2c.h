/* The reader of llama2.c's checkpoints (https://github.com/karpathy/llama2.c, export.py):
 *
 *   legacy     7 int32: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative: the
 *              output head is not the embedding), seq_len; then float32 tensors
 *   version 1  "ak42", 1, the same 7 numbers, a byte `shared classifier`, zeros up to 256 bytes;
 *              float32 tensors in another order
 *   version 2  the same header with the group size after that byte; norms in float32, then
 *              each matrix as int8 codes followed by float32 scales
 *
 * The tensors of one kind follow each other, layer by layer. */
#ifndef FORMATS_CONTAINERS_LLAMA2C_H
#define FORMATS_CONTAINERS_LLAMA2C_H

#include "formats/containers/source.h"

Status llama2c_parse(Source *source, Error *error);

#endif
