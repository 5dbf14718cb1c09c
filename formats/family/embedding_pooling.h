/* How a model of embeddings pools its states: the files that sentence-transformers keeps beside a
 * Hugging Face model (https://sbert.net), and the keys of GGUF. They become metadata:
 *
 *     embedding.pooling         "last", "mean", "cls", "max", "mean_sqrt_len" or "weighted_mean"
 *     embedding.include_prompt  false: the tokens of the prompt are not pooled
 *     embedding.normalize       true: the result has length 1
 *     embedding.max_tokens      of a text
 *     embedding.prompt.NAME     what is put before a text of this kind, such as "query"
 *     embedding.default_prompt  the NAME that is used unless another one is asked for
 *     embedding.only            true: the model has no output head
 *
 * session/embedding.h reads them. */
#ifndef FORMATS_FAMILY_EMBEDDING_POOLING_H
#define FORMATS_FAMILY_EMBEDDING_POOLING_H

#include "formats/containers/source.h"

/* Whether the file of this name belongs to sentence-transformers. */
bool pooling_wants(const char *name);

/* The directory, within the model's, of the file config.json that says which tokens are pooled. */
#define POOLING_DIRECTORY "1_Pooling"

/* Reads the files of a Hugging Face directory; does nothing where it has none of them. Refuses, by
 * name, what this program cannot compute. */
Status pooling_read(Source *source, Error *error);

/* Adds the metadata for a GGUF file's pooling_type: 0 is none, and a number that is not known is
 * refused, as are heads that rank. `has_head`: the file has an output matrix of its own. */
Status pooling_read_gguf(Source *source, uint32_t type, bool has_head, Error *error);

/* Adds "embedding.pooling" as the user says it ("last", "mean" or "cls"), for a source that does
 * not say; refused where it does. */
Status pooling_set(Source *source, const char *name, Error *error);

/* Records that the model has no output head: it gives embeddings alone. */
void pooling_set_only(Source *source);

#endif
