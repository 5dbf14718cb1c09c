#include "constraint/shape_store.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "constraint/forced_tokens.h"
#include "constraint/structure.h"

/* Shapes that are kept though no answer has them, and their memory. */
enum { MOST_UNUSED = 64, MOST_UNUSED_BYTES = 512 << 20 };

typedef struct Entry {
    XXH128_hash_t hash;
    ShapeKind kind;
    unsigned form;
    Shape *shape;
    size_t n_users, bytes; /* of memory, once no answer has it */
    uint64_t last_use;
} Entry;

struct ShapeStore {
    Tokenizer *tokenizer;
    size_t vocab_size;
    Vocabulary *vocabulary;
    Entry *entries;
    size_t n, capacity;
    uint64_t clock;
    pthread_mutex_t lock;
};

ShapeStore *shape_store_new(Tokenizer *tokenizer, size_t vocab_size) {
    ShapeStore *store = calloc(1, sizeof *store);
    if (!store || pthread_mutex_init(&store->lock, NULL) != 0) {
        free(store);
        return NULL;
    }
    store->tokenizer = tokenizer;
    store->vocab_size = vocab_size;
    return store;
}

void shape_store_free(ShapeStore *store) {
    if (!store) return;
    for (size_t i = 0; i < store->n; i++) shape_free(store->entries[i].shape);
    vocabulary_free(store->vocabulary);
    pthread_mutex_destroy(&store->lock);
    free(store->entries);
    free(store);
}

/* Frees the unused shape that was used longest ago, where unused ones are too many or too large;
 * false: they are not. */
static bool forget_one(ShapeStore *store) {
    size_t unused = 0, bytes = 0, oldest = 0;
    for (size_t i = 0; i < store->n; i++) {
        const Entry *e = &store->entries[i];
        if (e->n_users > 0) continue;
        bytes += e->bytes;
        if (unused++ == 0 || e->last_use < store->entries[oldest].last_use) oldest = i;
    }
    if (unused == 0 || (unused <= MOST_UNUSED && bytes <= MOST_UNUSED_BYTES)) return false;
    shape_free(store->entries[oldest].shape);
    store->entries[oldest] = store->entries[--store->n];
    return true;
}

static Status shape_store_compile(ShapeStore *store, const ShapeSource *source, Shape **shape,
                                  Error *error) {
    Acceptor *acceptor;
    if (!store->vocabulary &&
        vocabulary_new(&store->vocabulary, store->tokenizer, store->vocab_size, error) != STATUS_OK)
        return STATUS_FAILED;
    const AcceptorLimits limits = acceptor_limits_default();
    Status status = source->kind == SHAPE_STRUCTURE
                        ? structure_compile(source, &limits, &acceptor, error)
                        : shape_source_compile_within(source, &limits, &acceptor, error);
    if (status != STATUS_OK) return STATUS_FAILED;
    return shape_new(shape, acceptor, store->vocabulary, error);
}

/* Finds the compiled shape of this source in the store, or compiles and keeps it, and counts one
 * more user of it. */
static Status get(ShapeStore *store, const ShapeSource *source, Shape **shape, Error *error) {
    XXH128_hash_t hash = XXH3_128bits(source->text ? source->text : "", source->length);
    for (size_t i = 0; i < store->n; i++) {
        Entry *e = &store->entries[i];
        if (e->kind != source->kind || e->form != source->form || !XXH128_isEqual(e->hash, hash))
            continue;
        e->n_users++;
        e->last_use = store->clock++;
        *shape = e->shape;
        return STATUS_OK;
    }
    if (shape_store_compile(store, source, shape, error) != STATUS_OK) return STATUS_FAILED;
    if (!array_reserve(&store->entries, &store->capacity, store->n + 1, sizeof *store->entries)) {
        shape_free(*shape);
        return error_set(error, "no memory for a shape");
    }
    store->entries[store->n++] = (Entry){.hash = hash,
                                         .kind = source->kind,
                                         .form = source->form,
                                         .shape = *shape,
                                         .n_users = 1,
                                         .last_use = store->clock++};
    return STATUS_OK;
}

Status shape_store_get(ShapeStore *store, const ShapeSource *source, Shape **shape, Error *error) {
    pthread_mutex_lock(&store->lock);
    Status status = get(store, source, shape, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}

void shape_store_release(ShapeStore *store, Shape *shape) {
    if (!shape) return;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->n; i++) {
        Entry *e = &store->entries[i];
        if (e->shape != shape) continue;
        if (--e->n_users == 0) e->bytes = shape_memory(shape);
        break;
    }
    while (forget_one(store)) continue;
    pthread_mutex_unlock(&store->lock);
}

void shape_store_forget(ShapeStore *store) {
    pthread_mutex_lock(&store->lock);
    for (size_t i = store->n; i-- > 0;) {
        if (store->entries[i].n_users > 0) continue;
        shape_free(store->entries[i].shape);
        store->entries[i] = store->entries[--store->n];
    }
    pthread_mutex_unlock(&store->lock);
}

static void release(void *owner, Shape *shape) {
    shape_store_release(owner, shape);
}

Status shape_store_matcher(ShapeStore *store, Shape *shape, const GenerationOptions *options,
                           Matcher **matcher, Error *error) {
    if (matcher_new(matcher, shape, options, error) != STATUS_OK) {
        shape_store_release(store, shape);
        return STATUS_FAILED;
    }
    (*matcher)->release = release;
    (*matcher)->owner = store;
    forced_tokens_propose(*matcher, store->tokenizer);
    return STATUS_OK;
}
