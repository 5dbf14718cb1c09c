#include "advice/option_hints.h"

#include <stdio.h>
#include <string.h>

#include "advice/foreign.h"
#include "advice/spelling.h"
#include "system/program_name.h"

/* The option nearest by its spelling; the beginning of a name counts as near. */
static const OptionRow *nearest(const CommandLine *line, const char *name) {
    const OptionRow *best = NULL, *row;
    size_t least = spelling_tolerance(name) + 1;
    for (size_t i = 0; (row = command_line_row(line, i)); i++) {
        if (row->kind == OPTION_HEADING) continue;
        size_t distance = spelling_distance(name, row->name);
        if (distance > 1 && strlen(name) > 2 && strncmp(name, row->name, strlen(name)) == 0)
            distance = 1;
        if (distance < least) best = row, least = distance;
    }
    return best;
}

void advice_option(const CommandLine *line, const char *spelled, Error *error) {
    char name[64];
    size_t i;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spelled, "="), spelled);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    const char *program = command_line_find(line, "mode", &i)   ? NULL
                          : command_line_find(line, "keep", &i) ? "export"
                                                                : "bench";
    const char *ours = foreign_synonym(name), *says = foreign_option(program, name);
    const OptionRow *row = ours ? command_line_find(line, ours, &i) : NULL;
    if (program && says) row = NULL; /* -n is a number of tokens to run alone */
    if (!row && says) {
        char named[256];
        program_names_put(says, named, sizeof named);
        error_set(error, ": %s", named);
        return;
    }
    if (!row) row = nearest(line, name);
    if (!row) return;
    const char *shown = row->value && row->kind != OPTION_WORD ? row->value : "";
    error_set(error, "; did you mean --%s%s%s?", row->name, shown[0] ? " " : "", shown);
}
