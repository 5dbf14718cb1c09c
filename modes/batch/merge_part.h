/* The results of one part of a batch, as --merge reads them: its header, then its lines by the
 * requests that they answer. */
#ifndef MERGE_PART_H
#define MERGE_PART_H

#include "modes/batch/result.h"
#include "modes/batch/shard.h"

/* One result of a part. */
typedef struct PartLine {
    RecordKey key;
    uint64_t begin; /* offset in the file */
    size_t length;
    size_t number; /* from 1: the header */
    bool failed;
    bool numbered; /* it has a "line" */
    bool used;
} PartLine;

typedef struct Part {
    const char *name; /* borrowed */
    int fd;
    Shard shard;              /* by its header */
    size_t n_before, n_after; /* the part's lines: those of the input after line n_before, up to
                                 line n_after. Set when they are joined */
    PartLine *lines;          /* [n_lines] sorted by their keys, from merge_part_index on */
    size_t n_lines, capacity;
} Part;

/* Opens the file, with part->fd -1 when that fails. A file that a run still writes to is an error.
 */
Status merge_part_open(Part *part, const char *path, Error *error);
void merge_part_close(Part *part);

/* Reads the header. */
Status merge_part_header(Part *part, Error *error);

/* Reads all lines. A last line that is incomplete is left out, as --resume does; other lines that
 * are not results of this part's model and options, or two results of one request, are errors. */
Status merge_part_index(Part *part, const volatile sig_atomic_t *interrupted, Error *error);
void merge_part_forget(Part *part); /* the lines */

/* The result of a request, marked as used; NULL: there is none. */
PartLine *merge_part_find(Part *part, RecordKey key);

/* The first line of the file that was not used; NULL: there is none. */
const PartLine *merge_part_unused(const Part *part);

/* Fills text[line->length]. */
Status merge_part_read(const Part *part, const PartLine *line, char *text, Error *error);

#endif
