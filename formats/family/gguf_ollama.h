/* GGUF files as ollama's converter writes them and as its library has them: most are llama.cpp's,
 * but some have other names of keys and tensors, and lack keys whose values ollama's program knows.
 * Source: ollama's llama/compat, which brings the same files to what llama.cpp reads. */
#ifndef FORMATS_FAMILY_GGUF_OLLAMA_H
#define FORMATS_FAMILY_GGUF_OLLAMA_H

#include "formats/family/gguf_model.h"

/* Gives keys and tensors llama.cpp's names and fills m->absent. The architecture and the tables
 * must have been read. */
Status gguf_ollama_translate(GgufModel *m);

#endif
