#include "modes/open/ollama_defaults.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json/json_reader.h"
#include "modes/proof/proof_options.h"
#include "session/embedding_options.h"
#include "system/terminal.h"
#include "system/text_file.h"

enum { MOST_BYTES = 1 << 20 };

/* ---- With all rights ---- */

static int open_regular(const char *path) {
    struct stat info;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))) return fd;
    close(fd);
    return -1;
}

void ollama_defaults_open(OllamaDefaults *defaults, const FoundBeside *beside,
                          const Options *options) {
    struct stat info;
    const char *session = options_text(options, "session");
    bool goes_on = session && stat(session, &info) == 0 && info.st_size > 0;
    defaults->parameters = open_regular(beside->parameters);
    defaults->system = goes_on ? -1 : open_regular(beside->system);
}

void ollama_defaults_close(OllamaDefaults *defaults) {
    if (defaults->parameters >= 0) close(defaults->parameters);
    if (defaults->system >= 0) close(defaults->system);
    for (size_t i = 0; i < defaults->n_texts; i++) free(defaults->texts[i]);
    *defaults = (OllamaDefaults)OLLAMA_DEFAULTS_NONE;
}

/* ---- Afterwards ---- */

/* Ollama's parameters (api/types.go, Options) and the options with the same meaning, which check
 * the range. Below `low`, ollama takes a number as "not limited" or "chosen at random". */
static const struct {
    const char *name, *option;
    bool is_whole;
    double low;          /* lower numbers mean `instead` */
    const char *instead; /* NULL: the option is left as it is */
} known[] = {
    {"temperature", "temperature", false, 0, NULL},
    {"top_k", "top-k", true, 0, "0"},
    {"top_p", "top-p", false, 0, NULL},
    {"min_p", "min-p", false, 0, NULL},
    {"repeat_penalty", "repetition-penalty", false, 0, NULL},
    {"presence_penalty", "presence-penalty", false, -1e3, NULL},
    {"frequency_penalty", "frequency-penalty", false, -1e3, NULL},
    {"seed", "seed", true, 0, NULL},
    {"num_predict", "tokens", true, 0, "0"},
};

/* Parameters that change no text, and others with the number that changes none. */
static const struct {
    const char *name;
    double neutral; /* NAN: any number */
} harmless[] = {
    {"num_keep", NAN}, {"num_batch", NAN},    {"num_gpu", NAN},      {"main_gpu", NAN},
    {"use_mmap", NAN}, {"use_mlock", NAN},    {"num_thread", NAN},   {"low_vram", NAN},
    {"numa", NAN},     {"f16_kv", NAN},       {"vocab_only", NAN},   {"logits_all", NAN},
    {"mirostat", 0},   {"mirostat_tau", NAN}, {"mirostat_eta", NAN}, {"typical_p", 1},
    {"tfs_z", 1},      {"repeat_last_n", -1}, /* the penalty counts prompt and text, as here */
};

/* What the line on stderr says. */
typedef struct Said {
    char taken[300], left[200];
} Said;

static void add(char *list, size_t size, const char *words) {
    size_t n = strlen(list);
    snprintf(list + n, size - n, "%s%.60s", n ? ", " : "", words);
}

/* Keeps a text for an option to borrow; NULL: no memory, or no room. */
static const char *keep(OllamaDefaults *defaults, const char *text) {
    if (defaults->n_texts == sizeof defaults->texts / sizeof *defaults->texts) return NULL;
    char *copy = strdup(text);
    if (copy) defaults->texts[defaults->n_texts++] = copy;
    return copy;
}

/* Sets the option to the number that the text is, unless it is given, and says so; one out of its
 * range is not taken. */
static void set(OllamaDefaults *defaults, Options *o, const char *name, const char *text,
                Said *said) {
    char words[100];
    Error ignored;
    size_t i;
    const OptionRow *row = command_line_find(&o->line, name, &i);
    const double number = strtod(text, NULL);
    if (!row || o->line.given[i]) return;
    const char *kept = number >= row->low && number <= row->high ? keep(defaults, text) : NULL;
    bool is_taken = kept && command_line_default(&o->line, name, &kept, 1, &ignored) == STATUS_OK;
    snprintf(words, sizeof words, "--%s %s", name, text);
    add(is_taken ? said->taken : said->left, is_taken ? sizeof said->taken : sizeof said->left,
        words);
}

/* Takes ollama's stop texts, one or a list, as --stop, unless the command line has its own. */
static void set_stops(OllamaDefaults *defaults, Options *o, const json_t *value, Said *said) {
    const char *texts[OPTION_LIST_MOST], *text;
    size_t n = 0, n_items = json_is_array(value) ? json_array_size(value) : 1;
    char words[40];
    Error ignored;
    if (options_given(o, &o->stop)) return;
    for (size_t i = 0; i < n_items && n < OPTION_LIST_MOST; i++) {
        text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        if (text && text[0] && (text = keep(defaults, text))) texts[n++] = text;
    }
    if (n == 0 || command_line_default(&o->line, "stop", texts, n, &ignored) != STATUS_OK) return;
    snprintf(words, sizeof words, "--stop (%zu)", n);
    add(said->taken, sizeof said->taken, words);
}

/* Sets the option that means the same as ollama's parameter. False: the parameter is not in the
 * table, or not a number. */
static bool set_known(OllamaDefaults *defaults, Options *o, const char *name, const json_t *value,
                      Said *said) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[40];
        double number = json_number_value(value);
        if (strcmp(known[i].name, name) != 0 || !json_is_number(value)) continue;
        if (number < known[i].low) {
            if (known[i].instead) set(defaults, o, known[i].option, known[i].instead, said);
            return true;
        }
        if (json_is_integer(value) || (known[i].is_whole && number <= 1e15))
            snprintf(text, sizeof text, "%lld",
                     json_is_integer(value) ? (long long)json_integer_value(value)
                                            : (long long)number);
        else
            snprintf(text, sizeof text, "%.9g", number);
        set(defaults, o, known[i].option, text, said);
        return true;
    }
    return false;
}

static bool is_harmless(const char *name, const json_t *value) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i].name, name) == 0)
            return isnan(harmless[i].neutral) || json_number_value(value) == harmless[i].neutral;
    return false;
}

/* Takes ollama's parameters of the model as defaults of the options: stop strings and known
 * numbers. The names of others are noted in said->left, unless they are harmless. */
static Status read_parameters(OllamaDefaults *defaults, Options *o, Said *said, Error *error) {
    char *text;
    size_t length;
    const char *name;
    json_t *value;
    if (defaults->parameters < 0) return STATUS_OK;
    if (text_file_read_json(defaults->parameters, "ollama's parameters", MOST_BYTES, NULL, &text,
                            &length, error) != STATUS_OK)
        return STATUS_FAILED;
    json_t *json = json_reader_load(text, length, 0, NULL);
    free(text);
    if (!json_is_object(json)) {
        json_decref(json);
        return error_set(error, "%s: its parameters of ollama are not a JSON object", o->model);
    }
    json_object_foreach(json, name, value) {
        if (strcmp(name, "stop") == 0)
            set_stops(defaults, o, value, said);
        else if (!set_known(defaults, o, name, value, said) && !is_harmless(name, value))
            add(said->left, sizeof said->left, name);
    }
    json_decref(json);
    return STATUS_OK;
}

/* Makes the text the system prompt where the mode has one. */
static Status read_system(OllamaDefaults *defaults, Options *o, Said *said, Error *error) {
    char *text;
    size_t length;
    Error ignored;
    if (defaults->system < 0 || options_given(o, &o->system)) return STATUS_OK;
    if (text_file_read(defaults->system, "ollama's system prompt", MOST_BYTES, NULL, &text, &length,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    const char *kept = strlen(text) == length ? keep(defaults, text) : NULL;
    free(text);
    if (!kept || !kept[0]) return STATUS_OK;
    if (o->mode != TEXT_CHAT && !o->batch && !options_ask(o, "render")) {
        add(said->left, sizeof said->left, "system prompt (it is for -m chat and --batch)");
    } else if (command_line_default(&o->line, "system", &kept, 1, &ignored) == STATUS_OK) {
        add(said->taken, sizeof said->taken, "system prompt");
    }
    return STATUS_OK;
}

/* Whether a text is generated, and not one that a record describes. */
static bool generates(const Options *o) {
    const ProofOptions *proof = proof_options(o);
    static const char *const looking[] = {"info",       "layers",     "verify",     "tokenize",
                                          "detokenize", "eval",       "eval-tasks", "attention",
                                          "positions",  "shape-test", "score",      NULL};
    bool looks = options_ask_any(o, looking) || embedding_options(o)->embed;
    return !looks && !proof->replay && !proof->check_session;
}

Status ollama_defaults_apply(OllamaDefaults *defaults, Options *o, Error *error) {
    Said said = {{0}, {0}};
    if ((defaults->parameters < 0 && defaults->system < 0) || !generates(o)) return STATUS_OK;
    if (read_system(defaults, o, &said, error) != STATUS_OK ||
        read_parameters(defaults, o, &said, error) != STATUS_OK)
        return STATUS_FAILED;
    if (said.taken[0] || said.left[0])
        terminal_say("%s%s%s%s%s", said.taken[0] ? "from ollama's model: " : "", said.taken,
                     said.taken[0] && said.left[0] ? "; " : "",
                     said.left[0] ? "not taken from ollama's model: " : "", said.left);
    return STATUS_OK;
}
