#include "family_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "core/config_fields.h"
#include "formats/family/family_lists.h"
#include "formats/family/hooks.h"
#include "formats/family/page_tables.h"

/* The shortest text that is read as the same number. */
static void print_number(FILE *out, double number) {
    char text[40];
    if (number == floor(number) && fabs(number) < 1e9) {
        fprintf(out, "%.0f", number);
        return;
    }
    snprintf(text, sizeof text, "%.*g", numbers_digits(number, 1), number);
    char *zero = strstr(text, "e-0"); /* 1e-06 */
    if (zero) memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
    fputs(text, out);
}

static void print_value(FILE *out, const char *name, double value) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strcmp(field->name, name) == 0) break;
    if (field && field->kind == FIELD_ENUM) {
        fputs(field->names[(unsigned)value], out);
    } else if (field && field->kind == FIELD_BOOL) {
        fputs(value != 0 ? "true" : "false", out);
    } else {
        print_number(out, value);
    }
}

static void print_sets(FILE *out, const Preset *set) {
    for (; set && set->field; set++) {
        fprintf(out, "set    %s ", set->field);
        print_value(out, set->field, set->value);
        fputc('\n', out);
    }
}

static void print_keys(FILE *out, const ConfigRule *keys) {
    for (; keys && keys->keys; keys++) {
        fprintf(out, "key    %s", keys->field);
        if (strcmp(keys->keys, keys->field) != 0) fprintf(out, " <- %s", keys->keys);
        if (isnan(keys->absent)) {
            fputs(" required", out);
        } else {
            fputs(" = ", out);
            print_value(out, keys->field, keys->absent);
        }
        fputc('\n', out);
    }
}

/* Begins a section `where` if this is another one than *now, which it makes `where`. */
static void print_where(FILE *out, Preset where, bool is_not, Preset *now, bool *now_not) {
    if (where.field == now->field && where.value == now->value && is_not == *now_not) return;
    *now = where, *now_not = is_not;
    fprintf(out, "where %s", where.field ? where.field : "all");
    if (where.field) {
        fputs(is_not ? " not " : " is ", out);
        print_value(out, where.field, where.value);
    }
    fputc('\n', out);
}

static void print_steps(FILE *out, const Step *steps) {
    Preset where = {0};
    bool where_not = false;
    for (; steps && steps->verb; steps++) {
        print_where(out, steps->where, steps->where_not, &where, &where_not);
        fputs(steps->verb, out);
        if (steps->words) fprintf(out, " %s", steps->words);
        if (!steps->when && !steps->unless && !where.field && strcmp(steps->verb, "set") == 0)
            fputs(" always", out);
        if (steps->when) fprintf(out, " if %s", steps->when);
        if (steps->unless) fprintf(out, " unless %s", steps->unless);
        fputs(steps->absent ? " absent true\n" : "\n", out);
    }
    print_where(out, (Preset){0}, false, &where, &where_not);
}

static void print_biases(FILE *out, const BiasRule *biases) {
    for (; biases && biases->matrices; biases++) {
        fputs("bias  ", out);
        for (const char *p = biases->matrices + strspn(biases->matrices, " "); *p;) {
            size_t n = strcspn(p, " ");
            fprintf(out, " %.*s", (int)n, p);
            p += n + strspn(p + n, " ");
        }
        if (biases->key)
            fprintf(out, " if %s%s", biases->key, biases->absent ? " absent true" : "");
        fputc('\n', out);
    }
}

static void print_members(FILE *out, const char *word, const PageMember *members,
                          const void *from) {
    for (const PageMember *m = members; m->name; m++) {
        const char *at = (const char *)from + m->offset, *text = "";
        if (m->kind == MEMBER_TEXT) text = *(const char *const *)at;
        bool is_set = m->kind == MEMBER_FLAG     ? *(const bool *)at
                      : m->kind == MEMBER_NUMBER ? *(const double *)at != 0
                                                 : text != NULL;
        if (!is_set) continue;
        fprintf(out, "%s%s", word, m->name);
        if (m->kind == MEMBER_TEXT) fprintf(out, " %s", *text ? text : "none");
        if (m->kind == MEMBER_NUMBER) fputc(' ', out), print_number(out, *(const double *)at);
        if (*word != ' ') fputc('\n', out);
    }
}

static void print_tensors(FILE *out, const TensorRule *rules) {
    uint32_t of_kind = 0;
    Preset where = {0};
    bool where_not = false;
    for (; rules && rules->to; rules++) {
        print_where(out, rules->where, rules->where_not, &where, &where_not);
        if (rules->of_kind != of_kind)
            fprintf(out, "layers of %s\n", rules->of_kind ? page_kinds[rules->of_kind - 1] : "all");
        of_kind = rules->of_kind;
        fprintf(out, "%-6s %s <- %s", page_forms[rules->form], rules->to, rules->from);
        if (rules->rows) fprintf(out, " [%s", rules->rows);
        if (rules->cols) fprintf(out, ", %s", rules->cols);
        if (rules->rows) fputc(']', out);
        for (const PageChoice *c = page_tensor_choices; c->name; c++)
            if (*(const unsigned *)((const char *)rules + c->offset) == c->value)
                fprintf(out, " %s", c->name);
        bool is_tied = rules->if_tied && strcmp(rules->same_as, "token_embedding") == 0;
        if (is_tied) fputs(" tied", out);
        TensorRule rest = *rules;
        if (is_tied) rest.same_as = NULL;
        print_members(out, " ", page_tensor_members, &rest);
        fputc('\n', out);
    }
}

static bool is_taken(const FamilyHook *hooks, const char *word, const Family *family,
                     const GgufFamily *gguf) {
    if (strcmp(word, "finish") == 0)
        return gguf ? gguf->finish && gguf->finish == hooks->gguf_finish
                    : family->finish && family->finish == hooks->finish;
    if (strcmp(word, "more") == 0)
        return gguf ? gguf->more && gguf->more == hooks->gguf_more
                    : family->more && family->more == hooks->more;
    return gguf && gguf->by_layer && gguf->by_layer == hooks->gguf_by_layer;
}

static const char *hooks_name(const char *word, const Family *family, const GgufFamily *gguf) {
    for (const FamilyHook *const *table = families_hooks; *table; table++)
        for (const FamilyHook *hooks = *table; hooks->name; hooks++)
            if (is_taken(hooks, word, family, gguf)) return hooks->name;
    return NULL;
}

static void print_hooks(FILE *out, const Family *f, const GgufFamily *g) {
    for (size_t i = 0; hooks_words[i]; i++) {
        const char *name = hooks_name(hooks_words[i], f, g);
        if (name) fprintf(out, "%-6s %s\n", hooks_words[i], name);
    }
}

/* Prints how the family reads GGUF files of one architecture, as the lines of a page. */
static void print_gguf(FILE *out, const GgufFamily *g) {
    fprintf(out, "\ngguf %s", g->architecture);
    if (g->needs_tensor) fprintf(out, " needs %s", g->needs_tensor);
    fputc('\n', out);
    print_sets(out, g->set);
    for (const GgufKey *k = g->keys; k && k->key; k++)
        fprintf(out, "key    %s <- %s\n", k->field, k->key);
    if (g->required) fprintf(out, "required %s\n", g->required);
    if (g->norm_eps != 0) {
        fputs("epsilon ", out);
        print_number(out, g->norm_eps);
        fputc('\n', out);
    }
    print_steps(out, g->steps);
    if (g->pairing != ROPE_HALVES) fputs("rope   pairing interleaved\n", out);
    if (g->rope_theta != 0) {
        fputs("rope   theta ", out);
        print_number(out, g->rope_theta);
        fputc('\n', out);
    }
    if (g->local_theta != 0) {
        fputs("rope   local_theta ", out);
        print_number(out, g->local_theta);
        fputc('\n', out);
    }
    if (g->full_every) fprintf(out, "windows %u every %u\n", g->window, g->full_every);
    print_hooks(out, NULL, g);
    print_members(out, "with   ", page_gguf_flags, g);
    print_tensors(out, g->tensors);
}

void family_print(FILE *out, const Family *f) {
    fprintf(out, "family %s\n\n", f->model_type);
    print_sets(out, f->set);
    print_keys(out, f->keys);
    for (const FixedKey *k = f->fixed; k && k->key; k++)
        fprintf(out, "refuse %s unless %s\n", k->key, k->value);
    print_biases(out, f->biases);
    print_steps(out, f->steps);
    print_hooks(out, f, NULL);
    print_members(out, "rope   ", page_rope_members, &f->rope);
    print_members(out, "with   ", page_family_flags, f);
    if (f->prediction) fprintf(out, "prediction %s\n", page_predictions[f->prediction]);
    if (f->tied || f->tied_key)
        fprintf(out, "tied%s%s%s\n", f->tied ? "" : " never", f->tied_key ? " by " : "",
                f->tied_key ? f->tied_key : "");
    if (f->bos_id != -1) fprintf(out, "bos    %d\n", f->bos_id);
    if (f->eos_id != -1) fprintf(out, "eos    %d", f->eos_id);
    for (int i = 0; f->eos_id != -1 && i < 2; i++)
        if (f->more_eos_ids[i]) fprintf(out, " %d", f->more_eos_ids[i]);
    if (f->eos_id != -1) fputc('\n', out);
    if (f->layers) fprintf(out, "layers %s\n", f->layers);
    print_tensors(out, f->tensors);
    for (const GgufFamily *g = f->gguf; g && g->architecture; g++) print_gguf(out, g);
}
