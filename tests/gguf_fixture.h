/* Writes GGUF files like those that llama.cpp's converter makes of the fixtures' models; the JSON
 * files in tests/fixtures/gguf say where each element comes from. Every function fails the test
 * (cmocka) when something is missing. */
#ifndef GGUF_FIXTURE_H
#define GGUF_FIXTURE_H

#include <jansson.h>

#include "formats/stored/stored.h"

/* Lists the names of all GGUF fixtures, sorted and NULL-terminated; the caller frees the array and
 * each name. */
char **gguf_fixture_names(void);

/* Loads the JSON of a fixture; the caller calls json_decref. Its "source" names the fixture in
 * tests/fixtures/logits with the logits of the same model. */
json_t *gguf_fixture_load(const char *name);

/* Beside those of "source", "more_recipes" may hold recipes of tensors; a test sets it. */

/* Writes the fixture's GGUF file to `path` with its matrices in `type`: STORED_F32, F16, Q8_0 or
 * MXFP4. MXFP4 applies to experts only; Q8_0 and MXFP4 only where a row consists of whole blocks.
 * With `widened`, the values are rounded to `type` but stored as F32. */
void gguf_fixture_write(const json_t *fixture, const char *path, StoredType type, bool widened);

#endif
