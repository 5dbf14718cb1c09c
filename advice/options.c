#include "advice/options.h"

#include <string.h>

static size_t min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Damerau-Levenshtein distance: letters to insert, drop, change or swap with a neighbour. */
static size_t edit_distance(const char *a, const char *b) {
    enum { MOST = 32 };
    size_t n = strlen(a), m = strlen(b), d[MOST + 1][MOST + 1];
    if (n > MOST || m > MOST) return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t k = 0; k <= m; k++) d[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        for (size_t k = 1; k <= m; k++) {
            d[i][k] =
                min3(d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = min3(d[i][k], d[i - 2][k - 2] + 1, SIZE_MAX);
        }
    }
    return d[n][m];
}

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
        size_t distance = edit_distance(name, row->name);
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
