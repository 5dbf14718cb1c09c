/* What core/config.c needs to know of embeddings of n-grams (ngram.h). */
#ifndef LAYERS_ARRANGEMENTS_NGRAM_FIELDS_H
#define LAYERS_ARRANGEMENTS_NGRAM_FIELDS_H

#include "layers/fields.h"

/* The keys of Config.ngram. */
extern const FieldTable ngram_keys;

/* Checks what layers with n-grams read; STATUS_OK where there are none. */
Status ngram_validate(const Config *config, Error *error);
/* Multiply-adds of the matrix products of all of these layers for one row. */
double ngram_work(const Config *config);

#endif
