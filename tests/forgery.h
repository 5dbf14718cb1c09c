/* Forgers of records: results, receipts, conversations and texts with one thing changed, of which
 * --check and --replay must say `same` of none; and honest ones, which must all be the same.
 * test_proof.c tries a sample, soak_forger.c all. */
#ifndef FORGERY_H
#define FORGERY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A copy of `document` with the k-th of its single changes: of each field and element removed,
 * changed, doubled, and one added to each object and list. NULL: there are fewer. `path` says
 * which field ("a.b[2].c"); *doubled: a key stands twice, which only forgery_text writes. */
json_t *forgery_of(const json_t *document, size_t k, char path[256], bool *doubled);

/* The JSON text of a forgery, one line, freed by the caller. */
char *forgery_text(const json_t *forgery);

/* How many were tried, and said to be the same. */
typedef struct ForgerySum {
    size_t tried, same;
} ForgerySum;

/* Each tries every step-th change; `more` of honest are options of `run`, ending with NULL. */
ForgerySum forge_results(const char *model, size_t step);
ForgerySum forge_receipts(const char *model, size_t step);
ForgerySum forge_conversations(const char *model, size_t step);
ForgerySum forge_texts(const char *model, size_t step);

/* Records about n honest results and a receipt, a conversation and a text of each mode, and checks
 * them on this instruction set. */
ForgerySum honest_records(const char *model, const char *isa, size_t n);

#endif
