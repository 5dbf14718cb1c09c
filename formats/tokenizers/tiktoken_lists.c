#include "formats/tokenizers/tiktoken_lists.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/sha256.h"
#include "formats/tokenizers/tokenizer_patterns.h"

/* cl100k_base, r50k_base and p50k_base are given with the patterns of GPT-2 and Llama 3, which
 * split every text as tiktoken's own faster spellings do. Reserved tokens are left out: no text has
 * them. */
static const TiktokenList lists[] = {
    {"r50k_base",
     "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
     PATTERN_GPT2,
     false,
     -1,
     {{"<|endoftext|>", 50256, true}}},
    {"p50k_base",
     "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
     PATTERN_GPT2,
     false,
     -1,
     {{"<|endoftext|>", 50256, true}}},
    {"cl100k_base",
     "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
     PATTERN_LLAMA3,
     false,
     -1,
     {{"<|endoftext|>", 100257, true},
      {"<|fim_prefix|>", 100258, false},
      {"<|fim_middle|>", 100259, false},
      {"<|fim_suffix|>", 100260, false},
      {"<|endofprompt|>", 100276, false}}},
    {"o200k_base",
     "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
     PATTERN_GPT4O,
     false,
     -1,
     {{"<|endoftext|>", 199999, true}, {"<|endofprompt|>", 200018, false}}},
    {"llama3",
     "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
     PATTERN_LLAMA3,
     false,
     128000,
     {{"<|begin_of_text|>", 128000, false},
      {"<|end_of_text|>", 128001, true},
      {"<|start_header_id|>", 128006, false},
      {"<|end_header_id|>", 128007, false},
      {"<|eom_id|>", 128008, true},
      {"<|eot_id|>", 128009, true},
      {"<|python_tag|>", 128010, false}}},
    {"llama4",
     "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed",
     PATTERN_GPT4O,
     false,
     200000,
     {{"<|begin_of_text|>", 200000, false},
      {"<|end_of_text|>", 200001, true},
      {"<|fim_prefix|>", 200002, false},
      {"<|fim_middle|>", 200003, false},
      {"<|fim_suffix|>", 200004, false},
      {"<|header_start|>", 200005, false},
      {"<|header_end|>", 200006, false},
      {"<|eom|>", 200007, true},
      {"<|eot|>", 200008, true},
      {"<|python_start|>", 200016, false},
      {"<|python_end|>", 200017, false}}},
    {"qwen",
     "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
     PATTERN_QWEN2,
     true,
     -1,
     {{"<|endoftext|>", 151643, true},
      {"<|im_start|>", 151644, false},
      {"<|im_end|>", 151645, true}}},
    {"whisper",
     "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126",
     PATTERN_GPT2,
     false,
     -1,
     {{"<|endoftext|>", 50257, true}, {"<|startoftranscript|>", 50258, false}}},
};

enum { N_LISTS = sizeof lists / sizeof *lists };

bool tiktoken_list_begins(const char *bytes, size_t size) {
    size_t at = 0, digits, most = size < 8192 ? size : 8192;
    while (at < most && base64_value(bytes[at]) >= 0) at++;
    size_t letters = at;
    while (at < most && bytes[at] == '=') at++;
    if (letters == 0 || at % 4 != 0 || at == most || bytes[at++] != ' ') return false;
    for (digits = 0; at < most && bytes[at] >= '0' && bytes[at] <= '9'; at++) digits++;
    return digits > 0 && (at == size || bytes[at] == '\n' || bytes[at] == '\r');
}

const TiktokenList *tiktoken_list_of(const char *bytes, size_t size) {
    char hash[65];
    sha256_text(bytes, size, hash);
    for (size_t i = 0; i < N_LISTS; i++)
        if (strcmp(lists[i].sha256, hash) == 0) return &lists[i];
    return NULL;
}

const TiktokenList *tiktoken_list_named(const char *name) {
    for (size_t i = 0; i < N_LISTS; i++)
        if (strcmp(lists[i].name, name) == 0) return &lists[i];
    return NULL;
}

void tiktoken_list_names(char *out, size_t size) {
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_LISTS && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", lists[i].name);
}
