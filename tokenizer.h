/* Text to token ids and back.
 *
 * The exporter has turned whatever tokenizer a model came with (tokenizer.json, vocab.json and
 * merges.txt, GGUF, SentencePiece, tiktoken, llama2.c) into one compact section of the model
 * file; docs/tokenizer-section.md specifies it to the byte and formats/tokenizer_import.h
 * makes it. The runner knows only that section: hash tables that are used where they are
 * mapped, a list of normalizer steps, a list of splits, one of three models (BPE, Unigram,
 * WordLevel), and what to put before and after. Nothing is parsed when it is opened; only its
 * patterns are compiled. The section is a stranger's data: no content of it can make these
 * functions read outside it, crash or hang.
 *
 * Encoding goes as in the tokenizers library (https://github.com/huggingface/tokenizers):
 * added tokens are cut out of the raw text, the rest is normalized, more added tokens are cut
 * out, each piece is split into words by the patterns, each word is encoded by the model.
 *
 *     Tokenizer *tokenizer;
 *     if (tokenizer_open(&tokenizer, section, size, &error) != STATUS_OK) ...
 *     TokenList ids = {0};
 *     if (tokenizer_encode(tokenizer, text, strlen(text), NULL, TOKENIZE_ADD_BOS, &ids, &error))
 *     ...
 *     token_list_free(&ids);
 *     tokenizer_close(tokenizer);
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "base/status.h"
#include "base/text.h"
#include "token_list.h"

typedef struct Tokenizer Tokenizer;

/* Borrows `section` (aligned to 8 bytes, as modelfile maps it) until tokenizer_close.
 * Takes milliseconds whatever the vocabulary's size. */
Status tokenizer_open(Tokenizer **out, const void *section, size_t size, Error *error);
void tokenizer_close(Tokenizer *tokenizer);

enum {
    TOKENIZE_ADD_BOS = 1,      /* what the model wants before a text (nothing for some) */
    TOKENIZE_ADD_EOS = 2,      /* what the model wants after a text (nothing for most) */
    TOKENIZE_PARSE_SPECIAL = 4 /* recognize special tokens everywhere, as transformers does */
};

/* Appends the ids of text[length] to *out. The text may hold any bytes, zeros included; what
 * is not UTF-8 is encoded as bytes where the vocabulary can, and read as U+FFFD where it cannot.
 *
 * A token that is marked special is recognized only where each of its bytes has a nonzero
 * from_template[i] (one byte for each byte of the text; NULL: none comes from the template), so
 * that a user's text can never pose as structure. TOKENIZE_PARSE_SPECIAL recognizes it
 * everywhere. Added tokens that are not special (`<think>`) are recognized everywhere.
 *
 * Any number of threads may encode with one Tokenizer at the same time: each call borrows a
 * scratch area (buffers, word cache, JIT stack) from a pool inside the Tokenizer. */
Status tokenizer_encode(Tokenizer *tokenizer, const char *text, size_t length,
                        const uint8_t *from_template, unsigned flags, TokenList *out, Error *error);

/* Ids run from 0 to tokenizer_vocab_size - 1; some may stand for no token (empty text). */
size_t tokenizer_vocab_size(const Tokenizer *tokenizer);

/* True when a model with `n` embeddings can work with this tokenizer: each id from n on is an
 * added token or none. Fine-tunes are published whose padding token has no embedding. */
bool tokenizer_fits(const Tokenizer *tokenizer, size_t n);

/* From now on a text that gives an id of n or above is an error of tokenizer_encode that names
 * the token. To be called before threads encode. */
void tokenizer_limit(Tokenizer *tokenizer, size_t n);

/* The token that begins a text, or -1. (What TOKENIZE_ADD_BOS adds may differ.) */
int32_t tokenizer_bos(const Tokenizer *tokenizer);

/* The tokens that the tokenizer's own configuration says end a text or a turn; *count of them.
 * The generation configuration may add others. */
const int32_t *tokenizer_eos(const Tokenizer *tokenizer, size_t *count);

/* True when TOKENIZE_ADD_BOS would add something. */
bool tokenizer_adds_bos(const Tokenizer *tokenizer);

/* The id of the token whose text is exactly text[length], or -1. Added tokens come first;
 * byte-level vocabularies are looked up by the bytes that a token stands for. */
int32_t tokenizer_token_id(const Tokenizer *tokenizer, const char *text, size_t length);

/* The bytes that the token stands for, not NUL-terminated, inside the section; *length 0 for an
 * id that stands for no token. A byte token (`<0x0A>`) gives its name here, its byte when it
 * is decoded; SentencePiece's U+2581 is still U+2581. */
const char *tokenizer_token_text(const Tokenizer *tokenizer, int32_t id, size_t *length);
bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id);

enum {
    TOKEN_DECODER_SKIP_SPECIAL = 1, /* special tokens give no text */
    TOKEN_DECODER_CONTINUE = 2      /* the ids continue a text: what the decoder strips at the
                                       start of a text (SentencePiece's space) stays */
};

/* Turns a stream of ids into text. Treat the fields as private. */
typedef struct TokenDecoder {
    const Tokenizer *tokenizer;
    unsigned flags;
    bool at_start;       /* no token has been decoded yet */
    uint32_t strip_left; /* characters that may still be stripped at the start */
    int32_t held_id;     /* a token whose text depends on whether it is the last; or -1 */
    TextBuffer text;     /* what has been decoded */
    size_t given;        /* the caller has got this much of it */
} TokenDecoder;

void token_decoder_init(TokenDecoder *decoder, const Tokenizer *tokenizer, unsigned flags);

/* Adds one id and gives the text that it completes: *bytes[*length], owned by the decoder and
 * valid until the next call. Only whole characters are given (bytes that can never become one
 * pass as they are, so that decoding is exact byte for byte), and only text that no later
 * token can change; the rest waits. Fails when memory is short or the id is out of range. */
Status token_decoder_push(TokenDecoder *decoder, int32_t id, const char **bytes, size_t *length,
                          Error *error);

/* Gives what is still waiting and ends the text; the decoder is as after init. */
Status token_decoder_flush(TokenDecoder *decoder, const char **bytes, size_t *length, Error *error);

/* Frees the buffer. */
void token_decoder_free(TokenDecoder *decoder);

/* The text of ids[n], NUL-terminated and freed by the caller; *length without the NUL. */
Status tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, size_t n, unsigned flags,
                        char **text, size_t *length, Error *error);

/* "PCRE2 10.42 (Unicode 14.0.0, JIT), utf8proc 2.6.0 (Unicode 14.0.0)" into text[size]. A code
 * point newer than these versions is the one documented exception to equality with the
 * reference tokenizers. */
void tokenizer_versions(char *text, size_t size);

#endif
