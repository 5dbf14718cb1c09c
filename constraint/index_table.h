/* A hash table of the indices of items, which lie in arrays of the caller's.
 *
 *     if (!index_table_reserve(&table, hash_item, owner)) ... no memory
 *     size_t at = index_table_first(&table, hash);
 *     for (; table.slots[at]; at = index_table_next(&table, at))
 *         if (items[table.slots[at] - 1] is the one) return table.slots[at] - 1;
 *     index_table_set(&table, at, n_items);
 */
#ifndef CONSTRAINT_INDEX_TABLE_H
#define CONSTRAINT_INDEX_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open addressing; at most half of the slots are taken. Zero-initialize. */
typedef struct IndexTable {
    uint32_t *slots; /* index + 1; 0: free */
    size_t size, n;  /* size: a power of two */
} IndexTable;

/* The hash of the item with this index. */
typedef uint64_t IndexHash(const void *owner, uint32_t index);

/* Makes room for one more index. False, and nothing changes: no memory. */
bool index_table_reserve(IndexTable *table, IndexHash *hash, const void *owner);
/* Forgets all indices, and keeps the memory. */
void index_table_clear(IndexTable *table);
void index_table_free(IndexTable *table);

/* Where an item with this hash lies, or the first place to look for it. */
static inline size_t index_table_first(const IndexTable *table, uint64_t hash) {
    return hash & (table->size - 1);
}

static inline size_t index_table_next(const IndexTable *table, size_t at) {
    return (at + 1) & (table->size - 1);
}

/* Puts an index into a free slot, for which there is room. */
static inline void index_table_set(IndexTable *table, size_t at, size_t index) {
    table->slots[at] = (uint32_t)index + 1;
    table->n++;
}

/* Puts an index that is not in the table, for which there is room. */
static inline void index_table_add(IndexTable *table, uint64_t hash, size_t index) {
    size_t at = index_table_first(table, hash);
    while (table->slots[at]) at = index_table_next(table, at);
    index_table_set(table, at, index);
}

#endif
