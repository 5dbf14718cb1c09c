/* Who proposes tokens ahead of the texts of a session, as --draft, --lookup and --draft-model say,
 * and what came of it. */
#ifndef DRAFTING_H
#define DRAFTING_H

#include <stdio.h>

#include "draft/draft_model.h"
#include "draft/drafter_set.h"
#include "draft/mtp_drafter.h"
#include "session/session.h"

/* The kinds of drafters, in the order of drafting_names in drafting.c. */
typedef enum DraftKind {
    DRAFT_SHAPE,
    DRAFT_LOOKUP,
    DRAFT_BY_MODEL,
    DRAFT_MTP,
    DRAFT_KINDS
} DraftKind;

/* What all texts of a session share. */
typedef struct Drafting {
    unsigned kinds;              /* kinds that may propose: bits 1 << DraftKind */
    DraftModel *model;           /* of --draft-model; borrowed; NULL: none */
    const ModelFile *model_file; /* its file */
    MtpDrafts *mtp;              /* the model's own prediction layers; NULL: none */
    bool warm;                   /* these have run once */
    size_t lookup;               /* tokens that prompt lookup proposes at a time */
    PassCosts costs;
    DraftRecord records[DRAFT_KINDS];
    DraftRecord recorded; /* of answers that are checked */
} Drafting;

/* Checks --draft. STATUS_USAGE when it names no kind of drafter. */
Status drafting_check(const Options *options, Error *error);

/* Prepares the drafting of a session whose model is open. `model` and its file come from
 * --draft-model, or are NULL. After a failure, too, the caller closes it. */
Status drafting_open(Drafting *drafting, const Session *session, DraftModel *model,
                     const ModelFile *model_file, Error *error);
void drafting_close(Drafting *drafting); /* a Drafting of zeros is fine */

/* Makes a set of all that may propose tokens of one text with these options, freed by drafter_free.
 * *drafter is NULL where nobody may, or the session has no drafting. */
Status drafting_new(const Session *session, const GenerationOptions *options, Drafter **drafter,
                    Error *error);

/* Puts a recorded answer (recorded.h), which it takes over, after an account that all texts share
 * and that grows by half a token's time with each: it drafts as much as it earned. *drafter is then
 * what the text asks, and owns it. `recorded` may be NULL: no memory. */
Status drafting_recorded(const Session *session, Drafter *recorded, Drafter **drafter,
                         Error *error);

/* Prints a line for each kind that was asked: tokens proposed, right ones, seconds gained. */
void drafting_print(FILE *out, const Drafting *drafting);

#endif
