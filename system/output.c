#include "system/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shown_text.h"
#include "system/descriptor.h"
#include "system/own_file.h"
#include "system/replace_file.h"
#include "system/terminal.h"

static const char *name_of(const Output *output) {
    return output->path ? output->path : "stdout";
}

Status output_open(Output *output, const char *path, Error *error) {
    struct stat stat_now;
    *output = (Output){.fd = STDOUT_FILENO, .path = path};
    if (!path) {
        output->terminal = isatty(STDOUT_FILENO);
        return STATUS_OK;
    }
    output->fd = -1;
    if (own_file_is_planted(path)) return error_set(error, OWN_FILE_PLANTED, path);
    if (own_file_is_descriptor(path)) {
        output->fd = own_file_open(path, O_WRONLY | O_APPEND, error);
        if (output->fd < 0) return STATUS_FAILED;
        output->terminal = isatty(output->fd);
        return STATUS_OK;
    }
    bool exists = stat(path, &stat_now) == 0;
    if (exists && !S_ISREG(stat_now.st_mode)) {
        output->fd = own_file_open(path, O_WRONLY, error);
        if (output->fd < 0) return STATUS_FAILED;
        output->terminal = isatty(output->fd);
        if (fstat(output->fd, &stat_now) == 0 && !S_ISREG(stat_now.st_mode)) return STATUS_OK;
        return error_set(error, "%s: changed while it was opened", path);
    }
    bool is_own =
        lstat(path, &stat_now) == 0 && S_ISREG(stat_now.st_mode) && stat_now.st_uid == geteuid();
    output->fd =
        replace_file_begin(path, NULL, 0, is_own ? REPLACE_FILE_PRIVATE : REPLACE_FILE_USUAL,
                           &output->temporary, error);
    if (output->fd < 0) return STATUS_FAILED;
    if (is_own) fchmod(output->fd, stat_now.st_mode & 0777);
    return errand_start_rename(&output->errand, output->temporary, path, error);
}

static Status write_bytes(Output *output, const char *bytes, size_t length, Error *error) {
    if (output->closed || descriptor_write(output->fd, bytes, length) == length) return STATUS_OK;
    output->closed = errno == EPIPE;
    if (output->closed) return STATUS_OK;
    return error_set(error, "%s: cannot be written: %s", name_of(output), strerror(errno));
}

/* Writes what can be shown on a terminal. */
static Status show(Output *output, const char *bytes, size_t length, Error *error) {
    Status status = STATUS_OK;
    for (size_t at = 0, used; at < length && status == STATUS_OK; at += used) {
        char shown[1024];
        size_t n = shown_text(bytes + at, length - at, shown, sizeof shown, &used);
        status = write_bytes(output, shown, n, error);
    }
    return status;
}

/* Writes what word_wrap has let go. */
static Status show_wrapped(Output *output, Error *error) {
    size_t n = output->wrapped.length;
    output->wrapped.length = 0;
    if (output->wrapped.failed) return error_set(error, "no memory for a line");
    return show(output, output->wrapped.bytes, n, error);
}

Status output_write(Output *output, const char *bytes, size_t length, Error *error) {
    if (!output->terminal) return write_bytes(output, bytes, length, error);
    if (!output->wraps) return show(output, bytes, length, error);
    word_wrap_put(&output->wrap, bytes, length, terminal_columns(output->fd), &output->wrapped);
    return show_wrapped(output, error);
}

Status output_flush(Output *output, Error *error) {
    if (!output->terminal || !output->wraps) return STATUS_OK;
    word_wrap_flush(&output->wrap, terminal_columns(output->fd), &output->wrapped);
    return show_wrapped(output, error);
}

Status output_finish(Output *output, Error *error) {
    if (!output->temporary) return STATUS_OK;
    if (replace_file_sync(output->fd, output->path, error) != STATUS_OK) return STATUS_FAILED;
    if (errand_finish(&output->errand, error) != STATUS_OK) return STATUS_FAILED;
    free(output->temporary);
    output->temporary = NULL;
    return STATUS_OK;
}

void output_close(Output *output) {
    word_wrap_free(&output->wrap);
    text_free(&output->wrapped);
    errand_drop(&output->errand);
    replace_file_discard(&output->temporary); /* which the sandbox refuses */
    if (output->path && output->fd >= 0) close(output->fd);
    output->fd = -1;
}
