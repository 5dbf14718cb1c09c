/* A model.bin that tests can run: generated weights and a tokenizer of bytes and a few words. */
#ifndef SMALL_MODEL_H
#define SMALL_MODEL_H

/* Writes directory/model.bin and returns its path; the caller frees it. `shape` is what `export
 * --random` takes and must give a vocabulary of 300 tokens; NULL: "tiny". Fails the test (cmocka)
 * on any error. */
char *small_model(const char *directory, const char *shape);

/* Converts stories260K to a model.bin in the directory and returns its path (the caller frees it),
 * or NULL when ../shared/data is absent. */
char *small_model_stories(const char *directory);

#endif
