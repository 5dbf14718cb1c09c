#include "formats/family/page_tensors.h"

#include <stdio.h>
#include <string.h>

#include "formats/family/builtin_pages.h"
#include "formats/family/page_tables.h"
#include "formats/family/sizes.h"

enum { FROM_BYTES = 160 };

/* '-' is the part of a tensor that nothing takes, and no name. */
bool page_tensors_share_name(const char *a, const char *b) {
    for (const char *p = a; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        for (const char *q = b; *q; q += strspn(q, " ")) {
            size_t m = strcspn(q, " ");
            if (n == m && memcmp(p, q, n) == 0 && *p != '-') return true;
            q += m;
        }
        p += n;
    }
    return false;
}

static bool is_in_layer(const TensorRule *rule) {
    return rule->from[0] == '.' || strstr(rule->from, "%u");
}

void page_tensors_remove(PagePart *part, size_t i) {
    size_t rest = part->n_tensors - i;
    memmove(part->tensors + i, part->tensors + i + 1, rest * sizeof *part->tensors);
    memmove(part->is_inherited + i, part->is_inherited + i + 1, rest);
    part->n_tensors--;
    if (part->next > i) part->next--;
}

/* Puts the rule in the place of the first inherited one that makes one of the same tensors, and
 * takes the others away. */
static Status add_tensor(PageReader *r, const TensorRule *rule) {
    PagePart *part = r->gguf ? &r->gguf->part : &r->page->main;
    size_t place = SIZE_MAX;
    for (size_t i = part->n_tensors; i-- > 0;) {
        if (!part->is_inherited[i] || !page_tensors_share_name(part->tensors[i].to, rule->to))
            continue;
        page_tensors_remove(part, i);
        place = i;
    }
    if (part->n_tensors == TENSORS) return page_reader_full(r, "tensors", TENSORS);
    bool replaces = place != SIZE_MAX;
    if (!replaces) place = part->next;
    if (!replaces && place == 0) {
        place = part->n_tensors;
        while (is_in_layer(rule) && place > 0 && !is_in_layer(&part->tensors[place - 1])) place--;
    }
    size_t rest = part->n_tensors - place;
    memmove(part->tensors + place + 1, part->tensors + place, rest * sizeof *part->tensors);
    memmove(part->is_inherited + place + 1, part->is_inherited + place, rest);
    part->tensors[place] = *rule;
    part->is_inherited[place] = false;
    part->n_tensors++;
    part->next = place + 1;
    return STATUS_OK;
}

/* Reads the names before "<-". */
static Status read_targets(PageReader *r, const char **to) {
    char joined[PAGE_LINE] = "", word[PAGE_WORD];
    size_t n = 0;
    while (!page_reader_is(r, "<-")) {
        if (!page_word(r->text, word)) return page_fail(r->text, "expected '<-'");
        if (strcmp(word, "-") != 0 && !page_is_tensor(word, strlen(word)))
            return page_fail(r->text, "no tensor '%s'", word);
        n += (size_t)snprintf(joined + n, sizeof joined - n, "%s%s", n ? " " : "", word);
    }
    if (n == 0) return page_fail(r->text, "a tensor is missing before '<-'");
    return page_reader_keep(r, joined, to);
}

/* Reads the name in the source: of its "%" only the placeholders of rules.h are left. */
static Status read_from(PageReader *r, const TensorRule *rule, const char **from) {
    char word[PAGE_WORD], name[FROM_BYTES];
    if (!page_word(r->text, word)) return page_fail(r->text, "the source's name is missing");
    const char *rest = word[0] == '@' && r->at ? word + 1 : word;
    int n = snprintf(name, sizeof name, "%s%s", rest == word ? "" : r->at, rest);
    if (n >= (int)sizeof name) return page_fail(r->text, "a name of more than %d characters", n);
    size_t numbers = 0, heads = 0;
    for (const char *p = name; (p = strchr(p, '%')); p++) {
        if (!p[1] || !strchr("uqph", p[1])) return page_fail(r->text, "'%%%.1s' in a name", p + 1);
        numbers += p[1] == 'u';
        heads += p[1] == 'h';
    }
    if (numbers > 1 + (name[0] != '.') || heads > 1 || (heads && rule->form != FORM_VECTOR))
        return page_fail(r->text, "too many placeholders in '%s'", name);
    return page_reader_keep(r, name, from);
}

/* For sizes that are checked here, and not evaluated. */
static const Config no_sizes;

/* Reads one size of a shape, which ends at `,` or `]`. */
static Status read_size(PageReader *r, const char **text, const char *end, const char **kept,
                        size_t *n_terms) {
    char size[PAGE_LINE];
    SizeSum sum;
    while (**text == ' ') ++*text;
    size_t n = strcspn(*text, ",]");
    if (*text + n > end) n = (size_t)(end - *text);
    snprintf(size, sizeof size, "%.*s", (int)n, *text);
    *text += n;
    for (n = strlen(size); n > 0 && size[n - 1] == ' ';) size[--n] = '\0';
    if (!size_sum(size, &no_sizes, 0, &sum))
        return page_fail(r->text, "'%s' is not a sum of products of sizes", size);
    *n_terms = sum.n_terms;
    return page_reader_keep(r, size, kept);
}

/* [ROWS] or [ROWS, COLUMNS] */
static Status read_shape(PageReader *r, TensorRule *rule) {
    PageText *t = r->text;
    size_t n_names = 1, terms, others;
    bool is_vector = rule->form == FORM_NORM || rule->form == FORM_VECTOR;
    for (const char *p = rule->to; *p; p++) n_names += *p == ' ';
    if (!page_more(t) || t->words[t->word] != '[') {
        if (rule->form == FORM_NORM && n_names == 1) return STATUS_OK;
        t->last = t->word;
        return page_fail(t, "the shape is missing: [%s]", is_vector ? "SIZE" : "ROWS, COLUMNS");
    }
    const char *text = t->words + t->word + 1, *end = strchr(text, ']');
    t->last = t->word;
    if (!end) return page_fail(t, "']' is missing");
    t->word = (size_t)(end + 1 - t->words);
    if (read_size(r, &text, end, &rule->rows, &terms) != STATUS_OK) return STATUS_FAILED;
    if (n_names > 1 && terms != n_names)
        return page_fail(t, "%zu names, but '%s' is a sum of %zu", n_names, rule->rows, terms);
    if (is_vector != (*text == ']'))
        return page_fail(t, "%s has %s", page_forms[rule->form],
                         is_vector ? "one size" : "two sizes");
    if (is_vector) return STATUS_OK;
    text++;
    if (read_size(r, &text, end, &rule->cols, &others) != STATUS_OK) return STATUS_FAILED;
    return *text == ']' ? STATUS_OK : page_fail(t, "more than two sizes");
}

/* Reads a word after a tensor's shape: "tied", or a member of TensorRule that the page's tables
 * name. */
static Status read_tensor_word(PageReader *r, const char *word, TensorRule *rule) {
    SizeSum sum;
    if (strcmp(word, "tied") == 0) {
        rule->same_as = "token_embedding";
        rule->if_tied = true;
        return STATUS_OK;
    }
    for (const PageMember *m = page_tensor_members; m->name; m++) {
        if (strcmp(m->name, word) != 0) continue;
        if (m->kind == MEMBER_FLAG) *(bool *)((char *)rule + m->offset) = true;
        if (m->kind == MEMBER_FLAG) return STATUS_OK;
        const char **text = (const char **)((char *)rule + m->offset);
        if (page_reader_kept(r, word, text) != STATUS_OK) return STATUS_FAILED;
        if (strcmp(word, "by") == 0 || strcmp(word, "parts") == 0)
            return size_sum(*text, &no_sizes, 0, &sum) ? STATUS_OK
                                                       : page_fail(r->text, "no size '%s'", *text);
        return page_is_tensor(*text, strlen(*text)) ? STATUS_OK
                                                    : page_fail(r->text, "no tensor '%s'", *text);
    }
    for (const PageChoice *c = page_tensor_choices; c->name; c++) {
        if (strcmp(c->name, word) != 0) continue;
        *(unsigned *)((char *)rule + c->offset) = c->value;
        return STATUS_OK;
    }
    return page_fail(r->text, "'%s' says nothing of a tensor", word);
}

/* Refuses what rules_apply is not made for. */
static Status check_tensor(PageReader *r, const TensorRule *rule) {
    bool numbered = strstr(rule->to, "%u") != NULL, is_vector = !rule->cols;
    if (!is_in_layer(rule) && (rule->own_keys || rule->each_head || numbered))
        return page_fail(r->text, "'%s' is no tensor of a layer: its name begins with '.'",
                         rule->from);
    if (!is_in_layer(rule) && rule->of_kind)
        return page_fail(r->text, "'%s' is no tensor of a layer: its name begins with '.'",
                         rule->from);
    bool is_head = strncmp(rule->to, "k_b.", 4) == 0 || strstr(rule->to, "v_b.");
    if (rule->parts ? !rule->each_head : rule->each_head != is_head)
        return page_fail(r->text, "each_head belongs to k_b.%%u and v_b.%%u, and before parts");
    if (rule->parts && !r->text->is_program) /* which asks its own sizes how many there are */
        return page_fail(r->text, "'parts' is for the program's own pages");
    if (rule->each_head && (is_vector || rule->by || rule->form == FORM_TABLE))
        return page_fail(r->text, "heads are parts of a matrix");
    if (rule->same_as && (strchr(rule->to, ' ') || rule->by || is_in_layer(rule)))
        return page_fail(r->text, "same_as is for one tensor beside the layers");
    if (is_vector && rule->turned) return page_fail(r->text, "a vector is not transposed");
    return STATUS_OK;
}

Status page_tensors_read(PageReader *r, RuleForm form) {
    TensorRule rule = r->section;
    char word[PAGE_WORD];
    rule.form = form;
    if (read_targets(r, &rule.to) != STATUS_OK || read_from(r, &rule, &rule.from) != STATUS_OK ||
        read_shape(r, &rule) != STATUS_OK)
        return STATUS_FAILED;
    while (page_word(r->text, word))
        if (read_tensor_word(r, word, &rule) != STATUS_OK) return STATUS_FAILED;
    return check_tensor(r, &rule) == STATUS_OK ? add_tensor(r, &rule) : STATUS_FAILED;
}

int page_tensors_form(const char *word) {
    for (int i = 0; page_forms[i]; i++)
        if (strcmp(page_forms[i], word) == 0) return i;
    return -1;
}

/* Goes to the line "group NAME ..." of families/groups.family; false: there is none. */
static bool find_group(PageText *lines, const char *name) {
    size_t n = strlen(name);
    for (const char *p = lines->text; p && (p = strstr(p, "\ngroup ")); p++) {
        const char *own = p + sizeof "\ngroup " - 1;
        if (strncmp(own, name, n) != 0 || (own[n] != ' ' && own[n] != '\n')) continue;
        lines->at = (size_t)(p + 1 - lines->text);
        for (const char *q = lines->text; (q = strchr(q, '\n')) && q <= p; q++) lines->line++;
        return true;
    }
    return false;
}

/* Reads the lines of a group of the program's; they hold tensors alone. */
static Status read_group(PageReader *r, const char *name) {
    const char *text = builtin_pages_text("groups");
    char word[PAGE_WORD];
    bool found;
    PageText lines = {.name = "families/groups.family", .text = text, .error = r->text->error};
    PageReader own = *r;
    own.text = &lines;
    lines.bytes = text ? strlen(text) : 0;
    lines.is_program = true;
    if (!find_group(&lines, name) || page_line(&lines, &found) != STATUS_OK)
        return page_fail(r->text, "no group '%s'", name);
    page_word(&lines, word); /* "group" */
    page_word(&lines, word);
    bool takes = page_word(&lines, word);
    if (takes != (r->at != NULL))
        return page_fail(r->text, "group '%s' %s", name,
                         takes ? "needs a prefix" : "takes no prefix");
    while (page_line(&lines, &found) == STATUS_OK && found) {
        page_word(&lines, word);
        if (strcmp(word, "group") == 0) break;
        if (page_tensors_read(&own, (RuleForm)page_tensors_form(word)) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status page_tensors_use(PageReader *r) {
    const char *name, *at = NULL;
    if (page_reader_kept(r, "a group", &name) != STATUS_OK) return STATUS_FAILED;
    size_t column = r->text->last;
    if (page_more(r->text) && page_reader_kept(r, "a prefix", &at) != STATUS_OK)
        return STATUS_FAILED;
    if (at && strlen(at) > PAGE_WORD / 2) return page_fail(r->text, "a prefix is too long");
    if (page_reader_end(r) != STATUS_OK) return STATUS_FAILED;
    r->text->last = column;
    r->at = at;
    Status status = read_group(r, name);
    r->at = NULL;
    return status;
}
