#include "formats/family/family_draft.h"

#include <stdlib.h>
#include <string.h>

#include "formats/family/builtin_pages.h"
#include "formats/family/sizes.h"
#include "json/json_object.h"

/* Text of a stranger's file in a comment or message: other characters than visible ASCII become
 * '?'. */
static void print_safely(FILE *out, const char *text, size_t most) {
    for (; *text && most; text++, most--) putc(*text > ' ' && *text < 127 ? *text : '?', out);
    if (*text) fputs("...", out);
}

/* ---- In a line ---- */

typedef struct Names {
    char text[200];
    size_t length, n;
} Names;

enum { NAMED = 4 };

/* The first few names. */
static void add_name(Names *names, const char *name) {
    size_t left = sizeof names->text - names->length;
    int n = names->n++ < NAMED ? snprintf(names->text + names->length, left, "%s'%.40s'",
                                          names->length ? ", " : "", name)
                               : 0;
    if (n > 0) names->length += (size_t)n < left ? (size_t)n : left - 1;
}

static void add_names(char *text, size_t size, const char *what, const Names *names) {
    size_t length = strlen(text);
    char more[40] = "";
    if (names->n == 0 || length >= size) return;
    if (names->n > NAMED) snprintf(more, sizeof more, " and %zu more", names->n - NAMED);
    snprintf(text + length, size - length, "%s %s %s%s", length ? ";" : "", what, names->text,
             more);
}

/* The name without what stands before all names in a layer. */
static const char *short_name(const FamilyMatch *match, const char *name) {
    size_t n = strlen(match->layers);
    return n && strncmp(name, match->layers, n) == 0 ? name + n - 1 : name;
}

void family_draft_explain(const FamilyMatch *match, char *text, size_t size) {
    Names keys = {0}, tensors = {0}, missing = {0};
    const char *key;
    char name[MATCH_NAME];
    json_t *value;
    if (size) text[0] = '\0';
    if (!match->family) return;
    json_object_foreach(match->config, key, value) {
        if (!family_match_reads(match, key)) add_name(&keys, key);
    }
    for (size_t i = 0; i < match->n_kinds; i++)
        if (!match->kinds[i].taken) add_name(&tensors, short_name(match, match->kinds[i].name));
    for (size_t i = 0; family_match_missing(match, i, name); i++)
        add_name(&missing, short_name(match, name));
    keys.n += match->n_more_keys;
    add_names(text, size, "it reads no key", &keys);
    add_names(text, size, "it takes no tensor", &tensors);
    add_names(text, size, "the model lacks its", &missing);
    if (text[0] == '\0')
        snprintf(text, size,
                 !match->refuses_keys ? " it reads all keys and takes all tensors"
                                      : " it takes all tensors");
}

/* ---- Shapes in named sizes ---- */

/* Writes the first sum that is as large as n, else n itself. */
static void print_size(FILE *out, const FamilyMatch *match, uint64_t n) {
    static const char *const sums[] = {
        "dim",
        "vocab_size",
        "n_heads * head_dim",
        "n_kv_heads * head_dim",
        "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim",
        "ffn_dim",
        "ffn_dim + ffn_dim",
        "expert_ffn_dim",
        "expert_ffn_dim + expert_ffn_dim",
        "shared_ffn_dim",
        "n_experts",
        "head_dim",
        "n_heads",
        "n_kv_heads + n_kv_heads",
        "latent_dim",
        "latent_dim + rotary_dim",
        "latent_q_dim",
        "context",
    };
    for (size_t i = 0; match->is_configured && i < sizeof sums / sizeof *sums; i++) {
        if (n == 0 || size_of(sums[i], &match->family_config, 0) != n) continue;
        fputs(sums[i], out);
        return;
    }
    fprintf(out, "%llu", (unsigned long long)n);
}

/* Prints, as a comment, the line of a page that would take a tensor which no line takes yet:
 *
 *     #   linear ? <- .mlp.gate_up_proj [ffn_dim + ffn_dim, dim]
 *
 * where '?' is for the name that this program gives it. The forms norm and linear add ".weight". */
static void print_tensor_draft(FILE *out, const FamilyMatch *match, const TensorKind *kind) {
    const RawTensor *t = kind->first;
    char name[MATCH_NAME];
    snprintf(name, sizeof name, "%s", short_name(match, kind->name));
    size_t length = strlen(name), end = strlen(".weight");
    bool is_weight = length > end && strcmp(name + length - end, ".weight") == 0;
    uint32_t n_stacked = t->n_dims > 2 ? t->n_dims - 2 : 0; /* leading dimensions of a stack */
    bool is_norm = is_weight && t->n_dims == 1;
    if (is_weight && t->n_dims <= 2) name[length - end] = '\0';
    const char *form = is_norm                       ? "norm"
                       : is_weight && t->n_dims <= 2 ? "linear"
                       : t->n_dims >= 2              ? "matrix"
                                                     : "vector";
    fprintf(out, "#   %-6s ? <- ", form);
    print_safely(out, name, sizeof name);
    fputs(" [", out);
    for (uint32_t i = n_stacked; i < t->n_dims; i++) {
        if (i > n_stacked) fputs(", ", out);
        print_size(out, match, t->dims[i]);
    }
    fputs("]", out);
    if (n_stacked > 0) fputs("   a stack of ", out);
    for (uint32_t i = 0; i < n_stacked; i++)
        fprintf(out, "%s%llu", i ? " x " : "", (unsigned long long)t->dims[i]);
    fputs("\n", out);
}

/* ---- The page ---- */

/* Lists, as comments of a page, the keys of config.json that no line of the page reads. */
static void print_keys(FILE *out, const FamilyMatch *match) {
    const char *key;
    json_t *value;
    bool any = false;
    json_object_foreach(match->config, key, value) {
        if (family_match_reads(match, key)) continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII |
                                           JSON_REAL_PRECISION(6));
        if (!any)
            fputs("\n# Keys of config.json that no line reads. Does the model's class use them?\n",
                  out);
        any = true;
        fputs("#   key    ? <- ", out);
        print_safely(out, key, 64);
        fputs("   here ", out);
        print_safely(out, text ? text : "?", 60);
        fputs("\n", out);
        free(text);
    }
    if (match->n_more_keys)
        fprintf(out, "# config.json has %zu keys more, which were not looked at.\n",
                match->n_more_keys);
}

/* Lists, as comments of a page, the model's tensors that no line takes, and the tensors that the
 * page names but the model does not have. */
static void print_tensors(FILE *out, const FamilyMatch *match) {
    char name[MATCH_NAME];
    bool any = false;
    for (size_t i = 0; i < match->n_kinds; i++) {
        if (match->kinds[i].taken) continue;
        if (!any)
            fputs("\n# Tensors that no line takes. Sizes are those of the same number, so look "
                  "which is meant:\n",
                  out);
        any = true;
        print_tensor_draft(out, match, &match->kinds[i]);
    }
    const TensorRule *rule;
    for (size_t i = 0; (rule = family_match_missing(match, i, name)); i++) {
        if (i == 0)
            fprintf(out,
                    "\n# Tensors of %s that the model does not have: without NAME, or a line with "
                    "the model's name:\n",
                    match->family->model_type);
        fprintf(out, "#   %s <- ", rule->to);
        print_safely(out, short_name(match, name), sizeof name);
        fputs("\n", out);
    }
}

/* Whether the model_type can be a page's name. */
static bool is_name(const char *type) {
    size_t n = strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789_-.");
    return n > 0 && n < 32 && type[n] == '\0';
}

Status family_draft_print(FILE *out, const FamilyMatch *match, Error *error) {
    const Family *family = match->family;
    if (!is_name(match->type))
        return error_set(error, "config.json: no page can be called like the model_type '%.60s'",
                         match->type);
    if (!family)
        return error_set(error,
                         "model_type '%s': no family takes any of its tensors: begin with "
                         "--families llama and docs/family-pages.md",
                         match->type);
    size_t n_taken = 0;
    for (size_t i = 0; i < match->n_kinds; i++) n_taken += match->kinds[i].taken;
    fprintf(out,
            "# A draft. Of all families %s takes the most of the model's tensors (%zu of %zu "
            "names).\n# docs/family-pages.md explains each word; tests/compare_family.py finds "
            "what is wrong.\n",
            family->model_type, n_taken, match->n_kinds);
    if (family->finish || family->more)
        fprintf(out, "# %s has functions (finish, more), which this page has too.\n",
                family->model_type);
    if (!match->is_configured) {
        fputs("# It does not accept this config.json: ", out);
        for (const char *p = match->refusal.text; *p; p++)
            putc(*p >= ' ' && *p < 127 ? *p : '?', out);
        fputs("\n", out);
    }
    fprintf(out, "family %s like %s\n", match->type, family->model_type);
    if (!match->has_layers) {
        fputs("\nlayers ", out);
        print_safely(out, match->layers, sizeof match->layers);
        fputs("\n", out);
    }
    print_keys(out, match);
    print_tensors(out, match);
    return STATUS_OK;
}
