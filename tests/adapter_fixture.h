/* The fixtures of tests/fixtures/adapters: what peft computes with adapters, and directories of
 * adapters with hashed weights. Every function fails the test (cmocka) when something is missing.
 */
#ifndef ADAPTER_FIXTURE_H
#define ADAPTER_FIXTURE_H

#include "convert/adapter_opening.h"
#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/tiny_model.h"

typedef struct AdapterFixture {
    json_t *json;
    Fixture base;
    size_t n, kept; /* adapters; rows of logits at the end of the base's text */
    double std;
    float *logits; /* [kept][vocab_size] */
} AdapterFixture;

AdapterFixture adapter_fixture_load(const char *name);
void adapter_fixture_free(AdapterFixture *fixture);

/* Writes adapter number i as peft would, into a temporary directory; fixture_remove_directory. */
char *adapter_fixture_directory(const AdapterFixture *fixture, size_t i);
/* The same with another adapter_config.json or other tensors (NULL: the fixture's). */
char *adapter_directory(json_t *config, json_t *tensors);

/* An adapter of small_model's attention with hashed weights of its own (small_model.h). */
char *adapter_of_small_model(const char *salt, int rank);

/* Writes what llama.cpp's converter makes of the first adapter to `path`, with its matrices in
 * `type` (gguf_fixture.h). */
void adapter_fixture_gguf(const AdapterFixture *fixture, const char *name, const char *path,
                          StoredType type);

/* A short text through a fixture's base of a quantized type, with the fixture's adapters. */
typedef struct AdapterFixtureText {
    char *name, *type; /* the fixture; of --type */
    int32_t *ids;
    size_t n_ids, kept; /* rows of logits at the end */
    double std;
    float *logits; /* [kept][vocab_size] */
} AdapterFixtureText;

/* Loads quantized.json: all texts. Returns their number; adapter_fixture_quantized_free. */
size_t adapter_fixture_quantized(AdapterFixtureText **texts);
void adapter_fixture_quantized_free(AdapterFixtureText *texts, size_t n);

/* A model that runs with adapters. Not to be moved after adapted_open. */
typedef struct Adapted {
    TinyModel tiny;
    Session session;
    AdapterOpening opening;
} Adapted;

/* Converts the source and starts the adapters of specs[n], as --lora takes them. */
void adapted_open(Adapted *adapted, const char *source, const char *type,
                  const ModelOptions *options, KvType kv_type, const char *const *specs, size_t n);
void adapted_close(Adapted *adapted);

#endif
