/* The file of `--logits FILE`: a matrix of float32, [rows][vocab_size], little-endian, without a
 * header. Requests with "return_logits" add rows; their results name the rows. A program at the
 * other end of a pipe gives a memfd and reads the rows from there. */
#ifndef LOGITS_FILE_H
#define LOGITS_FILE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"

typedef struct LogitsFile {
    int fd;
    size_t columns;       /* vocab_size, which the caller sets before the first row */
    atomic_size_t n_rows; /* handed out */
} LogitsFile;

/* Makes the file empty. Before the program gives up its rights. */
Status logits_file_open(LogitsFile **out, const char *path, Error *error);
void logits_file_close(LogitsFile *file); /* NULL is fine */

/* Adds logits[columns] and gives their row. May be called from several threads at once. */
Status logits_file_add(LogitsFile *file, const float *logits, size_t *row, Error *error);

#endif
