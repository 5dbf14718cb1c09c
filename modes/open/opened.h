/* What one call of `run` opens and closes, in the order in which run.c calls these functions: all
 * files while it may open files, then the rights are given up, then what the files hold is
 * parsed. */
#ifndef OPENED_H
#define OPENED_H

#include "modes/open/draft_opening.h"
#include "convert/adapter_opening.h"
#include "modes/open/input_texts.h"
#include "modes/open/modelopen.h"
#include "modes/open/weights_opening.h"
#include "session/drafting.h"
#include "session/mode.h"
#include "session/shape.h"

typedef struct Opened {
    Session session; /* what the mode is given */
    Options *options;
    const Mode *mode;
    void *state;        /* the mode's */
    Ranks ranks;        /* the caller may set it */
    char *found;        /* the path of the story model, where none is named; owned */
    SandboxRules rules; /* what stays allowed when the rights are given up */
    Output output;
    ModelOpening model;
    InputTexts texts;
    SessionShape shape;
    WeightsOpening weights;
    Drafting drafting;
    DraftOpening draft;
    AdapterOpening adapters;
    double begin_seconds; /* time to find the model's files */
} Opened;

/* Nothing is open; the options, which may change below, outlive it. */
void opened_init(Opened *opened, Options *options, const Mode *mode,
                 volatile sig_atomic_t *interrupted);

/* Opens every file that the options name, and what the mode opens itself. Without MODEL the story
 * model that comes with the program runs. */
Status opened_files(Opened *opened, Error *error);

/* Enters the sandbox, unless --no-sandbox was given: from here on nothing can be opened. */
Status opened_give_up_rights(Opened *opened, Error *error);

/* Reads and parses what is open: texts and shapes, then the model with tokenizer, weights, adapters
 * and drafters. */
Status opened_parse(Opened *opened, Error *error);

/* Around mode->run: begins the receipt of --receipt and, given what mode->run returned, ends
 * receipt and output. Return the status of the whole. */
Status opened_begin_answer(Opened *opened, Error *error);
Status opened_end_answer(Opened *opened, Status status, Error *error);

/* Also after a failure of the functions above. */
/* Frees what opened_open made, and ends the mode and its receipt. */
void opened_close(Opened *opened);

#endif
