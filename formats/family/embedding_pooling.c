#include "formats/family/embedding_pooling.h"

#include <stdio.h>
#include <string.h>

#include "json/json_object.h"
#include "json/json_reader.h"

static const char modules_file[] = "modules.json", text_file[] = "sentence_bert_config.json",
                  prompts_file[] = "config_sentence_transformers.json",
                  pooling_file[] = POOLING_DIRECTORY "/config.json";

bool pooling_wants(const char *name) {
    return strcmp(name, modules_file) == 0 || strcmp(name, text_file) == 0 ||
           strcmp(name, prompts_file) == 0;
}

static void add_text(Source *source, const char *key, const char *text) {
    metadata_add_text(&source->metadata, key, text, strlen(text));
}

void pooling_set_only(Source *source) {
    metadata_add_bool(&source->metadata, "embedding.only", true);
}

Status pooling_set(Source *source, const char *name, Error *error) {
    if (metadata_has(&source->metadata, "embedding.pooling"))
        return error_set(error,
                         "%s: says itself how its embeddings are pooled: leave --pooling out",
                         source->path);
    add_text(source, "embedding.pooling", name);
    return STATUS_OK;
}

/* Parses the file, which is a list or an object, where the directory has it; else *out is NULL. */
static Status pooling_parse(const Source *source, const char *name, json_t **out, Error *error) {
    const InputFile *file = NULL;
    json_error_t where;
    *out = NULL;
    for (size_t i = 0; i < source->n_files && !file; i++) {
        const char *path = source->files[i].path;
        size_t n = strlen(path), m = strlen(name);
        if (n > m && path[n - m - 1] == '/' && strcmp(path + n - m, name) == 0)
            file = &source->files[i];
    }
    if (!file) return STATUS_OK;
    *out = json_reader_load((const char *)file->map, (size_t)file->bytes, JSON_REJECT_DUPLICATES,
                            &where);
    if (*out) return STATUS_OK;
    return error_set(error, "%s: line %d: %s", file->path, where.line, where.text);
}

/* Refuses a key of the object that is not in the list. */
static Status pooling_check_keys(const Source *source, const char *file, const json_t *json,
                                 const char *const *known, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (known[i] || json_is_null(value)) continue;
        return error_set(error, "%s: %s: '%.60s' is not known to this program", source->path, file,
                         key);
    }
    return STATUS_OK;
}

/* ---- modules.json ---- */

typedef struct Modules {
    bool pools, normalizes;
} Modules;

/* The name of a class without its modules: "Pooling" of "sentence_transformers.models.Pooling". */
static const char *class_of(const json_t *module) {
    const char *type = json_text(module, "type"), *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type;
}

/* Reads an entry of sentence-transformers' modules.json. Normalize must come last. */
static Status read_module(const Source *source, const json_t *module, Modules *modules,
                          Error *error) {
    static const char *const keys[] = {"idx", "name", "path", "type", NULL};
    const char *name = class_of(module), *path = json_text(module, "path");
    if (pooling_check_keys(source, modules_file, module, keys, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!name) return error_set(error, "%s: %s: a module has no type", source->path, modules_file);
    bool pools = strcmp(name, "Pooling") == 0;
    /* Dropout does nothing here; LogitScore reads the logits of two tokens (/v1/rerank). */
    bool is_known = pools || strcmp(name, "Transformer") == 0 || strcmp(name, "Normalize") == 0 ||
                    strcmp(name, "Dropout") == 0 || strcmp(name, "LogitScore") == 0;
    if (!is_known)
        return error_set(error, "%s: %s: the module '%.60s' is not known to this program",
                         source->path, modules_file, name);
    if (pools && (!path || strcmp(path, POOLING_DIRECTORY) != 0))
        return error_set(error, "%s: %s: its pooling lies in '%.60s', not in " POOLING_DIRECTORY,
                         source->path, modules_file, path ? path : "");
    if (modules->normalizes && (pools || strcmp(name, "Transformer") == 0))
        return error_set(error, "%s: %s: '%.60s' comes after Normalize", source->path, modules_file,
                         name);
    modules->pools = modules->pools || pools;
    modules->normalizes = modules->normalizes || strcmp(name, "Normalize") == 0;
    return STATUS_OK;
}

static Status read_modules(const Source *source, Modules *modules, Error *error) {
    json_t *list, *module;
    size_t i;
    if (pooling_parse(source, modules_file, &list, error) != STATUS_OK) return STATUS_FAILED;
    Status status = STATUS_OK;
    if (list && !json_is_array(list))
        status = error_set(error, "%s: %s is not a list", source->path, modules_file);
    json_array_foreach(list, i, module) {
        if (status == STATUS_OK) status = read_module(source, module, modules, error);
    }
    json_decref(list);
    return status;
}

/* ---- The pooling ---- */

/* Names of a way to pool: the older switch, the newer value, and in metadata. */
static const struct {
    const char *flag, *mode, *name;
} ways[] = {
    {"pooling_mode_lasttoken", "lasttoken", "last"},
    {"pooling_mode_mean_tokens", "mean", "mean"},
    {"pooling_mode_cls_token", "cls", "cls"},
    {"pooling_mode_max_tokens", "max", "max"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", "mean_sqrt_len"},
    {"pooling_mode_weightedmean_tokens", "weightedmean", "weighted_mean"},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* The way that the file names; NULL with an Error when it names none that is known, or several,
 * whose results sentence-transformers puts one after another. */
static const char *pooling_of(const Source *source, const json_t *json, Error *error) {
    const json_t *value = json_value(json, "pooling_mode");
    if (json_array_size(value) == 1) value = json_array_get(value, 0);
    const char *mode = json_string_value(value), *found = NULL;
    size_t n = 0;
    for (size_t i = 0; i < WAYS; i++) {
        bool is_this =
            value ? mode && strcmp(ways[i].mode, mode) == 0 : json_flag(json, ways[i].flag, false);
        if (is_this) found = ways[i].name;
        n += is_this;
    }
    if (n == 1) return found;
    if (n == 0 && !value) return "mean";
    if (n > 1 || json_is_array(value))
        error_set(error, "%s: %s: more than one way to pool is not supported", source->path,
                  pooling_file);
    else
        error_set(error, "%s: %s: pooling_mode '%.40s' is not known to this program", source->path,
                  pooling_file, mode ? mode : "");
    return NULL;
}

static Status read_pooling(Source *source, const json_t *json, Error *error) {
    const char *known[WAYS + 5] = {"pooling_mode", "include_prompt", "embedding_dimension",
                                   "word_embedding_dimension"};
    for (size_t i = 0; i < WAYS; i++) known[4 + i] = ways[i].flag;
    if (pooling_check_keys(source, pooling_file, json, known, error) != STATUS_OK)
        return STATUS_FAILED;
    double dim = json_number(json, "embedding_dimension",
                             json_number(json, "word_embedding_dimension", source->config.dim));
    if (dim != source->config.dim)
        return error_set(error, "%s: %s: states of %g elements, but the model's have %u",
                         source->path, pooling_file, dim, source->config.dim);
    const char *pooling = pooling_of(source, json, error);
    if (!pooling) return STATUS_FAILED;
    add_text(source, "embedding.pooling", pooling);
    metadata_add_bool(&source->metadata, "embedding.include_prompt",
                      json_flag(json, "include_prompt", true));
    return STATUS_OK;
}

/* ---- What is done to a text ---- */

/* Copies the prompts of sentence-transformers into the metadata, as "embedding.prompt.NAME", and
 * the name of the default one. Refuses keys that it does not know. */
static Status read_prompts(Source *source, const json_t *json, Error *error) {
    static const char *const known[] = {"prompts",     "default_prompt_name", "similarity_fn_name",
                                        "__version__", "model_type",          NULL};
    if (pooling_check_keys(source, prompts_file, json, known, error) != STATUS_OK)
        return STATUS_FAILED;
    const char *name, *normal = json_text(json, "default_prompt_name");
    json_t *prompt, *prompts = json_object_get(json, "prompts");
    json_object_foreach(prompts, name, prompt) {
        char key[128];
        int n = snprintf(key, sizeof key, "embedding.prompt.%s", name);
        if (json_is_null(prompt)) continue;
        if (!json_is_string(prompt) || n >= (int)sizeof key)
            return error_set(error, "%s: %s: the prompt '%.60s' is not a text, or its name is long",
                             source->path, prompts_file, name);
        metadata_add_text(&source->metadata, key, json_string_value(prompt),
                          json_string_length(prompt));
    }
    if (!normal) return STATUS_OK;
    if (!json_is_string(json_object_get(prompts, normal)))
        return error_set(error, "%s: %s: default_prompt_name '%.60s' is none of the prompts",
                         source->path, prompts_file, normal);
    add_text(source, "embedding.default_prompt", normal);
    return STATUS_OK;
}

/* Refuses what sentence_bert_config.json may say that changes a text or the model. */
static Status check_text(const Source *source, const json_t *json, Error *error) {
    static const char *const known[] = {"max_seq_length",
                                        "do_lower_case",
                                        "transformer_task",
                                        "modality_config",
                                        "unpad_inputs",
                                        "module_output_name",
                                        "model_args",
                                        "model_kwargs",
                                        "tokenizer_args",
                                        "processor_kwargs",
                                        "config_args",
                                        "config_kwargs",
                                        NULL};
    static const char *const harmless[] = {
        "attn_implementation", "torch_dtype", "dtype", "trust_remote_code",
        "padding_side",        "use_cache",   NULL};
    if (pooling_check_keys(source, text_file, json, known, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 6; known[i]; i++)
        if (pooling_check_keys(source, text_file, json_object_get(json, known[i]), harmless,
                               error) != STATUS_OK)
            return STATUS_FAILED;
    const char *task = json_text(json, "transformer_task");
    const json_t *forms = json_value(json, "modality_config");
    if (task && strcmp(task, "feature-extraction") != 0)
        return error_set(error, "%s: %s: transformer_task '%.40s' is not supported", source->path,
                         text_file, task);
    if (forms && !json_object_get(forms, "text"))
        return error_set(error, "%s: %s: modality_config has no text", source->path, text_file);
    if (!json_flag(json, "do_lower_case", false)) return STATUS_OK;
    return error_set(error, "%s: %s: do_lower_case is not supported", source->path, text_file);
}

/* Records how long a text may be: as sentence-transformers has it, else as the tokenizer has. */
static Status read_limit(Source *source, const json_t *json, Error *error) {
    const InputFile *file = source_file(source, "tokenizer_config.json");
    json_t *tokenizer = NULL;
    if (check_text(source, json, error) != STATUS_OK) return STATUS_FAILED;
    /* json_parse: without a limit, model_max_length has more digits than jansson reads. */
    if (file &&
        json_parse(&tokenizer, file->path, file->map, (size_t)file->bytes, error) != STATUS_OK)
        return STATUS_FAILED;
    double most = json_number(json, "max_seq_length", 0);
    if (most == 0) most = json_number(tokenizer, "model_max_length", 0);
    json_decref(tokenizer);
    if (most >= 1 && most <= source->config.context)
        metadata_add_uint(&source->metadata, "embedding.max_tokens", &(uint64_t){(uint64_t)most},
                          1);
    return STATUS_OK;
}

Status pooling_read(Source *source, Error *error) {
    Modules modules = {0};
    json_t *pooling = NULL, *prompts = NULL, *text = NULL;
    Status status = read_modules(source, &modules, error);
    if (status != STATUS_OK || !modules.pools) return status;
    status = pooling_parse(source, pooling_file, &pooling, error);
    if (status == STATUS_OK && !json_is_object(pooling))
        status = error_set(error, "%s: %s names it, but %s is missing", source->path, modules_file,
                           pooling_file);
    if (status == STATUS_OK) status = pooling_parse(source, prompts_file, &prompts, error);
    if (status == STATUS_OK) status = pooling_parse(source, text_file, &text, error);
    if (status == STATUS_OK) status = read_pooling(source, pooling, error);
    if (status == STATUS_OK) status = read_prompts(source, prompts, error);
    if (status == STATUS_OK) status = read_limit(source, text, error);
    metadata_add_bool(&source->metadata, "embedding.normalize", modules.normalizes);
    json_decref(pooling);
    json_decref(prompts);
    json_decref(text);
    return status;
}

/* ---- GGUF ---- */

Status pooling_read_gguf(Source *source, uint32_t type, bool has_head, Error *error) {
    static const char *const names[] = {NULL, "mean", "cls", "last"};
    if (type == 0) return STATUS_OK;
    if (type == 4)
        return error_set(error,
                         "%s: pooling_type 4: a head that ranks is not supported; the Hugging Face "
                         "form of Qwen3-Reranker is (/v1/rerank in a batch)",
                         source->path);
    if (type >= sizeof names / sizeof *names)
        return error_set(error, "%s: pooling_type %u is not known to this program", source->path,
                         type);
    add_text(source, "embedding.pooling", names[type]);
    metadata_add_bool(&source->metadata, "embedding.normalize", true); /* as llama.cpp does */
    if (!has_head) pooling_set_only(source);
    return STATUS_OK;
}
