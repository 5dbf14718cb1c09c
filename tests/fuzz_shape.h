/* What the fuzz targets of shapes share: any bytes are compiled as a shape and, where they are one,
 * run over the same bytes and closed. */
#ifndef FUZZ_SHAPE_H
#define FUZZ_SHAPE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/acceptor_shortest.h"
#include "constraint/shape_source.h"

/* Goes through bytes[n] as far as the shape allows, then to the end by a short way, which must be
 * one. The limits are lower than the program's, so that each input is quick. */
static void fuzz_run(Acceptor *acceptor, const char *bytes, size_t n) {
    TextBuffer closing = {.limit = 4096};
    size_t taken = 0;
    AcceptorState state = acceptor_start(acceptor), next;
    acceptor_begin_work(acceptor);
    for (; taken < n && taken < 256; taken++) {
        next = acceptor_step(acceptor, state, (unsigned char)bytes[taken]);
        if (next == ACCEPTOR_DEAD) break;
        state = next;
        acceptor_safe_run(acceptor, state);
    }
    if (acceptor_failed(acceptor)) return;
    bool closed = acceptor_shortest(acceptor, state, &closing);
    if (!closed && !closing.failed && !acceptor_failed(acceptor)) abort();
    for (size_t i = 0; i < closing.length && closed; i++) {
        state = acceptor_step(acceptor, state, (unsigned char)closing.bytes[i]);
        if (state == ACCEPTOR_DEAD && !acceptor_failed(acceptor)) abort();
    }
    if (closed && !acceptor_failed(acceptor) && !acceptor_accepts(acceptor, state)) abort();
    text_free(&closing);
}

/* The shape is data up to the first zero byte; the text follows it. */
static int fuzz_shape(ShapeKind kind, const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *end = memchr(data, 0, size);
    size_t length = end ? (size_t)(end - text) : size;
    /* Each form of JSON is met by some of the inputs. */
    const ShapeSource source = {
        .kind = kind, .text = text, .length = length, .form = (unsigned)(length % 4)};
    const AcceptorLimits limits = {.nodes = 20000,
                                   .regex_nodes = 50000,
                                   .build_work = 300000,
                                   .step_work = 300000,
                                   .bytes = (size_t)8 << 20};
    Acceptor *acceptor;
    Error error;
    if (shape_source_compile_within(&source, &limits, &acceptor, &error) != STATUS_OK) return 0;
    fuzz_run(acceptor, text + length + (end != NULL), size - length - (end != NULL));
    acceptor_free(acceptor);
    return 0;
}

#endif
