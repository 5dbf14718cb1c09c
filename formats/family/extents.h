/* Where the tensors of one file lie: no two may share bytes. */
#ifndef FORMATS_FAMILY_EXTENTS_H
#define FORMATS_FAMILY_EXTENTS_H

#include "formats/family/rules.h"

/* Checks the tensors from table->items[first] on, whose offsets and `bytes` are set and lie inside
 * the file. With `dense` they must also cover the file from `data` to its end without a hole. */
Status extents_check(const RawTable *table, size_t first, const InputFile *file, bool dense,
                     uint64_t data, Error *error);

#endif
