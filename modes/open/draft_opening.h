/* Opens the model that --draft-model names, as modelopen.h opens MODEL: files first, their contents
 * when the process has given up its rights. */
#ifndef DRAFT_OPENING_H
#define DRAFT_OPENING_H

#include "modes/open/modelopen.h"
#include "draft/draft_model.h"

typedef struct DraftOpening {
    ModelOpening opening;
    ModelFile *file;
    Tokenizer *tokenizer;
    Model *model;
    TokenMap *map;
    DraftModel *shared; /* what drafters are made of; NULL: none is named */
} DraftOpening;

/* What draft_opening_close accepts. */
#define DRAFT_OPENING_NONE ((DraftOpening){.opening = MODELOPEN_NONE})

/* Opens the files of options->draft_model, unless that is NULL. */
Status draft_opening_begin(DraftOpening *draft, const Session *session, Error *error);

/* Opens the model, when the session's is open, and maps the session's tokens to its own. Fails when
 * their vocabularies have too little in common. */
Status draft_opening_finish(DraftOpening *draft, const Session *session, Error *error);

void draft_opening_close(DraftOpening *draft);

#endif
