/* Prediction layers (multi-token prediction, also called nextn): after the model has computed the
 * hidden state of a position and a token was chosen for the next one, they guess the tokens that
 * follow. DeepSeek V3 (arXiv 2412.19437), GLM-4.5, Qwen3-Next, Qwen 3.5. Guesses are drafts: the
 * model verifies them, and no text depends on them.
 *
 * A row is the token t at position p and the hidden state h of position p - 1:
 *
 *     x       = projection [norm_e(embedding(t)), norm_h(h)]    the embedding's part first
 *     x       = x + attention(norm(x)),  x + feed-forward(norm(x))    a layer as the family has it,
 *                                                     with keys and values of its own in a cache
 *     h'      = final_norm(x)
 *     logits  = output h'                             of position p + 1
 *
 * h of a position that the model computed is its final norm's output (mtp_hidden). After the first
 * guess h' takes the place of h: the guess at position p + 1 and h' give that of p + 2, through the
 * next layer where there are several, else through the same one again.
 *
 * The cache of a sequence begins at position 1, which is the first to follow a hidden state:
 * kvcache_reset(cache, sequence, 1). */
#ifndef LAYERS_ARRANGEMENTS_MTP_H
#define LAYERS_ARRANGEMENTS_MTP_H

#include "model.h"

typedef struct Mtp Mtp;

/* Opens the prediction layers of the file that `model` was opened on, for calls of at most
 * max_rows rows. *out is NULL where it has none. File and model must outlive it. */
Status mtp_open(Mtp **out, const ModelFile *file, const Model *model, uint32_t max_rows,
                Error *error);
void mtp_close(Mtp *mtp);

uint32_t mtp_layers(const Mtp *mtp);
uint32_t mtp_max_rows(const Mtp *mtp);

/* The shape of a cache for them. With several layers, each needs a sequence of its own. */
KvShape mtp_kv_shape(const Mtp *mtp, KvType type);

/* out[n][dim] = the hidden states h of rows [first, first + n) of the last model_forward. */
void mtp_hidden(const Model *model, size_t first, size_t n, float *out);

/* Runs n rows through prediction layer number `layer`, in the form of model_forward: rows[i] is a
 * token and its position, hidden[n][dim] the states of the positions before. logits[k][vocab_size]
 * receives the logits of the k-th row that wants them; next[n][dim], if not NULL, h' of each row.
 */
Status mtp_forward(Mtp *mtp, KvCache *cache, uint32_t layer, const Row *rows, size_t n,
                   const float *hidden, float *logits, float *next, Error *error);

#endif
