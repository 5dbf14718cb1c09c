/* The formats' readers, as source.c calls them. */
#ifndef FORMATS_READERS_H
#define FORMATS_READERS_H

#include "formats/source.h"

/* huggingface.c: opens what a directory holds of the files that a model may have; parses
 * config.json, headers and tokenizer files. */
Status huggingface_open(Source *source, Error *error);
Status huggingface_parse(Source *source, Error *error);

/* gguf.c: opens the other files of a split model; parses all of them. */
Status gguf_open_splits(Source *source, Error *error);
Status gguf_parse(Source *source, Error *error);

/* random_tokenizer.c: a byte tokenizer with made-up words, where the vocabulary has room. */
Status random_tokenizer(Source *source, Error *error);

Status llama2c_parse(Source *source, Error *error);

/* Opens one more file of the source: files[n_files++]. */
Status source_add_file(Source *source, const char *path, Error *error);

/* The file whose name without directories is `name`; NULL: none. */
const InputFile *source_file(const Source *source, const char *name);

/* tokenizer_choose.c: the tokenizer that the user gave, by what its file holds. */
Status tokenizer_from_file(const InputFile *file, size_t vocab_size, TokenizerBlob *out,
                           Error *error);

/* base^(-2i / dim) for i < dim / 2, in float32 as transformers computes it: the power, then its
 * reciprocal. malloc'ed; NULL: no memory. */
float *rope_inverse_frequencies(double base, size_t dim);

/* alibi.c (arXiv:2108.12409): the slopes[n_heads] that alibi_max_bias gives. malloc'ed; NULL: no
 * memory. */
float *alibi_slopes(const Config *config);

#endif
