/* A library for LD_PRELOAD that makes one chosen call of the program fail: the n-th allocation,
 * read, write and so on (shim.h). It cannot intercept calls that the C library makes internally,
 * and it lets calls of the OpenMP runtime pass, because that runtime aborts (or worse) when it gets
 * no memory. A call that does not fail is forwarded to the next library that defines the function:
 * the C library, or before it the address sanitizer. */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The next definition of a function after this library's. It is looked up on every call, because
 * allocations happen before the constructor runs and on several threads. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static Faults *faults;
static uintptr_t runtime, runtime_end; /* address range of the OpenMP runtime's code */

static int find_runtime(struct dl_phdr_info *library, size_t size, void *context) {
    (void)size, (void)context;
    if (!strstr(library->dlpi_name, "libomp") && !strstr(library->dlpi_name, "libgomp")) return 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        runtime = library->dlpi_addr + part->p_vaddr;
        runtime_end = runtime + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *fd = getenv("VERBATIM_FAULTS");
    /* syscall is variadic: each argument must have the width that the kernel expects. */
    long at = fd ? syscall(SYS_mmap, NULL, sizeof *faults, (long)(PROT_READ | PROT_WRITE),
                           (long)MAP_SHARED, atol(fd), 0L)
                 : -1;
    dl_iterate_phdr(find_runtime, NULL);
    if (at > 0) faults = (Faults *)at;
}

static bool fails_for(uintptr_t caller, FaultKind kind, int reason) {
    if (!faults || (caller >= runtime && caller < runtime_end)) return false;
    if (faults->thread && faults->thread != syscall(SYS_gettid)) return false;
    long n = atomic_fetch_add(&faults->calls[kind], 1) + 1, first = faults->fails[kind];
    if (first == 0 || n < first || (n > first && !faults->goes_on)) return false;
    atomic_fetch_add(&faults->failed, 1);
    errno = reason;
    return true;
}
#define fails(kind, reason) fails_for((uintptr_t)__builtin_return_address(0), kind, reason)

EXPORT void *malloc(size_t n) {
    return fails(FAULT_MEMORY, ENOMEM) ? NULL : NEXT(malloc)(n);
}
EXPORT void *calloc(size_t n, size_t each) {
    return fails(FAULT_MEMORY, ENOMEM) ? NULL : NEXT(calloc)(n, each);
}
EXPORT void *realloc(void *old, size_t n) {
    return fails(FAULT_MEMORY, ENOMEM) ? NULL : NEXT(realloc)(old, n);
}
EXPORT void *aligned_alloc(size_t alignment, size_t n) {
    return fails(FAULT_MEMORY, ENOMEM) ? NULL : NEXT(aligned_alloc)(alignment, n);
}
EXPORT int posix_memalign(void **out, size_t alignment, size_t n) {
    return fails(FAULT_MEMORY, ENOMEM) ? ENOMEM : NEXT(posix_memalign)(out, alignment, n);
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (fails(FAULT_MAP, ENOMEM)) return MAP_FAILED;
    return NEXT(mmap)(at, n, protection, flags, fd, offset);
}

static size_t part(size_t n) {
    return n > 1 && fails(FAULT_SHORT, 0) ? n / 2 : n;
}

EXPORT ssize_t read(int fd, void *to, size_t n) {
    return fails(FAULT_READ, EIO) ? -1 : NEXT(read)(fd, to, part(n));
}
EXPORT ssize_t pread(int fd, void *to, size_t n, off_t at) {
    return fails(FAULT_READ, EIO) ? -1 : NEXT(pread)(fd, to, part(n), at);
}
EXPORT ssize_t write(int fd, const void *from, size_t n) {
    /* Writes to stderr always succeed, so that the test sees the messages. */
    if (fd == STDERR_FILENO) return NEXT(write)(fd, from, n);
    return fails(FAULT_WRITE, ENOSPC) ? -1 : NEXT(write)(fd, from, part(n));
}
EXPORT ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    return fails(FAULT_WRITE, ENOSPC) ? -1 : NEXT(pwrite)(fd, from, part(n), at);
}
EXPORT int fallocate(int fd, int mode, off_t at, off_t n) {
    return fails(FAULT_WRITE, ENOSPC) ? -1 : NEXT(fallocate)(fd, mode, at, n);
}
EXPORT int fsync(int fd) {
    return fails(FAULT_SYNC, EIO) ? -1 : NEXT(fsync)(fd);
}
EXPORT int fdatasync(int fd) {
    return fails(FAULT_SYNC, EIO) ? -1 : NEXT(fdatasync)(fd);
}
EXPORT int flock(int fd, int operation) {
    return fails(FAULT_LOCK, ENOSYS) ? -1 : NEXT(flock)(fd, operation);
}
EXPORT int rename(const char *from, const char *to) {
    return fails(FAULT_RENAME, EIO) ? -1 : NEXT(rename)(from, to);
}
EXPORT int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    return fails(FAULT_RENAME, EIO) ? -1 : NEXT(linkat)(from_fd, from, to_fd, to, flags);
}

/* ---- JSON, with VERBATIM_JSON_RIGHTS in the environment: says so when it is parsed (which
 * asks jansson for its allocators) before seccomp has taken away the process's rights. ---- */

void json_get_alloc_funcs(void *allocate, void *release);

static void say_rights(void) {
    static const char words[] = "JSON is parsed with all rights\n";
    if (getenv("VERBATIM_JSON_RIGHTS") && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0)
        NEXT(write)(STDERR_FILENO, words, sizeof words - 1);
}
EXPORT void json_get_alloc_funcs(void *allocate, void *release) {
    say_rights();
    NEXT(json_get_alloc_funcs)(allocate, release);
}
