/* Fuzz target: imports the input as tokenizer.json, followed by a zero byte and
 * tokenizer_config.json. An input that begins with 'S' holds vocab.json, merges.txt,
 * added_tokens.json and tokenizer_config.json, separated by zero bytes. An accepted tokenizer must
 * encode and decode. */
#include "formats/tokenizers/tokenizer_json.h"
#include "fuzz_mutate.h"
#include "fuzz_tokenizer.h"

FUZZ_MUTATE_PARTS('\0')

/* Returns the next file, which ends at a zero byte or at the end of the input, and moves past
 * it. */
static const char *next_file(const uint8_t **data, size_t *size, size_t *n) {
    const char *file = (const char *)*data;
    const uint8_t *stop = *size ? memchr(*data, 0, *size) : NULL;
    *n = stop ? (size_t)(stop - *data) : *size;
    *data += *n + (stop ? 1 : 0);
    *size -= *n + (stop ? 1 : 0);
    return *n ? file : NULL;
}

static Status import(const uint8_t *data, size_t size, TokenizerBlob *blob, Error *error) {
    size_t n[4];
    const char *file[4];
    bool slow = size > 0 && data[0] == 'S';
    data += slow;
    size -= slow;
    for (size_t i = 0; i < 4; i++) file[i] = next_file(&data, &size, &n[i]);
    if (slow)
        return tokenizer_import_slow(file[0], n[0], file[1], n[1], file[2], n[2], file[3], n[3],
                                     blob, error);
    return tokenizer_import_json(file[0], n[0], file[1], n[1], blob, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TokenizerBlob blob;
    Error error;
    if (import(data, size, &blob, &error) != STATUS_OK) return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
