#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum OptionKind {
    OPTION_HEADING, /* a line of --help, no option */
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_UINT,
    OPTION_FLOAT,
    OPTION_CHOICE, /* one of the words in `value`, "a|b|c" */
    OPTION_LIST    /* a text that may be given several times */
} OptionKind;

typedef struct OptionRow {
    OptionKind kind;
    char letter;       /* 0: none */
    const char *name;  /* or the heading */
    const char *value; /* what stands for it in --help */
    size_t field;      /* in Options */
    double low, high;  /* limits of a number */
    const char *help;
} OptionRow;

#define FIELD(name) offsetof(Options, name)
#define TEXT(letter, name, value, field, help)                                                     \
    { OPTION_TEXT, letter, name, value, FIELD(field), 0, 0, help }
#define LIST(name, value, field, help)                                                             \
    { OPTION_LIST, 0, name, value, FIELD(field), 0, 0, help }
#define UINT(letter, name, field, low, high, help)                                                 \
    { OPTION_UINT, letter, name, "N", FIELD(field), low, high, help }
#define FLOAT(letter, name, field, low, high, help)                                                \
    { OPTION_FLOAT, letter, name, "X", FIELD(field), low, high, help }
#define CHOICE(letter, name, value, field, help)                                                   \
    { OPTION_CHOICE, letter, name, value, FIELD(field), 0, 0, help }
#define FLAG(letter, name, field, help)                                                            \
    { OPTION_FLAG, letter, name, NULL, FIELD(field), 0, 0, help }
#define HEADING(text)                                                                              \
    { OPTION_HEADING, 0, text, NULL, 0, 0, 0, NULL }

#define BIG 1e6

/* In the order of --help. */
static const OptionRow rows[] = {
    HEADING("Text"),
    CHOICE('m', "mode", "generate|chat", mode, "go on with a text [generate], or talk"),
    TEXT('y', "system", "TEXT", system, "the system prompt of a chat"),
    TEXT('i', "prompt", "TEXT", prompt, "continue this text; - reads it from stdin"),
    TEXT('f', "prompt-file", "FILE", prompt_file, "continue the text in a file"),
    UINT('n', "tokens", n_tokens, 0, 1e9, "new tokens at most [256]; 0: to the context's end"),
    LIST("stop", "TEXT", stop, "end before this text; may be repeated"),
    FLAG(0, "ignore-eos", ignore_eos, "go on after an end-of-text token"),
    FLAG(0, "special", special, "read and write special tokens as their text"),
    CHOICE(0, "bos", "auto|no|yes", bos, "begin with the token that begins a text [auto]"),
    TEXT('z', "tokenizer", "FILE", tokenizer, "use this tokenizer, not the model's"),
    TEXT('o', "output", "FILE", output, "write the text to a file, whole or not at all"),
    FLAG(0, "echo", echo, "write the prompt, too"),
    HEADING("Choice of words (default: what the model recommends, else what stands here)"),
    FLOAT('t', "temperature", temperature, 0, 1e3, "0: always the likeliest token [1]"),
    UINT(0, "top-k", top_k, 0, 1e9, "only the N likeliest; 0: all [0]"),
    FLOAT('p', "top-p", top_p, 0, 1, "the fewest that together reach it; 1: all [0.9]"),
    FLOAT(0, "min-p", min_p, 0, 1, "those with this share of the likeliest one's [0]"),
    FLOAT(0, "repetition-penalty", repetition_penalty, 1e-3, 1e3, "of all tokens so far [1]"),
    FLOAT(0, "presence-penalty", presence_penalty, -1e3, 1e3, "of all generated tokens [0]"),
    FLOAT(0, "frequency-penalty", frequency_penalty, -1e3, 1e3, "the same, times how often [0]"),
    LIST("logit-bias", "ID=X", logit_bias, "make a token likelier or not; may be repeated"),
    UINT('s', "seed", seed, 0, 18446744073709551615.0,
         "of the random numbers [drawn; see --stats]"),
    HEADING("Chat (-m chat)"),
    TEXT(0, "session", "FILE", session, "keep the conversation in a file, and go on with it"),
    TEXT(0, "chat-template", "FILE", chat_template, "a Jinja template instead of the model's"),
    HEADING("Machine"),
    UINT('j', "threads", n_threads, 1, 1024, "[the processor's cores]"),
    TEXT(0, "isa", "NAME", isa, "instruction set, from reference up [the best]"),
    UINT('c', "context", context, 1, 268435456, "positions [the model's]"),
    UINT(0, "chunk", chunk, 1, 65536, "tokens of the prompt at a time [512]"),
    UINT(0, "lookup", lookup, 0, 31, "guesses ahead from what was said [7, if large; 0]"),
    CHOICE(0, "kv-type", "auto|f32|f16|q8", kv_type, "of the cache [f16; f32 for f32 models]"),
    FLAG(0, "stats", stats, "speed, memory and seed, to stderr"),
    FLAG(0, "no-sandbox", no_sandbox, "keep the rights to files and network"),
    HEADING("Many requests at once (docs/batch.md); -s is 0 here unless given"),
    TEXT(0, "batch", "FILE", batch, "answer each line of FILE, JSON; - reads stdin"),
    FLAG(0, "batch-text", batch_text, "each line is a prompt, not JSON"),
    FLAG(0, "ordered", ordered, "results in the order of the lines"),
    FLAG(0, "resume", resume, "go on with the results that -o FILE has"),
    FLAG(0, "retry-failed", retry_failed, "with --resume: try lines again that failed"),
    FLAG(0, "strict", strict, "stop at the first line that fails"),
    TEXT(0, "kv-memory", "SIZE", kv_memory, "for keys and values, as 4G [half of what is free]"),
    UINT(0, "max-concurrent", max_concurrent, 1, 65536, "texts at a time [64, if they fit]"),
    HEADING("Instead of writing text"),
    FLAG(0, "info", info, "what the model is, what it holds, what it needs"),
    FLAG(0, "verify", verify, "check every byte of the model file"),
    FLAG(0, "tokenize", tokenize, "the token ids of stdin (or -i, -f)"),
    FLAG(0, "detokenize", detokenize, "the text of the ids on stdin (or -i, -f)"),
    TEXT(0, "eval", "FILE", eval, "the perplexity of a text"),
    TEXT(0, "against", "MODEL", against, "with --eval: how far another model's choices differ"),
    HEADING("Seeing inside (docs/seeing-inside.md)"),
    TEXT(0, "attention", "OUT", attention, "what tokens attend to: OUT.svg .html .json or -"),
    CHOICE(0, "score", "no|table|json", score, "how likely each token of the text is [no]"),
    TEXT(0, "positions", "OUT", positions, "a picture of the position code, as SVG"),
    FLAG(0, "no-cache", no_cache, "run the whole text at each step; what it costs"),
    LIST("override", "FIELD=VALUE", override, "change the model's configuration; repeatable"),
    HEADING("Other models than model.bin are converted first, once"),
    TEXT(0, "type", "TYPE", type, "weights: f32 f16 bf16 q8 q6 q5 q4m q4 [as they are]"),
    TEXT(0, "cache-dir", "DIR", cache_dir, "where conversions are kept [~/.cache/verbatim]"),
    FLAG(0, "cache-list", cache_list, "name them"),
    FLAG(0, "cache-clear", cache_clear, "delete them"),
    HEADING("Help"),
    FLAG('h', "help", help, "this page; --help all: every option"),
    FLAG(0, "version", version, "versions of the program and its libraries"),
};
enum { N_ROWS = sizeof rows / sizeof *rows };
_Static_assert((int)N_ROWS <= (int)OPTIONS_MAX_ROWS, "Options.given is too small");

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* What --help shows: the options that people use most. --help all shows every one. */
static const char *const usual[] = {
    "mode",
    "system",
    "prompt",
    "prompt-file",
    "tokens",
    "stop",
    "output",
    "echo",
    "temperature",
    "top-k",
    "top-p",
    "min-p",
    "repetition-penalty",
    "seed",
    "session",
    "threads",
    "context",
    "stats",
    "batch",
    "resume",
    "info",
    "verify",
    "tokenize",
    "eval",
    "type",
    "cache-list",
    "help",
    "version",
};

/* ---- Help ------------------------------------------------------------------------------------ */

/* "-i, --prompt TEXT" */
static int row_text(const OptionRow *row, char *text, size_t size) {
    char letter[8] = "    ";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    return snprintf(text, size, "%s--%s%s%s", letter, row->name, row->value ? " " : "",
                    row->value ? row->value : "");
}

static bool is_usual(const OptionRow *row) {
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i], row->name) == 0) return true;
    return false;
}

void options_print_help(FILE *out, const char *program, bool all) {
    enum { WIDTH = 26 };
    const char *heading = NULL;
    fprintf(out,
            "Usage: %s [MODEL] [options]\n"
            "Goes on with a text, talks, or answers a file of requests. MODEL is a model.bin,\n"
            "a .gguf file, a Hugging Face directory or a llama2.c checkpoint. Without MODEL,\n"
            "the small model that comes with the program tells a story.\n",
            program);
    for (size_t i = 0; i < N_ROWS; i++) {
        char text[64];
        if (rows[i].kind == OPTION_HEADING) {
            heading = rows[i].name;
            continue;
        }
        if (!all && !is_usual(&rows[i])) continue;
        if (heading) fprintf(out, "%s:\n", heading);
        heading = NULL;
        /* What reaches into the column of the help has a line of its own. */
        if (row_text(&rows[i], text, sizeof text) > WIDTH) {
            fprintf(out, "  %s\n", text);
            text[0] = '\0';
        }
        fprintf(out, "  %-*s %s\n", WIDTH, text, rows[i].help);
    }
    if (!all)
        fprintf(out, "%s --help all shows every option; the manual and docs/ say more.\n", program);
}

void options_each(void (*visit)(const char *name, char letter, const char *value, void *context),
                  void *context) {
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].kind != OPTION_HEADING)
            visit(rows[i].name, rows[i].letter, rows[i].value, context);
}

/* ---- Names --------------------------------------------------------------------------------- */

static size_t min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Letters to insert, drop, change or swap with a neighbour to make b of a. */
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

/* What other programs call the same thing. */
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
    {"model", NULL},
};

/* The row whose name is nearest to `name`, or NULL when none is near. */
static const OptionRow *nearest(const char *name) {
    const OptionRow *best = NULL;
    size_t least = strlen(name) / 3 + 2;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (synonyms[i].ours && strcmp(synonyms[i].theirs, name) == 0) name = synonyms[i].ours;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].kind == OPTION_HEADING) continue;
        size_t distance = edit_distance(name, rows[i].name);
        if (strlen(name) > 2 && strncmp(name, rows[i].name, strlen(name)) == 0) distance = 1;
        if (distance < least) best = &rows[i], least = distance;
    }
    return best;
}

static Status unknown(const char *argument, const char *name, Error *error) {
    const OptionRow *row = nearest(name);
    if (strcmp(name, "model") == 0)
        return usage(error, "no option %s: the model stands alone, run MODEL [options]", argument);
    if (!row) return usage(error, "no option %s; --help all lists them all", argument);
    return usage(error, "no option %s; did you mean --%s%s%s?", argument, row->name,
                 row->value ? " " : "", row->value ? row->value : "");
}

/* The row that `argument` spells; *value points at what follows in the same argument ("=X",
 * or "4" in -j4), or is NULL. */
static const OptionRow *find(const char *argument, const char **value) {
    *value = NULL;
    if (argument[0] != '-' || argument[1] == '\0') return NULL;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        for (size_t i = 0; i < N_ROWS; i++) {
            if (rows[i].kind == OPTION_HEADING || strlen(rows[i].name) != length ||
                strncmp(rows[i].name, argument + 2, length) != 0)
                continue;
            if (argument[2 + length] == '=') *value = argument + 3 + length;
            return &rows[i];
        }
        return NULL;
    }
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].letter != argument[1] || rows[i].letter == '\0') continue;
        /* Only a number may follow at once: -temperature is a mistake, not -t emperature. */
        if (argument[2] != '\0' &&
            (rows[i].kind == OPTION_FLAG || !strchr("0123456789.", argument[2])))
            return NULL;
        if (argument[2] != '\0') *value = argument + 2;
        return &rows[i];
    }
    return NULL;
}

/* ---- Values -------------------------------------------------------------------------------- */

static Status parse_uint(const OptionRow *row, const char *spelled, const char *text,
                         uint64_t *value, Error *error) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool digits = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    if (text[0] == '-' && strspn(text + 1, "0123456789") == strlen(text + 1) && text[1])
        digits = true, number = 0, errno = ERANGE;
    if (!digits) return usage(error, "%s: '%s' is not a whole number", spelled, text);
    if (errno == ERANGE || (double)number < row->low || (double)number > row->high)
        return usage(error, "%s: %s is out of range, it must be from %.0f to %llu", spelled, text,
                     row->low, row->high < 1e19 ? (unsigned long long)row->high : ULLONG_MAX);
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

static Status parse_choice(const OptionRow *row, const char *spelled, const char *text,
                           uint32_t *value, Error *error) {
    const char *word = row->value;
    for (uint32_t i = 0;; i++) {
        size_t length = strcspn(word, "|");
        if (strlen(text) == length && strncmp(word, text, length) == 0) {
            *value = i;
            return STATUS_OK;
        }
        if (word[length] == '\0') break;
        word += length + 1;
    }
    return usage(error, "%s: '%s' is none of %s", spelled, text, row->value);
}

static Status set(Options *options, const OptionRow *row, const char *spelled, const char *value,
                  Error *error) {
    void *field = (char *)options + row->field;
    options->given[row - rows] = true;
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
    case OPTION_CHOICE:
        return parse_choice(row, spelled, value, field, error);
    case OPTION_LIST: {
        OptionList *list = field;
        if (list->n == OPTIONS_MAX_LIST)
            return usage(error, "%s: more than %d of them", spelled, OPTIONS_MAX_LIST);
        list->items[list->n++] = value;
        return STATUS_OK;
    }
    case OPTION_HEADING:
        break;
    }
    return STATUS_OK;
}

/* ---- The command line ---------------------------------------------------------------------- */

static Status parse_option(Options *options, int argc, char **argv, int *i, Error *error) {
    const char *argument = argv[*i], *value, *ignored;
    const OptionRow *row = find(argument, &value);
    char spelled[64];
    if (!row) return unknown(argument, argument + 1 + (argument[1] == '-'), error);
    snprintf(spelled, sizeof spelled, "%.*s", (int)strcspn(argument, "="), argument);
    if (argument[1] != '-') spelled[2] = '\0';
    if (row->field == FIELD(help)) { /* the one flag that may have a word after it */
        if (!value && *i + 1 < argc && strcmp(argv[*i + 1], "all") == 0) value = argv[++*i];
        options->help_all = value != NULL && strcmp(value, "all") == 0;
        if (options->help_all) value = NULL;
    }
    if (row->kind == OPTION_FLAG && value) return usage(error, "%s takes no value", spelled);
    bool alone = *i + 1 >= argc || find(argv[*i + 1], &ignored);
    if (row->field == FIELD(bos) && !value && alone) value = "yes"; /* --bos as a plain flag */
    if (row->kind != OPTION_FLAG && !value) {
        /* A value that reads as an option is one forgotten before it. */
        if (alone)
            return usage(error, "%s needs a value: %s %s (%s)", spelled, spelled, row->value,
                         row->help);
        value = argv[++*i];
    }
    return set(options, row, spelled, value, error);
}

static Status check(const Options *o, Error *error) {
    int inside = (o->score != 0) + (o->attention != NULL) + (o->positions != NULL) + o->no_cache;
    int modes = o->info + o->verify + o->tokenize + o->detokenize + (o->eval != NULL) + inside;
    if (o->prompt && o->prompt_file)
        return usage(error, "-i and -f both give the prompt: use one of them");
    if (modes > 1)
        return usage(error,
                     "only one of --info, --verify, --tokenize, --detokenize, --eval, --score, "
                     "--attention, --positions and --no-cache at a time");
    if (inside && o->mode)
        return usage(error, "--score, --attention, --positions and --no-cache look at one text: "
                            "not with -m chat");
    if ((o->attention || o->positions) && o->output)
        return usage(error, "--attention and --positions name their own file: no -o");
    if (o->against && !o->eval)
        return usage(error, "--against MODEL compares on a text: --eval FILE");
    for (size_t i = 0; i < o->stop.n; i++)
        if (o->stop.items[i][0] == '\0') return usage(error, "--stop: an empty text is everywhere");
    if (o->cache_dir && o->cache_dir[0] == '\0')
        return usage(error, "--cache-dir: the directory's name is empty");
    if (o->batch && (modes > 0 || o->prompt || o->prompt_file || o->mode || o->system || o->echo))
        return usage(error, "--batch takes all that a request says from FILE: no -i, -f, -m, -y, "
                            "--echo or other mode");
    bool batch_only = o->batch_text || o->ordered || o->resume || o->retry_failed || o->strict ||
                      o->kv_memory || o->max_concurrent;
    if (batch_only && !o->batch)
        return usage(error, "--batch-text, --ordered, --resume, --retry-failed, --strict, "
                            "--kv-memory and --max-concurrent need --batch FILE");
    if (o->resume && !o->output) return usage(error, "--resume needs the results' -o FILE");
    if (o->retry_failed && !o->resume) return usage(error, "--retry-failed needs --resume");
    return STATUS_OK;
}

Status options_parse(Options *options, int argc, char **argv, Error *error) {
    *options =
        (Options){.n_tokens = 256, .temperature = 1.0, .top_p = 0.9, .repetition_penalty = 1.0};
    bool only_names = false;
    for (int i = 1; i < argc; i++) {
        if (!only_names && strcmp(argv[i], "--") == 0) {
            only_names = true;
        } else if (!only_names && argv[i][0] == '-' && argv[i][1] != '\0') {
            Status status = parse_option(options, argc, argv, &i, error);
            if (status != STATUS_OK) return status;
        } else if (options->model) {
            return usage(error,
                         "one model at a time, but '%s' stands beside '%s'; a prompt goes "
                         "after -i: run %s -i '%s'",
                         argv[i], options->model, options->model, argv[i]);
        } else {
            options->model = argv[i];
        }
    }
    return check(options, error);
}

bool options_given(const Options *options, const void *field) {
    size_t offset = (size_t)((const char *)field - (const char *)options);
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].kind != OPTION_HEADING && rows[i].field == offset) return options->given[i];
    return false;
}
