/* The shape that the command line asks for: --json-schema, --json, --regex, --grammar, --choice. */
#ifndef SESSION_SHAPE_H
#define SESSION_SHAPE_H

#include "constraint/shape_store.h"
#include "session/session.h"

/* What session->shape points at. Zero-initialize but for fd, which is -1. */
typedef struct SessionShape {
    ShapeSource source; /* kind SHAPE_NONE: none is asked for */
    const char *name;   /* for errors */
    int fd;             /* of @FILE; -1: none */
    char *text;         /* owned; what source.text points at */
} SessionShape;

/* The form of JSON that the options ask for: flags of JsonForm. */
unsigned session_json_form(const Options *options);

/* Opens what the options name, while files may be opened. STATUS_USAGE when they name two shapes.
 */
Status session_shape_open(SessionShape *shape, const Options *options, Error *error);
/* Reads it, afterwards, and compiles it once: a shape that cannot be enforced is refused before the
 * model is opened, and not by each request of a batch. */
Status session_shape_read(SessionShape *shape, const Options *options,
                          const volatile sig_atomic_t *interrupted, Error *error);
void session_shape_close(SessionShape *shape);
/* Checks that it can be enforced with the session's vocabulary, where a shape is asked for. */
Status session_shape_check(const Session *session, Error *error);

/* Makes the rule of one text that has the shape `source` (NULL, or of kind SHAPE_NONE: none, and
 * *rule is NULL). `options` are its Generation's. token_rule_free frees it. */
Status session_rule(const Session *session, const ShapeSource *source,
                    const GenerationOptions *options, TokenRule **rule, Error *error);
/* Whether a text that has this rule (not NULL) may end as it stands. */
bool session_rule_is_met(TokenRule *rule);

#endif
