#include "modes/batch/logits_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/own_file.h"

Status logits_file_open(LogitsFile **out, const char *path, Error *error) {
    if (own_file_is_planted(path)) return error_set(error, OWN_FILE_PLANTED, path);
    LogitsFile *file = calloc(1, sizeof *file);
    if (!file) return error_set(error, "no memory for a file of logits");
    file->fd = own_file_open(path, O_WRONLY | O_CREAT, error);
    if (file->fd < 0) {
        free(file);
        return STATUS_FAILED;
    }
    if (lseek(file->fd, 0, SEEK_CUR) < 0) {
        logits_file_close(file);
        return error_set(error, "%s: logits need a file, not a pipe", path);
    }
    if (ftruncate(file->fd, 0) != 0 && errno != EINVAL) { /* a device has no length */
        logits_file_close(file);
        return error_set(error, "%s: cannot be emptied: %s", path, strerror(errno));
    }
    *out = file;
    return STATUS_OK;
}

void logits_file_close(LogitsFile *file) {
    if (!file) return;
    close(file->fd);
    free(file);
}

Status logits_file_add(LogitsFile *file, const float *logits, size_t *row, Error *error) {
    size_t bytes = file->columns * sizeof *logits, done = 0;
    *row = atomic_fetch_add(&file->n_rows, 1);
    while (done < bytes) {
        ssize_t n = pwrite(file->fd, (const char *)logits + done, bytes - done,
                           (off_t)(*row * bytes + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return error_set(error, "the file of logits: %s", strerror(errno));
        done += (size_t)n;
    }
    return STATUS_OK;
}
