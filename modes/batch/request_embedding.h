/* Requests that generate nothing: embeddings, and documents ranked for a query.
 *
 *     {"input": ..., "dimensions": ..., "encoding_format": ..., "prompt_name": ...}
 *     {"query": ..., "documents": [...], "top_n": ..., "instruction": ...}
 *
 * as lines of their own or as the bodies of /v1/embeddings (OpenAI's API) and /v1/rerank (Jina's
 * and Cohere's, as vLLM and llama.cpp serve it). docs/embeddings.md lists the fields. */
#ifndef REQUEST_EMBEDDING_H
#define REQUEST_EMBEDDING_H

#include <jansson.h>

#include "session/embedding.h"
#include "session/embedding_options.h"

enum { EMBEDDING_MOST_TEXTS = 4096 }; /* of one line */

/* One text, and what came of it. */
typedef struct EmbeddingText {
    size_t first;  /* the first token that is pooled */
    float *vector; /* [setting.dimensions], owned; NULL: not computed */
    double score;  /* of a document: the probability that it suits the query */
} EmbeddingText;

typedef struct EmbeddingRequest {
    bool ranks; /* documents, by a query; else: embeds an input */

    /* Borrowed from the request; NULL: not given. */
    const json_t *input, *query, *documents;
    const char *model, *instruction, *prompt_name;
    const char *plain; /* [plain_length] the one text, in place of `input` */
    size_t plain_length;
    uint64_t dimensions; /* 0: not given */
    NormalizeChoice normalize;
    bool base64;         /* the result's vectors are texts */
    bool returns_states; /* whoever has the library gets each token's state */
    bool truncates, no_truncation;
    size_t top_n;           /* 0: all documents */
    bool without_documents; /* the result does not repeat them */

    /* By request_embedding_encode. */
    EmbeddingSetting setting; /* with what the request says otherwise */
    EmbeddingText *texts;     /* [n_texts] */
    size_t n_texts;
    int32_t yes, no; /* tokens that answer whether a document suits the query */
} EmbeddingRequest;

/* Reads the fields of `body`, except those in `own` (NULL-terminated). */
Status request_embedding_read(EmbeddingRequest *request, const json_t *body, const char *const *own,
                              Error *error);

/* Makes the texts, and prompts[n_texts], their tokens, which are the caller's even after a failure:
 * *n_prompts of them. */
Status request_embedding_encode(EmbeddingRequest *request, const Session *session,
                                const EmbeddingSetting *setting, TokenList **prompts,
                                size_t *n_prompts, Error *error);

void request_embedding_free(EmbeddingRequest *request);

#endif
