/* What --check says of a recorded answer that the model does not give: the first byte that differs,
 * what the record has there and what the model gives, the token, and the gap of the logits. */
#ifndef DIFFERENCE_H
#define DIFFERENCE_H

#include <jansson.h>

#include "draft/recorded.h"

/* Compares two texts. Sets "byte", the first that differs, and what stands from there on in either
 * as "expected" and "got", unless they are the same. Returns whether they are. */
bool difference_put_texts(json_t *report, const char *expected, size_t n_expected, const char *got,
                          size_t n_got);

/* Sets "token", the index of the token that the model would not have chosen, "expected_token",
 * "got_token" ({"id", "text"}; null where the text ends) and "gap". */
void difference_put_token(json_t *report, const Divergence *divergence, const Tokenizer *tokenizer);

/* As difference_put_token, for a text that was not completed: of the model's answer only the token
 * is known. */
void difference_put_divergence(json_t *report, const Divergence *divergence,
                               const Tokenizer *tokenizer, const char *record, size_t length);

#endif
