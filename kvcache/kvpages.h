/* Inside the key/value cache: pages, page tables and states, for kvcache.c and the files of
 * kvcache/. Everybody else: kvcache.h.
 *
 * Layers whose queries see the same window form a group. A page holds KV_PAGE positions of one
 * group's layers, so that the pages that have left a window can be given back while layers that see
 * everything keep theirs. */
#ifndef KVCACHE_KVPAGES_H
#define KVCACHE_KVPAGES_H

#include <stdbool.h>

#include "base/status.h"
#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

/* Windows beyond the first ones that a model has keep all pages, as layers without a window do. */
enum { KV_GROUPS = 4 };

enum { KV_SNAPSHOTS = 16 }; /* the most snapshots of a sequence */

/* An allocated page: this header, then for each layer and head the keys and the values. */
typedef struct Page {
    size_t readers;    /* sequences and snapshots that hold this page */
    size_t keepers;    /* the snapshots among them */
    size_t group;      /* whose positions it holds */
    struct Page *next; /* of its group's spare pages */
    _Alignas(64) unsigned char data[];
} Page;

struct KvSnapshot;

typedef struct Sequence {
    Page **pages; /* [n_pages][n_groups]; NULL: given back */
    size_t n_pages, capacity;
    size_t given_back[KV_GROUPS]; /* how many pages at the front are NULL */
    int32_t start;                /* position of the first cached token */
    int32_t next;                 /* position after the last */
    float *states;                /* [state_floats] of all layers; NULL: nothing is cached */
    struct KvSnapshot *snapshots[KV_SNAPSHOTS + 1]; /* in the order of their positions */
    size_t n_snapshots;
    struct KvSnapshot *held; /* kvcache_hold's, or NULL */
} Sequence;

typedef struct Group {
    uint32_t window;   /* 0: its layers see all positions */
    size_t data_bytes; /* of one page, without its header */
    Page *spare;       /* released pages that wait for the next sequence, a list */
} Group;

/* Where a layer's data lie. */
typedef struct LayerPlace {
    size_t group;
    size_t offset;     /* of the layer's first head in Page.data */
    size_t keys_bytes; /* of one head's keys */
    size_t head_bytes; /* of one head's keys and values */
    size_t state;      /* offset of its state in Sequence.states */
    size_t pools;      /* offset of its pools' keys in a page of the first group */
} LayerPlace;

struct KvCache {
    KvShape shape;
    LayerPlace places[KV_MAX_LAYERS];
    Group groups[KV_GROUPS];
    size_t n_groups;
    size_t state_floats;          /* of one sequence's states */
    size_t max_bytes;             /* limit of pages, states and spare pages together */
    size_t bytes;                 /* of pages and states now, without spare pages */
    size_t spare_bytes;           /* of spare pages; with `bytes` at most max_bytes */
    size_t snapshot_bytes;        /* what only snapshots hold may be so much */
    struct KvSnapshot *snapshots; /* all of them, a list */
    size_t n_sequences;
    Sequence sequences[];
};

/* Sorts the layers of cache->shape into groups: fills places, groups and state_floats. */
void kvpages_layout(KvCache *cache);

size_t kvpages_bytes(const Group *group); /* of one page */
/* Returns a page of zeros with one reader; NULL when memory or max_bytes runs out. */
Page *kvpages_new(KvCache *cache, size_t group, Error *error);
/* Takes a reader from the page, which may be NULL; one without readers becomes spare or is freed.
 */
void kvpages_release(KvCache *cache, Page *page);
void kvpages_free_spares(KvCache *cache); /* frees all spare pages */

/* States of all layers, not initialized; NULL as for kvpages_new. */
float *kvpages_new_states(KvCache *cache, Error *error);
void kvpages_free_states(KvCache *cache, float *states);

static inline size_t kvpages_for(size_t positions) {
    return (positions + KV_PAGE - 1) / KV_PAGE;
}

/* The first page that a query at position start + index needs, or any query after it. */
static inline size_t kvpages_first_seen(const Group *group, size_t index) {
    return group->window == 0 || index < group->window ? 0 : (index + 1 - group->window) / KV_PAGE;
}

/* Makes the sequence's page table at least n_pages long; false: no memory. */
bool kvpages_grow(const KvCache *cache, Sequence *sequence, size_t n_pages);
/* Releases the sequence's pages from page number `first` on. */
void kvpages_release_from(KvCache *cache, Sequence *sequence, size_t first);

/* Releases all pages and the states of the sequence, whose next position will be `start`. */
void kvpages_empty(KvCache *cache, Sequence *sequence, int32_t start);

#endif
