/* The checks of a model.bin that read the weights themselves: --verify. */
#ifndef MODELFILE_VERIFY_H
#define MODELFILE_VERIFY_H

#include "core/modelfile.h"

/* Checks every section's checksum and scans for weights and scales that are not finite; the Error
 * names the first fault. progress(done, total, context), in bytes, may be NULL. */
Status modelfile_verify(const ModelFile *file,
                        void (*progress)(size_t done, size_t total, void *context), void *context,
                        Error *error);

#endif
