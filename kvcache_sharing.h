/* What the full build does with the key/value cache besides running one text from its start: going
 * back, forks, snapshots, sizes, saving and loading.
 *
 * Pages that have left all windows are given back and states are updated in place, so a sequence
 * can go back only to positions whose windows and states still exist: for windows, the last
 * KV_SLACK ones; for others it needs a snapshot. A snapshot holds what a token at its position
 * needs besides the pages of layers that see everything: the pages of the last window of each other
 * layer, by reference, and the states, by copy. A sequence has at most 16 of them; forks share
 * them. They are made
 *   - where their owner says so, because it is likely to come back: kvcache_mark;
 *   - behind the newest positions, ever sparser: whoever goes back by d positions runs at most
 *     64 + d / 2 positions again (for states: if calls end as kvcache_call_rows says).
 * The last marks stay; others are dropped where they are missed least: when there are too many,
 * when snapshots alone hold more memory than they may, and when sequences need it. */
#ifndef KVCACHE_SHARING_H
#define KVCACHE_SHARING_H

#include <stdbool.h>

#include "base/status.h"
#include "kv_shape.h"

typedef struct KvCache KvCache;

/* ---- Copies of a cache in other processes ---- */

/* What has been done to a cache, other than by model_forward. A cache that gets the same calls in
 * the same order, with the same rows of model_forward between them, holds the same positions. A
 * call that is made of others is told after them, and repeats what they did. */
typedef enum KvChange {
    KV_ENDED, /* kvcache_free */
    KV_RESET, /* position: the start */
    KV_TRUNCATED,
    KV_FORKED, /* to `other` */
    KV_MARKED,
    KV_HELD,
    KV_LIMITED, /* position: the bytes for snapshots */
} KvChange;

/* Is told of the changes of the caches whose KvShape names it. */
typedef struct KvMirror {
    void (*changed)(struct KvMirror *mirror, const KvCache *cache, KvChange change,
                    int32_t sequence, int64_t position, int32_t other);
} KvMirror;

/* ---- Going back, forks ---- */

/* Drops all positions from `position` on and frees the pages that become empty. When what a token
 * at `position` sees is gone, goes back to the newest snapshot before it, or to the start:
 * kvcache_next tells. Its owner runs the tokens since then again, which gives the same bits. */
void kvcache_truncate(KvCache *cache, int32_t sequence, int32_t position);

/* Empties `to` and gives it the positions of `from` below `position`, in shared pages; fewer, as
 * kvcache_truncate has it, when what `position` sees is gone. */
Status kvcache_fork(KvCache *cache, int32_t from, int32_t position, int32_t to, Error *error);

/* ---- Snapshots ---- */

/* From now on snapshots may hold so many bytes that no sequence holds; 0, as it is in a new cache:
 * none are made. They count as part of kvcache_new's max_bytes. */
void kvcache_limit_snapshots(KvCache *cache, size_t bytes);
size_t kvcache_snapshot_bytes(const KvCache *cache); /* that they hold now */

/* Whether sequences of this shape lose windows or states, so that marks make a difference. */
bool kvcache_forgets(const KvShape *shape);
bool kvcache_has_states(const KvShape *shape);

/* Makes a snapshot at `position` that stays longer than others. With states it must be
 * kvcache_next, otherwise a position at most KV_SLACK before it; does nothing elsewhere, or without
 * memory. */
void kvcache_mark(KvCache *cache, int32_t sequence, int32_t position);

/* Keeps the states behind the first n rows of the sequence in the next pass (n = 0: today's) until
 * the next call of this function, whatever the limit, so that the drafts after them can be taken
 * back. The layers copy them while they are computed anyway. False: no memory. Does nothing without
 * states. */
bool kvcache_hold(KvCache *cache, int32_t sequence, size_t n);

/* Where a layer copies its state before it takes in the row of the returned position; NULL: nowhere
 * in a pass whose first row of the sequence is at `first`. */
float *kvcache_held_state(const KvCache *cache, int32_t sequence, size_t layer, int32_t first,
                          int32_t *position);

/* ---- Sizes ---- */

/* The shape of a model whose layers are all alike; n_layers <= KV_MAX_LAYERS. */
KvShape kvcache_uniform_shape(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                              KvType type);

size_t kvcache_position_bytes(const KvShape *shape); /* one position of one sequence, all layers */

/* The part of n positions that the token after them sees, and the states. */
size_t kvcache_seen_bytes(const KvShape *shape, size_t n);

/* What a sequence of n positions takes, in whole pages: everything of layers without a window, and
 * of the others what can still be seen. A call of many rows takes more while it runs. */
size_t kvcache_sequence_bytes(const KvShape *shape, size_t n);

size_t kvcache_bytes_free(const KvCache *cache); /* that max_bytes still allows */

/* ---- Saving and loading ---- */

enum { KV_MAX_GROUPS = 4 };

/* The groups of layers that have page tables of their own. */
typedef struct KvLayout {
    size_t n_groups;
    size_t data_bytes[KV_MAX_GROUPS]; /* of one page; 0: the group stores nothing */
    uint32_t window[KV_MAX_GROUPS];
    size_t state_bytes; /* of all states */
} KvLayout;

KvLayout kvcache_layout(const KvShape *shape);

/* The first page of a group with this window that position start + index needs. */
size_t kvcache_first_page(uint32_t window, size_t index);

size_t kvcache_n_snapshots(const KvCache *cache, int32_t sequence);

/* What the sequence (snapshot -1) or its snapshot holds: its position; whether it was marked (the
 * sequence itself: always); its states, or NULL; the data of one page, or NULL. */
int32_t kvcache_saved_position(const KvCache *cache, int32_t sequence, int snapshot);
bool kvcache_saved_mark(const KvCache *cache, int32_t sequence, int snapshot);
float *kvcache_saved_states(const KvCache *cache, int32_t sequence, int snapshot);
void *kvcache_saved_page(const KvCache *cache, int32_t sequence, int snapshot, size_t group,
                         size_t page);

/* Lets an empty sequence, whose start is 0, end at `position`, with all pages and states that a
 * token there needs, to be filled through the functions above. After a failure, the caller resets
 * the sequence. */
Status kvcache_begin_at(KvCache *cache, int32_t sequence, int32_t position, Error *error);

#endif
