#include "modes/inspect/shape_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/inspect/inspect_options.h"
#include "base/utf8.h"
#include "session/shape.h"
#include "system/line_reader.h"
#include "system/terminal.h"

/* What a shape needs of a vocabulary where no token is asked for: nothing. */
static const Vocabulary no_vocabulary;

static bool shape_test_asked(const Options *options) {
    return inspect_options(options)->shape_test != NULL;
}

static Status shape_test_check(Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    bool any = o->json_schema || o->json_object || o->regex || o->grammar || o->choice.n > 0;
    bool closes = o->on_length == LENGTH_CLOSE && !o->batch; /* lines may bring shapes */
    if (any || !(inspect->shape_test || closes)) return STATUS_OK;
    error_set(error, "%s needs a shape: --json-schema, --json, --regex, --grammar or --choice",
              inspect->shape_test ? "--shape-test" : "--on-length");
    return STATUS_USAGE;
}

/* Writes the bytes of a set: "a" to "z" as a-z, others by their numbers. */
static void print_bytes(const ByteSet *set) {
    const char *between = " ";
    for (unsigned b = 0; b < 256; b++) {
        unsigned to = b;
        if (!byteset_has(set, b)) continue;
        while (to < 255 && byteset_has(set, to + 1)) to++;
        for (unsigned i = b;; i = to) {
            if (i > 0x20 && i < 0x7F)
                terminal_print(stdout, "%s%c", i == b ? between : "", (int)i);
            else
                terminal_print(stdout, "%s\\x%02x", i == b ? between : "", i);
            if (i == to) break;
            terminal_print(stdout, "-");
        }
        b = to;
    }
}

/* Prints at which byte a line leaves the shape, what stands there and which bytes the shape allows
 * there. */
static void print_refused(Matcher *m, size_t line, size_t at, const char *text, size_t length) {
    Acceptor *acceptor = m->shape->acceptor;
    AcceptorState state = acceptor_start(acceptor);
    for (size_t i = 0; i < m->length; i++)
        state = acceptor_step(acceptor, state, (unsigned char)m->text[i]);
    ByteSet bytes = acceptor_bytes(acceptor, state);
    bool ends = acceptor_accepts(acceptor, state);
    terminal_print(stdout, "%zu: refused at byte %zu", line, at);
    if (at < length)
        terminal_print(
            stdout, " (%.*s)",
            (int)utf8_boundary(text + at, length - at, length - at < 20 ? length - at : 20),
            text + at);
    else
        terminal_print(stdout, " (its end)");
    bool any = bytes.bits[0] | bytes.bits[1] | bytes.bits[2] | bytes.bits[3];
    terminal_print(stdout, "; %s", any ? "what may stand there:" : "nothing may stand there");
    print_bytes(&bytes);
    terminal_print(stdout, "%s\n", any && ends ? ", or the end" : "");
}

static Status test_line(Shape *shape, size_t line, const char *text, size_t length, bool *accepted,
                        Error *error) {
    static const GenerationOptions options = {.decode_flags = TOKEN_DECODER_CONTINUE};
    Matcher *m;
    size_t at = 0;
    if (matcher_new(&m, shape, &options, error) != STATUS_OK) return STATUS_FAILED;
    *accepted = matcher_push(m, text, length, &at) && matcher_accepts(m);
    const char *why = acceptor_failed(shape->acceptor);
    if (why) {
        matcher_free(m);
        return error_set(error, "line %zu: %s", line, why);
    }
    if (*accepted)
        terminal_print(stdout, "%zu: accepted\n", line);
    else
        print_refused(m, line, at, text, length);
    matcher_free(m);
    return STATUS_OK;
}

/* --shape-test: tests every line of the file ("-": stdin), and fails in the end if any was
 * refused. */
static Status test_file(Shape *shape, const char *path, const volatile sig_atomic_t *interrupted,
                        Error *error) {
    bool is_stdin = strcmp(path, "-") == 0, all = true;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    LineReader reader;
    LineState state = LINE_READ;
    const char *text;
    size_t length;
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    line_reader_init(&reader, fd, is_stdin ? "stdin" : path, "--shape-test");
    Status status = STATUS_OK;
    while (status == STATUS_OK && state != LINE_NONE) {
        bool accepted = true;
        status = line_reader_next(&reader, true, interrupted, &state, &text, &length, error);
        if (status != STATUS_OK || state == LINE_NONE) break;
        if (state == LINE_TOO_LONG)
            status = error_set(error, "%s: line %zu is longer than %d bytes", path, reader.number,
                               LINE_MOST_BYTES);
        line_reader_trim(&reader, true, &text, &length);
        if (status == STATUS_OK)
            status = test_line(shape, reader.number, text, length, &accepted, error);
        all &= accepted;
    }
    line_reader_free(&reader);
    if (!is_stdin) close(fd);
    if (status == STATUS_OK && !all) {
        error_set(error, "%s: not all lines have the shape", path);
        return STATUS_FAILED;
    }
    return status;
}

static Status shape_test_run(void *state, Session *session, Error *error) {
    SessionShape source = {.fd = -1};
    Acceptor *acceptor;
    Shape *shape = NULL;
    (void)state;
    Status status = session_shape_open(&source, session->options, error);
    if (status == STATUS_OK)
        status = session_shape_read(&source, session->options, session->interrupted, error);
    if (status == STATUS_OK) status = shape_source_compile(&source.source, &acceptor, error);
    if (status == STATUS_OK) status = shape_new(&shape, acceptor, &no_vocabulary, error);
    if (status == STATUS_OK)
        status = test_file(shape, inspect_options(session->options)->shape_test,
                           session->interrupted, error);
    shape_free(shape);
    session_shape_close(&source);
    return status;
}

const Mode shape_test_mode = {.name = "--shape-test",
                              .traits = MODE_WITHOUT_MODEL,
                              .asked = shape_test_asked,
                              .check = shape_test_check,
                              .run = shape_test_run};
