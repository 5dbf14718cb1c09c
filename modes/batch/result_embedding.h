/* What the results of embeddings and of ranking hold. */
#ifndef RESULT_EMBEDDING_H
#define RESULT_EMBEDDING_H

#include "modes/batch/request_embedding.h"

/* Sets the fields of a native result: "embedding", or "embeddings" where the request has a list of
 * texts; "results" of a ranking; "prompt_tokens". */
void result_put_embedding(json_t *json, const EmbeddingRequest *request, size_t n_tokens);

/* The body of a result in OpenAI's form, or Jina's of a ranking, without the model's name. A new
 * reference. */
json_t *result_embedding_body(const EmbeddingRequest *request, size_t n_tokens);

#endif
