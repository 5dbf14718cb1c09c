#include "formats/family/families.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "formats/family/builtin_pages.h"
#include "formats/family/family_lists.h"
#include "formats/family/family_page.h"
#include "formats/family/multimodal.h"
#include "json/json_object.h"

/* ---- Pages ---- */

enum { MOST_PAGES = 512 };

static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static FamilyPage *pages[MOST_PAGES]; /* of families_pages, as far as they have been read */
static size_t n_pages_read;

size_t family_pages_read(void) {
    return n_pages_read;
}

static bool is_family(const BuiltinPage *page) {
    return strcmp(page->name, "groups") != 0;
}

/* The family of the i-th page; NULL: it is none, or cannot be read, which tests show. */
static const Family *page_number(size_t i) {
    Error error;
    if (i >= MOST_PAGES || !is_family(&families_pages[i])) return NULL;
    pthread_mutex_lock(&pages_lock);
    if (!pages[i]) {
        n_pages_read++;
        if (family_page_read_builtin(&pages[i], &families_pages[i], &error) != STATUS_OK)
            fprintf(stderr, "%s\n", error.text);
    }
    const Family *family = pages[i] ? family_page_family(pages[i]) : NULL;
    pthread_mutex_unlock(&pages_lock);
    return family;
}

/* The page of the model_type, whatever it describes; NULL: there is none. */
static const Family *find_page(const char *model_type) {
    for (size_t i = 0; families_pages[i].name; i++)
        if (strcmp(families_pages[i].name, model_type) == 0) return page_number(i);
    return NULL;
}

const Family *family_find(const char *model_type) {
    const Family *page = find_page(model_type);
    return page && page->keys ? page : NULL;
}

bool family_is_gguf_alone(const char *model_type) {
    const Family *page = find_page(model_type);
    return page && !page->keys;
}

/* Whether the page describes config.json, and not GGUF files alone; looks without reading it. */
static bool has_keys(const BuiltinPage *page) {
    const char *key = strstr(page->text, "\nkey "), *gguf = strstr(page->text, "\ngguf ");
    return strstr(page->text, " like ") || (key && (!gguf || key < gguf));
}

const char *family_name(size_t i) {
    for (const BuiltinPage *page = families_pages; page->name; page++)
        if (is_family(page) && has_keys(page) && i-- == 0) return page->name;
    return NULL;
}

const Family *family_at(size_t i) {
    for (size_t k = 0; families_pages[k].name; k++)
        if (is_family(&families_pages[k]) && i-- == 0) return page_number(k);
    return NULL;
}

/* The page's next line "gguf NAME", without reading the page: the name's length and, in *at, its
 * place; 0: there are no more. */
static size_t next_gguf(const char **at) {
    *at = strstr(*at, "\ngguf ");
    if (!*at) return 0;
    *at += strlen("\ngguf ");
    return strcspn(*at, " \n");
}

static bool names_gguf(const BuiltinPage *page, const char *architecture) {
    const char *at = page->text;
    for (size_t n; (n = next_gguf(&at));)
        if (strlen(architecture) == n && memcmp(at, architecture, n) == 0) return true;
    return false;
}

/* ---- Architectures of GGUF files ---- */

/* What is looked for, and what the walk over all architectures has found. */
typedef struct Search {
    const char *architecture;
    const char *model_type; /* NULL: any */
    const GgufModel *model; /* needs_tensor is looked up in it; NULL: entries are not tested */
    bool needing_tensor;    /* entries with needs_tensor are meant, else those without */
    const Family *family;
} Search;

static const GgufFamily *search_family(Search *s, const Family *family) {
    if (!family || (s->model_type && strcmp(family->model_type, s->model_type) != 0)) return NULL;
    for (const GgufFamily *f = family->gguf; f && f->architecture; f++) {
        if (strcmp(f->architecture, s->architecture) != 0) continue;
        if (s->model && s->needing_tensor != (f->needs_tensor != NULL)) continue;
        if (s->model && f->needs_tensor && !gguf_model_has(s->model, f->needs_tensor)) continue;
        if (!s->model && !s->model_type && f->needs_tensor) continue;
        s->family = family;
        return f;
    }
    return NULL;
}

/* Goes through the pages that name the architecture. */
static const GgufFamily *search(Search *s) {
    const GgufFamily *found = NULL;
    for (size_t i = 0; !found && families_pages[i].name; i++)
        if (names_gguf(&families_pages[i], s->architecture))
            found = search_family(s, page_number(i));
    return found;
}

/* Several entries may have one architecture (two layouts of Falcon): one whose needs_tensor the
 * file holds comes before one that needs none. */
const GgufFamily *family_gguf_find(const GgufModel *model, const char **model_type) {
    Search s = {.architecture = model->architecture, .model = model, .needing_tensor = true};
    const GgufFamily *found = search(&s);
    if (!found) {
        s.needing_tensor = false;
        found = search(&s);
    }
    if (found) *model_type = s.family->model_type;
    return found;
}

const GgufFamily *family_gguf_of(const char *architecture, const char *model_type) {
    Search own = {.architecture = architecture, .model_type = model_type};
    Search any = {.architecture = architecture};
    const GgufFamily *found = search(&own);
    return found ? found : search(&any);
}

bool family_gguf_is_known(const char *architecture) {
    for (const BuiltinPage *page = families_pages; page->name; page++)
        if (names_gguf(page, architecture)) return true;
    return false;
}

void family_gguf_names(char *text, size_t size) {
    size_t length = 0, n;
    if (size) text[0] = '\0';
    for (const BuiltinPage *page = families_pages; page->name; page++)
        for (const char *at = page->text; length < size && (n = next_gguf(&at));)
            if (at[n] != ' ')
                length += (size_t)snprintf(text + length, size - length, "%s%.*s",
                                           length ? ", " : "", (int)n, at);
    char *last = length >= size ? strrchr(text, ',') : NULL;
    if (last) snprintf(last, size - (size_t)(last - text), " ...");
}

/* ---- Why a model cannot run ---- */

static const char *const encoders[] = {
    "albert",      "bert",          "camembert",   "canine",  "clip",     "convbert",
    "data2vec",    "deberta",       "distilbert",  "electra", "ernie",    "eurobert",
    "flaubert",    "funnel",        "hubert",      "ibert",   "layoutlm", "longformer",
    "luke",        "mega",          "modernbert",  "mpnet",   "mra",      "nezha",
    "nomic_bert",  "nystromformer", "perceiver",   "rembert", "roberta",  "roformer",
    "siglip",      "splinter",      "squeezebert", "tapas",   "vit",      "wav2vec2",
    "xlm-roberta", "xlm",           "xmod",        "yoso",
};
static const char *const encoder_decoders[] = {
    "bart",
    "bigbird_pegasus",
    "blenderbot",
    "fsmt",
    "led",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "mt5",
    "mvp",
    "nllb",
    "pegasus",
    "plbart",
    "prophetnet",
    "speech_to_text",
    "switch_transformers",
    "t5",
    "udop",
    "umt5",
    "whisper",
};

/* Whether the type is one of the names, or one with a suffix: "deberta-v2". */
static bool is_one_of(const char *type, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(type, names[i], length) == 0 &&
            (type[length] == '\0' || type[length] == '-' || type[length] == '_'))
            return true;
    }
    return false;
}

/* How alike two names are: the bytes that both begin with, less a little for those that follow. */
static double likeness(const char *a, const char *b) {
    size_t same = 0;
    while (a[same] && a[same] == b[same]) same++;
    return same < 3 ? 0.0 : (double)same - 0.01 * (double)(strlen(a + same) + strlen(b + same));
}

/* The model_type that runs whose name is most like this one; NULL: none is. */
static const char *nearest(const char *model_type) {
    const char *best = NULL, *name;
    double most = 0.0;
    for (size_t i = 0; (name = family_name(i)); i++) {
        if (likeness(model_type, name) <= most) continue;
        best = name;
        most = likeness(model_type, best);
    }
    for (size_t i = 0; (name = multimodal_type(i)); i++) {
        if (likeness(model_type, name) <= most) continue;
        best = name;
        most = likeness(model_type, best);
    }
    return best;
}

/* What keys of config.json tell of the layers. */
static const struct {
    const char *key, *part;
    double none; /* a number up to this one says that there is none */
} parts[] = {
    {"kv_lora_rank", "latent attention", 0},
    {"state_size", "layers with a recurrent state", 0},
    {"mamba_d_state", "layers with a recurrent state", 0},
    {"ssm_state_size", "layers with a recurrent state", 0},
    {"linear_num_key_heads", "layers with a recurrent state", 0},
    {"conv_L_cache", "short convolutions", 0},
    {"compress_rates", "attention to compressed positions", 0},
    {"compress_ratios", "attention to compressed positions", 0},
    {"num_hash_layers", "experts chosen by the token", 0},
    {"o_groups", "outputs projected by groups of heads", 0},
    {"hc_mult", "several residual streams", 1},
    {"n_routed_experts", "routed experts", 1},
    {"num_local_experts", "routed experts", 1},
    {"num_experts", "routed experts", 1},
    {"text_config", "a text model within another", 0},
};

/* Whether the key says that the layers have the part: not by a 0, false or an empty list. */
static bool has_part(const json_t *config, size_t i) {
    const json_t *value = json_value(config, parts[i].key);
    if (json_is_number(value)) return json_number_value(value) > parts[i].none;
    if (json_is_array(value)) return json_array_size(value) > 0;
    return value && !json_is_false(value);
}

void family_explain(const char *model_type, const json_t *config, const char *near,
                    const char *lacks, char *text, size_t size) {
    enum { ENCODERS = sizeof encoders / sizeof *encoders };
    enum { BOTH = sizeof encoder_decoders / sizeof *encoder_decoders };
    if (is_one_of(model_type, encoders, ENCODERS)) {
        snprintf(text, size, "is an encoder; this runs decoders only");
        return;
    }
    if (is_one_of(model_type, encoder_decoders, BOTH) ||
        json_flag(config, "is_encoder_decoder", false)) {
        snprintf(text, size, "has an encoder; this runs decoders only");
        return;
    }
    char missing[200] = "";
    size_t length = 0;
    const char *last = "";
    if (!near) near = nearest(model_type);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && length < sizeof missing; i++) {
        if (!has_part(config, i) || strcmp(last, parts[i].part) == 0) continue;
        last = parts[i].part;
        length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s",
                                   length ? ", " : "", last);
    }
    snprintf(text, size,
             "is not known to this program: %s%s%s%s%s%swhat is missing is a description of its "
             "layers%s%s%s: --families DIR prints a draft",
             near ? "the nearest that runs is '" : "", near ? near : "", near ? "'" : "",
             *lacks ? ":" : "", lacks, near ? "; " : "", length ? " (its config.json has " : "",
             missing, length ? ")" : "");
}
