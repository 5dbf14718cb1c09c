/* A sequence's cached pages in a file, so that a conversation resumes without a prefill.
 *
 * The file begins with what it was made by (the model's fingerprint, the cache's shape) and
 * grows by records, one a page: which page, the tokens of its positions, a checksum of all
 * tokens before it, the keys and values, a checksum of the record. A page that grew or changed
 * is written again; the last record of a page that fits the records before it counts. A torn
 * or damaged record is skipped: what it held is computed again. */
#ifndef KVFILE_H
#define KVFILE_H

#include "kvcache.h"

typedef struct KvFile KvFile;

/* Opens or creates the file through `fd` (owned from here on; read and write). A file of
 * another model or shape, or none at all, is begun anew; *begun tells. `path` serves messages. */
Status kvfile_open(KvFile **out, const char *path, int fd, uint64_t fingerprint,
                   const KvShape *shape, bool *begun, Error *error);
void kvfile_close(KvFile *file);

/* Loads into the (emptied) sequence the longest run of pages from position 0 whose records
 * are whole and whose tokens are a prefix of tokens[n]. *loaded receives the positions. */
Status kvfile_load(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens, size_t n,
                   size_t *loaded, Error *error);

/* Appends the pages of the sequence that the file does not hold as they are, and syncs.
 * tokens[kvcache_next] are the sequence's tokens. When the records that no longer count
 * outweigh the others fourfold, the file is begun anew. */
Status kvfile_save(KvFile *file, const KvCache *cache, int32_t sequence, const int32_t *tokens,
                   Error *error);

#endif
