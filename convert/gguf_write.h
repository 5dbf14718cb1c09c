/* Writes a GGUF file again with other types of weights: for `export SOURCE.gguf TARGET.gguf`.
 *
 * Metadata, tokenizer, tensor names and shapes are the source's. Its tensors are read backwards:
 * what the reader of GGUF says of the runner's tensors (which stored tensor they lie in, and in
 * which order of rows) says where a matrix of the model.bin that was made of the source goes. A
 * tensor whose values did not change is copied as it stands. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include "convert/convert.h"
#include "core/modelfile.h"

/* Whether a target of this name is to be a GGUF file. */
bool gguf_write_asked(const char *target);

/* Whether a matrix with rows of `cols` inputs can be written in blocks of the type. */
bool gguf_write_holds(TensorType type, size_t cols);

/* Refuses, before the work begins, a conversion to `type` (as in ConvertOptions) if one of its
 * tensors cannot be written. The source is a GGUF file and parsed. */
Status gguf_write_check(const Source *source, const char *type, Error *error);

/* Writes the file into fd, which is empty. `model` is the source as it was converted with these
 * options. Refuses a tensor whose blocks would not give the model's values back. *bytes becomes the
 * size of the file. */
Status gguf_write(const Source *source, const ModelFile *model, const ConvertOptions *options,
                  int fd, uint64_t *bytes, Error *error);

#endif
