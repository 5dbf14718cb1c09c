/* The content of messages in the form that a chat template reads.
 *
 * In OpenAI's API a content is a text, a list of parts ({"type": "text", "text": ...}) or null.
 * Most templates take a text, those of models of several modalities often a list, some both. What a
 * template takes is found out by rendering a probe, as llama.cpp does. */
#ifndef TEMPLATE_CONTENTS_H
#define TEMPLATE_CONTENTS_H

#include <jansson.h>

#include "base/status.h"

/* What a template does with contents. */
typedef struct ContentForms {
    bool text, parts;   /* it shows a content that is a text, one that is a list of parts */
    bool omits_system;  /* it leaves the system message out without an error */
    bool shows_results; /* it shows what a tool gave back, a message of the role "tool" */
} ContentForms;

/* Renders the messages; returns the prompt's text, malloc'ed and NUL-terminated, or NULL. */
typedef char *(*MessagesRenderer)(void *context, const json_t *messages);

ContentForms contents_probe(MessagesRenderer render, void *context);

/* Returns a new reference to the messages with their contents in a form that the template takes: a
 * list of texts alone is joined by newlines for a template that takes no lists (as vLLM and
 * llama.cpp do), a text becomes a list of one part for one that takes nothing else, and null, or
 * none beside calls of tools, becomes "". NULL: no memory. */
json_t *contents_in_form(const json_t *messages, ContentForms forms);

#endif
