/* The ids that results have besides their requests': hashes of the request's key, so that they are
 * the same in every run. */
#ifndef RESULT_ID_H
#define RESULT_ID_H

#include "modes/batch/request.h"

enum { RESULT_ID_BYTES = 64, RESULT_ID_CALL_BYTES = 10 };

/* Fills `id` with the prefix and 32 hexadecimal digits. */
void result_id(char id[RESULT_ID_BYTES], const char *prefix, const char *fingerprint,
               RecordKey key);

/* Fills `id` with that of a call in a request's answer: 9 letters and digits, which Mistral's
 * templates insist on. */
void result_id_call(char id[RESULT_ID_CALL_BYTES], RecordKey key, size_t choice, size_t call);

#endif
