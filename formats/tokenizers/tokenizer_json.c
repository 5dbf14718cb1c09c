/* Imports tokenizer.json, and vocab.json with merges.txt: reads the file as a whole, the added
 * tokens and tokenizer_config.json. It takes what the tokenizers library takes (the serde
 * definitions in its tokenizers/src) and refuses the rest by name. */
#include "formats/tokenizers/tokenizer_json.h"

#include <stdlib.h>

#include "formats/tokenizers/tokenizer_json_model.h"
#include "formats/tokenizers/tokenizer_json_steps.h"
#include "formats/tokenizers/tokenizer_write.h"

/* ---- Added tokens and the configuration ---- */

/* Adds an added token. Like the library, gives it the id that its text has, else the next free id
 * (or, where that is taken, the declared one). */
static Status add_token(JsonImport *im, const char *text, size_t n, int64_t declared,
                        uint32_t flags, int64_t *next) {
    Builder *b = &im->b;
    int64_t id = json_import_id(im, text, n);
    if (n == 0) return STATUS_OK;
    if (id < 0) id = builder_added_id(b, text, n);
    if (id < 0) {
        id = (*next)++;
        bool taken = id < b->header.n_tokens && b->tokens[id].flags & BUILD_PRESENT;
        if (taken && declared >= 0) id = declared;
        if (builder_token(b, id, text, n, 0, 0, im->error) != STATUS_OK) return STATUS_FAILED;
    }
    builder_added(b, (uint32_t)id, flags, text, n);
    return STATUS_OK;
}

static uint32_t added_flags(const json_t *token, bool special) {
    return (json_flag(token, "lstrip", false) ? ADDED_LSTRIP : 0u) |
           (json_flag(token, "rstrip", false) ? ADDED_RSTRIP : 0u) |
           (json_flag(token, "single_word", false) ? ADDED_SINGLE_WORD : 0u) |
           (json_flag(token, "normalized", !special) ? ADDED_NORMALIZED : 0u) |
           (special ? ADDED_SPECIAL : 0u);
}

static Status read_added(JsonImport *im, const json_t *list, int64_t *next) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i), *text = json_object_get(token, "content");
        const json_t *id = json_object_get(token, "id");
        if (!json_is_string(text))
            return error_set(im->error, "tokenizer.json: added token %zu has no content", i);
        if (add_token(im, json_string_value(text), json_string_length(text),
                      json_is_integer(id) ? (int64_t)json_integer_value(id) : -1,
                      added_flags(token, json_flag(token, "special", false)), next) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* The id of the token that config[key] names, as "text" or {"content": "text"}; -1: none. */
static int64_t named_token(const JsonImport *im, const json_t *config, const char *key) {
    const json_t *name = json_object_get(config, key);
    if (json_is_object(name)) name = json_object_get(name, "content");
    if (!json_is_string(name)) return -1;
    const char *text = json_string_value(name);
    size_t n = json_string_length(name);
    int64_t id = builder_added_id(&im->b, text, n);
    return id >= 0 ? id : json_import_id(im, text, n);
}

/* Reads tokenizer_config.json: the added tokens that tokenizer.json lacks, bos and eos. */
static Status read_config(JsonImport *im, const json_t *config, int64_t *next) {
    Builder *b = &im->b;
    const char *key;
    json_t *token;
    json_t *decoder_tokens = json_object_get(config, "added_tokens_decoder");
    json_object_foreach(decoder_tokens, key, token) {
        const json_t *text = json_object_get(token, "content");
        if (!json_is_string(text)) continue;
        bool known = builder_added_id(b, json_string_value(text), json_string_length(text)) >= 0;
        if (!known &&
            add_token(im, json_string_value(text), json_string_length(text), strtoll(key, NULL, 10),
                      added_flags(token, json_flag(token, "special", false)), next) != STATUS_OK)
            return STATUS_FAILED;
    }
    b->header.bos_id = (int32_t)named_token(im, config, "bos_token");
    builder_eos(b, named_token(im, config, "eos_token"));
    return STATUS_OK;
}

/* Applies the slow class's add_bos_token and add_eos_token. (Where there is a tokenizer.json,
 * transformers ignores them in favour of its post-processor.) */
static void apply_config_ends(JsonImport *im, const json_t *config) {
    Builder *b = &im->b;
    const json_t *bos = json_object_get(config, "add_bos_token");
    const json_t *eos = json_object_get(config, "add_eos_token");
    bool begins = b->n_prefix > 0 && b->prefix[0] == b->header.bos_id;
    if (json_is_true(bos) && !begins && b->header.bos_id >= 0)
        json_import_put_before(b->prefix, &b->n_prefix, &b->header.bos_id, 1);
    if (json_is_false(bos) && begins) {
        memmove(b->prefix, b->prefix + 1, --b->n_prefix * sizeof *b->prefix);
    }
    bool ends = b->n_suffix > 0 && b->n_eos > 0 && b->suffix[b->n_suffix - 1] == b->eos[0];
    if (json_is_true(eos) && !ends && b->n_eos > 0) builder_suffix(b, b->eos[0]);
    if (json_is_false(eos) && ends) b->n_suffix--;
}

/* transformers' class GPT2Tokenizer takes add_prefix_space from tokenizer_config.json (where it is
 * absent: false) whatever a ByteLevel of tokenizer.json says (models/gpt2/tokenization_gpt2.py). */
static void set_prefix_space(json_t *root, const json_t *config) {
    const char *class = json_text(config, "tokenizer_class");
    json_t *step = json_object_get(root, "pre_tokenizer");
    const char *type = json_text(step, "type");
    if (!class || !type || strcmp(type, "ByteLevel") != 0 ||
        (strcmp(class, "GPT2Tokenizer") != 0 && strcmp(class, "GPT2TokenizerFast") != 0))
        return;
    json_object_set_new(step, "add_prefix_space",
                        json_boolean(json_is_true(json_object_get(config, "add_prefix_space"))));
}

static Status import_json(JsonImport *im, json_t *root, const json_t *config) {
    set_prefix_space(root, config);
    if (json_import_steps_before(im, root) != STATUS_OK ||
        json_import_model(im, json_object_get(root, "model")) != STATUS_OK)
        return STATUS_FAILED;
    int64_t next = im->vocab ? (int64_t)json_object_size(im->vocab) : im->b.header.n_tokens;
    if (read_added(im, json_object_get(root, "added_tokens"), &next) != STATUS_OK ||
        (config && read_config(im, config, &next) != STATUS_OK))
        return STATUS_FAILED;
    return json_import_steps_after(im, root);
}

static void import_free(JsonImport *im) {
    free((void *)im->b.charsmap);
    builder_free(&im->b);
}

Status tokenizer_import_json(const char *tokenizer_json, size_t json_size, const char *config_json,
                             size_t config_size, TokenizerBlob *out, Error *error) {
    JsonImport im = {.error = error};
    *out = (TokenizerBlob){0};
    builder_init(&im.b);
    json_t *root = NULL, *config = NULL;
    Status status = json_parse(&root, "tokenizer.json", tokenizer_json, json_size, error);
    if (status == STATUS_OK && config_json)
        status = json_parse(&config, "tokenizer_config.json", config_json, config_size, error);
    if (status == STATUS_OK) status = import_json(&im, root, config);
    if (status == STATUS_OK) status = tokenizer_write(&im.b, out, error);
    json_decref(root);
    json_decref(config);
    import_free(&im);
    return status;
}

/* ---- vocab.json and merges.txt ---- */

/* Imports vocab.json and merges.txt, as the slow class GPT2Tokenizer reads them. */
static Status import_slow(JsonImport *im, json_t *vocab, const char *merges, size_t merges_size,
                          const json_t *added, const json_t *config) {
    Builder *b = &im->b;
    bool prefix_space = json_is_true(json_object_get(config, "add_prefix_space"));
    const char *text;
    json_t *id;
    if (json_import_gpt2_steps(im, prefix_space) != STATUS_OK ||
        json_import_slow_model(im, vocab, merges, merges_size) != STATUS_OK)
        return STATUS_FAILED;
    int64_t next = (int64_t)json_object_size(vocab);
    json_object_foreach((json_t *)added, text, id) {
        int64_t declared = json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
        if (add_token(im, text, strlen(text), declared, ADDED_SPECIAL, &next) != STATUS_OK)
            return STATUS_FAILED;
    }
    /* The slow class's defaults: <|endoftext|> begins and ends a text and is the unknown token. */
    static const char end[] = "<|endoftext|>";
    if (json_import_id(im, end, sizeof end - 1) >= 0 &&
        add_token(im, end, sizeof end - 1, -1, ADDED_SPECIAL, &next) != STATUS_OK)
        return STATUS_FAILED;
    if (config && read_config(im, config, &next) != STATUS_OK) return STATUS_FAILED;
    int64_t otherwise = json_import_id(im, end, sizeof end - 1);
    if (b->header.bos_id < 0) b->header.bos_id = (int32_t)otherwise;
    if (b->n_eos == 0) builder_eos(b, otherwise);
    if (config) apply_config_ends(im, config);
    return STATUS_OK;
}

Status tokenizer_import_slow(const char *vocab_json, size_t vocab_size, const char *merges_txt,
                             size_t merges_size, const char *added_json, size_t added_size,
                             const char *config_json, size_t config_size, TokenizerBlob *out,
                             Error *error) {
    JsonImport im = {.error = error};
    *out = (TokenizerBlob){0};
    builder_init(&im.b);
    json_t *vocab = NULL, *added = NULL, *config = NULL;
    Status status = json_parse(&vocab, "vocab.json", vocab_json, vocab_size, error);
    if (status == STATUS_OK && added_json)
        status = json_parse(&added, "added_tokens.json", added_json, added_size, error);
    if (status == STATUS_OK && config_json)
        status = json_parse(&config, "tokenizer_config.json", config_json, config_size, error);
    if (status == STATUS_OK)
        status = import_slow(&im, vocab, merges_txt, merges_size, added, config);
    if (status == STATUS_OK) status = tokenizer_write(&im.b, out, error);
    json_decref(vocab);
    json_decref(added);
    json_decref(config);
    import_free(&im);
    return status;
}
