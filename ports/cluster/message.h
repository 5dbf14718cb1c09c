/* What rank 0 broadcasts to the ranks that follow: the layout, and the checks of what arrives.
 *
 * A rank that follows acts upon nothing that these checks have not seen: numbers that cannot come
 * from a sound rank 0 are an error, as in a file. */
#ifndef CLUSTER_MESSAGE_H
#define CLUSTER_MESSAGE_H

#include "adapters/lora.h"
#include "model.h"

/* Beside the values of KvChange. */
enum {
    CACHE_NEW = 100,
    ADAPTERS_SELECTED /* `position`: the bits of lora_select for `sequence` */
};

/* Something that was done to a cache, or to the adapters. */
typedef struct Change {
    int32_t kind;  /* KvChange or CACHE_NEW */
    int32_t cache; /* its number */
    int32_t sequence, other;
    int64_t position;
    int32_t type; /* CACHE_NEW: of keys and values; `sequence`: how many, `position`: most bytes */
    int32_t reserved;
} Change;

typedef enum MessageKind {
    MESSAGE_END,
    MESSAGE_GO_ON, /* with changes alone, or to open the model */
    MESSAGE_PASS,
    MESSAGE_STATES, /* a pass without logits */
    MESSAGE_FULL,   /* a pass for which the cache has no room */
    MESSAGE_KINDS
} MessageKind;

/* Then n_changes Changes and n_rows Rows. */
typedef struct Header {
    uint32_t kind, n_changes, n_rows;
    int32_t cache;     /* of the rows */
    uint32_t observed; /* OBSERVED_... */
    uint32_t reserved; /* 0 */
} Header;

enum {
    MESSAGE_SHORT = 2048, /* bytes of the first broadcast; a longer message takes a second */
    MESSAGE_MOST_CHANGES = 1 << 18, /* of one message; for more, rank 0 sends another */
    MESSAGE_MOST_CACHES = 256,
    MESSAGE_MOST_SEQUENCES = 1 << 20
};

size_t message_bytes(const Header *header);

/* The state of a follower, a rank other than 0. */
typedef struct MessageReceiver {
    const Model *model;     /* NULL: it waits for rank 0 to open one */
    const Lora *lora;       /* the model's adapters; NULL: none */
    KvCache *const *caches; /* [n_caches]; NULL: freed */
    size_t n_caches;
} MessageReceiver;

Status message_check_header(const MessageReceiver *receiver, const Header *header, Error *error);

/* Before the change is made; the changes before it are. */
Status message_check_change(const MessageReceiver *receiver, const Change *change, Error *error);

/* The rows of a pass, after the changes. model_forward itself compares tokens and positions with
 * what the model has. */
Status message_check_rows(const MessageReceiver *receiver, const Header *header, const Row *rows,
                          Error *error);

#endif
