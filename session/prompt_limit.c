#include "session/prompt_limit.h"

Status prompt_limit_check(const Session *session, size_t length, Error *error) {
    /* A tokenizer may drop or join some bytes of the text: its tokens then stand for more. */
    enum { SHRINKS = 4, NEVER_LONG = 1 << 20 };
    size_t longest = 1, bytes, most, positions;
    if (length <= NEVER_LONG || !session->model) return STATUS_OK;
    positions = model_context(session->model);
    for (size_t id = 0; id < tokenizer_vocab_size(session->tokenizer); id++) {
        tokenizer_token_text(session->tokenizer, (int32_t)id, &bytes);
        if (bytes > longest) longest = bytes;
    }
    if (!size_mul(longest * SHRINKS, positions, &most) || length <= most) return STATUS_OK;
    return error_set(error,
                     "the prompt of %zu bytes is too long: the context has %zu positions, and no "
                     "token stands for more than %zu bytes",
                     length, positions, longest);
}
