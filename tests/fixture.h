/* Loads the logits fixtures of tests/fixtures/logits and writes the Hugging Face directories that
 * they describe. Every function fails the test (cmocka) when something is missing. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { FIXTURE_MAX_PASSES = 4 };

/* The reference's logits of one run over the text. The first token is at position `start`; logits
 * are kept for row `first` and all later rows. */
typedef struct FixturePass {
    int32_t start;
    size_t first;
    double std;          /* standard deviation of the run's logits, the unit of the tolerance */
    const float *logits; /* [n_ids - first][vocab_size] */
} FixturePass;

typedef struct Fixture {
    const char *name, *family, *features;
    json_t *json;     /* the whole file */
    uint32_t context; /* context size to open the model with; 0: the model's own */
    size_t vocab_size, n_ids, n_greedy, n_passes;
    int32_t *ids, *greedy; /* the text; the reference's greedy continuation */
    FixturePass passes[FIXTURE_MAX_PASSES];
    float *logits;
} Fixture;

/* Loads the fixture `name`; the caller calls fixture_free. */
Fixture fixture_load(const char *name);
void fixture_free(Fixture *fixture);

/* Lists the names of all fixtures, sorted and NULL-terminated; the caller frees the array and each
 * name. */
char **fixture_names(void);

/* Creates a temporary directory with config.json and model.safetensors (hashed weights); the caller
 * calls fixture_remove_directory. Both files follow f->json, which a test may have changed. A test
 * that renames a tensor appends the old name to its recipe as the fifth element, and the tensor
 * keeps its values. */
char *fixture_source(const Fixture *fixture);
/* Returns the header of model.safetensors for a fixture's "tensors": name -> type, shape, offsets;
 * the caller frees it. */
char *fixture_header(json_t *tensors);
/* Writes a safetensors file of a fixture's "tensors". */
void fixture_write_weights(json_t *tensors, const char *path);
/* Creates an empty temporary directory and returns its path; the caller calls
 * fixture_remove_directory. */
char *fixture_directory(void);
/* Deletes the directory, the files in it, and the string. */
void fixture_remove_directory(char *directory);

/* Returns directory/name; the caller frees it. */
char *fixture_path(const char *directory, const char *name);

#endif
