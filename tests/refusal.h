/* Models that must be refused. */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "base/status.h"
#include "tests/fixture.h"

/* Converts the fixture's directory, which must fail, and returns its Error. */
void fixture_refusal(const Fixture *f, Error *error);

/* Sets config.json's `key` to the JSON `value` and expects a refusal whose Error contains each of
 * the texts. */
void assert_refused(const char *fixture, const char *key, const char *value, const char *first,
                    const char *second);

#endif
