/* Fuzz target: opens the input as a tokenizer section, then encodes and decodes a text; no access
 * may leave the section. The first two bytes are the length of the text, which is the end of the
 * input. */
#include "tokenizer.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t n_text = data[0] | (size_t)data[1] << 8;
    if (n_text > size - 2) n_text = size - 2;
    size_t n = size - 2 - n_text;
    const char *text = (const char *)data + 2 + n;
    void *section = aligned_alloc(8, (n + 8) & ~(size_t)7);
    Tokenizer *t;
    Error error;
    TokenList ids = {0};
    memcpy(section, data + 2, n);
    if (n >= 16) memcpy((char *)section + 8, &(uint64_t){n}, 8); /* the true size */
    if (tokenizer_open(&t, section, n, &error) == STATUS_OK) {
        uint8_t *from_template = calloc(n_text + 1, 1);
        for (size_t i = 0; i < n_text; i++) from_template[i] = text[i] & 1;
        char *decoded;
        size_t length;
        tokenizer_encode(t, text, n_text, from_template, 3, &ids, &error);
        tokenizer_encode(t, text, n_text, NULL, TOKENIZE_PARSE_SPECIAL, &ids, &error);
        for (size_t i = 0; i < n_text && i < 64; i++) token_list_push(&ids, data[i]);
        for (unsigned flags = 0; flags < 8; flags += 3)
            if (tokenizer_decode(t, ids.ids, ids.length, flags, &decoded, &length, &error) ==
                STATUS_OK)
                free(decoded);
        tokenizer_token_id(t, text, n_text);
        free(from_template);
        tokenizer_close(t);
    }
    token_list_free(&ids);
    free(section);
    return 0;
}
