#include "formats/family/family_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/builtin_pages.h"
#include "formats/family/family_lists.h"
#include "formats/family/hooks.h"
#include "formats/family/page_tables.h"
#include "formats/family/page_tensors.h"
#include "formats/family/verb_steps.h"
#include "json/json_reader.h"

enum { CHAIN = 6, NAME_BYTES = 32 };

/* ---- Words ---- */

static Status next_number(PageReader *r, double *out) {
    char word[PAGE_WORD], *end;
    if (!page_word(r->text, word)) return page_fail(r->text, "a number is missing");
    *out = strtod(word, &end);
    if (*end || !isfinite(*out)) return page_fail(r->text, "'%s' is not a number", word);
    return STATUS_OK;
}

static Status next_id(PageReader *r, int32_t *out) {
    double number;
    if (next_number(r, &number) != STATUS_OK) return STATUS_FAILED;
    if (number < -1 || number > INT32_MAX || number != floor(number))
        return page_fail(r->text, "%g is not the number of a token", number);
    *out = (int32_t)number;
    return STATUS_OK;
}

static const ConfigField *find_field(const char *name) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strcmp(field->name, name) == 0) return field;
    return NULL;
}

/* ---- Fields ---- */

/* Reads the value of a field: a number, an enumerator, true or false. */
static Status next_value(PageReader *r, const char *field, double *out) {
    char word[PAGE_WORD];
    Error error;
    if (!page_word(r->text, word)) return page_fail(r->text, "the value is missing");
    if (preset_value(field, word, out, &error) != STATUS_OK)
        return page_fail(r->text, "%s", error.text);
    return STATUS_OK;
}

static Status read_verb(PageReader *r, const char *name);

/* With a condition, "always" or after `where`, `set` is a step, which is taken after the keys. */
static bool is_step(const PageText *t) {
    const char *rest = t->words + t->word;
    return strstr(rest, " if ") || strstr(rest, " unless ") || strstr(rest, " always");
}

static Status read_set(PageReader *r) {
    PagePart *part = r->gguf ? &r->gguf->part : &r->page->main;
    const char *field;
    double value;
    if (r->section.where.field || is_step(r->text)) return read_verb(r, "set");
    if (page_reader_kept(r, "a field", &field) != STATUS_OK ||
        next_value(r, field, &value) != STATUS_OK || page_reader_end(r) != STATUS_OK)
        return STATUS_FAILED;
    size_t i = 0;
    while (i < part->n_set && strcmp(part->set[i].field, field) != 0) i++;
    if (i == SETS) return page_reader_full(r, "fields", SETS);
    part->set[i] = (Preset){field, value};
    if (i == part->n_set) part->n_set++;
    return STATUS_OK;
}

/* Reads "= VALUE" or "required" of a key that fills the field. */
static Status read_absent(PageReader *r, const ConfigField *field, double *absent) {
    if (page_reader_is(r, "required")) {
        *absent = REQUIRED;
        return STATUS_OK;
    }
    if (!page_reader_is(r, "=")) return page_fail(r->text, "expected '= VALUE' or 'required'");
    return next_value(r, field->name, absent);
}

static Status read_gguf_key(PageReader *r, const char *name) {
    const char *key;
    if (!page_reader_is(r, "<-")) return page_fail(r->text, "expected '<- KEY'");
    if (page_reader_kept(r, "a key", &key) != STATUS_OK || page_reader_end(r) != STATUS_OK)
        return STATUS_FAILED;
    if (r->gguf->n_keys == KEYS) return page_reader_full(r, "keys", KEYS);
    r->gguf->keys[r->gguf->n_keys++] = (GgufKey){key, name};
    return STATUS_OK;
}

/* key FIELD [<- KEY|KEY] (= VALUE | required) */
static Status read_key(PageReader *r) {
    FamilyPage *page = r->page;
    ConfigRule rule = {0};
    if (page_reader_kept(r, "a field", &rule.field) != STATUS_OK) return STATUS_FAILED;
    const ConfigField *field = find_field(rule.field);
    if (!field) return page_fail(r->text, "no field '%s'", rule.field);
    bool is_number = field->kind == FIELD_UINT || field->kind == FIELD_FLOAT ||
                     field->kind == FIELD_BOOL || strcmp(rule.field, "activation") == 0;
    if (!is_number) return page_fail(r->text, "no key can fill '%s'", rule.field);
    if (r->gguf) return read_gguf_key(r, rule.field);
    size_t i = 0;
    while (i < page->n_keys && strcmp(page->keys[i].field, rule.field) != 0) i++;
    rule.keys = i < page->n_keys ? page->keys[i].keys : rule.field;
    if (i < page->n_keys && i >= page->old_keys)
        return page_fail(r->text, "'%s' is filled twice", rule.field);
    if (page_reader_is(r, "<-") && page_reader_kept(r, "a key", &rule.keys) != STATUS_OK)
        return STATUS_FAILED;
    if (read_absent(r, field, &rule.absent) != STATUS_OK || page_reader_end(r) != STATUS_OK)
        return STATUS_FAILED;
    if (i == KEYS) return page_reader_full(r, "keys", KEYS);
    page->keys[i] = rule;
    if (i == page->n_keys) page->n_keys++;
    return STATUS_OK;
}

/* refuse KEY unless JSON */
static Status read_refuse(PageReader *r) {
    FamilyPage *page = r->page;
    FixedKey fixed;
    if (page_reader_kept(r, "a key", &fixed.key) != STATUS_OK) return STATUS_FAILED;
    if (!page_reader_is(r, "unless")) return page_fail(r->text, "expected 'unless VALUE'");
    const char *rest = page_rest(r->text);
    json_t *value = json_reader_load(rest, strlen(rest), JSON_DECODE_ANY, NULL);
    if (!value) return page_fail(r->text, "'%.60s' is not a value of JSON", rest);
    json_decref(value);
    if (page_reader_keep(r, rest, &fixed.value) != STATUS_OK) return STATUS_FAILED;
    size_t i = 0;
    while (i < page->n_fixed && strcmp(page->fixed[i].key, fixed.key) != 0) i++;
    if (i == FIXED) return page_reader_full(r, "refusals", FIXED);
    page->fixed[i] = fixed;
    if (i == page->n_fixed) page->n_fixed++;
    return STATUS_OK;
}

/* ---- Verbs and biases ---- */

/* Reads "always", or "if KEY" and "unless KEY" with "absent true" after one of them. */
static Status read_condition(PageReader *r, const char **when, const char **unless, bool *absent) {
    *when = NULL;
    *absent = false;
    if (page_reader_is(r, "always")) return page_reader_end(r);
    if (page_reader_is(r, "if") && page_reader_kept(r, "a key", when) != STATUS_OK)
        return STATUS_FAILED;
    if (unless && page_reader_is(r, "unless") && page_reader_kept(r, "a key", unless) != STATUS_OK)
        return STATUS_FAILED;
    if (page_reader_is(r, "absent")) {
        if (!*when && !(unless && *unless)) return page_fail(r->text, "absent stands behind a key");
        if (r->gguf) return page_fail(r->text, "'absent' is not for GGUF files");
        if (!page_reader_is(r, "true")) return page_fail(r->text, "expected 'absent true'");
        *absent = true;
    }
    return page_reader_end(r);
}

/* Joins words up to "if", "unless" or the end. */
static Status join_words(PageReader *r, const char *before, const char *after, const char **kept) {
    char joined[PAGE_LINE] = "";
    size_t n = 0;
    PageText *t = r->text;
    while (page_more(t)) {
        size_t at = t->word, last = t->last;
        if (page_reader_is(r, "if") || page_reader_is(r, "unless") || page_reader_is(r, "always")) {
            t->word = at;
            t->last = last;
            break;
        }
        char word[PAGE_WORD];
        page_word(t, word);
        n += (size_t)snprintf(joined + n, sizeof joined - n, "%s%s", n ? " " : before, word);
        if (n >= sizeof joined - 2) return page_fail(t, "too many words");
    }
    if (n) snprintf(joined + n, sizeof joined - n, "%s", after);
    return page_reader_keep(r, joined, kept);
}

static void remove_steps(FamilyPage *page, const char *verb, size_t *removed) {
    size_t n = 0, old = 0;
    for (size_t i = 0; i < page->n_steps; i++) {
        if (i < page->old_steps && strcmp(page->steps[i].verb, verb) == 0) {
            ++*removed;
            continue;
        }
        old += i < page->old_steps;
        page->steps[n++] = page->steps[i];
    }
    page->n_steps = n;
    page->old_steps = old;
}

/* Reads a step after its verb. */
static Status read_step(PageReader *r, const Verb *verb, Step *step) {
    Error error;
    size_t at = r->text->last;
    *step =
        (Step){.verb = verb->name, .where = r->section.where, .where_not = r->section.where_not};
    if (join_words(r, "", "", &step->words) != STATUS_OK) return STATUS_FAILED;
    if (verb_check(verb, step->words, &error) != STATUS_OK) {
        r->text->last = at;
        return page_fail(r->text, "%s", error.text);
    }
    if (!*step->words) step->words = NULL;
    return read_condition(r, &step->when, &step->unless, &step->absent);
}

/* Reads a line that begins with a verb and appends its step. The first line of a verb other than
 * "set" removes the steps of this verb that the page has from the family it is like. */
static Status read_verb(PageReader *r, const char *name) {
    FamilyPage *page = r->page;
    const Verb *verb = verb_find(name);
    Step step;
    size_t removed = 0;
    if (!verb) return page_fail(r->text, "'%s' is no word that begins a line", name);
    if (r->gguf ? !verb->run_gguf : !verb->run)
        return page_fail(r->text, "'%s' is not for %s", name,
                         r->gguf ? "GGUF files" : "config.json");
    if (read_step(r, verb, &step) != STATUS_OK) return STATUS_FAILED;
    if (r->gguf) {
        if (r->gguf->n_steps == STEPS) return page_reader_full(r, "verbs", STEPS);
        r->gguf->steps[r->gguf->n_steps++] = step;
        return STATUS_OK;
    }
    if (strcmp(name, "set") != 0) remove_steps(page, name, &removed);
    if (page->n_steps == STEPS) return page_reader_full(r, "verbs", STEPS);
    page->steps[page->n_steps++] = step;
    return STATUS_OK;
}

/* Whether each of the words, which have spaces around them, names a tensor. */
static Status check_bias_words(PageReader *r, const char *words) {
    for (const char *p = words + strspn(words, " "); *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        char bias[PAGE_LINE + 8]; /* "rg_lru.decay_gate" has a bias, but a matrix for each head */
        int length = snprintf(bias, sizeof bias, "%.*s.bias", (int)n, p);
        bool known = page_is_tensor(p, n) || page_is_tensor(bias, (size_t)length) ||
                     strncmp(p, "norms ", 6) == 0;
        if (!known) return page_fail(r->text, "no tensor '%.*s'", (int)n, p);
        p += n;
    }
    return STATUS_OK;
}

/* bias TENSOR... [if KEY [absent true]] */
static Status read_bias(PageReader *r) {
    FamilyPage *page = r->page;
    BiasRule rule = {0};
    size_t bytes = 0;
    if (page->old_biases) page->n_biases = page->old_biases = 0;
    if (join_words(r, " ", " ", &rule.matrices) != STATUS_OK ||
        check_bias_words(r, rule.matrices) != STATUS_OK)
        return STATUS_FAILED;
    if (!*rule.matrices) return page_fail(r->text, "a tensor is missing");
    if (read_condition(r, &rule.key, NULL, &rule.absent) != STATUS_OK) return STATUS_FAILED;
    if (page->n_biases == BIASES) return page_reader_full(r, "lines of biases", BIASES);
    page->biases[page->n_biases++] = rule;
    for (size_t i = 0; i < page->n_biases; i++) bytes += strlen(page->biases[i].matrices);
    if (bytes + sizeof " norms " > FAMILY_BIASES_BYTES)
        return page_fail(r->text, "too many biases");
    return STATUS_OK;
}

/* ---- The rest ---- */

static Status read_last_number(PageReader *r, double *value) {
    return next_number(r, value) == STATUS_OK ? page_reader_end(r) : STATUS_FAILED;
}

/* Reads the rest of a line "rope MEMBER [VALUE]". In the part of a GGUF architecture only theta,
 * local_theta and pairing are allowed. */
static Status read_rope(PageReader *r) {
    char word[PAGE_WORD];
    const PageMember *m = page_rope_members;
    if (!page_word(r->text, word)) return page_fail(r->text, "what of RoPE is missing");
    if (r->gguf) {
        GgufFamily *gguf = &r->page->gguf[r->page->n_gguf - 1];
        double value;
        if (strcmp(word, "local_theta") == 0) return read_last_number(r, &gguf->local_theta);
        if (strcmp(word, "theta") == 0) return read_last_number(r, &gguf->rope_theta);
        if (strcmp(word, "pairing") != 0)
            return page_fail(r->text, "GGUF files have rope theta, local_theta and pairing alone");
        if (next_value(r, "rope_pairing", &value) != STATUS_OK) return STATUS_FAILED;
        gguf->pairing = (RopePairing)value;
        return page_reader_end(r);
    }
    while (m->name && strcmp(m->name, word) != 0) m++;
    if (!m->name) return page_fail(r->text, "'%s' says nothing of RoPE", word);
    void *out = (char *)&r->page->family.rope + m->offset;
    if (m->kind == MEMBER_FLAG) *(bool *)out = true;
    if (m->kind == MEMBER_NUMBER && next_number(r, out) != STATUS_OK) return STATUS_FAILED;
    if (m->kind != MEMBER_TEXT) return page_reader_end(r);
    const char *rest = page_rest(r->text);
    if (!*rest) return page_fail(r->text, "the value is missing");
    bool none = strcmp(m->name, "local_theta_key") == 0 && strcmp(rest, "none") == 0;
    return page_reader_keep(r, none ? "" : rest, out);
}

static Status read_with(PageReader *r) {
    const PageMember *m = r->gguf ? page_gguf_flags : page_family_flags;
    char *base = r->gguf ? (char *)&r->page->gguf[r->page->n_gguf - 1] : (char *)&r->page->family;
    char word[PAGE_WORD];
    if (!page_word(r->text, word)) return page_fail(r->text, "a name is missing");
    while (m->name && strcmp(m->name, word) != 0) m++;
    if (!m->name) return page_fail(r->text, "nothing is called '%s' here", word);
    *(bool *)(base + m->offset) = true;
    return page_reader_end(r);
}

static Status read_prediction(PageReader *r) {
    char word[PAGE_WORD];
    page_word(r->text, word);
    for (unsigned i = 0; page_predictions[i]; i++) {
        if (strcmp(page_predictions[i], word) != 0) continue;
        r->page->family.prediction = (PredictionForm)i;
        return page_reader_end(r);
    }
    return page_fail(r->text, "prediction layers are none, mtp or nextn, not '%s'", word);
}

/* layers of KIND: the tensors after it belong to such layers; `layers of all` ends that. */
static Status read_layers_of(PageReader *r) {
    char word[PAGE_WORD];
    uint32_t kind;
    page_word(r->text, word);
    bool all = strcmp(word, "all") == 0;
    if (!all && !page_kind(word, &kind)) return page_fail(r->text, "no layers are '%s'", word);
    r->section.of_kind = all ? 0 : kind + 1;
    return page_reader_end(r);
}

/* where FIELD is VALUE, where FIELD not VALUE: models with such a configuration have the tensors
 * after it, and the steps are taken for them; `where all` ends that. */
static Status read_where(PageReader *r) {
    TensorRule *section = &r->section;
    section->where = (Preset){0};
    section->where_not = false;
    if (page_reader_is(r, "all")) return page_reader_end(r);
    if (page_reader_kept(r, "a field", &section->where.field) != STATUS_OK) return STATUS_FAILED;
    if (!find_field(section->where.field))
        return page_fail(r->text, "no field '%s'", section->where.field);
    section->where_not = page_reader_is(r, "not");
    if (!section->where_not && !page_reader_is(r, "is"))
        return page_fail(r->text, "expected 'where FIELD is VALUE' or 'where FIELD not VALUE'");
    if (next_value(r, section->where.field, &section->where.value) != STATUS_OK)
        return STATUS_FAILED;
    return page_reader_end(r);
}

static Status read_layers(PageReader *r) {
    const char *layers;
    if (page_reader_is(r, "of")) return read_layers_of(r);
    if (r->gguf) return page_fail(r->text, "expected 'layers of KIND'");
    if (page_reader_kept(r, "what stands before the names in a layer", &layers) != STATUS_OK)
        return STATUS_FAILED;
    const char *number = strchr(layers, '%');
    if (!number || (number[1] != 'u' && number[1] != 'q') || strchr(number + 1, '%') ||
        strlen(layers) > NAME_BYTES || layers[strlen(layers) - 1] != '.')
        return page_fail(r->text, "'%s' is not like model.layers.%%u.", layers);
    r->page->family.layers = layers;
    return page_reader_end(r);
}

static Status read_bos(PageReader *r) {
    return next_id(r, &r->page->family.bos_id) == STATUS_OK ? page_reader_end(r) : STATUS_FAILED;
}

static Status read_eos(PageReader *r) {
    Family *f = &r->page->family;
    f->more_eos_ids[0] = f->more_eos_ids[1] = 0;
    if (next_id(r, &f->eos_id) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < 2 && page_more(r->text); i++)
        if (next_id(r, &f->more_eos_ids[i]) != STATUS_OK) return STATUS_FAILED;
    return page_reader_end(r);
}

/* tied [KEY] */
static Status read_tied(PageReader *r) {
    Family *f = &r->page->family;
    f->tied = !page_reader_is(r, "never");
    if (page_reader_is(r, "by") && page_reader_kept(r, "a key", &f->tied_key) != STATUS_OK)
        return STATUS_FAILED;
    return page_reader_end(r);
}

/* Takes away what the page would otherwise take over: a tensor, a key's field, a verb, or all
 * tensors, biases or refusals. */
static Status read_without(PageReader *r) {
    FamilyPage *page = r->page;
    PagePart *part = &page->main;
    char word[PAGE_WORD];
    do {
        size_t removed = 0;
        if (!page_word(r->text, word)) return page_fail(r->text, "a name is missing");
        bool all = strcmp(word, "tensors") == 0;
        for (size_t i = part->n_tensors; i-- > 0;) {
            if (!part->is_inherited[i] ||
                !(all || page_tensors_share_name(part->tensors[i].to, word)))
                continue;
            page_tensors_remove(part, i);
            removed++;
        }
        for (size_t i = page->old_keys; i-- > 0;) {
            if (strcmp(page->keys[i].field, word) != 0) continue;
            memmove(page->keys + i, page->keys + i + 1, (page->n_keys - i) * sizeof *page->keys);
            page->n_keys--, page->old_keys--, removed++;
        }
        remove_steps(page, word, &removed);
        if (strcmp(word, "biases") == 0 && page->old_biases) {
            removed += page->n_biases;
            page->n_biases = page->old_biases = 0;
        }
        if (strcmp(word, "refusals") == 0) {
            removed += page->n_fixed;
            page->n_fixed = 0;
        }
        if (strcmp(word, "rope") == 0) {
            page->family.rope = (RopeKeys){0};
            removed++;
        }
        if (r->text->is_program && strcmp(word, "finish") == 0 && page->family.finish) {
            page->family.finish = NULL;
            removed++;
        }
        if (r->text->is_program && strcmp(word, "more") == 0 && page->family.more) {
            page->family.more = NULL;
            removed++;
        }
        if (!removed) return page_fail(r->text, "there is no '%s' to leave out", word);
    } while (page_more(r->text));
    return STATUS_OK;
}

/* gguf ARCHITECTURE [needs TENSOR]: the lines after it are about such files. */
static Status read_gguf(PageReader *r) {
    FamilyPage *page = r->page;
    GgufFamily *gguf = &page->gguf[page->n_gguf];
    if (page->n_gguf == GGUFS) return page_reader_full(r, "architectures", GGUFS);
    if (page_reader_kept(r, "an architecture", &gguf->architecture) != STATUS_OK)
        return STATUS_FAILED;
    if (page_reader_is(r, "needs") &&
        page_reader_kept(r, "a tensor", &gguf->needs_tensor) != STATUS_OK)
        return STATUS_FAILED;
    r->gguf = &page->parts[page->n_gguf++];
    r->section = (TensorRule){0};
    return page_reader_end(r);
}

/* Reads the name of hooks in families/ and takes their function that the word names. A user's page
 * names no hooks and gets the hooks of the family that it is like, because only the program's own
 * pages promise what a function expects of their lines. */
static Status read_hook(PageReader *r, const char *word) {
    FamilyPage *page = r->page;
    char name[PAGE_WORD];
    if (!r->text->is_program)
        return page_fail(r->text,
                         "'%s' is for the program's own pages: a page that is like one "
                         "of them has its functions",
                         word);
    if (!page_word(r->text, name)) return page_fail(r->text, "the name is missing");
    const FamilyHook *hooks = hooks_find(name);
    if (!hooks) return page_fail(r->text, "no functions are called '%s'", name);
    if (!hooks_take(hooks, word, &page->family, r->gguf ? &page->gguf[page->n_gguf - 1] : NULL))
        return page_fail(r->text, "'%s' has no '%s' here", name, word);
    return page_reader_end(r);
}

static Status read_finish(PageReader *r) {
    return read_hook(r, "finish");
}

static Status read_more(PageReader *r) {
    return read_hook(r, "more");
}

static Status read_by_layer(PageReader *r) {
    return read_hook(r, "by_layer");
}

/* required KEY...: of GGUF files. */
static Status read_gguf_required(PageReader *r) {
    GgufFamily *gguf = &r->page->gguf[r->page->n_gguf - 1];
    if (gguf->required) return page_fail(r->text, "a second 'required'");
    if (join_words(r, "", "", &gguf->required) != STATUS_OK) return STATUS_FAILED;
    if (!*gguf->required) return page_fail(r->text, "expected required KEY...");
    for (const char *key = gguf->required; *key; key += strspn(key, " ")) {
        size_t n = strcspn(key, " ");
        if (n >= STEP_WORD) return page_fail(r->text, "no key has %zu characters", n);
        key += n;
    }
    return page_reader_end(r);
}

/* windows N every M: of GGUF files. */
static Status read_gguf_windows(PageReader *r) {
    GgufFamily *gguf = &r->page->gguf[r->page->n_gguf - 1];
    int32_t window, every = 1;
    if (next_id(r, &window) != STATUS_OK) return STATUS_FAILED;
    if (page_reader_is(r, "every") && next_id(r, &every) != STATUS_OK) return STATUS_FAILED;
    if (window < 0 || every < 1) return page_fail(r->text, "expected windows N every M");
    gguf->window = (uint32_t)window;
    gguf->full_every = (uint32_t)every;
    return page_reader_end(r);
}

/* ---- Lines and pages ---- */

static const struct {
    const char *name;
    Status (*read)(PageReader *r);
    bool in_gguf;
} declarations[] = {
    {"set", read_set, true},           {"key", read_key, true},
    {"refuse", read_refuse, false},    {"bias", read_bias, false},
    {"use", page_tensors_use, true},   {"rope", read_rope, true},
    {"with", read_with, true},         {"prediction", read_prediction, false},
    {"layers", read_layers, true},     {"bos", read_bos, false},
    {"eos", read_eos, false},          {"tied", read_tied, false},
    {"without", read_without, false},  {"gguf", read_gguf, true},
    {"finish", read_finish, true},     {"more", read_more, true},
    {"by_layer", read_by_layer, true}, {"where", read_where, true},
};

static Status read_line(PageReader *r) {
    char word[PAGE_WORD];
    page_word(r->text, word);
    for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++) {
        if (strcmp(declarations[i].name, word) != 0) continue;
        if (r->gguf && !declarations[i].in_gguf)
            return page_fail(r->text, "'%s' stands before the first 'gguf'", word);
        return declarations[i].read(r);
    }
    if (page_tensors_form(word) >= 0)
        return page_tensors_read(r, (RuleForm)page_tensors_form(word));
    if (r->gguf && strcmp(word, "windows") == 0) return read_gguf_windows(r);
    if (r->gguf && strcmp(word, "required") == 0) return read_gguf_required(r);
    if (r->gguf && strcmp(word, "epsilon") == 0)
        return read_last_number(r, &r->page->gguf[r->page->n_gguf - 1].norm_eps);
    return read_verb(r, word);
}

/* Reads "family NAME [like OTHER]", the first line with a word. */
static Status read_header(PageText *t, char name[PAGE_WORD], char like[PAGE_WORD]) {
    char word[PAGE_WORD];
    bool found;
    name[0] = like[0] = '\0';
    if (t->bytes > PAGE_BYTES) return page_fail(t, "a page of more than %d bytes", PAGE_BYTES);
    if (page_line(t, &found) != STATUS_OK) return STATUS_FAILED;
    page_word(t, word);
    if (strcmp(word, "family") != 0) return page_fail(t, "a page begins with 'family NAME'");
    if (!page_word(t, name)) return page_fail(t, "the name is missing");
    if (strlen(name) >= NAME_BYTES)
        return page_fail(t, "a name of more than %d characters", NAME_BYTES - 1);
    if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") !=
        strlen(name))
        return page_fail(t, "a name is of letters, digits, '_', '-' and '.'");
    if (!page_word(t, word)) return STATUS_OK;
    if (strcmp(word, "like") != 0) return page_fail(t, "expected 'like NAME'");
    if (!page_word(t, like)) return page_fail(t, "the name is missing");
    return page_word(t, word) ? page_fail(t, "'%s' is too much here", word) : STATUS_OK;
}

/* Marks all lines of the page as inherited and drops its GGUF files, before a page is read that is
 * like it. */
static void inherit(FamilyPage *page) {
    page->old_keys = page->n_keys;
    page->old_biases = page->n_biases;
    page->old_steps = page->n_steps;
    for (size_t i = 0; i < page->main.n_tensors; i++) page->main.is_inherited[i] = true;
    page->main.next = 0;
    memset(page->parts, 0, page->n_gguf * sizeof *page->parts);
    memset(page->gguf, 0, page->n_gguf * sizeof *page->gguf);
    page->n_gguf = 0;
}

static Status read_lines(FamilyPage *page, PageText *t) {
    PageReader r = {.page = page, .text = t};
    bool found;
    inherit(page);
    for (;;) {
        if (page_line(t, &found) != STATUS_OK) return STATUS_FAILED;
        if (!found) return STATUS_OK;
        if (read_line(&r) != STATUS_OK) return STATUS_FAILED;
    }
}

/* Points the family's tables at the page's. */
static void family_page_finish(FamilyPage *page) {
    Family *f = &page->family;
    f->set = page->main.n_set ? page->main.set : NULL;
    f->keys = page->n_keys ? page->keys : NULL;
    f->fixed = page->n_fixed ? page->fixed : NULL;
    f->biases = page->n_biases ? page->biases : NULL;
    f->steps = page->n_steps ? page->steps : NULL;
    f->tensors = page->n_keys || page->main.n_tensors ? page->main.tensors : NULL;
    f->gguf = page->n_gguf ? page->gguf : NULL;
    /* What was removed may stand after the ends. */
    page->keys[page->n_keys] = (ConfigRule){0};
    page->fixed[page->n_fixed] = (FixedKey){0};
    page->biases[page->n_biases] = (BiasRule){0};
    page->steps[page->n_steps] = (Step){0};
    page->main.tensors[page->main.n_tensors] = (TensorRule){0};
    for (size_t i = 0; i < page->n_gguf; i++) {
        PageGguf *part = &page->parts[i];
        page->gguf[i].set = part->part.n_set ? part->part.set : NULL;
        page->gguf[i].keys = part->n_keys ? part->keys : NULL;
        page->gguf[i].steps = part->n_steps ? part->steps : NULL;
        page->gguf[i].tensors = part->part.tensors;
    }
}

/* Whether `other` is for exactly the models that `rule` is not for. */
static bool is_complement(const TensorRule *rule, const TensorRule *other) {
    return other->where.field && strcmp(rule->where.field, other->where.field) == 0 &&
           rule->where.value == other->where.value && rule->where_not != other->where_not;
}

/* Refuses a page whose final_norm is a tensor of some configurations only: the other models would
 * be normalized without its weights, as OLMo is, and no tensor would be missing. */
static Status check_final_norm(const PagePart *part, PageText *t) {
    const TensorRule *some = NULL;
    for (const TensorRule *rule = part->tensors; rule->to; rule++) {
        if (strcmp(rule->to, "final_norm") != 0) continue;
        if (!rule->where.field || (some && is_complement(some, rule))) return STATUS_OK;
        some = rule;
    }
    return some ? page_fail(t,
                            "'final_norm' stands after 'where %s' alone: the other models would "
                            "have no weights of their last norm",
                            some->where.field)
                : STATUS_OK;
}

/* Reads this page and, before it, those that it is like. */
static Status read_chain(FamilyPage *page, const char *name, const char *text, size_t bytes,
                         bool is_program, Error *error) {
    PageText chain[CHAIN];
    char names[CHAIN][PAGE_WORD + 24], like[PAGE_WORD], own[PAGE_WORD];
    size_t n = 0;
    page->family = (Family){.bos_id = -1, .eos_id = -1};
    do {
        chain[n] = (PageText){.name = name,
                              .text = text,
                              .bytes = bytes,
                              .is_program = is_program || n > 0,
                              .error = error};
        if (read_header(&chain[n], own, like) != STATUS_OK) return STATUS_FAILED;
        snprintf(names[n], sizeof names[n], "families/%s.family", like);
        if (n == 0 && !(page->family.model_type = page_keep(&page->pool, own, strlen(own))))
            return page_fail(&chain[n], "the page is too long");
        text = *like ? builtin_pages_text(like) : NULL;
        bytes = text ? strlen(text) : 0;
        if (*like && !text) return page_fail(&chain[n], "no family '%s'", like);
        name = names[n++];
    } while (text && n < CHAIN);
    if (text) return page_fail(&chain[0], "'like' leads too far");
    const char *model_type = page->family.model_type;
    while (n-- > 0)
        if (read_lines(page, &chain[n]) != STATUS_OK) return STATUS_FAILED;
    page->family.model_type = model_type;
    if (page->n_keys && page->main.n_tensors == 0)
        return page_fail(&chain[0], "the page has keys, but no tensors");
    family_page_finish(page);
    Status status = check_final_norm(&page->main, &chain[0]);
    for (size_t i = 0; i < page->n_gguf && status == STATUS_OK; i++)
        status = check_final_norm(&page->parts[i].part, &chain[0]);
    return status;
}

static Status read_page(FamilyPage **out, const char *name, const char *text, size_t bytes,
                        bool is_program, Error *error) {
    *out = NULL;
    FamilyPage *page = calloc(1, sizeof *page);
    if (!page) return error_set(error, "%s: no memory", name);
    if (read_chain(page, name, text, bytes, is_program, error) != STATUS_OK) {
        free(page);
        return STATUS_FAILED;
    }
    *out = page;
    return STATUS_OK;
}

Status family_page_read(FamilyPage **out, const char *name, const char *text, size_t bytes,
                        Error *error) {
    return read_page(out, name, text, bytes, false, error);
}

Status family_page_read_builtin(FamilyPage **out, const BuiltinPage *builtin, Error *error) {
    char name[96];
    snprintf(name, sizeof name, "families/%s.family", builtin->name);
    return read_page(out, name, builtin->text, strlen(builtin->text), true, error);
}

const Family *family_page_family(const FamilyPage *page) {
    return &page->family;
}

void family_page_free(FamilyPage *page) {
    free(page);
}
