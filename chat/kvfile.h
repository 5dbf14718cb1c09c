/* The KV cache pages of a sequence in a file, so that a conversation resumes without a prefill.
 *
 * The file begins with the model's fingerprint and the cache's shape. Each record behind holds one
 * page: its number, the tokens of its positions, a checksum of all tokens before it, the keys and
 * values, and a checksum of the record. A page that grew or changed is appended again; loading uses
 * the record that fits most of the tokens. A torn or damaged record is skipped, and its positions
 * are computed again. */
#ifndef KVFILE_H
#define KVFILE_H

#include "kvcache.h"

typedef struct KvFile KvFile;

/* Opens the file of KV cache pages on `fd`, which it takes over (open for reading and writing). A
 * file of another model or shape is emptied; *begun tells. `path` is for messages. */
Status kvfile_open(KvFile **out, const char *path, int fd, uint64_t fingerprint,
                   const KvShape *shape, bool *begun, Error *error);
void kvfile_close(KvFile *file);

/* Empties the sequence and loads the longest prefix of tokens[n] for which the file has whole
 * records. *loaded receives the number of positions. */
Status kvfile_load(KvFile *file, KvCache *cache, int32_t sequence, const int32_t *tokens, size_t n,
                   size_t *loaded, Error *error);

/* Appends the pages of the sequence that the file does not hold yet, and syncs.
 * tokens[kvcache_next] are the sequence's tokens. When the file has more than four times as many
 * records as the sequence has pages, it is written anew. */
Status kvfile_save(KvFile *file, const KvCache *cache, int32_t sequence, const int32_t *tokens,
                   Error *error);

#endif
