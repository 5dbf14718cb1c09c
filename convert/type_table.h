/* The table of a file whose types were chosen one by one: what export prints, the metadata keep
 * (METADATA_TYPE_TABLE), `run --info` shows and `export --keep @FILE` reads.
 *
 *     # 4.50 bits a weight, divergence 1.234e-02 on the calibration text
 *     # tensor          type            bytes   share
 *     layers.0.wq       q4_k           151552   1.25%
 *
 * A text has the same length whatever the types are, because the file that holds it must have a
 * size that is known before. */
#ifndef TYPE_TABLE_H
#define TYPE_TABLE_H

#include "formats/containers/metadata.h"

typedef struct TypeTableRow {
    const char *name;
    TensorType type;
    uint64_t bytes;
    double share; /* of the divergence, 0 to 1 */
} TypeTableRow;

/* Writes the table of types as a text, malloc'ed; NULL: memory is short. Rows of the type
 * TENSOR_VECTOR are left out. */
char *type_table_text(const TypeTableRow *rows, size_t n, double bits, double divergence);

/* Turns a table into ",NAME=TYPE,..." for mix.h, malloc'ed: the first two words of each line that
 * is neither blank nor begins with '#'. Shorter names come first, because the last match wins and
 * a name may be a part of a longer one. The Error names the line. */
Status type_table_mix(const char *text, size_t bytes, char **mix, Error *error);

#endif
