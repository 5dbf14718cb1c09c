/* The logits fixtures of tests/fixtures/logits, and the Hugging Face directories that they
 * describe. A test that uses these fails on the spot (cmocka) when something is missing. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { FIXTURE_MAX_PASSES = 4 };

/* One run over the text, from position `start`: the reference's logits of its rows `first`
 * and later. */
typedef struct FixturePass {
    int32_t start;
    size_t first;
    double std;          /* of all the run's logits: the unit of the tolerance */
    const float *logits; /* [n_ids - first][vocab_size] */
} FixturePass;

typedef struct Fixture {
    const char *name, *family, *features;
    json_t *json;     /* the whole file */
    uint32_t context; /* to open the model with; 0: its own */
    size_t vocab_size, n_ids, n_greedy, n_passes;
    int32_t *ids, *greedy; /* the text; the reference's greedy continuation */
    FixturePass passes[FIXTURE_MAX_PASSES];
    float *logits;
} Fixture;

/* The fixture called `name`; fixture_free. */
Fixture fixture_load(const char *name);
void fixture_free(Fixture *fixture);

/* All names, sorted, NULL-terminated; free the array and each name. */
char **fixture_names(void);

/* A new temporary directory with config.json and model.safetensors (hashed weights);
 * fixture_remove_directory. Both are as f->json has them, which a test may have changed: a
 * tensor that it renames keeps its values with the old name as the recipe's fifth element. */
char *fixture_source(const Fixture *fixture);
/* The header of the model.safetensors of a fixture's "tensors": name -> type, shape, place. Free.
 */
char *fixture_header(json_t *tensors);
/* An empty new temporary directory. */
char *fixture_directory(void);
/* Deletes the directory, the files in it, and the string. */
void fixture_remove_directory(char *directory);

/* directory/name, to free. */
char *fixture_path(const char *directory, const char *name);

#endif
