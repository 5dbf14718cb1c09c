/* --layer L: what one layer makes of one position of a text. */
#ifndef LAYER_VIEW_H
#define LAYER_VIEW_H

#include "session/session.h"

/* Runs the session's prompt and writes what layer --layer does at token --position (default: the
 * last one) to the session's output: text; with --json or -o OUT.json all numbers, to the last bit;
 * with -o OUT.svg a picture. Fails when there is no such layer or token, when several processes
 * share the model, and when the text's attention weights would take more than 1 GiB. */
Status layer_view_run(Session *session, Error *error);

#endif
