/* Items of a batch's receipt: a request and its answers. */
#ifndef BATCH_RECEIPT_H
#define BATCH_RECEIPT_H

#include "modes/batch/result.h"
#include "modes/batch/shard.h"
#include "modes/proof/receipt.h"

/* Which part of the requests' file the receipt is of, without their hash, by which who has no key
 * could try guesses; NULL: no memory. */
json_t *batch_receipt_shard(const Shard *shard);

/* A new item with the request's line; NULL: no memory. */
json_t *batch_receipt_begin(const Receipt *receipt, const char *line, size_t length);

/* Sets the answers choices[n_prompts * n], or why there is none. False: no memory. */
bool batch_receipt_answers(const Receipt *receipt, json_t *item, const Request *request,
                           const Choice *choices);
/* The digest of an embedding's or ranking's result, without what names the run; NULL: no memory. */
bool batch_receipt_result(json_t *item, const char *line);
bool batch_receipt_failure(const Receipt *receipt, json_t *item, const char *message);

/* The requests of a receipt as the lines of a file, each at its line; NUL-terminated, freed by the
 * caller. Fails where a request is keyed. */
Status batch_receipt_lines(const Receipt *receipt, char **text, size_t *length, Error *error);

#endif
