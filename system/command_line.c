#include "system/command_line.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "system/terminal.h"

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* The i-th row over all tables and the table that has it; NULL past the last. */
static const OptionRow *row_of(const CommandLine *line, size_t i, const OptionTable **of) {
    for (*of = line->tables; *of && (*of)->rows; ++*of)
        for (const OptionRow *row = (*of)->rows; row->kind != OPTION_END; row++)
            if (i-- == 0) return row;
    return NULL;
}

const OptionRow *command_line_row(const CommandLine *line, size_t i) {
    const OptionTable *of;
    return row_of(line, i, &of);
}

void *command_line_field(const CommandLine *line, size_t i) {
    const OptionTable *of;
    const OptionRow *row = row_of(line, i, &of);
    return (char *)of->values + row->field;
}

/* The row of the option with this letter and its index over all tables; NULL: there is none. */
static const OptionRow *find_letter(const CommandLine *line, char letter, size_t *i) {
    *i = 0;
    for (const OptionTable *table = line->tables; table && table->rows; table++)
        for (const OptionRow *row = table->rows; row->kind != OPTION_END; row++, ++*i)
            if (row->kind != OPTION_HEADING && row->letter == letter) return row;
    return NULL;
}

bool command_line_given(const CommandLine *line, const void *field) {
    size_t i = 0;
    for (const OptionTable *table = line->tables; table && table->rows; table++)
        for (const OptionRow *row = table->rows; row->kind != OPTION_END; row++, i++)
            if (row->kind != OPTION_HEADING && (char *)table->values + row->field == field)
                return line->given[i];
    return false;
}

/* `name` may have "=VALUE" after it. Modes ask for many options by name, so that rows whose first
 * letter differs are passed over at once. */
const OptionRow *command_line_find(const CommandLine *line, const char *name, size_t *i) {
    const size_t length = strcspn(name, "=");
    *i = 0;
    for (const OptionTable *table = line->tables; table && table->rows; table++)
        for (const OptionRow *row = table->rows; row->kind != OPTION_END; row++, ++*i)
            if (row->name[0] == name[0] && row->kind != OPTION_HEADING &&
                strncmp(row->name, name, length) == 0 && row->name[length] == '\0')
                return row;
    return NULL;
}

bool command_line_asks(const CommandLine *line, const char *name) {
    size_t i;
    const OptionRow *row = command_line_find(line, name, &i);
    const void *field = row ? command_line_field(line, i) : NULL;
    if (!row) return false;
    switch (row->kind) {
    case OPTION_FLAG:
        return *(const bool *)field;
    case OPTION_TEXT:
        return *(const char *const *)field != NULL;
    case OPTION_WORD:
    case OPTION_CHOICE:
        return *(const unsigned *)field != 0;
    case OPTION_LIST:
        return ((const OptionList *)field)->n > 0;
    default:
        return line->given[i];
    }
}

const char *command_line_text(const CommandLine *line, const char *name) {
    size_t i;
    const OptionRow *row = command_line_find(line, name, &i);
    return row && row->kind == OPTION_TEXT ? *(const char **)command_line_field(line, i) : NULL;
}

/* ---- Help ---- */

/* "-i, --prompt TEXT" */
static int row_text(const OptionRow *row, char *text, size_t size) {
    char letter[8] = "    ";
    bool has_value = row->value && row->kind != OPTION_WORD;
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    return snprintf(text, size, "%s--%s%s%s", letter, row->name, has_value ? " " : "",
                    has_value ? row->value : "");
}

static void print_row(FILE *out, const OptionRow *row) {
    enum { WIDTH = 26 };
    char text[64];
    if (row_text(row, text, sizeof text) > WIDTH) { /* the help goes to the next line */
        terminal_print(out, "  %s\n", text);
        text[0] = '\0';
    }
    terminal_print(out, "  %-*s %s\n", WIDTH, text, row->help);
}

void command_line_help(FILE *out, const CommandLine *line, bool all) {
    const char *heading = NULL;
    const OptionRow *row;
    for (size_t i = 0; (row = command_line_row(line, i)); i++) {
        if (row->kind == OPTION_HEADING) heading = row->name;
        if (row->kind == OPTION_HEADING || (!all && !row->usual) || !row->help) continue;
        if (heading) terminal_print(out, "%s:\n", heading);
        heading = NULL;
        print_row(out, row);
    }
}

bool command_line_help_about(FILE *out, const CommandLine *line, const char *word) {
    const char *heading = NULL;
    bool whole = false, found = false; /* whole: the heading names the word */
    const OptionRow *row;
    for (size_t i = 0; (row = command_line_row(line, i)); i++) {
        if (row->kind == OPTION_HEADING) {
            heading = row->name;
            whole = strcasestr(heading, word);
        } else if (row->help &&
                   (whole || strcasestr(row->name, word) || strcasestr(row->help, word))) {
            if (heading) terminal_print(out, "%s:\n", heading);
            heading = NULL;
            found = true;
            print_row(out, row);
        }
    }
    return found;
}

/* ---- Values ---- */

/* Reads a whole number within the row's limits. A negative one is out of range, like one that is
 * too large, rather than "not a whole number". */
static Status parse_uint(const OptionRow *row, const char *spelled, const char *text,
                         uint64_t *value, Error *error) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned long long high = row->high < 1e19 ? (unsigned long long)row->high : ULLONG_MAX;
    bool whole = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    bool negative = text[0] == '-' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
    if (!whole && !negative)
        return usage(error, "%s: '%s' is not a whole number from %.0f to %llu", spelled, text,
                     row->low, high);
    if (negative || errno == ERANGE || (double)number < row->low || (double)number > row->high)
        return usage(error, "%s: %s is out of range, it must be from %.0f to %llu", spelled, text,
                     row->low, high);
    *value = number;
    return STATUS_OK;
}

static Status parse_float(const OptionRow *row, const char *spelled, const char *text,
                          double *value, Error *error) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number))
        return usage(error, "%s: '%s' is not a number", spelled, text);
    if (number < row->low || number > row->high)
        return usage(error, "%s: %s is out of range, it must be from %g to %g", spelled, text,
                     row->low, row->high);
    *value = number;
    return STATUS_OK;
}

/* The index of `text` among the words "a|b|c", or UINT_MAX. */
static unsigned word_index(const char *words, const char *text) {
    for (unsigned i = 0;; i++) {
        size_t length = strcspn(words, "|");
        if (strlen(text) == length && strncmp(words, text, length) == 0) return i;
        if (words[length] == '\0') return UINT_MAX;
        words += length + 1;
    }
}

/* Stores an option's value in its field, by the row's kind. `spelled` is the option as the user
 * wrote it. */
static Status set_value(void *field, const OptionRow *row, const char *spelled, const char *value,
                        Error *error) {
    OptionList *list = field;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return STATUS_OK;
    case OPTION_TEXT:
        *(const char **)field = value;
        return STATUS_OK;
    case OPTION_UINT:
        return parse_uint(row, spelled, value, field, error);
    case OPTION_FLOAT:
        return parse_float(row, spelled, value, field, error);
    case OPTION_WORD:
    case OPTION_CHOICE:
        *(unsigned *)field = word_index(row->value, value);
        if (*(unsigned *)field != UINT_MAX) {
            *(unsigned *)field += row->kind == OPTION_WORD; /* 0: not given */
            return STATUS_OK;
        }
        return usage(error, "%s: '%s' is none of %s", spelled, value, row->value);
    case OPTION_LIST:
        if (list->n == OPTION_LIST_MOST)
            return usage(error, "%s: more than %d of them", spelled, OPTION_LIST_MOST);
        list->items[list->n++] = value;
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

/* ---- Words ---- */

/* The row that `word` spells and its index; NULL when it is not an option. *value points at what
 * follows in the same word ("=X", or "4" in -j4), or is NULL. */
static const OptionRow *find_option(const CommandLine *line, const char *word, size_t *index,
                                    const char **value) {
    const OptionRow *row;
    *value = NULL;
    if (word[0] != '-' || word[1] == '\0') return NULL;
    if (word[1] == '-') {
        row = command_line_find(line, word + 2, index);
        const char *equals = strchr(word, '=');
        if (equals) *value = equals + 1;
        return row;
    }
    row = find_letter(line, word[1], index);
    if (!row || word[2] == '\0') return row;
    /* Only a number may follow at once: -temperature is a mistake, not -t emperature. */
    if (row->kind == OPTION_FLAG || !strchr("0123456789.", word[2])) return NULL;
    *value = word + 2;
    return row;
}

/* Whether --help leaves options out that --help all shows. */
static bool has_rare(const CommandLine *line) {
    const OptionRow *row;
    for (size_t i = 0; (row = command_line_row(line, i)); i++)
        if (row->kind != OPTION_HEADING && !row->usual) return true;
    return false;
}

static Status unknown_option(const CommandLine *line, const char *word, Error *error) {
    const OptionRow *row = NULL;
    size_t index;
    Error advice = {.text = ""};
    if (word[1] != '-') row = find_letter(line, word[1], &index);
    if (row && row->kind != OPTION_FLAG && row->value && word[2] == '=')
        return usage(error, "no option %s; a value follows -%c after a blank: -%c %s", word,
                     word[1], word[1], word + 3);
    if (line->advise) line->advise(line, word + 1 + (word[1] == '-'), &advice);
    return usage(error, "no option %s%s", word,
                 advice.text[0]   ? advice.text
                 : has_rare(line) ? "; --help all lists them all"
                                  : "; --help lists them");
}

/* Parses the option at argv[*i] and its value, which may follow '=' or be the next word; *i moves
 * to the last word used. */
static Status parse_option(CommandLine *line, int argc, char **argv, int *i, Error *error) {
    const char *word = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : NULL, *value, *ignored;
    char spelled[64];
    size_t index, unused;
    const OptionRow *row = find_option(line, word, &index, &value);
    if (!row) return unknown_option(line, word, error);
    snprintf(spelled, sizeof spelled, "%.*s", (int)strcspn(word, "="), word);
    if (word[1] != '-') spelled[2] = '\0';
    if (row->kind == OPTION_FLAG && value) return usage(error, "%s takes no value", spelled);
    bool lone = !next || find_option(line, next, &unused, &ignored);
    if (row->kind == OPTION_WORD) lone = !next || word_index(row->value, next) == UINT_MAX;
    if (row->alone && !value && lone) value = row->alone;
    if (row->kind != OPTION_FLAG && !value) {
        /* A value that reads as an option is one forgotten before it. */
        if (lone)
            return row->help
                       ? usage(error, "%s needs a value: %s %s (%s)", spelled, spelled, row->value,
                               row->help)
                       : usage(error, "%s needs a value: %s %s", spelled, spelled, row->value);
        value = argv[++*i];
    }
    if (row->kind == OPTION_TEXT && line->given[index])
        return usage(error, "%s is given twice", spelled);
    line->given[index] = true;
    if (row->kind == OPTION_TEXT && value[0] == '\0' && strcmp(row->value, "FILE") == 0)
        return usage(error, "%s is empty: it names a file", spelled);
    if (value && line->look && line->look(line, spelled, value, error) != STATUS_OK)
        return STATUS_USAGE;
    return set_value(command_line_field(line, index), row, spelled, value, error);
}

Status command_line_default(CommandLine *line, const char *name, const char *const *values,
                            size_t n, Error *error) {
    size_t index;
    const OptionRow *row = command_line_find(line, name, &index);
    Status status = STATUS_OK;
    if (!row) return usage(error, "no option --%s", name);
    if (line->given[index]) return STATUS_OK;
    line->given[index] = true;
    void *field = command_line_field(line, index);
    if (row->kind == OPTION_FLAG) return set_value(field, row, name, NULL, error);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = set_value(field, row, name, values[i], error);
    return status;
}

Status command_line_parse(CommandLine *line, int argc, char **argv, Error *error) {
    bool only_operands = false;
    Status status = STATUS_OK;
    for (int i = 1; i < argc && status == STATUS_OK; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0')
            status = parse_option(line, argc, argv, &i, error);
        else {
            if (line->look) status = line->look(line, "", argv[i], error);
            if (status == STATUS_OK) status = line->operand(line->context, argv[i], error);
        }
    }
    return status;
}
