/* The core as a program (make core): one text of a model.bin, on plain C, without drafts. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

typedef struct Opening {
    const char *path;
    int fd; /* -1 once it is mapped */
} Opening;

static Status begin(void **out, const char *path, const char *tokenizer, const Session *session,
                    Error *error) {
    Opening *opening = calloc(1, sizeof *opening);
    (void)tokenizer, (void)session; /* no option of the core names one, nothing takes long */
    if (!opening) return error_set(error, "no memory for a model");
    *opening = (Opening){path, open(path, O_RDONLY | O_CLOEXEC)};
    *out = opening;
    return opening->fd < 0 ? error_set(error, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

static const char *writes_in(const void *opening) {
    (void)opening;
    return NULL;
}

static Status finish(void *state, const Session *session, ModelFile **file, Error *error) {
    Opening *opening = state;
    int fd = opening->fd;
    (void)session;
    opening->fd = -1; /* modelfile_open takes it over */
    return modelfile_open(file, opening->path, fd, error);
}

static Status tokenizer(void *opening, const ModelFile *file, Tokenizer **out, Error *error) {
    size_t n_bytes;
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &n_bytes);
    return session_open_tokenizer(out, ((const Opening *)opening)->path, section, n_bytes,
                                  modelfile_config(file)->vocab_size, error);
}

static Status blame(const void *opening, Error *error) {
    (void)opening, (void)error;
    return STATUS_FAILED;
}

static void close_opening(void *state) {
    Opening *opening = state;
    if (opening && opening->fd >= 0) close(opening->fd);
    free(opening);
}

static const Mode *const no_modes[] = {NULL};

const Program program = {
    .modes = no_modes,
    .opener = {begin, writes_in, finish, tokenizer, blame, close_opening},
};
