/* Models by name: those that lie where this program, Hugging Face's tools, ollama, llama.cpp and LM
 * Studio keep models on this machine. Nothing is ever downloaded or changed there.
 *
 *     place                                                  names
 *     each directory of $VERBATIM_MODELS, three levels deep  NAME.gguf, NAME.bin, directory NAME
 *     $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub  ORG/NAME; files NAME.gguf in it
 *     $OLLAMA_MODELS, ~/.ollama/models, /usr/share/ollama    NAME:TAG; NAME for NAME:latest
 *     $LLAMA_CACHE, ~/.cache/llama.cpp, ~/.lmstudio/models   as $VERBATIM_MODELS
 *     beside the program (default_model.h)                   stories
 */
#ifndef MODEL_NAMES_H
#define MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The place of the model that comes with the program, which is found last. */
#define MODEL_NAMES_OWN "comes with this program"

/* What a model of ollama's came with beside its weights (ollama_tags.h). */
typedef struct FoundBeside {
    char *parameters, *system; /* files: JSON and a text; NULL: none; owned */
    unsigned others;           /* what else there is, which is not read */
} FoundBeside;

typedef struct FoundModel {
    char *name;        /* as the list shows it */
    char *path;        /* what opens it */
    const char *place; /* whose it is: "VERBATIM_MODELS", "Hugging Face", "ollama" ... */
    uint64_t bytes;    /* of its weights' files */
    FoundBeside beside;
    uint64_t device, inode; /* of what `path` leads to: one model may be found by several names */
} FoundModel;

typedef struct ModelNames {
    FoundModel *models;
    size_t n, capacity;
    bool failed; /* no memory */
} ModelNames;

/* Finds all of them, in the order of the places and of names. Free with model_names_free. */
void model_names_find(ModelNames *names);
void model_names_free(ModelNames *names);

/* Finds the model that the user calls `name`, if no file has that name. Upper case counts as lower
 * case; ORG/ and what follows a whole word may be left out where one model alone begins so:
 * "smollm2" finds HuggingFaceTB/SmolLM2-135M-Instruct. Sets *path, malloc'ed, or NULL for none.
 * Fails when several begin so, and names them. */
Status model_names_resolve(const char *name, char **path, Error *error);
/* The same, and in *beside what the model came with; free with model_names_free_beside. */
Status model_names_resolve_all(const char *name, char **path, FoundBeside *beside, Error *error);
void model_names_free_beside(FoundBeside *beside);
/* Writes the line that says what the model came with that is not read, or "". */
void model_names_say_others(unsigned others, char *line, size_t size);

/* The first model whose name, or what follows its last slash, begins with this text or is spelled
 * almost so; malloc'ed. NULL: none. */
char *model_names_near(const char *name);

#endif
