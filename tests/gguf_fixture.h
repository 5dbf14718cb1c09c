/* GGUF files as llama.cpp's converter makes them of the fixtures' models: tests/fixtures/gguf says
 * where each element comes from. A test that uses these fails on the spot (cmocka) when something
 * is missing. */
#ifndef GGUF_FIXTURE_H
#define GGUF_FIXTURE_H

#include <jansson.h>

#include "formats/stored.h"

/* All names, sorted, NULL-terminated; free the array and each name. */
char **gguf_fixture_names(void);

/* The fixture's JSON; "source" is the name of the fixture in tests/fixtures/logits whose logits
 * the model has. json_decref. */
json_t *gguf_fixture_load(const char *name);

/* Writes the file to `path`: matrices in `type` (STORED_F32, F16, Q8_0, MXFP4 for experts alone;
 * the last two where a row is whole blocks). With `widened`, their values are rounded to `type`,
 * but stored as F32. */
void gguf_fixture_write(const json_t *fixture, const char *path, StoredType type, bool widened);

#endif
