/* Parts of a table: `--shard I/N` and `--merge` where the requests are a table's rows.
 *
 * A table is divided by bytes as lines are (shard.h), but where a row begins: whether a line does
 * is known only from those before it, so a part reads the table from its start. The header belongs
 * to the first part; rows are numbered from 1 within a part. A part's header in its results has
 * what becomes of a row, so that --merge needs no more than for lines. */
#ifndef CSV_SHARD_H
#define CSV_SHARD_H

#include <signal.h>

#include "modes/batch/csv.h"
#include "modes/batch/shard.h"

/* Finds the bytes of shard->part in the table `fd` and hashes them, and makes shard->table, which
 * shard_free frees. `csv` is new, and afterwards wants the first line in these bytes. */
Status csv_shard_locate(Shard *shard, const CsvPrompt *prompt, int fd, const char *name, Csv *csv,
                        const volatile sig_atomic_t *interrupted, Error *error);

/* Makes a Csv that reads the rows of the shard's table as its run did. */
Status csv_shard_open(const Shard *shard, const char *name, Csv **csv, Error *error);

#endif
