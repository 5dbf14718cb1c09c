/* Imports the tokenizer.ggml.* keys of a GGUF file: the models `llama` and `gpt2`, the latter with
 * every pre-tokenizer name that llama.cpp knows. A name stands for the patterns of the
 * tokenizer.json that it was named after; the table below has them as that file writes them. */
#include "formats/tokenizers/tokenizer_gguf.h"

#include <stdio.h>
#include <string.h>

#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_patterns.h"
#include "formats/tokenizers/tokenizer_regex.h"
#include "formats/tokenizers/tokenizer_write.h"

#define FIRST "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER_NOT_HAN "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define LOWER_NOT_HAN "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"

#define DEEPSEEK_WORDS                                                                             \
    "[!\"#$%&'()*+,\\-./"                                                                          \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"              \
    " ?[\\p{P}\\p{S}]+"
#define DEEPSEEK_CJK "[一-龥぀-ゟ゠-ヿ]+"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
/* The letters of scripts that have case, as DeepSeek's file lists them. */
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"            \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-"                 \
    "\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-"                  \
    "\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"               \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}"                 \
    "\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-"                  \
    "\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"                  \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"                 \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}"                   \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-"                  \
    "\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}"                   \
    "\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}"                  \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}"                 \
    "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"                 \
    "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"           \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-"                   \
    "\\x{1e943}]+"

enum {
    PRE_IGNORE_MERGES = 1,
    PRE_ADD_BOS = 2,
    PRE_PLAIN = 4, /* not byte-level: tokens hold U+2581 for a space and <0xNN> for a byte */
    PRE_NFC = 8    /* its tokenizer.json normalizes text to NFC, for which GGUF has no key */
};

/* A pre-tokenizer: the patterns that split a text, one after the other. */
typedef struct Pre {
    const char *names; /* llama.cpp's, separated by spaces */
    unsigned flags;
    const char *patterns[7];
} Pre;

static const Pre pres[] = {
    {"default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", PATTERN_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
     "roberta-bpe a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling",
     0,
     {PATTERN_GPT2}},
    {"starcoder refact smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", PATTERN_GPT2}},
    {"command-r", PRE_NFC, {"\\p{N}", PATTERN_GPT2}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PRE_IGNORE_MERGES | PRE_ADD_BOS,
     {PATTERN_LLAMA3}},
    {"dbrx smaug-bpe glm4 chatglm-bpe", 0, {PATTERN_LLAMA3}},
    {"qwen2", PRE_NFC, {PATTERN_QWEN2}},
    {"deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2",
     0,
     {PATTERN_QWEN2}},
    {"qwen35",
     PRE_NFC,
     {PATTERN_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PATTERN_SPACES}},
    {"ufakzeka", 0, {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" PATTERN_PUNCTUATION PATTERN_SPACES}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", PATTERN_QWEN2}},
    {"minicpm5",
     PRE_IGNORE_MERGES,
     {"\\p{N}{1,3}", PATTERN_WORDS "\\p{N}+" PATTERN_PUNCTUATION PATTERN_SPACES}},
    {"tekken", PRE_IGNORE_MERGES | PRE_ADD_BOS, {PATTERN_TEKKEN}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {PATTERN_GPT4O}},
    {"granite-embed-multi-97m", PRE_IGNORE_MERGES, {PATTERN_GPT4O}},
    {"tiny_aya cohere2moe", 0, {"\\d{1,3}(?=(?:\\d{3})*\\b)", PATTERN_GPT4O}},
    {"kimi-k2",
     0,
     {"[\\p{Han}]+|" FIRST UPPER_NOT_HAN "*" LOWER_NOT_HAN "+" PATTERN_CONTRACTIONS
      "?|" FIRST UPPER_NOT_HAN "+" LOWER_NOT_HAN "*" PATTERN_CONTRACTIONS
      "?|\\p{N}{1,3}" PATTERN_PUNCTUATION PATTERN_SPACES}},
    {"youtu",
     PRE_IGNORE_MERGES,
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
      "ゟ゠-"
      "ヿ]"
      "+",
      PATTERN_CASED(PATTERN_CONTRACTIONS
                    "?") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PATTERN_SPACES}},
    {"deepseek-llm",
     0,
     {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
      "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"}},
    {"deepseek-coder",
     0,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     0,
     {"\\p{N}{1,3}", DEEPSEEK_CJK, DEEPSEEK_WORDS "[\\r\\n]*|" PATTERN_SPACES}},
    {"spark2_5",
     0,
     {"\\p{N}{1,3}", DEEPSEEK_CJK, DEEPSEEK_WORDS "|[\\r\\n]|\\s+(?!\\S)|\\s+", "\\p{N}"}},
    {"afmoe",
     0,
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}"
      "\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}"
      "\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"
      "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+",
      DEEPSEEK_WORDS "[\\r\\n]*|" PATTERN_SPACES}},
    {"falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", PATTERN_GPT2, "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish", 0, {BLOOM}},
    {"viking", 0, {BLOOM, "\\p{N}"}},
    {"chameleon",
     PRE_ADD_BOS,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", PATTERN_GPT2}},
    {"jais-2", 0, {PATTERN_JAIS2}},
    {"exaone-moe",
     0,
     {PATTERN_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder", 0, {PATTERN_WORDS "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" PATTERN_SPACES}},
    {"superbpe", 0, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"gemma4 granite-embed-multi-311m sarvam-moe", PRE_PLAIN, {"[^\\n]+|[\\n]+"}},
    {"whitespace", PRE_PLAIN, {"\\S+"}},
};

static const Pre *find_pre(TokenizerString name) {
    if (name.length == 0) return &pres[0];
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        for (const char *p = pres[i].names; *p;) {
            size_t n = strcspn(p, " ");
            if (n == name.length && memcmp(p, name.bytes, n) == 0) return &pres[i];
            p += n + (p[n] == ' ');
        }
    return NULL;
}

static int32_t type_of(const TokenizerGguf *g, size_t i) {
    return g->token_types ? g->token_types[i] : PIECE_NORMAL;
}

/* ---- Tokens that end a text ---- */

/* The names of tokens that end a turn, as in llama.cpp (llama-vocab.cpp of llama-cpp-python
 * 0.3.36), which calls them EOG. */
static const char *const ending_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", /* DeepSeek's */
    "[e~["};

/* Tokens of filling in the middle that end a text: each kind has the key's id or else the first
 * token with one of these names. */
static const char *const middle_names[GGUF_MIDDLES][6] = {
    {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
    {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
    {"<|file_sep|>"}};

static bool is_one_of(TokenizerString token, const char *const *names, size_t n) {
    for (size_t i = 0; i < n && names[i]; i++)
        if (tokenizer_string_is(token, names[i])) return true;
    return false;
}

/* The first token of this name; -1: none. */
static int64_t token_named(const TokenizerGguf *g, const char *name) {
    for (size_t i = 0; i < g->n_tokens; i++)
        if (tokenizer_string_is(g->tokens[i], name)) return (int64_t)i;
    return -1;
}

static int64_t middle_token(const TokenizerGguf *g, size_t kind) {
    if (g->middle_id[kind] >= 0) return g->middle_id[kind];
    for (size_t i = 0; i < g->n_tokens; i++)
        if (is_one_of(g->tokens[i], middle_names[kind], 6)) return (int64_t)i;
    return -1;
}

/* <|end|> ends a channel, not the answer, in a vocabulary with <|return|> and <|call|> (GPT-OSS) or
 * with <|flush|> and a call (Solar); </s> is a plain token beside Gemma 4's <|tool_response> or
 * PLaMo's own end. */
void tokenizer_gguf_never_end(const TokenizerGguf *g, int64_t ids[2]) {
    const bool calls = token_named(g, "<|call|>") >= 0 || token_named(g, "<|calls|>") >= 0;
    const bool channels =
        calls && (token_named(g, "<|return|>") >= 0 || token_named(g, "<|flush|>") >= 0);
    const int64_t plamo = token_named(g, "<|plamo:eos|>");
    const bool plain_s = token_named(g, "<|tool_response>") >= 0 ||
                         (plamo >= 0 && (plamo == g->eos_id || plamo == g->eot_id));
    ids[0] = channels ? token_named(g, "<|end|>") : -1;
    ids[1] = plain_s ? token_named(g, "</s>") : -1;
}

/* Whether a token ends a text because of its name. */
static bool ends_by_name(TokenizerString token) {
    return is_one_of(token, ending_names, sizeof ending_names / sizeof *ending_names);
}

/* Whether a token of this type has no text in llama.cpp (llama_vocab::impl::token_to_piece): the
 * rows of the vocabulary beyond the tokenizer, which converters call [PAD...], and other unused
 * ones. */
static bool is_silent(int32_t type) {
    return type < PIECE_NORMAL || type > PIECE_BYTE || type == PIECE_UNUSED;
}

/* Sets every token. */
static Status read_tokens(Builder *b, const TokenizerGguf *g, bool spm, Error *error) {
    for (size_t i = 0; i < g->n_tokens; i++) {
        int32_t type = type_of(g, i);
        bool in_model =
            !spm || type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED;
        char empty[32];
        TokenizerString text = g->tokens[i];
        if (text.length == 0) { /* named as in llama.cpp */
            text.length = (size_t)snprintf(empty, sizeof empty, "[EMPTY_%zu]", i);
            text.bytes = empty;
        }
        if (utf8_valid_prefix(text.bytes, text.length) < text.length)
            return error_set(error, "tokenizer.ggml.tokens: token %zu is not UTF-8", i);
        if (builder_token(b, (int64_t)i, text.bytes, text.length, g->scores ? g->scores[i] : 0,
                          (in_model ? BUILD_IN_MODEL : 0u) | (is_silent(type) ? BUILD_SILENT : 0u),
                          error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Adds control, unknown, user-defined and turn-ending tokens as added tokens. */
static void read_added(Builder *b, const TokenizerGguf *g) {
    int64_t never[2];
    tokenizer_gguf_never_end(g, never);
    for (size_t i = 0; i < g->n_tokens; i++) {
        int32_t type = type_of(g, i);
        bool ends = (int64_t)i != never[0] && (int64_t)i != never[1] && ends_by_name(g->tokens[i]);
        bool special = type == PIECE_CONTROL || type == PIECE_UNKNOWN || ends;
        if (!special && type != PIECE_USER_DEFINED) continue;
        if (g->tokens[i].length == 0 || g->tokens[i].length > SECTION_MAX_ADDED) continue;
        builder_added(b, (uint32_t)i, special ? ADDED_SPECIAL : 0, g->tokens[i].bytes,
                      g->tokens[i].length);
        if (ends) builder_eos(b, (int64_t)i);
    }
}

/* Adds the ids that keys name as ends, but for those that end nothing. */
static void read_ends(Builder *b, const TokenizerGguf *g) {
    const int64_t ids[] = {g->eos_id,          g->eot_id,          g->eom_id,
                           middle_token(g, 0), middle_token(g, 1), middle_token(g, 2)};
    int64_t never[2];
    tokenizer_gguf_never_end(g, never);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] != never[0] && ids[i] != never[1]) builder_eos(b, ids[i]);
    for (size_t i = 0; i < g->n_eos_ids; i++)
        if (g->eos_ids[i] != never[0] && g->eos_ids[i] != never[1]) builder_eos(b, g->eos_ids[i]);
}

/* Reads the ids that begin and end texts; `add_bos` holds where the file does not say. */
static Status read_ids(Builder *b, const TokenizerGguf *g, bool add_bos, Error *error) {
    int64_t n = (int64_t)g->n_tokens;
    if (g->bos_id >= n || g->eos_id >= n || g->unk_id >= n)
        return error_set(error, "tokenizer.ggml: a special id is beyond the %zu tokens",
                         g->n_tokens);
    b->header.bos_id = g->bos_id < 0 ? -1 : g->bos_id;
    b->header.unk_id = g->unk_id < 0 ? -1 : g->unk_id;
    read_ends(b, g);
    if (g->add_bos >= 0 ? g->add_bos != 0 : add_bos) builder_prefix(b, g->bos_id);
    if (g->add_eos > 0) builder_suffix(b, g->eos_id);
    return STATUS_OK;
}

/* ---- llama: SentencePiece BPE by scores ---- */

/* Adds the decoder of SentencePiece's tokens: U+2581 to a space, byte tokens to bytes; `strip`:
 * less the first space. */
static void llama_decoder(Builder *b, bool strip) {
    const TextRange none = {0, 0};
    TextRange mark = builder_text(b, "\xE2\x96\x81", 3), space = builder_text(b, " ", 1);
    builder_decoder(b, DECODER_REPLACE_STRING, mark, space, 0, 0);
    builder_decoder(b, DECODER_BYTE_FALLBACK, none, none, 0, 0);
    builder_decoder(b, DECODER_FUSE, none, none, 0, 0);
    if (strip) builder_decoder(b, DECODER_STRIP, space, none, 1, 0);
}

/* Notes the ids of the byte tokens <0x00> to <0xFF>, which need not belong to the model. */
static void find_byte_tokens(Builder *b, const TokenizerGguf *g) {
    b->has_bytes = true;
    for (size_t i = 0; i < g->n_tokens; i++) {
        int byte = builder_byte_of(g->tokens[i].bytes, g->tokens[i].length);
        if (byte >= 0) b->bytes[byte] = (uint32_t)i;
    }
}

/* Imports a SentencePiece BPE, whose merges follow from the tokens' scores. */
static Status import_llama(Builder *b, const TokenizerGguf *g, Error *error) {
    bool prefix = g->add_space_prefix != 0;
    TextRange mark = builder_text(b, "\xE2\x96\x81", 3), space = builder_text(b, " ", 1);
    if (!g->scores) return error_set(error, "tokenizer.ggml.scores: missing");
    b->header.flags = SECTION_BYTE_FALLBACK | SECTION_FUSE_UNK;
    if (prefix) builder_normalizer(b, NORMALIZE_PREPEND, 0, mark, (TextRange){0, 0});
    builder_normalizer(b, NORMALIZE_REPLACE, 0, space, mark);
    if (read_tokens(b, g, true, error) != STATUS_OK) return STATUS_FAILED;
    builder_index(b);
    find_byte_tokens(b, g);
    builder_merges_by_score(b);
    read_added(b, g);
    llama_decoder(b, prefix);
    return read_ids(b, g, true, error);
}

/* ---- gpt2: BPE by merges ---- */

/* Writes the key of a token's text into key[SECTION_MAX_PIECE] and returns its length; SIZE_MAX: no
 * token can have this key. */
static size_t key_of(const char *text, size_t n, bool byte_level, char *key) {
    if (n > SECTION_MAX_PIECE) return SIZE_MAX;
    if (byte_level) return builder_byte_key(text, n, key);
    memcpy(key, text, n);
    return n;
}

/* Adds merge number `rank`, a line "left right"; false when it is not of three known tokens: left,
 * right and both joined. */
static bool add_merge(Builder *b, uint32_t rank, const char *line, size_t left, size_t n,
                      bool byte_level) {
    char keys[2 * SECTION_MAX_PIECE];
    size_t l = key_of(line, left, byte_level, keys);
    size_t r =
        l == SIZE_MAX ? SIZE_MAX : key_of(line + left + 1, n - left - 1, byte_level, keys + l);
    if (r == SIZE_MAX) return false;
    uint32_t a = builder_find(b, keys, l), c = builder_find(b, keys + l, r);
    uint32_t into = builder_find(b, keys, l + r);
    if (a == TOKENIZER_NONE || c == TOKENIZER_NONE || into == TOKENIZER_NONE) return false;
    builder_merge(b, a, c, rank, into);
    return true;
}

static Status read_merges(Builder *b, const TokenizerGguf *g, bool byte_level, Error *error) {
    for (size_t i = 0; i < g->n_merges; i++) {
        const char *line = g->merges[i].bytes;
        size_t n = g->merges[i].length;
        const char *space = n > 1 ? memchr(line + 1, ' ', n - 1) : NULL;
        if (!space)
            return error_set(error, "tokenizer.ggml.merges: merge %zu is not two tokens", i);
        if (!add_merge(b, (uint32_t)i, line, (size_t)(space - line), n, byte_level))
            return error_set(
                error, "tokenizer.ggml.merges: merge %zu, '%.*s', is not made of known tokens", i,
                (int)(n < 200 ? n : 200), line);
    }
    return STATUS_OK;
}

/* Imports a BPE with a list of merges. Most are byte-level; those of PRE_PLAIN (Gemma 4) have
 * tokens of characters, with U+2581 for a space and <0xNN> for the bytes of characters without a
 * token. */
static Status import_gpt2(Builder *b, const TokenizerGguf *g, Error *error) {
    bool is_gemma4 =
        tokenizer_string_is(g->model, "gemma4") || tokenizer_string_is(g->pre, "gemma4");
    const Pre *pre = find_pre(is_gemma4 ? (TokenizerString){"gemma4", 6} : g->pre);
    if (!pre)
        return error_set(error, "tokenizer.ggml.pre: '%.*s' is not known", (int)g->pre.length,
                         g->pre.bytes);
    bool plain = pre->flags & PRE_PLAIN;
    const TextRange none = {0, 0};
    if (pre->flags & PRE_NFC) builder_normalizer(b, NORMALIZE_NFC, 0, none, none);
    for (size_t i = 0; i < sizeof pre->patterns / sizeof *pre->patterns && pre->patterns[i]; i++) {
        if (regex_split(b, pre->patterns[i], strlen(pre->patterns[i]), REGEX_ONIGURUMA,
                        SPLIT_ISOLATED, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (pre->flags & PRE_IGNORE_MERGES) b->header.flags |= SECTION_IGNORE_MERGES;
    if (read_tokens(b, g, false, error) != STATUS_OK) return STATUS_FAILED;
    if (plain) {
        b->header.flags |= SECTION_BYTE_FALLBACK;
        builder_index(b);
        find_byte_tokens(b, g);
        builder_normalizer(b, NORMALIZE_REPLACE, 0, builder_text(b, " ", 1),
                           builder_text(b, "\xE2\x96\x81", 3));
        llama_decoder(b, false);
    } else {
        b->header.flags |= SECTION_BYTE_LEVEL;
        builder_byte_keys(b);
        builder_decoder(b, DECODER_BYTE_LEVEL, (TextRange){0, 0}, (TextRange){0, 0}, 0, 0);
    }
    if (read_merges(b, g, !plain, error) != STATUS_OK) return STATUS_FAILED;
    read_added(b, g);
    TokenizerGguf ids = *g;
    /* Gemma 4 needs BOS whatever the file says: its converter wrote false, and llama.cpp,
     * ik_llama.cpp and ollama override it. */
    if (is_gemma4) ids.add_bos = 1;
    if (read_ids(b, &ids, (pre->flags & PRE_ADD_BOS) != 0, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!plain) b->header.unk_id = -1; /* llama.cpp drops bytes without a token */
    return STATUS_OK;
}

Status tokenizer_import_gguf(const TokenizerGguf *g, TokenizerBlob *out, Error *error) {
    Builder b;
    Status status;
    *out = (TokenizerBlob){0};
    builder_init(&b);
    b.header.model = MODEL_BPE;
    if (g->n_tokens == 0 || g->n_tokens > 1 << 21)
        status = error_set(error, "tokenizer.ggml.tokens: %zu tokens", g->n_tokens);
    else if (tokenizer_string_is(g->model, "llama"))
        status = import_llama(&b, g, error);
    else if (tokenizer_string_is(g->model, "gpt2") || tokenizer_string_is(g->model, "gemma4"))
        status = import_gpt2(&b, g, error);
    else
        status = error_set(error, "tokenizer.ggml.model: '%.*s' is not supported",
                           (int)g->model.length, g->model.bytes);
    if (status == STATUS_OK) status = tokenizer_write(&b, out, error);
    builder_free(&b);
    return status;
}
