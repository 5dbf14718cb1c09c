/* A model.bin that tests can run: generated weights and a tokenizer of bytes and a few words. */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H

/* Writes directory/model.bin and returns its path, to free. `shape` as `export --random` takes
 * it, with 300 tokens; NULL: tiny. Fails on the spot (cmocka). */
char *small_model(const char *directory, const char *shape);

/* stories260K as a model.bin in the directory, or NULL when ../shared/data is absent. */
char *small_model_stories(const char *directory);

#endif
