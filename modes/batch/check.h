/* --check with --batch: a request's texts as drafts, and the line that says whether its result is
 * the recorded one (modes/proof/records.h).
 *
 * Each text of a request is drafted from its record (draft/recorded.h), so that what has not
 * changed is verified at the speed of a prompt. */
#ifndef CHECK_H
#define CHECK_H

#include "modes/batch/result.h"
#include "draft/recorded.h"
#include "modes/proof/records.h"

/* The record of one text, as far as the result tells. */
typedef struct CheckText {
    TextBuffer record; /* its bytes; empty where there are none */
    bool whole; /* all that the model generated: where it chooses otherwise, the result differs */
} CheckText;

/* Fills `text` with the record of the index-th text of a request; text_free frees it. */
void check_text(const Records *records, const json_t *recorded, const ResultMaker *maker,
                const Request *request, size_t index, CheckText *text);

/* Compares the answer, a result line, with the record and counts it. divergences[n] are those of
 * the request's texts; `line` may be NULL where one was not completed. Returns the line that says
 * so, freed by the caller (NULL: no memory), and sets *same. */
char *check_compare(Records *records, const ResultMaker *maker, const Request *request,
                    const json_t *recorded, const char *line, const Divergence *divergences,
                    const CheckText *texts, size_t n, bool *same);

/* The line of the next record that no request has asked for, freed by the caller; NULL: there is
 * none. */
char *check_unasked(Records *records);

#endif
