#include "families/reading/random_tokenizer.h"
#include "base/base64.h"
#include "formats/tokenizers/tokenizer_plain.h"

#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 256, BOS = 256, EOS = 257, FIRST_WORD = 258, LONGEST = 16 };

/* Writes the word of an id and returns its length. The word is a space and the id as a number in
 * base 80 whose digits are syllables, at least two; id 258 is " beba". */
static size_t word(uint32_t id, char *text) {
    static const char consonants[] = "bdfghjklmnprstvz", vowels[] = "aeiou";
    uint32_t number = id - FIRST_WORD + 80; /* two syllables at least */
    char backwards[LONGEST];
    size_t n = 0, length = 0;
    for (; number > 0 || n < 4; number /= 80) {
        backwards[n++] = vowels[number % 5];
        backwards[n++] = consonants[number / 5 % 16];
    }
    text[length++] = ' ';
    while (n > 0) text[length++] = backwards[--n];
    return length;
}

/* Prints a line of a .tiktoken file: the base64 of the token's n <= LONGEST bytes, and its id. */
static void print_line(FILE *out, const char *text, size_t n, uint32_t id) {
    char base64[LONGEST * 2];
    fprintf(out, "%.*s %u\n", (int)base64_encode(text, n, base64), base64, id);
}

Status random_tokenizer(Source *source, Error *error) {
    Config *config = &source->config;
    static const TokenizerSpecial specials[] = {{{"<|begin|>", 9}, BOS}, {{"<|end|>", 7}, EOS}};
    if (config->vocab_size < FIRST_WORD) return STATUS_OK;
    char *list = NULL, text[LONGEST + 1];
    size_t bytes = 0;
    FILE *out = open_memstream(&list, &bytes);
    if (!out) return error_set(error, "random: no memory for a tokenizer");
    for (uint32_t id = 0; id < BYTES; id++) {
        char byte = (char)id;
        print_line(out, &byte, 1, id);
    }
    for (uint32_t id = FIRST_WORD; id < config->vocab_size; id++)
        print_line(out, text, word(id, text), id);
    bool whole = fclose(out) == 0;
    Status status = whole ? tokenizer_import_tiktoken(list, bytes, "llama3", specials, 2, BOS, EOS,
                                                      &source->tokenizer, error)
                          : error_set(error, "random: no memory for a tokenizer");
    free(list);
    config->bos_id = BOS;
    config->n_eos = 1;
    config->eos_id[0] = EOS;
    return status;
}
