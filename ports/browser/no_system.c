/* base/machine.h, base/threads.h, base/mapped.h, base/clock.h and getrandom for a WebAssembly
 * module that has no system under it: it runs one thread, maps no file that somebody could cut off,
 * is timed by its page and is given its seeds. */
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/mapped.h"
#include "base/threads.h"

int machine_cores(void) {
    return 1;
}

bool machine_ends_at_isa(const char *isa) {
    (void)isa;
    return false;
}

int threads_startable(int n_threads) {
    return n_threads;
}

void barrier_wait(Barrier *barrier) {
    (void)barrier;
}

void mapped_remember(const void *bytes, size_t length, const char *path) {
    (void)bytes, (void)length, (void)path;
}

void mapped_forget(const void *bytes) {
    (void)bytes;
}

double clock_seconds(void) {
    return 0;
}

ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
    (void)bytes, (void)n, (void)flags;
    errno = ENOSYS;
    return -1;
}

/* wasi-libc links stdio's standard streams, although nothing here writes to them. Defining their
 * system calls here keeps them from becoming imports of the module. Each returns WASI's "bad file
 * descriptor". */
enum { WASI_EBADF = 8 };
int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t vectors, int32_t n,
                                                   int32_t written);
int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence,
                                                  int32_t position);

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t vectors, int32_t n,
                                                   int32_t written) {
    (void)fd, (void)vectors, (void)n, (void)written;
    return WASI_EBADF;
}

int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence,
                                                  int32_t position) {
    (void)fd, (void)offset, (void)whence, (void)position;
    return WASI_EBADF;
}
