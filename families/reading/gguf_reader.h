/* The reader of GGUF models: llama.cpp's names of keys and tensors, split files, the tokenizer and
 * the chat template inside. */
#ifndef FAMILIES_READING_GGUF_READER_H
#define FAMILIES_READING_GGUF_READER_H

#include "formats/containers/source.h"

/* Opens the other files of a split model ("NAME-00001-of-00003.gguf"). */
Status gguf_open_splits(Source *source, Error *error);
/* Parses all files. */
Status gguf_parse(Source *source, Error *error);

#endif
