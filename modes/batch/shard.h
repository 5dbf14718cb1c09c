/* One part of a batch's input: `--shard I/N`.
 *
 * The input is divided by bytes: a line belongs to the part in whose Nth of the file its first byte
 * lies, so that a part finds its lines without reading the others. Lines are numbered from 1 within
 * the part. The first line of the part's results is its header, which says what it is part of:
 *
 *     {"shard": {"part": 2, "of": 8, "begin": 1000, "end": 2000, "xxh3": "16 digits",
 *      "text": false}, "system_fingerprint": "fp_..."}
 *
 * merge.h joins the parts. Of a table the header has a "table" as well (csv_shard.h). */
#ifndef SHARD_H
#define SHARD_H

#include <signal.h>
#include <stdint.h>

#include "base/status.h"

typedef struct Shard {
    uint64_t part, of;    /* part 1, ..., of */
    uint64_t begin, end;  /* its bytes of the input, whole lines; equal: it has none */
    uint64_t hash;        /* XXH3-64 of these bytes */
    bool text;            /* the lines are prompts: --batch-text */
    char fingerprint[32]; /* of the results (batch_fingerprint.h) */
    char *table;          /* owned: what becomes of a table's row (csv_shard.h); NULL: lines */
} Shard;

void shard_free(Shard *shard);

/* Reads "I/N". "slurm" and "mpi" take the numbers from the environment variables of a Slurm array
 * job, or of Open MPI, MPICH and the launchers that speak PMI. STATUS_USAGE when they make no
 * part. */
Status shard_number(const char *text, uint64_t *part, uint64_t *of, Error *error);

/* Finds the bytes of shard->part in the regular file `fd` and hashes them. */
Status shard_locate(Shard *shard, int fd, const char *name,
                    const volatile sig_atomic_t *interrupted, Error *error);

/* floor(size * i / n). */
uint64_t shard_share(uint64_t size, uint64_t i, uint64_t n);

/* Hashes the bytes from `begin` to `end` of the file, which must have them. */
Status shard_hash(int fd, const char *name, uint64_t begin, uint64_t end,
                  const volatile sig_atomic_t *interrupted, uint64_t *hash, Error *error);

#define SHARD_HEADER_START "{\"shard\": "

/* The header, without a newline, freed by the caller; NULL: no memory. */
char *shard_header(const Shard *shard);

/* Whether the line is a header; fills *shard, which shard_free then frees. */
bool shard_read(const char *line, size_t length, Shard *shard);

/* Checks the first line of results that --resume goes on with against the header that they should
 * have, or, with NULL, that they are no part. *stale: only the fingerprint differs; with NULL that
 * is an error. The Error does not name the file. */
Status shard_match(const char *line, size_t length, const char *header, bool *stale, Error *error);

#endif
