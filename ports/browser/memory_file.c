#include "ports/browser/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(int) == sizeof(void *), "a descriptor holds an address");

int memory_file_descriptor(const MemoryFile *file) {
    return (int)(intptr_t)file;
}

static const MemoryFile *of_descriptor(int fd) {
    return (const MemoryFile *)(intptr_t)fd;
}

int fstat(int fd, struct stat *info) {
    *info = (struct stat){.st_mode = S_IFREG, .st_size = (off_t)of_descriptor(fd)->length};
    return 0;
}

/* The core maps a whole file, to read it. */
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    (void)address, (void)flags;
    if (protection == PROT_READ && offset == 0 && length == of_descriptor(fd)->length)
        return (void *)of_descriptor(fd)->bytes;
    errno = EINVAL;
    return MAP_FAILED;
}

int munmap(void *address, size_t length) {
    (void)address, (void)length;
    return 0;
}

int madvise(void *address, size_t length, int advice) {
    (void)address, (void)length, (void)advice;
    return 0;
}

int close(int fd) {
    (void)fd;
    return 0;
}

/* There is no other file. */
int open(const char *path, int flags, ...) {
    (void)path, (void)flags;
    errno = ENOENT;
    return -1;
}
