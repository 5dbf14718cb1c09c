#include "tests/small_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "tests/fixture.h"
#include "tests/tokenizer_sources.h"

enum { VOCABULARY = 300 };

/* Writes a tokenizer in llama2.c's format: the longest token's length, then each token's score,
 * length and bytes. */
static void write_tokenizer(const char *path) {
    static const char *const words[] = {
        " ",  "t",  "e",   "a",   "o",    "i",     "n",  "s",  "h",  "r",  "th", "he", "in", "er",
        "an", "re", "on",  "at",  "en",   "nd",    "ti", "es", "or", "te", "of", "ed", "is", "it",
        "al", "ar", " th", "the", " the", " and ", "st", "to", "nt", "ng", "se", "ha", "as"};
    const size_t n_words = sizeof words / sizeof *words;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint32_t longest = 8;
    fwrite(&longest, 4, 1, f);
    for (size_t i = 0; i < VOCABULARY; i++) {
        char text[16];
        float score = i < 259 ? 0.0f : -(float)(i - 259);
        static const char *const first[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
        if (i < 3)
            snprintf(text, sizeof text, "%s", first[i]);
        else if (i < 259)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - 3));
        else
            snprintf(text, sizeof text, "%s", words[(i - 259) % n_words]);
        uint32_t length = (uint32_t)strlen(text);
        fwrite(&score, 4, 1, f);
        fwrite(&length, 4, 1, f);
        fwrite(text, 1, length, f);
    }
    assert_int_equal(fclose(f), 0);
}

static char *convert(const char *directory, const char *name, const char *source,
                     const char *tokenizer) {
    char *path = fixture_path(directory, name);
    const ConvertOptions options = {.source.tokenizer = tokenizer, .n_threads = 2};
    Error error;
    if (convert_to_path(source, &options, NULL, path, &error) != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    return path;
}

char *small_model(const char *directory, const char *shape) {
    char source[256];
    char *tokenizer = fixture_path(directory, "tokenizer.bin");
    write_tokenizer(tokenizer);
    snprintf(source, sizeof source, "random:%s", shape ? shape : "tiny");
    char *path = convert(directory, "model.bin", source, tokenizer);
    free(tokenizer);
    return path;
}

char *small_model_stories(const char *directory) {
    const char *checkpoint = shared_path("stories260K/stories260K.bin");
    if (!checkpoint) return NULL;
    char *source = strdup(checkpoint);
    assert_non_null(source);
    char *path = convert(directory, "stories.bin", source, shared_path("stories260K/tok512.bin"));
    free(source);
    return path;
}
