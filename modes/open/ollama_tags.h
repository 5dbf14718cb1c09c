/* ollama's models: which file of weights each NAME:TAG means, and which files come with it.
 *
 * manifests/HOST/NAMESPACE/NAME/TAG is JSON that names the weights by their digest. A model that
 * somebody pulled brings it along, so it is untrusted: a process without rights parses it. */
#ifndef OLLAMA_TAGS_H
#define OLLAMA_TAGS_H

#include <stdbool.h>
#include <stddef.h>

enum { OLLAMA_DIGEST = 64 };

/* The layers of a manifest that are read: weights, parameters and system prompt. */
typedef enum OllamaLayer {
    OLLAMA_MODEL,
    OLLAMA_PARAMETERS,
    OLLAMA_SYSTEM,
    OLLAMA_LAYERS
} OllamaLayer;

/* Layers that would change the text and are not read. (The template stands in for the model's own,
 * and a projector is for images.) */
enum { OLLAMA_MESSAGES = 1, OLLAMA_ADAPTER = 2 };

typedef struct OllamaTag {
    char *name; /* NAMESPACE/NAME:TAG, or NAME:TAG of the library */
    char *manifest;
    size_t manifest_bytes;
    /* Hexadecimal, of blobs/sha256-...; "": it has no such layer. */
    char digests[OLLAMA_LAYERS][OLLAMA_DIGEST + 1];
    unsigned others; /* OLLAMA_MESSAGES, OLLAMA_ADAPTER: what else it names */
} OllamaTag;

typedef struct OllamaTags {
    OllamaTag *tags;
    size_t n, capacity, bytes;
    bool failed; /* no memory */
} OllamaTags;

/* Finds the tags below `root`, sorted by their names. Free with ollama_tags_free. */
void ollama_tags_find(OllamaTags *tags, const char *root);
void ollama_tags_free(OllamaTags *tags);

#endif
