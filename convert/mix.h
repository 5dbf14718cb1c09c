/* Mixes: which type each matrix of a model gets, as `export --type` names it.
 *
 *     f32, f16, bf16, q8, q8_64, ...   that type for all matrices; with fewer than 6 bits, the
 *                                      embedding and the output head get more
 *     q5, q6                           q5_k, q6_k
 *     q3                               q3_k, with q5_k for wv, q4_k for wo and for w_down of half
 *                                      the layers
 *     q2                               q2_k, with q4_k for wv, q3_k for wo and w_down
 *     q4m                              q4_k, and q6_k where errors matter most: embedding, output
 *                                      head, and wv and w_down of half the layers, among them the
 *                                      first and the last (the choice that llama.cpp's Q4_K_M has
 *                                      shown to pay)
 *
 * Each may be followed by any number of ",NAME=TYPE": matrices whose name is NAME, or has it as one
 * of its parts between dots ("w_down", "layers.3", "experts"), get TYPE. The last match wins. */
#ifndef MIX_H
#define MIX_H

#include "core/config.h"
#include "kernels/tensor.h"

/* Refuses a mix that cannot be understood, naming the part. */
Status mix_check(const char *mix, Error *error);

/* The number-th NAME=TYPE of the mix, from 0, name[*length]; NULL: the mix has no more. */
const char *mix_name(const char *mix, size_t number, size_t *length);

/* Whether a matrix is called part[length], or has it as one of its parts between dots. */
bool mix_is_named(const char *name, const char *part, size_t length);

/* The type of the matrix called `name` in a model of this configuration. `mix` must have passed
 * mix_check. */
TensorType mix_choose(const char *mix, const char *name, const Config *config);

/* Whether the matrix called `name` stays float32 unless it is named. */
bool mix_stays_float(const char *name);

/* The type called `name` ("f32", "q8", ...); false when there is none. */
bool mix_type_by_name(const char *name, TensorType *type);

#endif
