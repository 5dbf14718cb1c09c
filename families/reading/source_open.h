/* Opening a model in any format: tells the format from the first bytes and calls its reader.
 *
 * Opening has two steps, so that a program can give up its right to open files in between:
 *
 *     Source *source;
 *     source_open(&source, path, tokenizer_path, &error)   opens every file it may need
 *     source_parse(source, &error)                         reads headers, fills in the Source
 *     source_read_floats(source, tensor, row, n, out, &error)           (source_floats.h)
 *     source_close(source);                                             (source.h)
 *
 * The readers are huggingface.c (with safetensors.c and families.c), gguf_reader.c (with gguf.c),
 * llama2c.c, model_bin.c and random.c; the head of source.h says what a new one takes. */
#ifndef FAMILIES_READING_SOURCE_OPEN_H
#define FAMILIES_READING_SOURCE_OPEN_H

#include <stdio.h>

#include "formats/containers/source.h"

/* Tells the format of a file by its first bytes and of a directory by its files. When `path` holds
 * no model the Error says why: no such file, an empty file, pytorch_model.bin alone, ... */
Status source_detect(const char *path, SourceKind *kind, Error *error);

/* Opens every file of the source. `tokenizer_path` (NULL: none) is a tokenizer to use instead of
 * the source's own. */
Status source_open(Source **out, const char *path, const char *tokenizer_path, Error *error);

/* Parses the open files and fills in the Source. Afterwards the configuration is valid, every
 * tensor lies inside its file, no two have the same name, and the tokenizer fits the model. */
Status source_parse(Source *source, Error *error);

/* Instead of parsing: prints the draft of a page for the directory's model_type, as far as it is
 * not known to the program (family_draft.h), or else the page of its family. */
Status source_print_draft(Source *source, FILE *out, Error *error);

#endif
