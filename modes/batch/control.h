/* Lines of `--batch - --live` that ask the program itself, and generate nothing:
 *
 *     {"id": 1, "info": true}               what a program at the other end needs to know
 *     {"id": 2, "detokenize": [1, 2]}       the text of token ids; "special": true shows special
 * ones
 *     {"id": 3, "cancel": 7}                ends the request on line 7
 *     {"id": 4, "forget": 7}                gives up the cached prompt of line 7 ("keep")
 *     {"id": 5, "results": BASE64}          whether lines of a file are results to go on after
 *
 * docs/batch.md describes their results. */
#ifndef CONTROL_H
#define CONTROL_H

#include <jansson.h>

#include "base/status.h"
#include "tokenizer.h"

typedef enum ControlKind {
    CONTROL_NONE,
    CONTROL_INFO,
    CONTROL_DETOKENIZE,
    CONTROL_CANCEL,
    CONTROL_FORGET,
    CONTROL_RESULTS
} ControlKind;

typedef struct Control {
    ControlKind kind;
    const json_t *ids; /* CONTROL_DETOKENIZE: a list of integers; borrowed from the line */
    bool special;      /* CONTROL_DETOKENIZE: special tokens are shown */
    size_t line;       /* CONTROL_CANCEL, CONTROL_FORGET: a request's line, from 1; CONTROL_RESULTS:
                          "first", the place in its file of the first line */
    const json_t *text; /* CONTROL_RESULTS: bytes in base64; borrowed from the line */
    bool last;          /* CONTROL_RESULTS: the file ends with them */
} Control;

/* Which of these a line is; CONTROL_NONE: a request. */
ControlKind control_kind(const json_t *line);

/* Reads a line of that kind. Fails for any field that it does not have. */
Status control_read(Control *control, ControlKind kind, const json_t *line, Error *error);

/* Sets "text", and "bytes" where the text is not UTF-8. */
Status control_detokenize(const Control *control, const Tokenizer *tokenizer, json_t *result,
                          Error *error);

#endif
