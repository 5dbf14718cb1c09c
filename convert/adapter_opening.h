/* Opens the adapters that --lora names, as modelopen.h opens MODEL: files first, their contents
 * when the process has given up its rights. */
#ifndef ADAPTER_OPENING_H
#define ADAPTER_OPENING_H

#include "adapters/adapter.h"
#include "session/session.h"

/* One --lora NAME=PATH[:SCALE]; PATH alone is called by its last part. */
typedef struct AdapterSpec {
    char *name; /* owned */
    double scale;
    Adapter adapter;
} AdapterSpec;

typedef struct AdapterOpening {
    AdapterSpec items[ADAPTERS_MOST];
    size_t n;
    Adapters adapters; /* once they are read */
} AdapterOpening;

/* Reads the command line's list and opens the files. */
Status adapter_opening_begin(AdapterOpening *opening, const OptionList *list, Error *error);

/* Parses the files for this base, whose name is `base_name`, and fills in opening->adapters. The
 * factors are in items[i].adapter. */
Status adapter_opening_read(AdapterOpening *opening, const AdapterBase *base, const char *base_name,
                            Error *error);

/* Parses the files for the session's model and lets it use them: session->adapters. Does nothing
 * where none are named. */
Status adapter_opening_start(AdapterOpening *opening, Session *session, Error *error);

/* What the adapter adds to a tensor is multiplied by this. */
float adapter_spec_scale(const AdapterSpec *spec, const AdapterPart *part);

/* Before the session's model is closed. */
void adapter_opening_close(AdapterOpening *opening);

#endif
