/* Speculative decoding: the pass that decoding computes anyway reads all weights, and rows for a
 * few drafted tokens that ride along cost little more. A draft that turns out right is a token that
 * needs no pass of its own.
 *
 * A row has the same bits in whatever pass it is computed, and each token is chosen from its own
 * row's logits, so the text is the same with any Drafter and with none. One text, dialogues and
 * batches all verify drafts here:
 *
 *     n = speculation_rows(&s, sequence, text, n_text, first, most, rows)
 *     ... model_forward(rows) gives logits; the next token is chosen from logits[0] ...
 *     while (speculation_accepts(&s, token)) choose the next token from logits[s.n_accepted]
 *     ... the cache is truncated to the text, and the next pass begins ...
 *
 * Rejected drafts cost no pass: layers with a window keep pages for them (KV_SLACK), and where
 * layers have states, those before the first draft are held (kvcache_hold) and, where not all
 * drafts were right, those that the text took ride along in the next pass once more. */
#ifndef SPECULATION_H
#define SPECULATION_H

#include "draft/drafter.h"
#include "model.h"
#include "tokenizer.h"

/* Rows of accepted tokens that a pass may run once more beside its own. */
enum { SPECULATION_AGAIN = DRAFTS_MAX + 1 };

typedef struct SpeculationStats {
    size_t passes;   /* calls of speculation_rows */
    size_t drafted;  /* rows computed for drafts */
    size_t accepted; /* drafts that the text took */
} SpeculationStats;

/* The drafts of one text. Zero-initialize and set `drafter`. */
typedef struct Speculation {
    Drafter *drafter; /* NULL: no drafts; borrowed */
    int32_t drafts[DRAFTS_MAX];
    size_t n_drafts, n_accepted; /* of the last pass */
    SpeculationStats stats;
} Speculation;

/* Writes the rows of the next pass: the tokens of text[n] from `first` < n on, where the cache
 * ends, then drafts, at most `most_drafts`. The text's last token and the drafts want logits.
 * Returns how many rows there are, n - first + n_drafts. */
size_t speculation_rows(Speculation *speculation, int32_t sequence, const int32_t *text, size_t n,
                        size_t first, size_t most_drafts, Row *rows);

/* Takes the token that was chosen after the last row in use. True: it is the next draft, so its
 * row's logits, at index n_accepted of the pass, are computed already. False: a new pass. */
bool speculation_accepts(Speculation *speculation, int32_t token);

/* Decoding of one text, sequence 0 of a cache, one token after another. */
typedef struct Decoding {
    Model *model;   /* borrowed */
    KvCache *cache; /* borrowed */
    TokenList text; /* all tokens so far */
    size_t most_drafts, vocab_size;
    float *logits; /* [1 + most_drafts][vocab_size], of the last pass's rows */
    Speculation speculation;
} Decoding;

/* Prepares the decoding of a text that begins with ids[n]; `drafter` (NULL: none) is borrowed.
 * Fails when there is no memory. The caller calls decoding_free in any case. */
Status decoding_init(Decoding *decoding, Model *model, KvCache *cache, Drafter *drafter,
                     const int32_t *ids, size_t n, Error *error);
void decoding_free(Decoding *decoding);

/* Continues the text with `token`, which the cache does not hold yet, and gives the logits for the
 * token after it: *logits, [vocab_size], owned by the Decoding and free to be overwritten. Fails as
 * model_forward does for that one row. */
Status decoding_next(Decoding *decoding, int32_t token, float **logits, Error *error);

/* Removes drafts that were not accepted from the cache, which then holds exactly the text. */
void decoding_end(Decoding *decoding);

#endif
