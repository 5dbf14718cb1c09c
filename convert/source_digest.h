/* SHA-256 of the files that a model was converted from, for a receipt. */
#ifndef SOURCE_DIGEST_H
#define SOURCE_DIGEST_H

#include <jansson.h>
#include <signal.h>

#include "formats/containers/source.h"

/* A new object {"type": of --type or null, "files": [{"name", "bytes", "sha256"}]}: the names
 * without directories, in the order of the names. STATUS_INTERRUPTED when *interrupted is set
 * meanwhile. */
Status source_digest(const Source *source, const char *type, int n_threads,
                     const volatile sig_atomic_t *interrupted, json_t **digest, Error *error);

#endif
