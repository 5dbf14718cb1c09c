#include "formats/tokenizers/tokenizer_json_steps.h"

#include <stdlib.h>

#include "tokenizer/charsmap.h"
#include "base/unicode.h"
#include "base/base64.h"
#include "formats/tokenizers/tokenizer_patterns.h"
#include "formats/tokenizers/tokenizer_regex.h"

/* Calls `each` for a component, or for each member of a Sequence of components. */
static Status walk(JsonImport *im, const json_t *node, const char *what, const char *members,
                   Status (*each)(JsonImport *im, const json_t *node)) {
    if (!node || json_is_null(node)) return STATUS_OK;
    if (!json_is_object(node))
        return error_set(im->error, "tokenizer.json: %s: not an object", what);
    if (!json_import_is(node, "Sequence")) return each(im, node);
    const json_t *list = json_object_get(node, members);
    if (++im->depth > 16)
        return error_set(im->error, "tokenizer.json: %s: Sequences nested too deeply", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (walk(im, json_array_get(list, i), what, members, each) != STATUS_OK)
            return STATUS_FAILED;
    im->depth--;
    return STATUS_OK;
}

/* STATUS_OK, or the error that there are too many steps. */
static Status checked(JsonImport *im, bool ok, const char *what) {
    if (ok) return STATUS_OK;
    return error_set(im->error, "tokenizer.json: %s: more than %d steps", what, SECTION_MAX_STEPS);
}

/* Translates node["pattern"], {"String": s} or {"Regex": r}, into a PCRE2 pattern. */
static Status pattern_at(JsonImport *im, const json_t *node, TextRange *out) {
    const json_t *pattern = json_object_get(node, "pattern");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *regex = json_object_get(pattern, "Regex");
    if (json_is_string(string)) {
        *out = regex_literal(&im->b, json_string_value(string), json_string_length(string));
        return STATUS_OK;
    }
    if (!json_is_string(regex))
        return error_set(im->error, "tokenizer.json: %s: no pattern", json_import_type(node));
    return regex_translate(&im->b, json_string_value(regex), json_string_length(regex),
                           REGEX_ONIGURUMA, out, im->error);
}

/* Reads what a Replace replaces: a string as it is, or a pattern, translated. */
static Status replaced_at(JsonImport *im, const json_t *node, TextRange *out, bool *is_string) {
    const json_t *string = json_object_get(json_object_get(node, "pattern"), "String");
    *is_string = json_is_string(string) && json_string_length(string) > 0;
    if (!*is_string) return pattern_at(im, node, out);
    *out = builder_text(&im->b, json_string_value(string), json_string_length(string));
    return STATUS_OK;
}

/* ---- Normalizers ---- */

static Status precompiled(JsonImport *im, const json_t *node) {
    const json_t *map = json_object_get(node, "precompiled_charsmap");
    Charsmap charsmap;
    if (!json_is_string(map) || json_string_length(map) == 0) return STATUS_OK;
    if (im->b.charsmap) return error_set(im->error, "tokenizer.json: two Precompiled normalizers");
    char *bytes = malloc(json_string_length(map));
    if (!bytes) return error_set(im->error, "tokenizer.json: out of memory");
    im->b.charsmap = bytes;
    if (!base64_decode(json_string_value(map), json_string_length(map), bytes,
                       &im->b.charsmap_size))
        return error_set(im->error, "tokenizer.json: Precompiled: not base64");
    if (!charsmap_open(&charsmap, bytes, im->b.charsmap_size))
        return error_set(im->error, "tokenizer.json: Precompiled: damaged map");
    return checked(
        im, builder_normalizer(&im->b, NORMALIZE_CHARSMAP, 0, (TextRange){0}, (TextRange){0}),
        "normalizer");
}

static bool simple_normalizer(Builder *b, uint32_t op, uint32_t flags) {
    return builder_normalizer(b, op, flags, (TextRange){0, 0}, (TextRange){0, 0});
}

static Status bert_normalizer(JsonImport *im, const json_t *node) {
    Builder *b = &im->b;
    bool lowercase = json_flag(node, "lowercase", true), ok = true;
    if (json_flag(node, "clean_text", true))
        ok = ok && simple_normalizer(b, NORMALIZE_BERT_CLEAN, 0);
    if (json_flag(node, "handle_chinese_chars", true))
        ok = ok && simple_normalizer(b, NORMALIZE_BERT_CHINESE, 0);
    if (json_flag(node, "strip_accents", lowercase))
        ok = ok && simple_normalizer(b, NORMALIZE_NFD, 0) &&
             simple_normalizer(b, NORMALIZE_STRIP_ACCENTS, 1);
    if (lowercase) ok = ok && simple_normalizer(b, NORMALIZE_LOWERCASE, 0);
    return checked(im, ok, "normalizer");
}

/* Imports a normalizer of tokenizer.json that is not a sequence. */
static Status normalizer(JsonImport *im, const json_t *node) {
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
        if (json_import_is(node, simple[i].type))
            return checked(im, simple_normalizer(b, simple[i].op, 0), "normalizer");
    if (json_import_is(node, "Strip")) {
        uint32_t sides = (json_flag(node, "strip_left", true) ? 1u : 0u) |
                         (json_flag(node, "strip_right", true) ? 2u : 0u);
        return checked(im, simple_normalizer(b, NORMALIZE_STRIP, sides), "normalizer");
    }
    if (json_import_is(node, "BertNormalizer")) return bert_normalizer(im, node);
    if (json_import_is(node, "Precompiled")) return precompiled(im, node);
    if (json_import_is(node, "Prepend"))
        return checked(im,
                       builder_normalizer(b, NORMALIZE_PREPEND, 0,
                                          json_import_text(im, node, "prepend"), (TextRange){0, 0}),
                       "normalizer");
    if (json_import_is(node, "ByteLevel")) {
        return checked(im, simple_normalizer(b, NORMALIZE_MAP_BYTES, 0), "normalizer");
    }
    if (json_import_is(node, "Replace")) {
        TextRange pattern, content = json_import_text(im, node, "content");
        bool is_string;
        if (replaced_at(im, node, &pattern, &is_string) != STATUS_OK) return STATUS_FAILED;
        uint32_t op = is_string ? NORMALIZE_REPLACE : NORMALIZE_REPLACE_PATTERN;
        return checked(im, builder_normalizer(b, op, 0, pattern, content), "normalizer");
    }
    return error_set(im->error, "tokenizer.json: normalizer %s is not supported",
                     json_import_type(node));
}

/* ---- Pre-tokenizers ---- */

/* Reads node["behavior"] as SPLIT_*; `otherwise` where it is absent. */
static Status behaviour_of(JsonImport *im, const json_t *node, uint32_t otherwise, uint32_t *out) {
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
    return error_set(im->error, "tokenizer.json: %s: unknown behavior", json_import_type(node));
}

/* Adds a split by a pattern that is a constant here. */
static Status split_by(JsonImport *im, const char *pattern, RegexFlavour flavour, uint32_t flags) {
    return regex_split(&im->b, pattern, strlen(pattern), flavour, flags, im->error);
}

/* The library's table of punctuation is that of Unicode 8.0: it lacks what was added later and has
 * two characters that are not punctuation any more. */
static const char punctuation[] =
    "(?!["
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}-\\x{1b7e}\\x{2e43}-\\x{2e4f}"
    "\\x{2e52}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{1144b}-"
    "\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}"
    "\\x{11944}-\\x{11946}\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-"
    "\\x{11aa2}\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11fff}"
    "\\x{12ff1}-\\x{12ff2}\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e95e}-\\x{1e95f}"
    "])[!-/:-@\\[-`{-~\\p{P}\\x{166d}\\x{111c9}]";

static Status byte_level_split(JsonImport *im, const json_t *node) {
    bool ok = true;
    if (json_flag(node, "add_prefix_space", true))
        ok = builder_split(&im->b, SPLIT_PREFIX_SPACE, 0, (TextRange){0, 0});
    if (ok && json_flag(node, "use_regex", true) &&
        split_by(im, PATTERN_GPT2, REGEX_ONIGURUMA, SPLIT_ISOLATED) != STATUS_OK)
        return STATUS_FAILED;
    ok = ok && builder_split(&im->b, SPLIT_MAP_BYTES, 0, (TextRange){0, 0});
    return checked(im, ok, "pre_tokenizer");
}

/* Metaspace's prepend_scheme, or what the older add_prefix_space means; -1: they contradict each
 * other. */
static int metaspace_scheme(const json_t *node) {
    const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
    int value = !scheme || !strcmp(scheme, "always") ? METASPACE_ALWAYS
                : !strcmp(scheme, "first")           ? METASPACE_FIRST
                                                     : METASPACE_NEVER;
    if (json_flag(node, "add_prefix_space", true)) return value;
    return scheme && value != METASPACE_NEVER ? -1 : METASPACE_NEVER;
}

static Status metaspace_split(JsonImport *im, const json_t *node) {
    TextRange mark = json_import_text(im, node, "replacement");
    int scheme = metaspace_scheme(node);
    uint32_t code;
    if (mark.length == 0 ||
        utf8_decode(builder_bytes(&im->b, mark), mark.length, &code) != mark.length)
        return error_set(im->error, "tokenizer.json: Metaspace: replacement is not one character");
    if (scheme < 0)
        return error_set(im->error, "tokenizer.json: Metaspace: add_prefix_space contradicts "
                                    "prepend_scheme");
    bool ok = builder_split(&im->b, SPLIT_METASPACE, (uint32_t)scheme, mark);
    if (ok && json_flag(node, "split", true))
        ok = builder_split(&im->b, SPLIT_PATTERN, SPLIT_MERGED_WITH_NEXT,
                           regex_literal(&im->b, builder_bytes(&im->b, mark), mark.length));
    return checked(im, ok, "pre_tokenizer");
}

static Status pattern_split(JsonImport *im, const json_t *node) {
    const json_t *regex = json_object_get(json_object_get(node, "pattern"), "Regex");
    TextRange pattern;
    uint32_t behaviour;
    if (behaviour_of(im, node, SPLIT_BEHAVIOURS, &behaviour) != STATUS_OK) return STATUS_FAILED;
    if (behaviour == SPLIT_BEHAVIOURS)
        return error_set(im->error, "tokenizer.json: Split: no behavior");
    if (json_flag(node, "invert", false)) behaviour |= SPLIT_INVERT;
    if (json_is_string(regex))
        return regex_split(&im->b, json_string_value(regex), json_string_length(regex),
                           REGEX_ONIGURUMA, behaviour, im->error);
    if (pattern_at(im, node, &pattern) != STATUS_OK) return STATUS_FAILED;
    return checked(im, builder_split(&im->b, SPLIT_PATTERN, behaviour, pattern), "pre_tokenizer");
}

/* Translates one pre-tokenizer into the splits of this program's tokenizer. */
static Status pre_tokenizer(JsonImport *im, const json_t *node) {
    uint32_t behaviour;
    if (json_import_is(node, "ByteLevel")) return byte_level_split(im, node);
    if (json_import_is(node, "Metaspace")) return metaspace_split(im, node);
    if (json_import_is(node, "Digits"))
        return split_by(im, "\\p{N}", REGEX_RUST,
                        json_flag(node, "individual_digits", false) ? SPLIT_ISOLATED
                                                                    : SPLIT_CONTIGUOUS);
    if (json_import_is(node, "Whitespace"))
        return split_by(im, "\\w+|[^\\w\\s]+", REGEX_RUST, SPLIT_REMOVED | SPLIT_INVERT);
    if (json_import_is(node, "WhitespaceSplit"))
        return split_by(im, "\\s", REGEX_RUST, SPLIT_REMOVED);
    if (json_import_is(node, "BertPreTokenizer")) {
        if (split_by(im, "\\s", REGEX_RUST, SPLIT_REMOVED) != STATUS_OK) return STATUS_FAILED;
        return split_by(im, punctuation, REGEX_RUST, SPLIT_ISOLATED);
    }
    if (json_import_is(node, "Punctuation")) {
        if (behaviour_of(im, node, SPLIT_ISOLATED, &behaviour) != STATUS_OK) return STATUS_FAILED;
        return split_by(im, punctuation, REGEX_RUST, behaviour);
    }
    if (json_import_is(node, "Split")) return pattern_split(im, node);
    if (json_import_is(node, "CharDelimiterSplit")) {
        TextRange text = json_import_text(im, node, "delimiter");
        TextRange pattern = regex_literal(&im->b, builder_bytes(&im->b, text), text.length);
        return checked(im, builder_split(&im->b, SPLIT_PATTERN, SPLIT_REMOVED, pattern),
                       "pre_tokenizer");
    }
    return error_set(im->error, "tokenizer.json: pre_tokenizer %s is not supported",
                     json_import_type(node));
}

/* ---- Decoders ---- */

/* Translates one decoder into a step of this program's decoder. */
static Status decoder(JsonImport *im, const json_t *node) {
    Builder *b = &im->b;
    const TextRange none = {0, 0};
    bool ok;
    if (json_import_is(node, "ByteLevel")) {
        ok = builder_decoder(b, DECODER_BYTE_LEVEL, none, none, 0, 0);
    } else if (json_import_is(node, "BPEDecoder")) {
        TextRange suffix = json_import_text(im, node, "suffix");
        if (!json_object_get(node, "suffix")) suffix = builder_text(b, "</w>", 4);
        ok = builder_decoder(b, DECODER_BPE, suffix, none, 0, 0);
    } else if (json_import_is(node, "Metaspace")) {
        bool drops = metaspace_scheme(node) != METASPACE_NEVER;
        ok = builder_decoder(b, DECODER_METASPACE, json_import_text(im, node, "replacement"), none,
                             drops, 0);
    } else if (json_import_is(node, "ByteFallback")) {
        ok = builder_decoder(b, DECODER_BYTE_FALLBACK, none, none, 0, 0);
    } else if (json_import_is(node, "Fuse")) {
        ok = builder_decoder(b, DECODER_FUSE, none, none, 0, 0);
    } else if (json_import_is(node, "Strip")) {
        json_int_t start = json_integer_value(json_object_get(node, "start"));
        json_int_t stop = json_integer_value(json_object_get(node, "stop"));
        if (start < 0 || start > 0xFFFF || stop < 0 || stop > 0xFFFF)
            return error_set(im->error, "tokenizer.json: decoder Strip: bad counts");
        ok = builder_decoder(b, DECODER_STRIP, json_import_text(im, node, "content"), none,
                             (uint32_t)start, (uint32_t)stop);
    } else if (json_import_is(node, "Replace")) {
        TextRange content = json_import_text(im, node, "content"), pattern;
        bool is_string;
        if (replaced_at(im, node, &pattern, &is_string) != STATUS_OK) return STATUS_FAILED;
        ok = builder_decoder(b, is_string ? DECODER_REPLACE_STRING : DECODER_REPLACE, pattern,
                             content, 0, 0);
    } else {
        return error_set(im->error, "tokenizer.json: decoder %s is not supported",
                         json_import_type(node));
    }
    return checked(im, ok, "decoder");
}

/* ---- Post-processors ---- */

void json_import_put_before(int32_t *ids, size_t *n, const int32_t *more, size_t n_more) {
    if (*n + n_more > 64) return;
    memmove(ids + n_more, ids, *n * sizeof *ids);
    memcpy(ids, more, n_more * sizeof *ids);
    *n += n_more;
}

/* Reads the ids of one item of a template into ids[0] before the text was seen, ids[1] after. */
static Status template_item(JsonImport *im, const json_t *item, const json_t *specials, bool *seen,
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

/* Reads the tokens that a post-processor puts before and after the text, and adds them to the
 * prefix and the suffix. */
static Status post_processor(JsonImport *im, const json_t *node) {
    int32_t ids[2][64];
    size_t n[2] = {0, 0};
    bool seen = false;
    if (json_import_is(node, "ByteLevel")) return STATUS_OK; /* it only changes offsets */
    if (json_import_is(node, "TemplateProcessing")) {
        const json_t *single = json_object_get(node, "single");
        const json_t *specials = json_object_get(node, "special_tokens");
        for (size_t i = 0; i < json_array_size(single); i++)
            if (template_item(im, json_array_get(single, i), specials, &seen, ids, n) != STATUS_OK)
                return STATUS_FAILED;
        if (!seen) return error_set(im->error, "tokenizer.json: a template without the text");
    } else if (json_import_is(node, "BertProcessing") ||
               json_import_is(node, "RobertaProcessing")) {
        for (int side = 0; side < 2; side++) {
            const json_t *pair = json_object_get(node, side ? "sep" : "cls");
            json_int_t id = json_integer_value(json_array_get(pair, 1));
            if (id < 0 || id >= im->b.header.n_tokens)
                return error_set(im->error, "tokenizer.json: %s: bad id", json_import_type(node));
            ids[side][n[side]++] = (int32_t)id;
        }
    } else {
        return error_set(im->error, "tokenizer.json: post_processor %s is not supported",
                         json_import_type(node));
    }
    json_import_put_before(im->b.prefix, &im->b.n_prefix, ids[0], n[0]);
    if (im->b.n_suffix + n[1] <= 64)
        for (size_t i = 0; i < n[1]; i++) im->b.suffix[im->b.n_suffix++] = ids[1][i];
    return STATUS_OK;
}

/* ---- All of them ---- */

Status json_import_steps_before(JsonImport *im, const json_t *root) {
    if (walk(im, json_object_get(root, "normalizer"), "normalizer", "normalizers", normalizer) !=
        STATUS_OK)
        return STATUS_FAILED;
    return walk(im, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers",
                pre_tokenizer);
}

Status json_import_steps_after(JsonImport *im, const json_t *root) {
    Builder *b = &im->b;
    const json_t *node = json_object_get(root, "decoder");
    if (walk(im, node, "decoder", "decoders", decoder) != STATUS_OK) return STATUS_FAILED;
    if (b->n_decoders == 0 && (!node || json_is_null(node)))
        builder_decoder(b, DECODER_JOIN, (TextRange){0, 0}, (TextRange){0, 0}, 0, 0);
    return walk(im, json_object_get(root, "post_processor"), "post_processor", "processors",
                post_processor);
}

Status json_import_gpt2_steps(JsonImport *im, bool prefix_space) {
    Builder *b = &im->b;
    if (prefix_space) builder_split(b, SPLIT_PREFIX_SPACE, 0, (TextRange){0, 0});
    if (split_by(im, PATTERN_GPT2, REGEX_ONIGURUMA, SPLIT_ISOLATED) != STATUS_OK)
        return STATUS_FAILED;
    builder_split(b, SPLIT_MAP_BYTES, 0, (TextRange){0, 0});
    builder_decoder(b, DECODER_BYTE_LEVEL, (TextRange){0, 0}, (TextRange){0, 0}, 0, 0);
    return STATUS_OK;
}
