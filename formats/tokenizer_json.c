/* tokenizer.json, and the slow vocab.json with merges.txt. The reader takes what the tokenizers
 * library takes (serde definitions in its tokenizers/src) and refuses the rest by name. */
#include "tokenizer_build.h"
#include "../unicode.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct Import {
    Builder b;
    json_t *vocab;   /* BPE and WordLevel: token to id */
    bool byte_level; /* a ByteLevel step maps the text */
    int depth;
    Error *error;
} Import;

static const char *type_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "(no type)";
}

static bool is_type(const json_t *node, const char *type) {
    return !strcmp(type_of(node), type);
}

static bool flag(const json_t *node, const char *key, bool otherwise) {
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static TextRange text_at(Import *im, const json_t *node, const char *key) {
    const json_t *value = json_object_get(node, key);
    if (!json_is_string(value)) return (TextRange){0, 0};
    return builder_text(&im->b, json_string_value(value), json_string_length(value));
}

/* Calls `each` for a component and, where it is a Sequence, for its members. */
static Status walk(Import *im, const json_t *node, const char *what, const char *members,
                   Status (*each)(Import *im, const json_t *node)) {
    if (!node || json_is_null(node)) return STATUS_OK;
    if (!json_is_object(node))
        return error_set(im->error, "tokenizer.json: %s: not an object", what);
    if (!is_type(node, "Sequence")) return each(im, node);
    const json_t *list = json_object_get(node, members);
    if (++im->depth > 16)
        return error_set(im->error, "tokenizer.json: %s: Sequences nested too deeply", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (walk(im, json_array_get(list, i), what, members, each) != STATUS_OK)
            return STATUS_FAILED;
    im->depth--;
    return STATUS_OK;
}

static Status checked(Import *im, bool ok, const char *what) {
    if (ok) return STATUS_OK;
    return error_set(im->error, "tokenizer.json: %s: more than %d steps", what, SECTION_MAX_STEPS);
}

/* {"String": s} or {"Regex": r} as a PCRE2 pattern. */
static Status pattern_at(Import *im, const json_t *node, TextRange *out) {
    const json_t *pattern = json_object_get(node, "pattern");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *regex = json_object_get(pattern, "Regex");
    if (json_is_string(string)) {
        *out = regex_literal(&im->b, json_string_value(string), json_string_length(string));
        return STATUS_OK;
    }
    if (!json_is_string(regex))
        return error_set(im->error, "tokenizer.json: %s: no pattern", type_of(node));
    return regex_translate(&im->b, json_string_value(regex), json_string_length(regex),
                           REGEX_ONIGURUMA, out, im->error);
}

/* ---- Normalizers ---- */

static size_t base64_decode(const char *in, size_t n, char *out) {
    size_t length = 0;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < n && in[i] != '='; i++) {
        char c = in[i];
        uint32_t value = c >= 'A' && c <= 'Z'   ? (uint32_t)(c - 'A')
                         : c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') + 26
                         : c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 52
                         : c == '+'             ? 62
                         : c == '/'             ? 63
                                                : 64;
        if (value == 64) continue;
        bits = bits << 6 | value;
        if ((held += 6) >= 8) out[length++] = (char)(bits >> (held -= 8));
    }
    return length;
}

static Status precompiled(Import *im, const json_t *node) {
    const json_t *map = json_object_get(node, "precompiled_charsmap");
    Charsmap charsmap;
    if (!json_is_string(map) || json_string_length(map) == 0) return STATUS_OK;
    if (im->b.charsmap) return error_set(im->error, "tokenizer.json: two Precompiled normalizers");
    char *bytes = malloc(json_string_length(map));
    if (!bytes) return error_set(im->error, "tokenizer.json: out of memory");
    im->b.charsmap = bytes;
    im->b.charsmap_size = base64_decode(json_string_value(map), json_string_length(map), bytes);
    if (!charsmap_open(&charsmap, bytes, im->b.charsmap_size))
        return error_set(im->error, "tokenizer.json: Precompiled: damaged map");
    return checked(
        im, builder_normalizer(&im->b, NORMALIZE_CHARSMAP, 0, (TextRange){0}, (TextRange){0}),
        "normalizer");
}

static bool simple_normalizer(Builder *b, uint32_t op, uint32_t flags) {
    return builder_normalizer(b, op, flags, (TextRange){0, 0}, (TextRange){0, 0});
}

static Status bert_normalizer(Import *im, const json_t *node) {
    Builder *b = &im->b;
    bool lowercase = flag(node, "lowercase", true), ok = true;
    if (flag(node, "clean_text", true)) ok = ok && simple_normalizer(b, NORMALIZE_BERT_CLEAN, 0);
    if (flag(node, "handle_chinese_chars", true))
        ok = ok && simple_normalizer(b, NORMALIZE_BERT_CHINESE, 0);
    if (flag(node, "strip_accents", lowercase))
        ok = ok && simple_normalizer(b, NORMALIZE_NFD, 0) &&
             simple_normalizer(b, NORMALIZE_STRIP_ACCENTS, 1);
    if (lowercase) ok = ok && simple_normalizer(b, NORMALIZE_LOWERCASE, 0);
    return checked(im, ok, "normalizer");
}

static Status normalizer(Import *im, const json_t *node) {
    static const struct {
        const char *type;
        uint32_t op;
    } simple[] = {{"NFC", NORMALIZE_NFC},
                  {"NFD", NORMALIZE_NFD},
                  {"NFKC", NORMALIZE_NFKC},
                  {"NFKD", NORMALIZE_NFKD},
                  {"Lowercase", NORMALIZE_LOWERCASE},
                  {"StripAccents", NORMALIZE_STRIP_ACCENTS},
                  {"Nmt", NORMALIZE_NMT}};
    Builder *b = &im->b;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (is_type(node, simple[i].type))
            return checked(im, simple_normalizer(b, simple[i].op, 0), "normalizer");
    if (is_type(node, "Strip")) {
        uint32_t sides = (flag(node, "strip_left", true) ? 1u : 0u) |
                         (flag(node, "strip_right", true) ? 2u : 0u);
        return checked(im, simple_normalizer(b, NORMALIZE_STRIP, sides), "normalizer");
    }
    if (is_type(node, "BertNormalizer")) return bert_normalizer(im, node);
    if (is_type(node, "Precompiled")) return precompiled(im, node);
    if (is_type(node, "Prepend"))
        return checked(im,
                       builder_normalizer(b, NORMALIZE_PREPEND, 0, text_at(im, node, "prepend"),
                                          (TextRange){0, 0}),
                       "normalizer");
    if (is_type(node, "ByteLevel")) {
        return checked(im, simple_normalizer(b, NORMALIZE_MAP_BYTES, 0), "normalizer");
    }
    if (is_type(node, "Replace")) {
        const json_t *string = json_object_get(json_object_get(node, "pattern"), "String");
        TextRange pattern, content = text_at(im, node, "content");
        uint32_t op = NORMALIZE_REPLACE;
        if (json_is_string(string) && json_string_length(string) > 0) {
            pattern = builder_text(b, json_string_value(string), json_string_length(string));
        } else {
            op = NORMALIZE_REPLACE_PATTERN;
            if (pattern_at(im, node, &pattern) != STATUS_OK) return STATUS_FAILED;
        }
        return checked(im, builder_normalizer(b, op, 0, pattern, content), "normalizer");
    }
    return error_set(im->error, "tokenizer.json: normalizer %s is not supported", type_of(node));
}

/* ---- Pre-tokenizers ---- */

static Status behaviour_of(Import *im, const json_t *node, uint32_t otherwise, uint32_t *out) {
    static const char *names[SPLIT_BEHAVIOURS] = {"Isolated", "Removed", "MergedWithPrevious",
                                                  "MergedWithNext", "Contiguous"};
    const json_t *behaviour = json_object_get(node, "behavior");
    *out = otherwise;
    if (!behaviour) return STATUS_OK;
    for (uint32_t i = 0; i < SPLIT_BEHAVIOURS; i++)
        if (json_is_string(behaviour) && !strcmp(json_string_value(behaviour), names[i])) {
            *out = i;
            return STATUS_OK;
        }
    return error_set(im->error, "tokenizer.json: %s: unknown behavior", type_of(node));
}

/* A split by a pattern of our own writing. */
static Status split_by(Import *im, const char *pattern, RegexFlavour flavour, uint32_t flags) {
    return regex_split(&im->b, pattern, strlen(pattern), flavour, flags, im->error);
}

/* The library's table of punctuation is that of Unicode 8.0: without what came later, and with two
 * characters that are none any more. */
static const char punctuation[] =
    "(?!["
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}-\\x{1b7e}\\x{2e43}-\\x{2e4f}"
    "\\x{2e52}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{1144b}-"
    "\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}"
    "\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-"
    "\\x{11aa2}\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11fff}"
    "\\x{12ff1}-\\x{12ff2}\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e95e}-\\x{1e95f}"
    "])[!-/:-@\\[-`{-~\\p{P}\\x{166d}\\x{111c9}]";

static Status byte_level_split(Import *im, const json_t *node) {
    bool ok = true;
    if (flag(node, "add_prefix_space", true))
        ok = builder_split(&im->b, SPLIT_PREFIX_SPACE, 0, (TextRange){0, 0});
    if (ok && flag(node, "use_regex", true) &&
        split_by(im, gpt2_pattern, REGEX_ONIGURUMA, SPLIT_ISOLATED) != STATUS_OK)
        return STATUS_FAILED;
    ok = ok && builder_split(&im->b, SPLIT_MAP_BYTES, 0, (TextRange){0, 0});
    return checked(im, ok, "pre_tokenizer");
}

/* Metaspace's scheme, with the older add_prefix_space; -1 where they contradict each other. */
static int metaspace_scheme(const json_t *node) {
    const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
    int value = !scheme || !strcmp(scheme, "always") ? METASPACE_ALWAYS
                : !strcmp(scheme, "first")           ? METASPACE_FIRST
                                                     : METASPACE_NEVER;
    if (flag(node, "add_prefix_space", true)) return value;
    return scheme && value != METASPACE_NEVER ? -1 : METASPACE_NEVER;
}

static Status metaspace_split(Import *im, const json_t *node) {
    TextRange mark = text_at(im, node, "replacement");
    int scheme = metaspace_scheme(node);
    uint32_t code;
    if (mark.length == 0 ||
        utf8_decode(builder_bytes(&im->b, mark), mark.length, &code) != mark.length)
        return error_set(im->error, "tokenizer.json: Metaspace: replacement is not one character");
    if (scheme < 0)
        return error_set(im->error, "tokenizer.json: Metaspace: add_prefix_space contradicts "
                                    "prepend_scheme");
    bool ok = builder_split(&im->b, SPLIT_METASPACE, (uint32_t)scheme, mark);
    if (ok && flag(node, "split", true))
        ok = builder_split(&im->b, SPLIT_PATTERN, SPLIT_MERGED_WITH_NEXT,
                           regex_literal(&im->b, builder_bytes(&im->b, mark), mark.length));
    return checked(im, ok, "pre_tokenizer");
}

static Status pre_tokenizer(Import *im, const json_t *node) {
    uint32_t behaviour;
    if (is_type(node, "ByteLevel")) return byte_level_split(im, node);
    if (is_type(node, "Metaspace")) return metaspace_split(im, node);
    if (is_type(node, "Digits"))
        return split_by(im, "\\p{N}", REGEX_RUST,
                        flag(node, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
    if (is_type(node, "Whitespace"))
        return split_by(im, "\\w+|[^\\w\\s]+", REGEX_RUST, SPLIT_REMOVED | SPLIT_INVERT);
    if (is_type(node, "WhitespaceSplit")) return split_by(im, "\\s", REGEX_RUST, SPLIT_REMOVED);
    if (is_type(node, "BertPreTokenizer")) {
        if (split_by(im, "\\s", REGEX_RUST, SPLIT_REMOVED) != STATUS_OK) return STATUS_FAILED;
        return split_by(im, punctuation, REGEX_RUST, SPLIT_ISOLATED);
    }
    if (is_type(node, "Punctuation")) {
        if (behaviour_of(im, node, SPLIT_ISOLATED, &behaviour) != STATUS_OK) return STATUS_FAILED;
        return split_by(im, punctuation, REGEX_RUST, behaviour);
    }
    if (is_type(node, "Split") || is_type(node, "CharDelimiterSplit")) {
        const json_t *regex = json_object_get(json_object_get(node, "pattern"), "Regex");
        TextRange pattern;
        if (is_type(node, "Split")) {
            if (behaviour_of(im, node, SPLIT_BEHAVIOURS, &behaviour) != STATUS_OK)
                return STATUS_FAILED;
            if (behaviour == SPLIT_BEHAVIOURS)
                return error_set(im->error, "tokenizer.json: Split: no behavior");
            if (flag(node, "invert", false)) behaviour |= SPLIT_INVERT;
            if (json_is_string(regex))
                return regex_split(&im->b, json_string_value(regex), json_string_length(regex),
                                   REGEX_ONIGURUMA, behaviour, im->error);
            if (pattern_at(im, node, &pattern) != STATUS_OK) return STATUS_FAILED;
        } else {
            TextRange delimiter = text_at(im, node, "delimiter");
            pattern = regex_literal(&im->b, builder_bytes(&im->b, delimiter), delimiter.length);
            behaviour = SPLIT_REMOVED;
        }
        return checked(im, builder_split(&im->b, SPLIT_PATTERN, behaviour, pattern),
                       "pre_tokenizer");
    }
    return error_set(im->error, "tokenizer.json: pre_tokenizer %s is not supported", type_of(node));
}

/* ---- Decoders ---- */

static Status decoder(Import *im, const json_t *node) {
    Builder *b = &im->b;
    const TextRange none = {0, 0};
    bool ok;
    if (is_type(node, "ByteLevel")) {
        ok = builder_decoder(b, DECODER_BYTE_LEVEL, none, none, 0, 0);
    } else if (is_type(node, "BPEDecoder")) {
        TextRange suffix = text_at(im, node, "suffix");
        if (!json_object_get(node, "suffix")) suffix = builder_text(b, "</w>", 4);
        ok = builder_decoder(b, DECODER_BPE, suffix, none, 0, 0);
    } else if (is_type(node, "Metaspace")) {
        bool drops = metaspace_scheme(node) != METASPACE_NEVER;
        ok =
            builder_decoder(b, DECODER_METASPACE, text_at(im, node, "replacement"), none, drops, 0);
    } else if (is_type(node, "ByteFallback")) {
        ok = builder_decoder(b, DECODER_BYTE_FALLBACK, none, none, 0, 0);
    } else if (is_type(node, "Fuse")) {
        ok = builder_decoder(b, DECODER_FUSE, none, none, 0, 0);
    } else if (is_type(node, "Strip")) {
        json_int_t start = json_integer_value(json_object_get(node, "start"));
        json_int_t stop = json_integer_value(json_object_get(node, "stop"));
        if (start < 0 || start > 0xFFFF || stop < 0 || stop > 0xFFFF)
            return error_set(im->error, "tokenizer.json: decoder Strip: bad counts");
        ok = builder_decoder(b, DECODER_STRIP, text_at(im, node, "content"), none, (uint32_t)start,
                             (uint32_t)stop);
    } else if (is_type(node, "Replace")) {
        const json_t *string = json_object_get(json_object_get(node, "pattern"), "String");
        TextRange content = text_at(im, node, "content"), pattern;
        if (json_is_string(string) && json_string_length(string) > 0) {
            pattern = builder_text(b, json_string_value(string), json_string_length(string));
            ok = builder_decoder(b, DECODER_REPLACE_STRING, pattern, content, 0, 0);
        } else {
            if (pattern_at(im, node, &pattern) != STATUS_OK) return STATUS_FAILED;
            ok = builder_decoder(b, DECODER_REPLACE, pattern, content, 0, 0);
        }
    } else {
        return error_set(im->error, "tokenizer.json: decoder %s is not supported", type_of(node));
    }
    return checked(im, ok, "decoder");
}

/* ---- Post-processors ---- */

static void put_before(int32_t *ids, size_t *n, const int32_t *more, size_t n_more) {
    if (*n + n_more > 64) return;
    memmove(ids + n_more, ids, *n * sizeof *ids);
    memcpy(ids, more, n_more * sizeof *ids);
    *n += n_more;
}

/* Reads one template item's ids into prefix or suffix. */
static Status template_item(Import *im, const json_t *item, const json_t *specials, bool *seen,
                            int32_t ids[2][64], size_t n[2]) {
    const json_t *special = json_object_get(item, "SpecialToken");
    if (json_object_get(item, "Sequence")) {
        if (*seen) return error_set(im->error, "tokenizer.json: a template repeats the text");
        *seen = true;
        return STATUS_OK;
    }
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *list = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
    if (!json_is_array(list))
        return error_set(im->error, "tokenizer.json: a template names a token it does not define");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        if (id < 0 || id >= im->b.header.n_tokens || n[*seen] == 64)
            return error_set(im->error, "tokenizer.json: a template names token %lld",
                             (long long)id);
        ids[*seen][n[*seen]++] = (int32_t)id;
    }
    return STATUS_OK;
}

static Status post_processor(Import *im, const json_t *node) {
    int32_t ids[2][64];
    size_t n[2] = {0, 0};
    bool seen = false;
    if (is_type(node, "ByteLevel")) return STATUS_OK; /* it moves offsets only */
    if (is_type(node, "TemplateProcessing")) {
        const json_t *single = json_object_get(node, "single");
        const json_t *specials = json_object_get(node, "special_tokens");
        for (size_t i = 0; i < json_array_size(single); i++)
            if (template_item(im, json_array_get(single, i), specials, &seen, ids, n) != STATUS_OK)
                return STATUS_FAILED;
        if (!seen) return error_set(im->error, "tokenizer.json: a template without the text");
    } else if (is_type(node, "BertProcessing") || is_type(node, "RobertaProcessing")) {
        for (int side = 0; side < 2; side++) {
            const json_t *pair = json_object_get(node, side ? "sep" : "cls");
            json_int_t id = json_integer_value(json_array_get(pair, 1));
            if (id < 0 || id >= im->b.header.n_tokens)
                return error_set(im->error, "tokenizer.json: %s: bad id", type_of(node));
            ids[side][n[side]++] = (int32_t)id;
        }
    } else {
        return error_set(im->error, "tokenizer.json: post_processor %s is not supported",
                         type_of(node));
    }
    put_before(im->b.prefix, &im->b.n_prefix, ids[0], n[0]);
    if (im->b.n_suffix + n[1] <= 64)
        for (size_t i = 0; i < n[1]; i++) im->b.suffix[im->b.n_suffix++] = ids[1][i];
    return STATUS_OK;
}

/* ---- Models ---- */

static Status read_vocab(Import *im) {
    const char *token;
    json_t *id;
    if (!json_is_object(im->vocab)) return error_set(im->error, "tokenizer.json: model: no vocab");
    json_object_foreach(im->vocab, token, id) {
        if (!json_is_integer(id))
            return error_set(im->error, "tokenizer.json: vocab: '%s' has no id", token);
        if (builder_token(&im->b, json_integer_value(id), token, strlen(token), 0, BUILD_IN_MODEL,
                          im->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static int64_t vocab_id(const Import *im, const char *token, size_t n) {
    if (im->vocab) {
        const json_t *id = json_object_getn(im->vocab, token, n);
        return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
    }
    uint32_t id = builder_find(&im->b, token, n);
    return id == TOKENIZER_NONE ? -1 : (int64_t)id;
}

static void read_unk(Import *im, const json_t *model) {
    const json_t *unk = json_object_get(model, "unk_token");
    if (json_is_string(unk))
        im->b.header.unk_id =
            (int32_t)vocab_id(im, json_string_value(unk), json_string_length(unk));
}

/* Turns the keys of a byte-level vocabulary into the bytes they stand for. */
static void byte_keys(Import *im) {
    Builder *b = &im->b;
    for (uint32_t i = 0; i < b->header.n_tokens && !b->failed; i++) {
        BuildToken *token = &b->tokens[i];
        char key[SECTION_MAX_PIECE];
        size_t n = 0;
        if (!(token->flags & BUILD_IN_MODEL)) continue;
        const char *text = builder_bytes(b, token->text);
        for (size_t at = 0, length; at < token->text.length; at += length) {
            uint32_t code;
            length = utf8_decode(text + at, token->text.length - at, &code);
            int byte = length ? bytelevel_byte(code) : -1;
            if (byte < 0) {
                token->flags &= ~(uint32_t)BUILD_IN_MODEL; /* no text leads to it */
                break;
            }
            key[n++] = (char)byte;
        }
        if (token->flags & BUILD_IN_MODEL) token->key = builder_text(b, key, n);
    }
    builder_index(b);
    b->has_bytes = true;
    for (unsigned byte = 0; byte < 256; byte++)
        b->bytes[byte] = builder_find(b, &(char){(char)byte}, 1);
}

/* Whether what follows the mapping to ByteLevel's alphabet only splits: then every word can be
 * mapped back. */
static bool only_splits_after_map(const Builder *b) {
    bool mapped = false;
    for (size_t i = 0; i < b->n_normalizers; i++) {
        if (mapped) return false;
        mapped = b->normalizers[i].op == NORMALIZE_MAP_BYTES;
    }
    for (size_t i = 0; i < b->n_splits; i++) {
        if (mapped && b->splits[i].op != SPLIT_PATTERN) return false;
        mapped = mapped || b->splits[i].op == SPLIT_MAP_BYTES;
    }
    return mapped;
}

/* Whether the runner can take the bytes themselves: no affixes, no fall-back to other tokens. */
static void choose_byte_level(Import *im, bool byte_fallback) {
    Builder *b = &im->b;
    bool complete = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        Text character = {0};
        bytelevel_map(&character, &(char){(char)byte}, 1, NULL);
        complete =
            complete && !character.failed && vocab_id(im, character.bytes, character.length) >= 0;
        text_free(&character);
    }
    if (!only_splits_after_map(b) || b->header.subword_prefix.length ||
        b->header.word_suffix.length || (byte_fallback && !complete))
        return;
    b->header.flags |= SECTION_BYTE_LEVEL;
    b->header.flags &= ~(uint32_t)SECTION_BYTE_FALLBACK;
    if (b->n_splits > 0 && b->splits[b->n_splits - 1].op == SPLIT_MAP_BYTES)
        b->n_splits--; /* the words are bytes: nothing to map and to map back */
    else
        b->header.flags |= SECTION_UNMAP;
    byte_keys(im);
}

/* One merge by the texts of its halves. */
static Status read_merge(Import *im, size_t rank, const char *left, size_t n_left,
                         const char *right, size_t n_right) {
    Builder *b = &im->b;
    int64_t l = vocab_id(im, left, n_left), r = vocab_id(im, right, n_right);
    size_t skip = b->header.subword_prefix.length;
    char joined[2 * SECTION_MAX_PIECE];
    if (l < 0 || r < 0 || n_left > SECTION_MAX_PIECE || n_right > SECTION_MAX_PIECE ||
        n_right < skip)
        return error_set(im->error, "tokenizer.json: merge %zu: '%.*s' is not in the vocabulary",
                         rank, (int)(l < 0 ? n_left : n_right), l < 0 ? left : right);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right + skip, n_right - skip);
    int64_t into = vocab_id(im, joined, n_left + n_right - skip);
    if (into < 0)
        return error_set(im->error, "tokenizer.json: merge %zu: '%.*s' is not in the vocabulary",
                         rank, (int)(n_left + n_right - skip), joined);
    builder_merge(b, (uint32_t)l, (uint32_t)r, (uint32_t)rank, (uint32_t)into);
    return STATUS_OK;
}

static Status read_merge_line(Import *im, size_t rank, const char *line, size_t n) {
    const char *space = memchr(line, ' ', n);
    size_t left = space ? (size_t)(space - line) : n;
    if (!space || memchr(space + 1, ' ', n - left - 1))
        return error_set(im->error, "tokenizer.json: merge %zu is not two tokens", rank);
    return read_merge(im, rank, line, left, space + 1, n - left - 1);
}

static Status read_merges(Import *im, const json_t *merges) {
    size_t rank = 0;
    if (!json_is_array(merges)) return error_set(im->error, "tokenizer.json: model: no merges");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        Status status;
        if (json_is_string(merge)) {
            const char *line = json_string_value(merge);
            if (!strncmp(line, "#version", 8)) continue;
            status = read_merge_line(im, rank, line, json_string_length(merge));
        } else if (json_is_string(left) && json_is_string(right)) {
            status = read_merge(im, rank, json_string_value(left), json_string_length(left),
                                json_string_value(right), json_string_length(right));
        } else {
            status = error_set(im->error, "tokenizer.json: merge %zu is not two tokens", i);
        }
        if (status != STATUS_OK) return status;
        rank++;
    }
    return STATUS_OK;
}

static Status read_bpe(Import *im, const json_t *model) {
    Builder *b = &im->b;
    bool byte_fallback = flag(model, "byte_fallback", false);
    const json_t *dropout = json_object_get(model, "dropout");
    if (json_is_number(dropout) && json_number_value(dropout) > 0)
        return error_set(im->error, "tokenizer.json: BPE: dropout would make encoding random");
    b->header.model = MODEL_BPE;
    b->header.subword_prefix = text_at(im, model, "continuing_subword_prefix");
    b->header.word_suffix = text_at(im, model, "end_of_word_suffix");
    if (flag(model, "fuse_unk", false)) b->header.flags |= SECTION_FUSE_UNK;
    if (flag(model, "ignore_merges", false)) b->header.flags |= SECTION_IGNORE_MERGES;
    if (byte_fallback) b->header.flags |= SECTION_BYTE_FALLBACK;
    im->vocab = json_object_get(model, "vocab");
    if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
    read_unk(im, model);
    choose_byte_level(im, byte_fallback);
    if (!(b->header.flags & SECTION_BYTE_LEVEL)) {
        builder_index(b);
        if (byte_fallback) builder_byte_tokens(b);
    }
    return STATUS_OK;
}

static Status read_unigram(Import *im, const json_t *model) {
    Builder *b = &im->b;
    const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    double least = 0;
    b->header.model = MODEL_UNIGRAM;
    if (!json_is_array(vocab)) return error_set(im->error, "tokenizer.json: Unigram: no vocab");
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *item = json_array_get(vocab, i), *piece = json_array_get(item, 0);
        double score = json_number_value(json_array_get(item, 1));
        if (!json_is_string(piece) || !json_is_number(json_array_get(item, 1)))
            return error_set(im->error, "tokenizer.json: Unigram: piece %zu", i);
        if (builder_token(b, (int64_t)i, json_string_value(piece), json_string_length(piece), score,
                          BUILD_IN_MODEL | BUILD_PIECE, im->error) != STATUS_OK)
            return STATUS_FAILED;
        if (i == 0 || score < least) least = score;
    }
    b->header.unk_score = least - 10;
    if (json_is_integer(unk)) {
        if (json_integer_value(unk) < 0 || json_integer_value(unk) >= b->header.n_tokens)
            return error_set(im->error, "tokenizer.json: Unigram: unk_id");
        b->header.unk_id = (int32_t)json_integer_value(unk);
    }
    builder_index(b);
    if (flag(model, "byte_fallback", false)) {
        b->header.flags |= SECTION_BYTE_FALLBACK;
        builder_byte_tokens(b);
    }
    return STATUS_OK;
}

static Status read_model(Import *im, const json_t *model) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) type = json_object_get(model, "merges") ? "BPE" : "(no type)";
    if (!strcmp(type, "Unigram")) return read_unigram(im, model);
    if (!strcmp(type, "WordLevel")) {
        im->b.header.model = MODEL_WORDLEVEL;
        im->vocab = json_object_get(model, "vocab");
        if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
        read_unk(im, model);
        builder_index(&im->b);
        return STATUS_OK;
    }
    if (strcmp(type, "BPE") != 0)
        return error_set(im->error, "tokenizer.json: model %s is not supported", type);
    if (read_bpe(im, model) != STATUS_OK) return STATUS_FAILED;
    return read_merges(im, json_object_get(model, "merges"));
}

/* ---- Added tokens and the configuration ---- */

/* The library gives an added token the id of its text, else the next free one. */
static Status add_token(Import *im, const char *text, size_t n, int64_t declared, uint32_t flags,
                        int64_t *next) {
    Builder *b = &im->b;
    int64_t id = vocab_id(im, text, n);
    if (n == 0) return STATUS_OK;
    for (size_t i = 0; i < b->n_added && id < 0; i++)
        if (b->added[i].text.length == n &&
            memcmp(builder_bytes(b, b->added[i].text), text, n) == 0)
            id = b->added[i].id;
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
    return (flag(token, "lstrip", false) ? ADDED_LSTRIP : 0u) |
           (flag(token, "rstrip", false) ? ADDED_RSTRIP : 0u) |
           (flag(token, "single_word", false) ? ADDED_SINGLE_WORD : 0u) |
           (flag(token, "normalized", !special) ? ADDED_NORMALIZED : 0u) |
           (special ? ADDED_SPECIAL : 0u);
}

static Status read_added(Import *im, const json_t *list, int64_t *next) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i), *text = json_object_get(token, "content");
        const json_t *id = json_object_get(token, "id");
        if (!json_is_string(text))
            return error_set(im->error, "tokenizer.json: added token %zu has no content", i);
        if (add_token(im, json_string_value(text), json_string_length(text),
                      json_is_integer(id) ? (int64_t)json_integer_value(id) : -1,
                      added_flags(token, flag(token, "special", false)), next) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* "text" or {"content": "text"}: the token's id or -1. */
static int64_t named_token(const Import *im, const json_t *config, const char *key) {
    const Builder *b = &im->b;
    const json_t *name = json_object_get(config, key);
    if (json_is_object(name)) name = json_object_get(name, "content");
    if (!json_is_string(name)) return -1;
    const char *text = json_string_value(name);
    size_t n = json_string_length(name);
    for (size_t i = 0; i < b->n_added; i++)
        if (b->added[i].text.length == n &&
            memcmp(builder_bytes(b, b->added[i].text), text, n) == 0)
            return b->added[i].id;
    return vocab_id(im, text, n);
}

/* tokenizer_config.json: added tokens that tokenizer.json lacks, bos and eos. */
static Status read_config(Import *im, const json_t *config, int64_t *next) {
    Builder *b = &im->b;
    const char *key;
    json_t *token;
    json_t *decoder_tokens = json_object_get(config, "added_tokens_decoder");
    json_object_foreach(decoder_tokens, key, token) {
        const json_t *text = json_object_get(token, "content");
        bool known = false;
        if (!json_is_string(text)) continue;
        for (size_t i = 0; i < b->n_added && !known; i++)
            known = b->added[i].text.length == json_string_length(text) &&
                    memcmp(builder_bytes(b, b->added[i].text), json_string_value(text),
                           b->added[i].text.length) == 0;
        if (!known &&
            add_token(im, json_string_value(text), json_string_length(text), strtoll(key, NULL, 10),
                      added_flags(token, flag(token, "special", false)), next) != STATUS_OK)
            return STATUS_FAILED;
    }
    b->header.bos_id = (int32_t)named_token(im, config, "bos_token");
    builder_eos(b, named_token(im, config, "eos_token"));
    return STATUS_OK;
}

/* The slow class's add_bos_token and add_eos_token. (Beside a tokenizer.json transformers ignores
 * them: its post-processor says it all.) */
static void apply_config_ends(Import *im, const json_t *config) {
    Builder *b = &im->b;
    const json_t *bos = json_object_get(config, "add_bos_token");
    const json_t *eos = json_object_get(config, "add_eos_token");
    bool begins = b->n_prefix > 0 && b->prefix[0] == b->header.bos_id;
    if (json_is_true(bos) && !begins && b->header.bos_id >= 0)
        put_before(b->prefix, &b->n_prefix, &b->header.bos_id, 1);
    if (json_is_false(bos) && begins) {
        memmove(b->prefix, b->prefix + 1, --b->n_prefix * sizeof *b->prefix);
    }
    bool ends = b->n_suffix > 0 && b->n_eos > 0 && b->suffix[b->n_suffix - 1] == b->eos[0];
    if (json_is_true(eos) && !ends && b->n_eos > 0) builder_suffix(b, b->eos[0]);
    if (json_is_false(eos) && ends) b->n_suffix--;
}

static json_t *parse(const char *text, size_t n, const char *what, Error *error) {
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_ALLOW_NUL, &why);
    if (!root) error_set(error, "%s: line %d: %s", what, why.line, why.text);
    return root;
}

static Status import_json(Import *im, const json_t *root, const json_t *config) {
    Builder *b = &im->b;
    const json_t *decoder_node = json_object_get(root, "decoder");
    if (walk(im, json_object_get(root, "normalizer"), "normalizer", "normalizers", normalizer) !=
            STATUS_OK ||
        walk(im, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers",
             pre_tokenizer) != STATUS_OK ||
        read_model(im, json_object_get(root, "model")) != STATUS_OK)
        return STATUS_FAILED;
    int64_t next = im->vocab ? (int64_t)json_object_size(im->vocab) : b->header.n_tokens;
    if (read_added(im, json_object_get(root, "added_tokens"), &next) != STATUS_OK ||
        (config && read_config(im, config, &next) != STATUS_OK) ||
        walk(im, decoder_node, "decoder", "decoders", decoder) != STATUS_OK ||
        walk(im, json_object_get(root, "post_processor"), "post_processor", "processors",
             post_processor) != STATUS_OK)
        return STATUS_FAILED;
    if (b->n_decoders == 0 && (!decoder_node || json_is_null(decoder_node)))
        builder_decoder(b, DECODER_JOIN, (TextRange){0, 0}, (TextRange){0, 0}, 0, 0);
    return STATUS_OK;
}

static void import_free(Import *im) {
    free((void *)im->b.charsmap);
    builder_free(&im->b);
}

Status tokenizer_import_json(const char *tokenizer_json, size_t json_size, const char *config_json,
                             size_t config_size, TokenizerBlob *out, Error *error) {
    Import im = {.error = error};
    *out = (TokenizerBlob){0};
    builder_init(&im.b);
    json_t *root = parse(tokenizer_json, json_size, "tokenizer.json", error), *config = NULL;
    Status status = root ? STATUS_OK : STATUS_FAILED;
    if (status == STATUS_OK && config_json &&
        !(config = parse(config_json, config_size, "tokenizer_config.json", error)))
        status = STATUS_FAILED;
    if (status == STATUS_OK) status = import_json(&im, root, config);
    if (status == STATUS_OK) status = builder_finish(&im.b, out, error);
    json_decref(root);
    json_decref(config);
    import_free(&im);
    return status;
}

/* ---- vocab.json and merges.txt ---- */

static Status import_slow(Import *im, json_t *vocab, const char *merges, size_t merges_size,
                          const json_t *added, const json_t *config) {
    Builder *b = &im->b;
    const json_t *prefix_space = json_object_get(config, "add_prefix_space");
    b->header.model = MODEL_BPE;
    im->vocab = vocab;
    if (json_is_true(prefix_space)) builder_split(b, SPLIT_PREFIX_SPACE, 0, (TextRange){0, 0});
    if (split_by(im, gpt2_pattern, REGEX_ONIGURUMA, SPLIT_ISOLATED) != STATUS_OK)
        return STATUS_FAILED;
    builder_split(b, SPLIT_MAP_BYTES, 0, (TextRange){0, 0});
    builder_decoder(b, DECODER_BYTE_LEVEL, (TextRange){0, 0}, (TextRange){0, 0}, 0, 0);
    if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
    choose_byte_level(im, false);
    size_t rank = 0;
    for (size_t at = 0; at < merges_size;) {
        const char *newline = memchr(merges + at, '\n', merges_size - at);
        size_t n = newline ? (size_t)(newline - merges) - at : merges_size - at;
        const char *line = merges + at;
        at += n + 1;
        if (n > 0 && line[n - 1] == '\r') n--;
        if (n == 0 || (n >= 8 && !memcmp(line, "#version", 8))) continue;
        if (read_merge_line(im, rank++, line, n) != STATUS_OK) return STATUS_FAILED;
    }
    int64_t next = (int64_t)json_object_size(vocab);
    const char *text;
    json_t *id;
    json_object_foreach(
        (json_t *)added, text,
        id) if (add_token(im, text, strlen(text),
                          json_is_integer(id) ? (int64_t)json_integer_value(id) : -1, ADDED_SPECIAL,
                          &next) != STATUS_OK) return STATUS_FAILED;
    /* The slow class's defaults: <|endoftext|> begins, ends and stands for the unknown. */
    static const char end[] = "<|endoftext|>";
    if (vocab_id(im, end, sizeof end - 1) >= 0 &&
        add_token(im, end, sizeof end - 1, -1, ADDED_SPECIAL, &next) != STATUS_OK)
        return STATUS_FAILED;
    if (config && read_config(im, config, &next) != STATUS_OK) return STATUS_FAILED;
    int64_t otherwise = vocab_id(im, end, sizeof end - 1);
    if (b->header.bos_id < 0) b->header.bos_id = (int32_t)otherwise;
    if (b->n_eos == 0) builder_eos(b, otherwise);
    if (config) apply_config_ends(im, config);
    return STATUS_OK;
}

Status tokenizer_import_slow(const char *vocab_json, size_t vocab_size, const char *merges_txt,
                             size_t merges_size, const char *added_json, size_t added_size,
                             const char *config_json, size_t config_size, TokenizerBlob *out,
                             Error *error) {
    Import im = {.error = error};
    *out = (TokenizerBlob){0};
    builder_init(&im.b);
    json_t *vocab = parse(vocab_json, vocab_size, "vocab.json", error), *added = NULL,
           *config = NULL;
    Status status = vocab ? STATUS_OK : STATUS_FAILED;
    if (status == STATUS_OK && added_json &&
        !(added = parse(added_json, added_size, "added_tokens.json", error)))
        status = STATUS_FAILED;
    if (status == STATUS_OK && config_json &&
        !(config = parse(config_json, config_size, "tokenizer_config.json", error)))
        status = STATUS_FAILED;
    if (status == STATUS_OK)
        status = import_slow(&im, vocab, merges_txt, merges_size, added, config);
    if (status == STATUS_OK) status = builder_finish(&im.b, out, error);
    json_decref(vocab);
    json_decref(added);
    json_decref(config);
    import_free(&im);
    return status;
}
