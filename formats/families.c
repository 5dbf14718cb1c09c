#include "formats/families.h"

#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/multimodal.h"

/* The i-th family in the order of all tables; NULL past the end. */
static const Family *family_number(size_t i) {
    for (const Family *const *table = all_families; *table; table++)
        for (const Family *family = *table; family->model_type; family++)
            if (i-- == 0) return family;
    return NULL;
}

const Family *family_find(const char *model_type) {
    const Family *family;
    for (size_t i = 0; (family = family_number(i)); i++)
        if (family->keys && strcmp(family->model_type, model_type) == 0) return family;
    return NULL;
}

/* ---- Architectures of GGUF files ---- */

/* What is looked for, and what the walk over all architectures has found. */
typedef struct Search {
    const char *architecture;
    const char *model_type; /* NULL: any */
    const GgufModel *model; /* needs_tensor is looked up in it; NULL: entries are not tested */
    bool with_needs;        /* entries with needs_tensor are meant, else those without */
    const Family *family;
} Search;

static const GgufFamily *search(Search *s) {
    for (size_t i = 0; (s->family = family_number(i)); i++) {
        if (s->model_type && strcmp(s->family->model_type, s->model_type) != 0) continue;
        for (const GgufFamily *f = s->family->gguf; f && f->architecture; f++) {
            if (strcmp(f->architecture, s->architecture) != 0) continue;
            if (s->model && s->with_needs != (f->needs_tensor != NULL)) continue;
            if (s->model && f->needs_tensor && !gguf_model_has(s->model, f->needs_tensor)) continue;
            if (!s->model && !s->model_type && f->needs_tensor) continue;
            return f;
        }
    }
    return NULL;
}

const GgufFamily *gguf_family_find(const GgufModel *model, const char **model_type) {
    const GgufFamily *found = NULL;
    for (int i = 0; i < 2 && !found; i++) {
        Search s = {.architecture = model->architecture, .model = model, .with_needs = i == 0};
        found = search(&s);
        if (found) *model_type = s.family->model_type;
    }
    return found;
}

const GgufFamily *gguf_family_of(const char *architecture, const char *model_type) {
    Search own = {.architecture = architecture, .model_type = model_type};
    Search any = {.architecture = architecture};
    const GgufFamily *found = search(&own);
    return found ? found : search(&any);
}

void gguf_family_names(char *text, size_t size) {
    const Family *family;
    size_t length = 0;
    if (size) text[0] = '\0';
    for (size_t i = 0; (family = family_number(i)) && length < size; i++)
        for (const GgufFamily *f = family->gguf; f && f->architecture && length < size; f++)
            if (!f->needs_tensor)
                length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                           f->architecture);
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
    const Family *family;
    for (size_t i = 0; (family = family_number(i)); i++) {
        if (!family->keys || likeness(model_type, family->model_type) <= most) continue;
        best = family->model_type;
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
} parts[] = {
    {"kv_lora_rank", "latent attention"},
    {"state_size", "layers with a recurrent state"},
    {"mamba_d_state", "layers with a recurrent state"},
    {"ssm_state_size", "layers with a recurrent state"},
    {"linear_num_key_heads", "layers with a recurrent state"},
    {"conv_L_cache", "short convolutions"},
    {"compress_rates", "attention to compressed positions"},
    {"compress_ratios", "attention to compressed positions"},
    {"num_hash_layers", "experts chosen by the token"},
    {"o_groups", "outputs projected by groups of heads"},
    {"hc_mult", "several residual streams"},
    {"n_routed_experts", "routed experts"},
    {"num_local_experts", "routed experts"},
    {"num_experts", "routed experts"},
    {"text_config", "a text model within another"},
};

void family_explain(const char *model_type, const json_t *config, char *text, size_t size) {
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
    const char *last = "", *near = nearest(model_type);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && length < sizeof missing; i++) {
        if (!json_value(config, parts[i].key) || strcmp(last, parts[i].part) == 0) continue;
        last = parts[i].part;
        length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s",
                                   length ? ", " : "", last);
    }
    snprintf(text, size,
             "is not known to this program: %s%s%swhat is missing is a description of its "
             "layers%s%s%s; docs/families.md lists what runs",
             near ? "the nearest that runs is '" : "", near ? near : "", near ? "', and " : "",
             length ? " (its config.json has " : "", missing, length ? ")" : "");
}
