/* A file that is an array in memory, for a WebAssembly module that has no files.
 *
 * Its descriptor is its address: memory_file.c defines fstat, mmap and close, which the core calls,
 * for such descriptors alone. */
#ifndef BROWSER_MEMORY_FILE_H
#define BROWSER_MEMORY_FILE_H

#include <stddef.h>

typedef struct MemoryFile {
    const void *bytes; /* [length], aligned to 64 bytes; must outlive what is opened on it */
    size_t length;
} MemoryFile;

int memory_file_descriptor(const MemoryFile *file);

#endif
