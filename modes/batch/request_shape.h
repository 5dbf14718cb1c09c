/* The shape that a request asks for: response_format (OpenAI's API), structured_outputs (vLLM's),
 * or the command line's options by their names. */
#ifndef REQUEST_SHAPE_H
#define REQUEST_SHAPE_H

#include <jansson.h>

#include "constraint/shape_source.h"
#include "json/json_digits.h"

/* The shape of one request. Zero-initialize; request_shape_free frees. */
typedef struct RequestShape {
    bool given;         /* false: the command line's */
    ShapeSource source; /* kind SHAPE_NONE: any text */
    char *text;         /* owned; what source.text points at */
    /* The form of JSON: flags of JsonForm that the request sets, and those that it says anything
     * of. */
    unsigned form, form_given;
} RequestShape;

/* Read the values of the fields 'response_format', 'structured_outputs', and of `name` as the
 * command line has it ("regex"). Numbers in schemas have the digits that are noted in `digits`
 * (json/json_digits.h). Fail when a shape was given before. */
Status request_shape_format(RequestShape *shape, const json_t *value, const JsonDigits *digits,
                            Error *error);
Status request_shape_structured(RequestShape *shape, const json_t *value, const JsonDigits *digits,
                                Error *error);
Status request_shape_option(RequestShape *shape, const char *name, const json_t *value,
                            const JsonDigits *digits, Error *error);
/* Reads 'json_order' or 'json_space', with the values that the command line has. */
Status request_shape_set_form(RequestShape *shape, const char *name, const json_t *value,
                              Error *error);
/* The form of the request's JSON; `usual`: what holds where it says nothing. */
unsigned request_shape_form(const RequestShape *shape, unsigned usual);
void request_shape_free(RequestShape *shape);

#endif
