/* --check FILE with --batch: the recorded results of a batch, a line each in either form of
 * results, and how what the model gives now compares with them (compare.h). */
#ifndef RECORDS_H
#define RECORDS_H

#include <signal.h>

#include "base/text.h"
#include "modes/proof/compare.h"
#include "modes/proof/record_key.h"
#include "system/output.h"

typedef struct Records Records;

/* Opens the recorded results and begins `output` (NULL: none), a file of what the model gives now;
 * called before the right to open files is given up. Close *out after a failure, too. */
Status records_open(Records **out, const char *results, const char *output, Error *error);
void records_close(Records *records); /* NULL is fine */

/* From now on each text is completed, also where its record is known to be another; they are always
 * where there is an `output`. */
void records_complete(Records *records);
bool records_completes(const Records *records);
bool records_writes(const Records *records); /* has an `output` */

/* Reads the results, afterwards. */
Status records_read(Records *records, const volatile sig_atomic_t *interrupted, Error *error);

/* The record of a request, parsed: a new reference. A record that names no request is that of the
 * line with its number. NULL: there is none. Each is found once. */
json_t *records_find(Records *records, RecordKey key, size_t line);

/* What a result says of one text; each NULL where it says nothing. Borrowed. */
typedef struct RecordedText {
    const json_t *content, *reasoning, *bytes;
} RecordedText;

RecordedText record_text(const json_t *result, size_t index);

/* Appends the bytes of a "bytes" list. */
void record_put_bytes(const json_t *list, TextBuffer *text);

/* Compares the record (NULL: there is none) with the answer, a result line (NULL: not completed,
 * because it is known to be another), counts the result and fills its report. */
Verdict records_compare(Records *records, json_t *report, const json_t *recorded, const char *line,
                        bool openai);

/* The report of the next record that no request has asked for: a new reference; NULL: there is
 * none. */
json_t *records_unasked(Records *records, JsonDigits *digits);

/* Adds a line to the results as they should be. Does nothing without `output`. */
Status records_write(Records *records, const char *line, Error *error);

/* Gives the results as they should be their name. */
Status records_finish(Records *records, Error *error);

/* Prints how many results are the same. STATUS_LINES_FAILED unless all are. */
Status records_end(const Records *records, Error *error);

#endif
