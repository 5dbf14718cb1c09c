/* The public .tiktoken lists. Such a file holds tokens and ranks only: how a text is split and
 * which special tokens follow is in the program that it was made for
 * (tiktoken_ext/openai_public.py, Meta's and Qwen's tokenizer.py), so a list must be known to be
 * used. */
#ifndef FORMATS_TOKENIZERS_TIKTOKEN_LISTS_H
#define FORMATS_TOKENIZERS_TIKTOKEN_LISTS_H

#include "formats/tokenizers/tokenizer_import.h"

enum { TIKTOKEN_MOST_SPECIALS = 12 };

typedef struct TiktokenList {
    const char *name;
    const char *sha256;  /* of the file */
    const char *pattern; /* as the regex crate takes it */
    bool nfc;            /* texts are normalized to NFC first */
    int32_t bos_id;      /* begins every text; -1: no token does */
    struct {
        const char *text;
        int32_t id;
        bool ends;                      /* ends a text */
    } specials[TIKTOKEN_MOST_SPECIALS]; /* up to the first with no text */
} TiktokenList;

/* Whether the bytes begin like a .tiktoken file: with a line "base64 rank". */
bool tiktoken_list_begins(const char *bytes, size_t size);

/* The public list that the file is, told by its hash; NULL: none. */
const TiktokenList *tiktoken_list_of(const char *bytes, size_t size);

/* The public list with this name; NULL: none. */
const TiktokenList *tiktoken_list_named(const char *name);

/* Writes the names, separated by ", ". */
void tiktoken_list_names(char *out, size_t size);

#endif
