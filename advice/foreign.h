/* Says how something is done here to people who write it as another program has it: llama.cpp,
 * ollama, llm, transformers. docs/coming-from.md is the whole table. */
#ifndef ADVICE_FOREIGN_H
#define ADVICE_FOREIGN_H

#include "system/command_line.h"

/* What to say of an option that `program` ("export", "bench"; NULL: run) does not have, without
 * dashes and with - for _: "to talk: -m chat"; NULL: nothing. */
const char *foreign_option(const char *program, const char *name);

/* The name that our programs give to an option of this name; NULL: none. */
const char *foreign_synonym(const char *name);

/* For CommandLine.look: refuses a value that means something else to another program, like the file
 * in -m FILE. STATUS_USAGE and an Error that says what to write. `spelled` is the option as given;
 * "": a word that is not an option. */
Status foreign_value(const CommandLine *line, const char *spelled, const char *value, Error *error);

#endif
