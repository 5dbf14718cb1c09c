/* Fuzz target: imports the tokenizer of a GGUF file whose keys are well formed but hold arbitrary
 * values (fuzz_gguf.c covers malformed keys; its inputs rarely get past the counts and lengths). An
 * accepted tokenizer must encode and decode.
 *
 * Input: the numbers of the model and of the pre-tokenizer, flags, special ids, then a list of
 * tokens (type, length, bytes). An entry of type 255 and all later entries are merges. */
#include "formats/tokenizers/tokenizer_gguf.h"
#include "fuzz_tokenizer.h"
#include <string.h>

enum { MOST = 512 };

static TokenizerString text_of(const char *text) {
    return (TokenizerString){text, strlen(text)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const models[] = {"llama", "gpt2", "t5", "bert", "rwkv", "", "none"};
    static const char *const pres[] = {"",         "default", "llama-bpe", "gpt-2",  "qwen2",
                                       "gemma4",   "tekken",  "gpt-4o",    "falcon", "deepseek-llm",
                                       "superbpe", "refact",  "mpt",       "olmo",   "none"};
    TokenizerString tokens[MOST], merges[MOST];
    float scores[MOST];
    int32_t types[MOST];
    if (size < 8) return 0;
    TokenizerGguf g = TOKENIZER_GGUF_NONE;
    g.model = text_of(models[data[0] % (sizeof models / sizeof *models)]);
    g.pre = text_of(pres[data[1] % (sizeof pres / sizeof *pres)]);
    g.add_bos = data[2] % 3 - 1;
    g.add_space_prefix = data[2] / 3 % 3 - 1;
    g.remove_extra_whitespaces = data[2] / 9 % 3 - 1;
    g.bos_id = (int8_t)data[3];
    g.eos_id = (int8_t)data[4];
    g.unk_id = data[5] == 255 ? INT32_MAX : (int8_t)data[5];
    bool in_merges = false;
    for (size_t at = 6; at + 2 <= size;) {
        uint8_t type = data[at], length = data[at + 1] % 32;
        at += 2;
        if (length > size - at) length = (uint8_t)(size - at);
        TokenizerString string = {(const char *)data + at, length};
        at += length;
        if (type == 255) in_merges = true;
        if ((in_merges ? g.n_merges : g.n_tokens) == MOST) break;
        if (in_merges) {
            merges[g.n_merges++] = string;
        } else {
            scores[g.n_tokens] = (float)(int8_t)type;
            types[g.n_tokens] = type < 250 ? type % 8 : INT32_MIN + type;
            tokens[g.n_tokens++] = string;
        }
    }
    g.tokens = tokens;
    g.merges = data[6] & 1 ? merges : NULL;
    if (!g.merges) g.n_merges = 0;
    g.scores = data[6] & 2 ? scores : NULL;
    g.token_types = data[6] & 4 ? types : NULL;
    TokenizerBlob blob;
    Error error;
    if (tokenizer_import_gguf(&g, &blob, &error) != STATUS_OK) return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
