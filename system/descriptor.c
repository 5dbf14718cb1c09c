#include "system/descriptor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"

/* Reads on until the end of `fd`, or a NUL byte if these are refused; *text is the caller's to free
 * also when it fails. */
static Status read_on(int fd, const char *name, size_t most, bool refuses_nul,
                      const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                      Error *error) {
    enum { STEP = 65536 };
    size_t capacity = 0;
    for (ssize_t n = 1; n != 0;) {
        if (!array_reserve(text, &capacity, *length + STEP, 1))
            return error_set(error, "%s: no memory for it", name);
        /* The array doubles: what it has beyond `most` is not filled. */
        size_t room = capacity - *length - 1, left = most - *length;
        n = read(fd, *text + *length, room < left ? room : left + 1);
        if (interrupted && *interrupted) return STATUS_INTERRUPTED;
        if (n < 0 && errno != EINTR) return error_set(error, "%s: %s", name, strerror(errno));
        if (n > 0 && refuses_nul && memchr(*text + *length, '\0', (size_t)n))
            return error_set(error,
                             utf8_is_utf16(*text, *length + (size_t)n)
                                 ? "%s is not UTF-8 text but UTF-16"
                                 : "%s: not a text: it has a NUL byte",
                             name);
        if (n > 0) *length += (size_t)n;
        if (*length > most)
            return error_set(error, "%s: more than %.3g GiB", name, (double)most / (1 << 30));
    }
    (*text)[*length] = '\0';
    return STATUS_OK;
}

static Status read_whole(int fd, const char *name, size_t most, bool refuses_nul,
                         const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                         Error *error) {
    *text = NULL;
    *length = 0;
    Status status = read_on(fd, name, most, refuses_nul, interrupted, text, length, error);
    if (status == STATUS_OK) return status;
    free(*text);
    *text = NULL;
    return status;
}

Status descriptor_read(int fd, const char *name, size_t most,
                       const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                       Error *error) {
    return read_whole(fd, name, most, false, interrupted, text, length, error);
}

Status descriptor_read_json(int fd, const char *name, size_t most,
                            const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                            Error *error) {
    return read_whole(fd, name, most, true, interrupted, text, length, error);
}

size_t descriptor_write(int fd, const char *bytes, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t written = write(fd, bytes + done, n - done);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            break;
        }
    }
    return done;
}

static void close_all(int first, int last) {
    long most = sysconf(_SC_OPEN_MAX);
    if (first > last || close_range((unsigned)first, (unsigned)last, 0) == 0) return;
    /* A kernel before 5.9. */
    for (long fd = first; fd <= last && fd < most; fd++) close((int)fd);
}

void descriptors_close_except(int first, const int *kept, size_t n) {
    for (;;) {
        int next = INT_MAX;
        for (size_t i = 0; i < n; i++)
            if (kept[i] >= first && kept[i] < next) next = kept[i];
        close_all(first, next == INT_MAX ? next : next - 1);
        if (next == INT_MAX) return;
        first = next + 1;
    }
}
