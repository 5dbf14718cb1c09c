/* UTF-8, the few character classes that tokenizers need, and normalization over utf8proc. */
#ifndef UNICODE_H
#define UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length in bytes of the character at text[0] and its code point, or 0 where text[n] does
 * not begin with a well-formed character (n == 0 included). */
size_t utf8_decode(const char *text, size_t n, uint32_t *code);

/* Writes `code` (a scalar value) into text[4] and returns its length in bytes. */
size_t utf8_encode(uint32_t code, char text[4]);

/* The length of the longest well-formed prefix of text[n]. */
size_t utf8_valid_prefix(const char *text, size_t n);

/* How many bytes at the end of text[n] begin a character that further bytes may complete. */
size_t utf8_incomplete_tail(const char *text, size_t n);

/* The length of the first ill-formed sequence of text[n] as one U+FFFD replaces it (Unicode
 * 3.9, maximal subpart); text[0] must not begin a well-formed character. */
size_t utf8_bad_length(const char *text, size_t n);

/* The White_Space property. */
bool unicode_is_space(uint32_t code);

/* A growing text. Where `marked`, each byte has a mark (a provenance: nonzero for the chat
 * template) that normalization carries along. Zero-initialize; text_free frees. When memory
 * runs out `failed` is set and later calls do nothing. */
typedef struct TextBuffer {
    char *bytes;
    uint8_t *marks;
    size_t length, capacity;
    size_t limit; /* growing beyond it fails; 0: none */
    bool marked, failed;
    bool lost_start; /* normalization dropped the character that the text began with */
} TextBuffer;

void text_put(TextBuffer *text, const char *bytes, size_t n, uint8_t mark);
void text_free(TextBuffer *text);

/* Byte-level vocabularies write each byte as one printable character (GPT-2's table). */
void bytelevel_map(TextBuffer *out, const char *bytes, size_t n, const uint8_t *marks);
/* The byte that a character of that alphabet stands for, or -1. */
int bytelevel_byte(uint32_t code);

/* Assigned after Unicode 8.0, after 9.0 (and by 14.0): what the tokenizers library's own tables do
 * not know yet, so that its Bert normalizer, its Punctuation and its normalization forms leave it
 * as it is. */
bool unicode_newer_than_8(uint32_t code);
bool unicode_newer_than_9(uint32_t code);

/* Appends the normalized in[n] (well-formed UTF-8, marks or NULL) to *out. */
typedef enum UnicodeForm { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } UnicodeForm;
void unicode_normalize(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                       UnicodeForm form);
void unicode_lowercase(TextBuffer *out, const char *in, size_t n, const uint8_t *marks);
/* Drops combining marks: general category M, or only Mn. */
void unicode_strip_accents(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                           bool nonspacing_only);
void unicode_strip(TextBuffer *out, const char *in, size_t n, const uint8_t *marks, bool left,
                   bool right);
/* BertNormalizer's clean_text and handle_chinese_chars, and the Nmt normalizer, as in the
 * tokenizers library. */
void unicode_bert_clean(TextBuffer *out, const char *in, size_t n, const uint8_t *marks);
void unicode_bert_chinese(TextBuffer *out, const char *in, size_t n, const uint8_t *marks);
void unicode_nmt(TextBuffer *out, const char *in, size_t n, const uint8_t *marks);

/* SentencePiece's precompiled map: a little-endian uint32_t size, a double array of that many
 * bytes (Darts-clone), then NUL-terminated strings. charsmap_longest returns the length of the
 * longest prefix of text[n] in the map and its replacement, or 0. */
typedef struct Charsmap {
    const char *units; /* uint32_t[n_units], perhaps unaligned */
    size_t n_units;
    const char *strings;
    size_t strings_size;
} Charsmap;
bool charsmap_open(Charsmap *map, const void *bytes, size_t size);
size_t charsmap_longest(const Charsmap *map, const char *text, size_t n, bool shortest,
                        const char **to, size_t *to_length);

/* As the tokenizers library's Precompiled: whole grapheme clusters below 6 bytes first, then
 * characters. */
void unicode_charsmap(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                      const Charsmap *map);

/* The versions of utf8proc and of its Unicode data. */
const char *unicode_library_version(void);
const char *unicode_data_version(void);

#endif
