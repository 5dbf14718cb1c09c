/* The mode that joins the parts of a batch: `run --merge PARTS... --batch FILE -o ALL`.
 *
 * The parts are the results of `--batch FILE --shard I/N`, in any order, however many there are and
 * wherever they ran. The output is, byte for byte, what one run of `--batch FILE --ordered` writes.
 * Nothing is written unless every request of FILE has its result in exactly one part, all parts
 * come of the same model and options, and FILE is still the one that they answered. The program
 * gives up its rights before it reads a byte of them. */
#ifndef MERGE_H
#define MERGE_H

#include "session/session.h"

/* Joins the parts that session->options names. STATUS_LINES_FAILED: it is done, but results of some
 * lines are errors, as in the run of a batch. */
Status merge_run(Session *session, Error *error);

#endif
