/* --check RESULTS with --batch: recorded results, and how the answers that the model gives now
 * compare with them.
 *
 * Each text of a request is drafted from its record (draft/recorded.h), so that what has not
 * changed is verified at the speed of a prompt. The answer is then compared with the record in each
 * field of either (proof/compare.h). Fields that name the run are reported and decide nothing. */
#ifndef CHECK_H
#define CHECK_H

#include "batch/result.h"
#include "draft/recorded.h"
#include "proof/compare.h"
#include "system/output.h"

typedef struct Check Check;

/* Opens the results, and `output` (NULL: none) for the results as they should be, while the program
 * may open files. */
Status check_open(Check **out, const char *results, const char *output, Error *error);
void check_close(Check *check); /* NULL is fine */

/* From now on each text is completed, also where its record is known to be another. */
void check_complete(Check *check);

/* Reads the results, afterwards. */
Status check_read(Check *check, const volatile sig_atomic_t *interrupted, Error *error);

/* The record of a request, parsed: a new reference. NULL: there is none. Each is found once. */
json_t *check_find(Check *check, const Request *request);

/* What a text's record is, as far as the result tells. */
typedef struct CheckText {
    TextBuffer record; /* its bytes; empty where there are none */
    bool whole; /* all that the model generated: where it chooses otherwise, the result differs */
} CheckText;

/* Fills `text` with the record of the index-th text of a request; text_free frees it. */
void check_text(const Check *check, const json_t *recorded, const ResultMaker *maker,
                const Request *request, size_t index, CheckText *text);

/* Compares the answer, a result line, with the record and counts it. divergences[n] are those of
 * the request's texts; `line` may be NULL where one was not completed. Returns the line that says
 * so, freed by the caller (NULL: no memory), and sets *same. */
char *check_compare(Check *check, const ResultMaker *maker, const Request *request,
                    const json_t *recorded, const char *line, const Divergence *divergences,
                    const CheckText *texts, size_t n, bool *same);

/* Adds a line to the results as they should be. Does nothing without `output`. */
Status check_write(Check *check, const char *line, Error *error);
bool check_writes(const Check *check);

/* The line for the next record that no request has asked for; NULL: there is none. */
char *check_unasked(Check *check);

/* Gives the results as they should be their name. */
Status check_finish(Check *check, Error *error);

/* How many results check_compare and check_unasked have found so. */
size_t check_count(const Check *check, Verdict verdict);

#endif
