/* How a model tells positions apart, as vectors: for --positions. */
#ifndef POSITION_CODE_H
#define POSITION_CODE_H

#include "session/session.h"

enum { POSITION_CODE_MOST = 512 }; /* learned vectors that are compared pair by pair */

typedef struct PositionCode {
    const Config *config;
    PositionKind kind;
    const float *table; /* frequencies[n], slopes[n], or vectors [n_positions][n_columns] */
    size_t n;
    size_t n_columns;   /* elements of a position's vector; ALiBi: heads; RoPE: elements rotated */
    size_t n_positions; /* positions that the model was made for, or of its table */
} PositionCode;

/* Fails for models without a position code. */
Status position_code_of(PositionCode *code, const Session *session, Error *error);

/* Fills out[n_columns] with the vector of a position: sinusoids and learned vectors are added to
 * the embedding; RoPE's has the cosine and the sine of each pair's angle, as sinusoids have;
 * ALiBi's is what is left of each head's weight at that distance. */
void position_code_vector(const PositionCode *code, size_t position, float *out);

/* Whether the code is made of pairs that turn with the position: sinusoids and RoPE. */
bool position_code_turns(const PositionCode *code);
/* Where the sine and the cosine of pair i stand in the vector. */
void position_code_pair(const PositionCode *code, size_t pair, size_t *sine, size_t *cosine);

/* The cosine of the angle between the vectors of two positions. For RoPE it is the score of a
 * query and a key that are the same before they are rotated, over that without a distance. */
double position_code_similarity(const PositionCode *code, size_t a, size_t b);

/* The similarity of positions that far apart; for learned vectors the mean of up to 512 pairs. */
double position_code_by_distance(const PositionCode *code, size_t distance);

/* The largest error, over all positions up to `n`, if the vector of position p + distance is
 * computed from that of p by turning every pair by the angle that belongs to the distance. */
double position_code_turning_error(const PositionCode *code, size_t distance, size_t n);

/* Finds the two positions below `n` (learned vectors: at most POSITION_CODE_MOST) whose vectors are
 * nearest to each other, and returns their Euclidean distance: 0 means that two positions cannot be
 * told apart. Not for ALiBi, which has no vectors. */
double position_code_nearest(const PositionCode *code, size_t n, size_t *a, size_t *b);

#endif
