#include "adapters/adapter_experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "adapters/adapter_names.h"

/* How checkpoints call the matrices of single experts. */
typedef struct Names {
    const char *stack, *gate, *up, *down;
} Names;

static const Names all_names[] = {
    {"mlp.experts", "gate_proj", "up_proj", "down_proj"},
    {"block_sparse_moe.experts", "w1", "w3", "w2"},
};

/* The names of experts' matrices in the family's rules; NULL: its experts have no matrices of their
 * own. */
static const Names *names_of(const Family *family) {
    char piece[64];
    for (size_t i = 0; i < sizeof all_names / sizeof *all_names; i++) {
        size_t n = (size_t)snprintf(piece, sizeof piece, "%s.%%u.%s", all_names[i].stack,
                                    all_names[i].gate);
        for (const TensorRule *rule = family->tensors; rule->to; rule++) {
            const char *at = strstr(rule->from, piece);
            if (at && (at[n] == '.' || at[n] == '\0')) return &all_names[i];
        }
    }
    return NULL;
}

/* Where the name of the mixture's module ends in "PREFIX.mlp.experts.base_layer": the bytes of
 * "PREFIX."; 0: it is another module. */
static size_t prefix_of(const char *name) {
    static const char stack[] = ".mlp.experts", wrapped[] = ".base_layer";
    size_t n = strlen(name), end = sizeof stack - 1, more = sizeof wrapped - 1;
    while (n > more && memcmp(name + n - more, wrapped, more) == 0) n -= more;
    return n > end && memcmp(name + n - end, stack, end) == 0 ? n - end + 1 : 0;
}

/* A run of splitting. */
typedef struct Split {
    AdapterModules *modules;
    const Family *family;
    const Config *base;
    const Names *names;
    const char *path;
} Split;

/* Appends a module for one matrix of one expert. It shares A and B with the stacked adapter `all`
 * and takes n_rows rows of the product, from first_row on. */
static Status experts_add(const Split *s, const AdapterModule *all, size_t prefix, size_t expert,
                          const char *matrix, size_t first_row, size_t n_rows, Error *error) {
    char own_name[512];
    int n = snprintf(own_name, sizeof own_name, "%.*s%s.%zu.%s", (int)prefix, all->own_name,
                     s->names->stack, expert, matrix);
    if (n < 0 || (size_t)n >= sizeof own_name)
        return error_set(error, "%s: '%.100s...': the name is too long", s->path, all->own_name);
    AdapterModules *m = s->modules;
    if (!array_reserve(&m->items, &m->capacity, m->n + 1, sizeof *m->items))
        return error_set(error, "%s: no memory", s->path);
    AdapterModule *module = &m->items[m->n];
    *module = (AdapterModule){.own_name = strdup(own_name),
                              .name = adapter_peft_name(s->family, own_name),
                              .a = all->a,
                              .b = all->b,
                              .n_experts = s->base->experts.count,
                              .expert = expert,
                              .first_row = first_row,
                              .n_rows = n_rows};
    m->n++;
    return module->own_name && module->name ? STATUS_OK
                                            : error_set(error, "%s: no memory", s->path);
}

/* Splits an adapter of all experts' stacked matrices into one for each expert; gate and up may be
 * fused. */
static Status experts_split(const Split *s, const AdapterModule *all, size_t prefix, Error *error) {
    const Config *c = s->base;
    size_t n = c->experts.count, ffn = c->experts.ffn_dim;
    const uint64_t *a = all->a->dims, *b = all->b->dims;
    bool is_inner = s->names && a[1] == c->dim && b[0] == 2 * (uint64_t)ffn;
    bool is_outer = s->names && a[1] == ffn && b[0] == c->dim;
    if (n == 0 || a[0] % n != 0 || is_inner == is_outer)
        return error_set(error,
                         "%s: adds %llu x %llu to '%.100s', which is no parameter of %u experts "
                         "that this program can add to",
                         s->path, (unsigned long long)b[0], (unsigned long long)a[1], all->own_name,
                         c->experts.count);
    Status status = STATUS_OK;
    for (size_t e = 0; status == STATUS_OK && e < n; e++) {
        if (is_outer) {
            status = experts_add(s, all, prefix, e, s->names->down, 0, c->dim, error);
            continue;
        }
        status = experts_add(s, all, prefix, e, s->names->gate, 0, ffn, error);
        if (status == STATUS_OK)
            status = experts_add(s, all, prefix, e, s->names->up, ffn, ffn, error);
    }
    return status;
}

Status adapter_split_experts(AdapterModules *modules, const Family *family, const Config *base,
                             const char *path, Error *error) {
    const Split s = {modules, family, base, names_of(family), path};
    size_t n = modules->n, kept = 0;
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        const AdapterModule all = modules->items[i]; /* the list may move */
        size_t prefix = all.is_embedding ? 0 : prefix_of(all.own_name);
        if (prefix > 0) status = experts_split(&s, &all, prefix, error);
    }
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < modules->n; i++) {
        AdapterModule *m = &modules->items[i];
        if (i < n && !m->is_embedding && prefix_of(m->own_name) > 0) {
            free(m->name);
            free(m->own_name);
        } else {
            modules->items[kept++] = *m;
        }
    }
    modules->n = kept;
    return STATUS_OK;
}
