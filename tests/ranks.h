/* A model on several ranks, which are threads of this process (thread_wire.h). */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "ports/cluster/rank.h"
#include "convert/adapter_opening.h"
#include "tests/tiny_model.h"

typedef struct Ranks {
    TinyModel tiny; /* rank 0's: its passes run on all of them */
    Divided divided;
    struct RankThread *threads;
    struct Wire **wires;
    Rank *first;
    size_t n;
    Session session; /* rank 0's, with its adapters */
    AdapterOpening *adapters;
} Ranks;

/* Opens the model.bin on n ranks with one thread each. Fails the test (cmocka) on an error. */
Ranks ranks_open(const char *path, size_t n, const ModelOptions *options, KvType kv_type);
/* The same with adapters, which --lora would take. */
Ranks ranks_open_adapted(const char *path, size_t n, const ModelOptions *options, KvType kv_type,
                         const OptionList *adapters);
void ranks_close(Ranks *ranks);

#endif
