#include "modes/chat/chat_settings.h"

#include <stdlib.h>
#include <string.h>

#include "advice/foreign.h"
#include "advice/spelling.h"
#include "session/sampling_numbers.h"
#include "system/note.h"

/* The temperature above which a person is told what it does. */
#define HOT 2.0

/* The settings beside sampling_numbers, which change_setting and change_reasoning handle by name.
 */
static const char *const others[] = {
    "tokens", "seed", "reasoning", "reasoning-effort", "reasoning-budget", "hide-reasoning"};
enum { N_OTHERS = sizeof others / sizeof *others, N_SETTINGS = N_SAMPLING_NUMBERS + N_OTHERS };

/* The i-th number of the sampler, the whole one last; NULL past them. */
static const SamplingNumber *number_at(size_t i) {
    for (unsigned whole = 0; whole < 2; whole++)
        for (size_t k = 0; k < N_SAMPLING_NUMBERS; k++)
            if (sampling_numbers[k].whole == whole && i-- == 0) return &sampling_numbers[k];
    return NULL;
}

const char *settings_name(size_t i) {
    if (i < N_SAMPLING_NUMBERS) return number_at(i)->name;
    return i < N_SETTINGS ? others[i - N_SAMPLING_NUMBERS] : NULL;
}

static const char *const reasoning_words[] = {
    [REASONING_AUTO] = "auto", [REASONING_ON] = "on", [REASONING_OFF] = "off"};

/* Shows the settings, or the one called `only`. Each value is shown as /set takes it. */
static void show_settings(const Dialogue *d, bool hides_reasoning, const char *only) {
    const GenerationOptions *o = &d->options;
    const char *name;
    for (size_t i = 0; (name = settings_name(i)); i++) {
        if (only && strcmp(only, name) != 0) continue;
        if (i < N_SAMPLING_NUMBERS) {
            note("%-20s %g", name, sampling_numbers_get(number_at(i), &o->sampling));
        } else if (strcmp(name, "tokens") == 0) {
            note("%-20s %zu%s", name, o->max_tokens, o->max_tokens ? "" : " (no limit)");
        } else if (strcmp(name, "seed") == 0) {
            note("%-20s %llu", name, (unsigned long long)o->sampling.seed);
        } else if (strcmp(name, "reasoning") == 0) {
            note("%-20s %s", name, reasoning_words[d->prompt.reasoning]);
        } else if (strcmp(name, "reasoning-effort") == 0) {
            note("%-20s %s", name, d->prompt.effort ? d->prompt.effort : "none");
        } else if (strcmp(name, "hide-reasoning") == 0) {
            note("%-20s %s", name, hides_reasoning ? "on" : "off");
        } else if (d->budget == REASONING_UNLIMITED) {
            note("%-20s off", name);
        } else {
            note("%-20s %lld", name, (long long)d->budget);
        }
    }
}

static bool is_setting(const char *name) {
    const char *ours;
    for (size_t i = 0; (ours = settings_name(i)); i++)
        if (strcmp(ours, name) == 0) return true;
    return false;
}

/* Refuses a name that no setting has, and says which was meant or what does it. */
static Status unknown_setting(const char *name, Error *error) {
    static const struct {
        const char *name, *says;
    } elsewhere[] = {
        {"system", "/system TEXT sets the system prompt"},
        {"num-ctx", "the context is chosen at the start: -c N"},
        {"context", "the context is chosen at the start: -c N"},
        {"stop", "texts that end an answer are given at the start: --stop TEXT"},
        {"format", "the shape of the answers is given at the start: --json, --json-schema"},
        {"verbose", "/stats shows the speed of the last answer"},
        {"history", "lines are always remembered; --session FILE keeps the conversation"},
    };
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].name, name) == 0)
            return error_set(error, "no setting '%s': %s", name, elsewhere[i].says);
    const char *names[N_SETTINGS], *near = foreign_synonym(name);
    for (size_t i = 0; i < N_SETTINGS; i++) names[i] = settings_name(i);
    if (!near || !is_setting(near)) near = spelling_nearest(name, names, N_SETTINGS);
    if (near) return error_set(error, "no setting '%s'; did you mean %s?", name, near);
    return error_set(error, "no setting '%s': /set alone lists them", name);
}

void settings_note_reasoning(const Dialogue *d) {
    if (d->prompt.reasoning == REASONING_ON && !chat_prompt_reasons(&d->prompt))
        note("(the chat template knows no reasoning: reasoning on changes nothing)");
    if (d->prompt.effort && !chat_prompt_has_effort(&d->prompt))
        note("(the chat template reads no reasoning_effort: '%s' changes nothing)",
             d->prompt.effort);
}

/* Changes one of the settings of reasoning; *known is false for others. */
static Status change_reasoning(Dialogue *dialogue, bool *hides_reasoning, const char *name,
                               const char *value, bool *known, Error *error) {
    bool on = strcmp(value, "on") == 0, off = strcmp(value, "off") == 0;
    *known = true;
    if (strcmp(name, "reasoning") == 0) {
        if (!on && !off && strcmp(value, "auto") != 0)
            return error_set(error, "reasoning must be auto, on or off");
        dialogue_set_reasoning(dialogue, on ? REASONING_ON : off ? REASONING_OFF : REASONING_AUTO);
        settings_note_reasoning(dialogue);
        return STATUS_OK;
    }
    if (strcmp(name, "hide-reasoning") == 0) {
        if (!on && !off) return error_set(error, "hide-reasoning must be on or off");
        *hides_reasoning = on;
        return STATUS_OK;
    }
    if (strcmp(name, "reasoning-effort") == 0) {
        if (!*value)
            return error_set(error, "reasoning-effort needs a word; none: no effort is said");
        bool none = strcmp(value, "none") == 0;
        if (dialogue_set_effort(dialogue, none ? NULL : value, error) != STATUS_OK)
            return STATUS_FAILED;
        settings_note_reasoning(dialogue);
        return STATUS_OK;
    }
    *known = strcmp(name, "reasoning-budget") == 0;
    if (!*known) return STATUS_OK;
    if (!*value || value[strspn(value, "0123456789")] != '\0' || strlen(value) > 9) {
        if (!off && strcmp(value, "-1") != 0)
            return error_set(error, "reasoning-budget must be a number of tokens, or off");
        dialogue->budget = REASONING_UNLIMITED;
        return STATUS_OK;
    }
    dialogue->budget = strtoll(value, NULL, 10);
    return STATUS_OK;
}

/* False unless the whole text is a number. */
static bool parse_number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

/* Sets an option of /set NAME VALUE after checking its range. */
static Status change_setting(GenerationOptions *o, const char *name, const char *value,
                             Error *error) {
    double number;
    if (!parse_number(value, &number))
        return error_set(error, "/set %s needs a number, as in /set temperature 0.7", name);
    if (strcmp(name, "seed") == 0) {
        if (value[strspn(value, "0123456789")] != '\0' || !(number < 1.8e19))
            return error_set(error, "seed must be a whole number from 0 up");
        o->sampling.seed = strtoull(value, NULL, 10);
        return STATUS_OK;
    }
    if (strcmp(name, "tokens") == 0) {
        if (!(number >= 0 && number <= 1e9))
            return error_set(error, "tokens must be from 0 (no limit) to 1e9");
        o->max_tokens = (size_t)number;
        return STATUS_OK;
    }
    const SamplingNumber *n = sampling_numbers_find(name);
    if (!n) return unknown_setting(name, error);
    if (!(number >= n->low && number <= n->high))
        return error_set(error, "%s must be from %g to %g", name, n->low, n->high);
    sampling_numbers_set(n, &o->sampling, number);
    if (strcmp(name, "temperature") == 0 && number > HOT)
        note("(above %g nearly every token is a matter of chance)", HOT);
    return STATUS_OK;
}

Status settings_command(Dialogue *dialogue, bool *hides_reasoning, char *argument, Error *error) {
    if (!*argument) {
        show_settings(dialogue, *hides_reasoning, NULL);
        return STATUS_OK;
    }
    /* "/set parameter NAME VALUE", as ollama has it. */
    if (strncmp(argument, "parameter ", 10) == 0) argument += 10 + strspn(argument + 10, " ");
    char *value = argument + strcspn(argument, " =");
    if (*value) *value++ = '\0';
    value += strspn(value, " =");
    for (char *c = argument; *c; c++)
        if (*c == '_') *c = '-';
    if (!is_setting(argument)) return unknown_setting(argument, error);
    if (!*value) {
        show_settings(dialogue, *hides_reasoning, argument);
        return STATUS_OK;
    }
    bool known;
    Status status = change_reasoning(dialogue, hides_reasoning, argument, value, &known, error);
    return known ? status : change_setting(&dialogue->options, argument, value, error);
}
