/* ollama's models: which file of weights each NAME:TAG means.
 *
 * manifests/HOST/NAMESPACE/NAME/TAG is JSON that names the weights by their digest. A model that
 * somebody pulled brings it along, so it is untrusted: a process without rights parses it. */
#ifndef OLLAMA_TAGS_H
#define OLLAMA_TAGS_H

#include <stdbool.h>
#include <stddef.h>

enum { OLLAMA_DIGEST = 64 };

/* Layers of a manifest that change the text. (Its template stands in for the model's own, and a
 * projector is for images.) */
enum { OLLAMA_PARAMETERS = 1, OLLAMA_SYSTEM = 2, OLLAMA_MESSAGES = 4, OLLAMA_ADAPTER = 8 };

typedef struct OllamaTag {
    char *name; /* NAMESPACE/NAME:TAG, or NAME:TAG of the library */
    char *manifest;
    size_t manifest_bytes;
    char digest[OLLAMA_DIGEST + 1]; /* hexadecimal, of blobs/sha256-...; "": it names no weights */
    unsigned others; /* OLLAMA_PARAMETERS and so on: what else it names, which is not read */
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
