#include "modes/batch/result_id.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void result_id(char id[RESULT_ID_BYTES], const char *prefix, const char *fingerprint,
               RecordKey key) {
    uint64_t mixed = XXH3_64bits_withSeed(fingerprint, strlen(fingerprint), key.low ^ key.high);
    snprintf(id, RESULT_ID_BYTES, "%s%016llx%016llx", prefix, (unsigned long long)mixed,
             (unsigned long long)key.high);
}

void result_id_call(char id[RESULT_ID_CALL_BYTES], RecordKey key, size_t choice, size_t call) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const uint64_t parts[] = {key.low, key.high, choice, call};
    uint64_t hash = XXH3_64bits(parts, sizeof parts);
    for (size_t i = 0; i < RESULT_ID_CALL_BYTES - 1; i++, hash /= 62) id[i] = digits[hash % 62];
    id[RESULT_ID_CALL_BYTES - 1] = '\0';
}
