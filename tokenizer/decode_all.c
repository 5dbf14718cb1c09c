/* Ids to text in one call, for whoever does not print token by token. */
#include <stdlib.h>

#include "tokenizer.h"
#include "tokenizer/tokenizer_table.h"

Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                        char **text, size_t *length, Error *error) {
    TokenDecoder decoder;
    TextBuffer out = {0};
    const char *bytes;
    size_t given;
    Status status = STATUS_OK;
    token_decoder_init(&decoder, t, flags);
    for (size_t i = 0; i <= n && status == STATUS_OK; i++) {
        status = i < n ? token_decoder_push(&decoder, ids[i], &bytes, &given, error)
                       : token_decoder_flush(&decoder, &bytes, &given, error);
        if (status == STATUS_OK) text_put(&out, bytes, given, 0);
    }
    text_put(&out, "", 1, 0);
    token_decoder_free(&decoder);
    if (status == STATUS_OK && out.failed) status = table_no_memory(error);
    if (status != STATUS_OK) {
        text_free(&out);
        return status;
    }
    *text = out.bytes;
    *length = out.length - 1;
    return STATUS_OK;
}
