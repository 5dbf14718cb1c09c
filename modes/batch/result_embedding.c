#include "modes/batch/result_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "json/json_text.h"

/* ---- One vector ---- */

/* bytes[n] in base64. NULL: no memory. */
static json_t *base64(const uint8_t *bytes, size_t n) {
    char *text = malloc((n + 2) / 3 * 4 + 1);
    if (!text) json_text_lacks_memory();
    json_t *json = text ? json_stringn(text, base64_encode(bytes, n, text)) : NULL;
    free(text);
    return json;
}

/* A list of numbers or, as OpenAI has it, the base64 of float32 values, little-endian. */
static json_t *vector_json(const EmbeddingRequest *e, const float *vector) {
    uint32_t n = e->setting.dimensions;
    if (e->base64) return base64((const uint8_t *)vector, n * sizeof *vector);
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_real((double)vector[i]));
    return list;
}

/* ---- A ranking ---- */

typedef struct Ranked {
    double score;
    size_t index;
} Ranked;

static int by_score(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

/* [{"index", "relevance_score", "document"}], the most relevant first. */
static json_t *ranking(const EmbeddingRequest *e) {
    size_t n = e->n_texts, top = e->top_n && e->top_n < n ? e->top_n : n;
    Ranked *ranked = calloc(n, sizeof *ranked);
    if (!ranked) return NULL;
    for (size_t i = 0; i < n; i++) ranked[i] = (Ranked){e->texts[i].score, i};
    qsort(ranked, n, sizeof *ranked, by_score);
    json_t *list = json_array();
    for (size_t i = 0; i < top; i++) {
        json_t *document = json_array_get(e->documents, ranked[i].index);
        json_t *item = json_pack("{s:I, s:f}", "index", (json_int_t)ranked[i].index,
                                 "relevance_score", ranked[i].score);
        if (!e->without_documents)
            json_object_set_new(item, "document",
                                json_is_object(document) ? json_incref(document)
                                                         : json_pack("{s:O}", "text", document));
        json_array_append_new(list, item);
    }
    free(ranked);
    return list;
}

/* ---- Results ---- */

void result_put_embedding(json_t *json, const EmbeddingRequest *e, size_t n_tokens) {
    bool is_list = json_is_array(e->input) && !json_is_integer(json_array_get(e->input, 0));
    json_object_set_new(json, "prompt_tokens", json_integer((json_int_t)n_tokens));
    if (e->ranks) {
        json_object_set_new(json, "results", ranking(e));
    } else if (is_list) {
        json_t *list = json_array();
        for (size_t i = 0; i < e->n_texts; i++)
            json_array_append_new(list, vector_json(e, e->texts[i].vector));
        json_object_set_new(json, "embeddings", list);
    } else {
        json_object_set_new(json, "embedding", vector_json(e, e->texts[0].vector));
    }
}

static json_t *data_list(const EmbeddingRequest *e) {
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_texts; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "object", "embedding", "index",
                                              (json_int_t)i, "embedding",
                                              vector_json(e, e->texts[i].vector)));
    return list;
}

json_t *result_embedding_body(const EmbeddingRequest *e, size_t n_tokens) {
    json_int_t n = (json_int_t)n_tokens;
    json_t *body = json_pack("{s:s}", "object", "list");
    json_object_set_new(body, e->ranks ? "results" : "data", e->ranks ? ranking(e) : data_list(e));
    json_object_set_new(body, "usage",
                        json_pack("{s:I, s:I}", "prompt_tokens", n, "total_tokens", n));
    return body;
}
