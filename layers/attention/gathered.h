/* A small key/value cache in borrowed memory that holds copies of some positions of other caches,
 * one after another, so that attention reads them as if nothing had been between them. It has one
 * layer and a sequence for each row that attends. */
#ifndef LAYERS_ATTENTION_GATHERED_H
#define LAYERS_ATTENTION_GATHERED_H

#include "kvcache.h"

enum { GATHERED_ROWS = 16 }; /* the most sequences */

/* Bytes of the cache without its pages, and of the pages of one sequence of n positions in any
 * type: multiples of 64. */
size_t gathered_cache_bytes(void);
size_t gathered_row_bytes(const KvLayer *layer, size_t n);

/* Makes an empty cache in memory[gathered_cache_bytes]. Each of its GATHERED_ROWS sequences can
 * hold `layer` alone, as layer 0; gathered_place gives those that are used their pages. */
KvCache *gathered_begin(void *memory, KvType type, const KvLayer *layer);
/* Gives sequence `row` n positions, whose pages lie in memory[gathered_row_bytes], not yet filled.
 */
void gathered_place(KvCache *gathered, size_t row, void *memory, size_t n);

/* Fills one page of sequence `row` with the keys that layer `from_layer` of `sequence` holds at
 * indices[0 ... n - 1]: the row's positions that the page has, counted from the sequence's start,
 * rising. Only keys: for layers whose values lie in them. */
void gathered_fill(KvCache *gathered, size_t row, size_t page, const KvCache *cache,
                   int32_t sequence, size_t from_layer, const uint32_t *indices, size_t n);

#endif
