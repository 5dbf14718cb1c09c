/* The shape that a request asks for: response_format (OpenAI's API), structured_outputs (vLLM's),
 * or the command line's options by their names. */
#ifndef REQUEST_SHAPE_H
#define REQUEST_SHAPE_H

#include <jansson.h>

#include "constraint/shape_source.h"

/* The shape of one request. Zero-initialize; request_shape_free frees. */
typedef struct RequestShape {
    bool given;         /* false: the command line's */
    ShapeSource source; /* kind SHAPE_NONE: any text */
    char *text;         /* owned; what source.text points at */
} RequestShape;

/* Read the values of the fields 'response_format', 'structured_outputs', and of `name` as the
 * command line has it ("regex"). Fail when a shape was given before. */
Status request_shape_format(RequestShape *shape, const json_t *value, Error *error);
Status request_shape_structured(RequestShape *shape, const json_t *value, Error *error);
Status request_shape_option(RequestShape *shape, const char *name, const json_t *value,
                            Error *error);
/* Refuses a request's line whose schemas (of the answer, or of tools) have numbers that were
 * rounded when the line was read: what they forbid would not be what the line says. */
Status request_shape_check_numbers(const char *line, size_t length, Error *error);
void request_shape_free(RequestShape *shape);

#endif
