/* Parameters and a system prompt that ollama keeps beside a model's weights: defaults of the
 * options that the command line does not give, as ollama gives them to its own runner.
 *
 * The files are a stranger's: they are opened with all rights and read when these are given up. */
#ifndef OLLAMA_DEFAULTS_H
#define OLLAMA_DEFAULTS_H

#include "modes/open/model_names.h"
#include "session/options.h"

typedef struct OllamaDefaults {
    int parameters, system;             /* open files; -1: none */
    char *texts[OPTION_LIST_MOST + 16]; /* what options borrow; owned */
    size_t n_texts;
} OllamaDefaults;

#define OLLAMA_DEFAULTS_NONE                                                                       \
    { .parameters = -1, .system = -1 }

/* Opens the files; one that is not there is none. The system prompt is left out where a
 * conversation goes on that has its own. */
void ollama_defaults_open(OllamaDefaults *defaults, const FoundBeside *beside,
                          const Options *options);

/* Sets the options that the command line does not give, where the mode generates text and does not
 * repeat a record, and says in a line on stderr what was taken and what is not. Fails for a file
 * that is not a JSON object or not a text. The options borrow texts of `defaults`. */
Status ollama_defaults_apply(OllamaDefaults *defaults, Options *options, Error *error);

void ollama_defaults_close(OllamaDefaults *defaults);

#endif
