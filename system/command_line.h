/* Command lines of the three programs: tables of options tie an option's spelling, its limits, the
 * field that it sets and its line of --help together.
 *
 * Options are GNU's: --name VALUE, --name=VALUE, -x VALUE, -x4 where a number follows, and --
 * before words that begin with a dash. */
#ifndef COMMAND_LINE_H
#define COMMAND_LINE_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum { OPTION_LIST_MOST = 32, OPTION_ROWS_MOST = 128 };

/* The texts of an option that may be repeated, borrowed from argv. */
typedef struct OptionList {
    const char *items[OPTION_LIST_MOST];
    size_t n;
} OptionList;

/* The kind of an option, and the type of the field that it sets. */
typedef enum OptionKind {
    OPTION_END,     /* ends a table */
    OPTION_HEADING, /* a line of --help, not an option */
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char *, borrowed from argv; once at most */
    OPTION_UINT,    /* uint64_t, from low to high */
    OPTION_FLOAT,   /* double, from low to high */
    OPTION_CHOICE,  /* an enum: the index of the word among `value`, "a|b|c" */
    OPTION_WORD,    /* an enum, 0 if not given: one more than the index. Takes the next word only
                     * where that is among `value`, else means `alone`; `value` is not shown */
    OPTION_LIST     /* OptionList */
} OptionKind;

typedef struct OptionRow {
    OptionKind kind;
    char letter;       /* 0: none */
    const char *name;  /* without dashes; of a heading: its text */
    const char *value; /* what stands for the value in --help */
    size_t field;      /* offset in the struct of values */
    double low, high;
    const char *help;  /* NULL: another row's help names the option */
    bool usual;        /* listed by --help; --help all lists every option */
    const char *alone; /* OPTION_CHOICE, OPTION_WORD: the word that is meant where none follows;
                          NULL: one must */
} OptionRow;

typedef struct OptionTable {
    const OptionRow *rows;
    void *values; /* the struct whose fields the rows set */
} OptionTable;

typedef struct CommandLine {
    const OptionTable *tables;    /* ends with rows NULL; in the order of --help */
    bool given[OPTION_ROWS_MOST]; /* rows that the command line set, counted over all tables */
    /* Takes a word that is not an option. */
    Status (*operand)(void *context, const char *word, Error *error);
    void *context;
    /* NULL, or returns what to say of an option that no table has ("did you mean --temperature
     * X?"), an empty text for nothing: error->text. */
    void (*advise)(const struct CommandLine *line, const char *name, Error *error);
    /* NULL, or looks at each value before it is taken, and at each word that is not an option
     * (`spelled` is then ""): STATUS_USAGE refuses it. */
    Status (*look)(const struct CommandLine *line, const char *spelled, const char *value,
                   Error *error);
} CommandLine;

/* Reads argv. STATUS_USAGE and an Error that says what to write instead when it is wrong. */
Status command_line_parse(CommandLine *line, int argc, char **argv, Error *error);

/* Sets an option, by its name, that the command line did not give, as if it had given it with
 * values[n], which are borrowed (one but for lists; of a flag none). Does nothing when it was
 * given. Fails when there is no such option, or the value is wrong. */
Status command_line_default(CommandLine *line, const char *name, const char *const *values,
                            size_t n, Error *error);

/* True when the command line set `field`, a pointer to a field of a table's values. */
bool command_line_given(const CommandLine *line, const void *field);

/* Prints the options' part of --help: those that people use most or, with `all`, every one. */
void command_line_help(FILE *out, const CommandLine *line, bool all);
/* Prints the options that have `word`, in letters of any case, in their name, their line of --help
 * or their heading. Returns false, and prints nothing, when none has it. */
bool command_line_help_about(FILE *out, const CommandLine *line, const char *word);

/* The i-th row over all tables, headings counted; NULL past the last. */
const OptionRow *command_line_row(const CommandLine *line, size_t i);

/* The field that the i-th row sets. */
void *command_line_field(const CommandLine *line, size_t i);

/* The row of the option and its index over all tables; NULL: no table has it. */
const OptionRow *command_line_find(const CommandLine *line, const char *name, size_t *i);

/* Whether the option, by its name, says something: a flag that is set, a text or a list that is
 * there, a choice that is not the first, a number that was given. False where no table has it. */
bool command_line_asks(const CommandLine *line, const char *name);

/* The text of an option; NULL: not given, or no table has it. */
const char *command_line_text(const CommandLine *line, const char *name);

/* The rows of a table; `often` is USUAL or RARE, `field` an offsetof. */
enum { RARE = false, USUAL = true };
#define HEADING_ROW(text)                                                                          \
    { .kind = OPTION_HEADING, .name = text }
#define FLAG_ROW(often, letter, name, field, help)                                                 \
    { OPTION_FLAG, letter, name, NULL, field, 0, 0, help, often, NULL }
#define TEXT_ROW(often, letter, name, value, field, help)                                          \
    { OPTION_TEXT, letter, name, value, field, 0, 0, help, often, NULL }
#define LIST_ROW(often, name, value, field, help)                                                  \
    { OPTION_LIST, 0, name, value, field, 0, 0, help, often, NULL }
#define UINT_ROW(often, letter, name, field, low, high, help)                                      \
    { OPTION_UINT, letter, name, "N", field, low, high, help, often, NULL }
#define FLOAT_ROW(often, letter, name, field, low, high, help)                                     \
    { OPTION_FLOAT, letter, name, "X", field, low, high, help, often, NULL }
#define CHOICE_ROW(often, letter, name, words, field, alone, help)                                 \
    { OPTION_CHOICE, letter, name, words, field, 0, 0, help, often, alone }
#define END_ROW                                                                                    \
    { .kind = OPTION_END }

#endif
