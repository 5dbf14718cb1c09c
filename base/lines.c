#include "base/lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/status.h"

enum { LARGE_PAGE = 2 << 20 };

void *lines_new(size_t bytes) {
    size_t align = bytes < LARGE_PAGE ? 128 : LARGE_PAGE;
    void *lines =
        bytes < SIZE_MAX / 2 ? aligned_alloc(align, round_up(bytes + !bytes, align)) : NULL;
    if (lines && align == LARGE_PAGE) madvise(lines, bytes, MADV_HUGEPAGE);
    return lines;
}
