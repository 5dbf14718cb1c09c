/* Text to token ids and back.
 *
 * The exporter has turned whatever tokenizer a model came with (tokenizer.json, vocab.json and
 * merges.txt, GGUF, SentencePiece, tiktoken, llama2.c) into one compact section of the model
 * file; docs/tokenizer-section.md specifies it to the byte and
 * formats/tokenizers/tokenizer_import.h makes it. The runner knows only that section: hash tables
 * that are used where they are mapped, a list of normalizer steps, a list of splits, one of three
 * models (BPE, Unigram, WordLevel), and ids to put before and after a text. Opening it parses
 * nothing and compiles only its patterns. The section is a stranger's data: whatever it holds,
 * these functions neither read outside it nor crash nor hang.
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
#include "base/token_list.h"

typedef struct Tokenizer Tokenizer;

/* Opens a tokenizer on `section`, which it borrows until tokenizer_close (aligned to 8 bytes, as
 * modelfile maps it). Takes milliseconds whatever the vocabulary's size. */
Status tokenizer_open(Tokenizer **out, const void *section, size_t size, Error *error);
/* Like tokenizer_open, for the tokenizer of a model of vocab_size tokens (tokenizer_fits,
 * tokenizer_limit); errors name the file `path`. */
Status tokenizer_open_for(Tokenizer **out, const char *path, const void *section, size_t size,
                          size_t vocab_size, Error *error);
void tokenizer_close(Tokenizer *tokenizer);

enum {
    TOKENIZE_ADD_BOS = 1,      /* put the ids before the text that the model wants (often none) */
    TOKENIZE_ADD_EOS = 2,      /* put the ids after the text that the model wants (mostly none) */
    TOKENIZE_PARSE_SPECIAL = 4 /* recognize special tokens everywhere, as transformers does */
};

/* Appends the ids of text[length] to *out. The text may hold any bytes, zeros included. Bytes that
 * are not UTF-8 become byte tokens, or U+FFFD where the vocabulary has no byte tokens.
 *
 * A special token is recognized only where every byte of it comes from the chat template, so that
 * a user's text can never pose as structure: from_template[i] is nonzero for such bytes of the text
 * (NULL: there are none). TOKENIZE_PARSE_SPECIAL recognizes special tokens everywhere. Added tokens
 * that are not special (`<think>`) are recognized everywhere.
 *
 * Any number of threads may encode with one Tokenizer at the same time: each call borrows a
 * scratch area (buffers, word cache, JIT stack) from a pool inside the Tokenizer. */
Status tokenizer_encode(Tokenizer *tokenizer, const char *text, size_t length,
                        const uint8_t *from_template, unsigned flags, TokenList *out, Error *error);

/* Tokens have ids from 0 to tokenizer_vocab_size - 1. An id may be unused; its text is then empty.
 */
size_t tokenizer_vocab_size(const Tokenizer *tokenizer);

/* Ids that can be decoded run from 0 to tokenizer_n_ids - 1. A model may have more rows than its
 * tokenizer has tokens (Qwen2.5: 151,936 and 151,665), and any of them may be drawn: such an id is
 * unused. Without tokenizer_limit, the same as tokenizer_vocab_size. */
size_t tokenizer_n_ids(const Tokenizer *tokenizer);

/* True when a model with `n` embeddings can work with this tokenizer: every id from n on is unused
 * or an added token. (Some published fine-tunes have no embedding for their padding token.) */
bool tokenizer_fits(const Tokenizer *tokenizer, size_t n);

/* Says that the model has n tokens: tokenizer_encode then fails, with an error that names the
 * token, for a text that gives an id of n or above, and ids below n can be decoded. Call it before
 * threads encode. */
void tokenizer_limit(Tokenizer *tokenizer, size_t n);

/* The token that begins a text, or -1. (What TOKENIZE_ADD_BOS adds may differ.) */
int32_t tokenizer_bos(const Tokenizer *tokenizer);

/* The tokens that the tokenizer's own configuration says end a text or a turn; *count of them.
 * The generation configuration may add others. */
const int32_t *tokenizer_eos(const Tokenizer *tokenizer, size_t *count);

/* True when TOKENIZE_ADD_BOS would add something. */
bool tokenizer_adds_bos(const Tokenizer *tokenizer);

/* The id of the token whose text is exactly text[length], or -1. Looks at added tokens first. The
 * text of a byte-level vocabulary's token is the bytes that it stands for. */
int32_t tokenizer_token_id(const Tokenizer *tokenizer, const char *text, size_t length);

/* The text of a token, not NUL-terminated, inside the section; *length is 0 for an unused id. This
 * is not always the decoded text: a byte token gives its name (`<0x0A>`), and SentencePiece's
 * U+2581 stays U+2581. */
const char *tokenizer_token_text(const Tokenizer *tokenizer, int32_t id, size_t *length);
bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id);

enum {
    TOKEN_DECODER_SKIP_SPECIAL = 1, /* special tokens give no text */
    TOKEN_DECODER_CONTINUE = 2      /* the ids continue a text: do not strip what the decoder
                                       strips at the start of a text (SentencePiece's space) */
};

/* Turns a stream of ids into text. Treat the fields as private. */
typedef struct TokenDecoder {
    const Tokenizer *tokenizer;
    unsigned flags;
    const int32_t *shown; /* [n_shown] special tokens that give their text all the same */
    size_t n_shown;
    bool at_start;       /* no token has been decoded yet */
    uint32_t strip_left; /* characters that may still be stripped at the start */
    int32_t held_id;     /* the newest token, whose text depends on whether it is the last; or -1 */
    TextBuffer text;     /* what has been decoded */
    size_t given;        /* the caller has got this much of it */
} TokenDecoder;

void token_decoder_init(TokenDecoder *decoder, const Tokenizer *tokenizer, unsigned flags);

/* Adds one id and gives the text that it completes: *bytes[*length], owned by the decoder and
 * valid until the next call. An incomplete character waits for its other bytes, and so does text
 * that a later token can change. Bytes that can never become a character are given as they are, so
 * that decoding is exact byte for byte. Fails when memory is short or the id is out of range. */
Status token_decoder_push(TokenDecoder *decoder, int32_t id, const char **bytes, size_t *length,
                          Error *error);

/* Gives the text that still waits, ends it, and leaves the decoder as token_decoder_init does. */
Status token_decoder_flush(TokenDecoder *decoder, const char **bytes, size_t *length, Error *error);

/* Frees the buffer. */
void token_decoder_free(TokenDecoder *decoder);

/* The text of ids[n], NUL-terminated and freed by the caller; *length without the NUL. */
Status tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, size_t n, unsigned flags,
                        char **text, size_t *length, Error *error);

#endif
