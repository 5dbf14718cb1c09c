/* The shapes of one run: each is compiled once, however many answers have it.
 *
 * All functions may be called from any thread. */
#ifndef CONSTRAINT_SHAPE_STORE_H
#define CONSTRAINT_SHAPE_STORE_H

#include "constraint/matcher.h"
#include "constraint/shape_source.h"

typedef struct ShapeStore ShapeStore;

/* A store for a model of `vocab_size` tokens; the tokenizer is borrowed. The vocabulary is prepared
 * when the first shape is asked for. NULL: no memory. */
ShapeStore *shape_store_new(Tokenizer *tokenizer, size_t vocab_size);
void shape_store_free(ShapeStore *store); /* no shape may be in use */

/* Gives the shape of a source, compiled now or before; shape_store_release gives it back. Shapes
 * that are not in use are kept while there are few. */
Status shape_store_get(ShapeStore *store, const ShapeSource *source, Shape **shape, Error *error);
void shape_store_release(ShapeStore *store, Shape *shape);

/* Forgets the shapes that are not in use: for one who learns afterwards that memory was refused
 * while they were compiled. */
void shape_store_forget(ShapeStore *store);

/* Makes a matcher (matcher_new) that releases the shape when it is freed. Takes the shape over,
 * also when it fails. */
Status shape_store_matcher(ShapeStore *store, Shape *shape, const GenerationOptions *options,
                           Matcher **matcher, Error *error);

#endif
