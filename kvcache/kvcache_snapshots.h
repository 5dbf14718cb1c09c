/* Snapshots of the key/value cache's sequences, so that they can go back (kvcache_fork.h).
 *
 * Pages that have left all windows are given back and states are updated in place, so a sequence
 * can go back only to positions whose windows and states still exist: for windows, the last
 * KV_SLACK ones; for others it needs a snapshot. A snapshot holds what a token at its position
 * needs besides the pages of layers that see everything: the pages of the last window of each other
 * layer, by reference, and the states, by copy. A sequence has at most 16 of them; forks share
 * them. They are made
 *   - where their owner says so, because it is likely to come back: kvcache_mark;
 *   - before the newest positions, ever sparser: whoever goes back by d positions runs at most
 *     64 + d / 2 positions again (for states: if calls end as kvcache_call_rows says).
 * The last marks stay; others are dropped where they are missed least: when there are too many,
 * when snapshots alone hold more memory than they may, and when sequences need it. */
#ifndef KVCACHE_KVCACHE_SNAPSHOTS_H
#define KVCACHE_KVCACHE_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct KvCache KvCache;

/* From now on snapshots may hold so many bytes that no sequence holds; 0, as it is in a new cache:
 * none are made. They count as part of kvcache_new's max_bytes. */
void kvcache_limit_snapshots(KvCache *cache, size_t bytes);
size_t kvcache_snapshot_bytes(const KvCache *cache); /* bytes of all snapshots */

/* Makes a snapshot at `position` that stays longer than others. With states it must be
 * kvcache_next, otherwise a position at most KV_SLACK before it; does nothing elsewhere, or without
 * memory. */
void kvcache_mark(KvCache *cache, int32_t sequence, int32_t position);

/* Keeps the states after the first n rows of the sequence in the next pass (n = 0: today's) until
 * the next call of this function, whatever the limit, so that the drafts after them can be taken
 * back. The layers copy them while they are computed anyway. False: no memory. Does nothing without
 * states. */
bool kvcache_hold(KvCache *cache, int32_t sequence, size_t n);

/* Where a layer copies its state before it takes in the row of the returned position; NULL: nowhere
 * in a pass whose first row of the sequence is at `first`. */
float *kvcache_held_state(const KvCache *cache, int32_t sequence, size_t layer, int32_t first,
                          int32_t *position);

#endif
