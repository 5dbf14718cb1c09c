/* Unicode normalization forms C, D, KC and KD. */
#ifndef TOKENIZER_NORMAL_FORMS_H
#define TOKENIZER_NORMAL_FORMS_H

#include "base/text.h"

/* Appends a normalization form of in[n] (well-formed UTF-8; from_template as in text_copy).
 * Characters newer than Unicode 9.0 stay as they are (tokenizer/unicode_ages.h). */
typedef enum UnicodeForm { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } UnicodeForm;
void normal_forms_apply(TextBuffer *out, const char *in, size_t n, const uint8_t *from_template,
                        UnicodeForm form);

#endif
