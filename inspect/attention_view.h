/* --attention: shows what each token of a text attends to, that is, the softmax weights of every
 * layer and head as the forward pass computes them. They come through the observer of attention.h;
 * the logits keep their bits. */
#ifndef ATTENTION_VIEW_H
#define ATTENTION_VIEW_H

#include "session/session.h"

/* Runs the session's prompt and writes its attention weights to the session's output. The end of
 * --attention's value chooses the form: .svg a picture; .html a page with a choice of layer and
 * head; .json the numbers; "-" a map for the terminal. Fails when the weights would take more than
 * 1 GiB. */
Status attention_view_run(Session *session, Error *error);

#endif
