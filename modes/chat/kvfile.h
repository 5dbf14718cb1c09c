/* What the KV cache holds of a sequence in a file, so that a conversation resumes without a
 * prefill.
 *
 * The file begins with the model's fingerprint and the cache's shape. Each later record holds one
 * page of one group of layers, or the states after one position: the page's number, the tokens of
 * its positions, a checksum of all tokens before it, the keys and values or the states, and a
 * checksum of the record. A page that grew or changed is appended again; loading uses the record
 * that fits most of the tokens. A torn or damaged record is skipped, and its positions are computed
 * again.
 *
 * A sequence's marks (kvcache/kvcache_snapshots.h) are saved with it, so that the file can also
 * restore these earlier positions. */
#ifndef KVFILE_H
#define KVFILE_H

#include "kvcache.h"

typedef struct KvFile KvFile;

/* Opens the file of KV cache pages on `fd`, which it takes over (open for reading and writing). A
 * file of another model or shape is emptied, *begun tells; one that is no such file is refused.
 * `path` is for messages. */
Status kvfile_open(KvFile **out, const char *path, int fd, uint64_t fingerprint,
                   const KvShape *shape, bool *begun, Error *error);
/* The numeric revision of a file that kvfile_open emptied because of it; 0: it did not. */
int kvfile_other_revision(const KvFile *file);
void kvfile_close(KvFile *file);

/* Replaces the sequence by the longest prefix of tokens[n] that the file can restore, if that is
 * longer than *loaded; for a sequence to keep, *loaded is its length, else 0. *loaded receives the
 * number of positions that the sequence has then. A damaged file may leave it shorter. */
Status kvfile_load(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens, size_t n,
                   size_t *loaded, Error *error);

/* Appends what the file does not hold yet of the sequence and its marks, and syncs.
 * tokens[kvcache_next] are the sequence's tokens. A file more than four times as large as a new one
 * would be is written anew. */
Status kvfile_save(KvFile *file, const KvCache *cache, int32_t sequence, const int32_t *tokens,
                   Error *error);

/* Empties the file, and syncs: nothing of what it held can be read from it any more. */
Status kvfile_clear(KvFile *file, Error *error);

#endif
