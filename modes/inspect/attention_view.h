/* --attention: shows what each token of a text attends to. */
#ifndef ATTENTION_VIEW_H
#define ATTENTION_VIEW_H

#include "session/session.h"

/* Runs the session's prompt and writes its attention weights to the session's output. The value of
 * --attention chooses the form: OUT.svg a picture; OUT.html a page with a choice of layer and head;
 * OUT.json the numbers; and for a terminal "-" a map of each layer, "LAYER.HEAD" one head, "scores"
 * the variance of all heads' scores. Fails when the weights would take more than 1 GiB. */
Status attention_view_run(Session *session, Error *error);

/* Whether the value is one of the forms for a terminal, which name no file. */
bool attention_view_is_text(const char *value);

#endif
