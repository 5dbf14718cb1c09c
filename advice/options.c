#include "advice/options.h"

#include <stdint.h>
#include <string.h>

#include "advice/spelling.h"

/* The names that llama.cpp, transformers and others give our options. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"temp", "temperature"},
    {"n-predict", "tokens"},
    {"max-tokens", "tokens"},
    {"max-new-tokens", "tokens"},
    {"steps", "tokens"},
    {"ctx-size", "context"},
    {"repeat-penalty", "repetition-penalty"},
    {"file", "prompt-file"},
    {"batch-size", "chunk"},
    {"ubatch-size", "chunk"},
    {"prompt-lookup-num-tokens", "lookup"},
    {"draft-max", "lookup"},
    {"perplexity", "eval"},
    {"cache-type-k", "kv-type"},
    {"cache-type-v", "kv-type"},
    {"dtype", "type"},
    {"usage", "help"},
    {"input", "prompt"},
};

static const OptionRow *nearest(const CommandLine *line, const char *name) {
    const OptionRow *best = NULL, *row;
    size_t least = strlen(name) / 3 + 2;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(synonyms[i].theirs, name) == 0) name = synonyms[i].ours;
    for (size_t i = 0; (row = command_line_row(line, i)); i++) {
        if (row->kind == OPTION_HEADING) continue;
        size_t distance = spelling_distance(name, row->name);
        if (strlen(name) > 2 && strncmp(name, row->name, strlen(name)) == 0) distance = 1;
        if (distance < least) best = row, least = distance;
    }
    return best;
}

void advice_option(const CommandLine *line, const char *name, Error *error) {
    const OptionRow *row = nearest(line, name);
    const char *shown = row && row->value && row->kind != OPTION_HELP ? row->value : "";
    if (strcmp(name, "model") == 0)
        error_set(error, ": the model stands alone, run MODEL [options]");
    else if (row)
        error_set(error, "; did you mean --%s%s%s?", row->name, shown[0] ? " " : "", shown);
}
