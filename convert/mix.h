/* Which type each matrix of a model gets: what `export --type` names.
 *
 *     f32, f16, bf16, q8, q8_64, ...   that type for all; of fewer than 6 bits, more for the
 *                                      embedding and the output head, which every token meets
 *     q5, q6                           q5_k, q6_k
 *     q4m                              q4_k; q6_k where errors weigh most: embedding, output head,
 *                                      and the values and w_down of half the layers, the first and
 *                                      the last among them (the choice that llama.cpp's Q4_K_M
 *                                      has shown to pay)
 *
 * and behind any of them ",NAME=TYPE" as often as needed: matrices whose name is NAME, or has it
 * as one of its parts between dots ("w_down", "layers.3", "experts"), get TYPE; the last that
 * fits wins. */
#ifndef FORMATS_MIX_H
#define FORMATS_MIX_H

#include "formats/source.h"

/* The Error says which part of `mix` is none. */
Status mix_check(const char *mix, Error *error);

/* The type of the matrix called `name`, of a model of this configuration. For a mix that
 * mix_check has passed. */
TensorType mix_choose(const char *mix, const char *name, const Config *config);

#endif
