#include "formats/tokenizers/tokenizer_normalized.h"

#include "base/unicode.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_normalize.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"

Status tokenizer_normalize(Tokenizer *t, const char *text, size_t length, size_t *steps, char **out,
                           size_t *out_length, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    if (!scratch) return table_no_memory(error);
    Encoding e = {.tokenizer = t,
                  .scratch = scratch,
                  .error = error,
                  .limit = ((size_t)1 << 16) + 16 * length};
    TextSpan span = {text, NULL, utf8_valid_prefix(text, length), true, false};
    TextBuffer copy = {0};
    pattern_allow(scratch, *steps);
    Status status = normalize(&e, &span);
    if (status == STATUS_OK) text_put(&copy, span.bytes, span.length, 0);
    *steps = scratch->steps_left;
    scratch_return(t, scratch);
    if (status == STATUS_OK && copy.failed) status = table_no_memory(error);
    *out = copy.bytes;
    *out_length = copy.length;
    return status;
}
