#include "system/compression.h"

#include <string.h>

const Compression *compression_of(const char *bytes, size_t length) {
    static const struct {
        const char *mark;
        Compression compression;
    } kinds[] = {{"\x1F\x8B\x08", {"gzip", "zcat"}},
                 {"\x28\xB5\x2F\xFD", {"zstd", "zstdcat"}},
                 {"\xFD"
                  "7zXZ",
                  {"xz", "xzcat"}},
                 {"BZh", {"bzip2", "bzcat"}}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].mark);
        if (length >= n && memcmp(bytes, kinds[i].mark, n) == 0) return &kinds[i].compression;
    }
    return NULL;
}
