/* A model's own prediction layers as a Drafter (layers/arrangements/mtp.h): from the hidden state
 * of the text's last position and the token that was chosen there they guess the next ones, one
 * layer instead of all.
 *
 * The layers have a cache of their own, which begins where the drafter first reads the text: at its
 * start, or at the last rows of a long prompt (at most 512; Drafter.window says how many). */
#ifndef MTP_DRAFTER_H
#define MTP_DRAFTER_H

#include "draft/drafter.h"
#include "model.h"
#include "sampler.h"

enum { MTP_DRAFTS = 7 }; /* tokens at a time */

/* What all texts share for which one model's layers draft. */
typedef struct MtpDrafts MtpDrafts;

/* Opens the prediction layers of the file that `model` was opened on, for max_texts texts at once.
 * *out is NULL where it has none. File and model must outlive it. */
Status mtp_drafts_open(MtpDrafts **out, const ModelFile *file, const Model *model, KvType kv_type,
                       size_t max_texts, Error *error);
void mtp_drafts_close(MtpDrafts *shared); /* after the drafters; NULL is fine */

/* Runs the layers once, so that the first draft in a text does not wait for weights that were never
 * read and memory that was never touched. Call it before the first text. */
void mtp_drafts_warm_up(MtpDrafts *shared);

/* A Drafter for one text that is sampled with these options; drafter_free frees it. NULL: no
 * memory. */
Drafter *mtp_drafter(MtpDrafts *shared, const SamplerOptions *sampling);

#endif
