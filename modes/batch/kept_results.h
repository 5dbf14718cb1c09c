/* Which lines of a file are results that another run may go on after: the one rule of --resume
 * and, by a line of control.h, of programs that write the results of --live to a file themselves.
 */
#ifndef KEPT_RESULTS_H
#define KEPT_RESULTS_H

#include "modes/batch/result.h"

/* Whether a last line without a newline may be a result, or the header of a part (shard.h), that a
 * kill left incomplete, which is cut off: it begins as those do, and it is either the beginning of
 * a JSON object or whole but for its newline; zeros at its end do not count. Anything else, such as
 * a request or a note, is not ours: then the wrong file was named. */
bool kept_results_torn(const char *line, size_t length);

/* Reads a line that is not torn. Fails for one that is not a result, and for a last line without a
 * newline, which the next result would be glued to. */
Status kept_results_read(const char *line, size_t length, bool terminated, ResultLine *result,
                         Error *error);

/* Looks at the lines in bytes[n], which begin with line `first` (from 1) of a file; `last`: the
 * file ends with them. *whole is the number of bytes of whole results; what stands after them is
 * torn or, unless `last`, the beginning of a line. Fails with the number of a line that is not
 * a result or that has another fingerprint. */
Status kept_results_check(const char *bytes, size_t n, size_t first, bool last,
                          const char *fingerprint, size_t *whole, Error *error);

/* Answers a line with "results": sets "whole" as kept_results_check does. */
Status kept_results_answer(const Control *control, const char *fingerprint, json_t *result,
                           Error *error);

#endif
