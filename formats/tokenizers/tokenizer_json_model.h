/* The models of a tokenizer.json: BPE, Unigram and WordLevel; and vocab.json with merges.txt, which
 * are a BPE model in two files. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_JSON_MODEL_H
#define FORMATS_TOKENIZERS_TOKENIZER_JSON_MODEL_H

#include "formats/tokenizers/tokenizer_json_import.h"

Status json_import_model(JsonImport *im, const json_t *model);

/* Imports the BPE model in vocab.json and the text of merges.txt. */
Status json_import_slow_model(JsonImport *im, json_t *vocab, const char *merges, size_t size);

/* The id of the token in the vocabulary, or -1. */
int64_t json_import_id(const JsonImport *im, const char *token, size_t n);

#endif
