/* A Drafter proposes tokens ahead of the text, which the model then checks in one pass
 * (speculation.h). What it proposes changes the speed of decoding, never the text.
 *
 * An implementation begins with this struct:
 *
 *     typedef struct Lookup { Drafter drafter; ... } Lookup;
 *
 * Several of them propose for one text as a DrafterSet (drafter_set.h). */
#ifndef DRAFTER_H
#define DRAFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "draft/pass_costs.h"
#include "core/model_row.h"

enum { DRAFTS_MAX = 31 }; /* tokens that any Drafter proposes at a time */

typedef struct Drafter Drafter;

struct Drafter {
    size_t most; /* tokens that this one proposes at a time, at most DRAFTS_MAX */

    /* Proposes what follows text[n]: writes at most `most` tokens to drafts[] and returns how
     * many, 0 to stay silent. A token outside the vocabulary is allowed and costs a pass. Between
     * two calls the text grows, but its last tokens may be others: a draft's that was wrong. */
    size_t (*propose)(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                      size_t most);

    /* Tells the drafter that the text took the first `accepted` of the n tokens (n > 0) that it
     * proposed last. */
    void (*learn)(Drafter *drafter, size_t n, size_t accepted);

    void (*free)(Drafter *drafter);

    /* Called when model_forward has run the rows [first, first + n) of a pass for this text, its
     * prompt's and drafts included, before the model's next pass. NULL: nobody looks. */
    void (*ran)(Drafter *drafter, const Row *rows, size_t first, size_t n);

    /* Tokens of text[n] that the next call of propose would run through a model before it
     * proposes. NULL: none. */
    size_t (*unread)(Drafter *drafter, const int32_t *text, size_t n);

    /* Where there is `unread`: the drafter may leave out all of a text but its last `window`
     * tokens, when it begins or has not been asked for as many; when `window` has grown, it reads
     * that far back. 0: it reads all. */
    size_t window;

    size_t trust; /* in a set it proposes so many tokens whatever they cost; 0: what pays */

    bool first; /* in a set it is asked before all others, and never after their drafts */

    PassCosts *costs; /* told how long each pass takes; borrowed; NULL: nobody asks */
};

static inline void drafter_free(Drafter *drafter) {
    if (drafter) drafter->free(drafter);
}

#endif
