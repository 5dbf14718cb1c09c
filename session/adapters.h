/* The adapters of --lora (adapters/lora.h) as a session knows them: their names, and a checksum of
 * all, on which a result depends as it does on the model's. */
#ifndef ADAPTERS_H
#define ADAPTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Lora;

enum { ADAPTERS_MOST = 32 };

typedef struct SessionAdapter {
    const char *name, *path; /* borrowed */
    double scale;            /* of the command line */
    const char *digest;      /* SHA-256 of the weights, with lora_alpha; borrowed */
    size_t rank;             /* the largest */
    size_t n_matrices, bytes;
} SessionAdapter;

typedef struct Adapters {
    SessionAdapter items[ADAPTERS_MOST]; /* in the order of the command line */
    size_t n;
    const char *base;  /* the model's name; borrowed */
    struct Lora *lora; /* what the model runs with */
    uint64_t checksum; /* of all: names, scales and weights in their order */
} Adapters;

/* The adapters of a request that asks for the model `name` (NULL: for none in particular, which
 * means all), as the bits of lora_select. The base's own name means none. False: no such name. */
bool adapters_named(const Adapters *adapters, const char *name, uint64_t *bits);

/* A hash that differs for other adapters; `hash` itself where there are none (NULL). */
uint64_t adapters_mix(const Adapters *adapters, uint64_t hash);

#endif
