#include "families/reading/huggingface.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/numbers.h"
#include "core/config_fields.h"
#include "formats/family/alibi.h"
#include "formats/family/families.h"
#include "formats/family/family_draft.h"
#include "formats/family/family_match.h"
#include "formats/family/given_family.h"
#include "formats/family/families_print.h"
#include "formats/family/family_configure.h"
#include "formats/stored/int4_join.h"
#include "formats/family/multimodal.h"
#include "formats/stored/mxfp4_join.h"
#include "formats/family/own_model.h"
#include "formats/tokenizers/own_vocabulary.h"
#include "formats/family/embedding_pooling.h"
#include "formats/family/recommended.h"
#include "formats/stored/quantization.h"
#include "formats/family/prediction.h"
#include "formats/family/rope.h"
#include "formats/containers/safetensors.h"
#include "formats/stored/scale_join.h"
#include "formats/stored/ternary_join.h"
#include "formats/tokenizers/tokenizer_file.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "json/json_object.h"
#include "kernels/panel_pack.h"
#include "tokenizer.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_END ".safetensors.index.json"
#define INDEX_FILE "model" INDEX_END

/* ---- Opening ---- */

/* Whether a model may need the file of this name. */
static bool is_wanted(const char *name) {
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "vocab.json",
        "tokenizer_config.json",
        "merges.txt",
        "added_tokens.json",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "special_tokens_map.json",
        "tekken.json",
        "vocabulary.txt",
        "input.txt",
        GIVEN_FAMILY_FILE,
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return pooling_wants(name) || ends_with(name, ".safetensors") || ends_with(name, INDEX_END);
}

/* The name as a constant when the file holds weights in a form that is not read; else NULL. */
static const char *other_weights(const char *name) {
    static const char *const names[] = {"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return names[i];
    return strncmp(name, "pytorch_model-", 14) == 0 ? "pytorch_model-*.bin" : NULL;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const InputFile *)a)->path, ((const InputFile *)b)->path);
}

/* Refuses a link that leads out of the model's directory, so that no file of the user's ends up in
 * a model.bin. Hugging Face's cache links from NAME/snapshots/REVISION to NAME/blobs; there the
 * tree is NAME. */
static Status check_link(const char *directory, const char *path, Error *error) {
    char *root = realpath(directory, NULL), *target = realpath(path, NULL);
    Status status = STATUS_OK;
    if (!root || !target) status = error_set(error, "%s: %s", path, strerror(errno));
    if (status == STATUS_OK) {
        char *name = strrchr(root, '/');
        size_t n = name ? (size_t)(name - root) : 0, m = strlen("/snapshots");
        if (n > m && memcmp(root + n - m, "/snapshots", m) == 0) root[n - m] = '\0';
        n = strlen(root);
        bool inside =
            memcmp(root, "/", 2) == 0 || (strncmp(target, root, n) == 0 && target[n] == '/');
        if (!inside)
            status =
                error_set(error, "%s: a link to %s, outside the model's directory", path, target);
    }
    free(root);
    free(target);
    return status;
}

static Status open_file(Source *source, const char *name, Error *error) {
    char path[4096 + 256];
    size_t n = strlen(source->path);
    const char *slash = n && source->path[n - 1] == '/' ? "" : "/";
    int length = snprintf(path, sizeof path, "%s%s%s", source->path, slash, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(error, "%s: name too long", source->path);
    Status status = check_link(source->path, path, error);
    return status == STATUS_OK ? source_add_file(source, path, error) : status;
}

/* The one file in a directory below. It comes last, so that source_file finds the model's own
 * config.json. */
static Status open_pooling(Source *source, Error *error) {
    char path[4096 + 64];
    snprintf(path, sizeof path, "%.4095s/" POOLING_DIRECTORY "/config.json", source->path);
    if (access(path, F_OK) != 0) return STATUS_OK;
    return open_file(source, POOLING_DIRECTORY "/config.json", error);
}

Status huggingface_open(Source *source, Error *error) {
    DIR *directory = opendir(source->path);
    if (!directory) return error_set(error, "%s: %s", source->path, strerror(errno));
    Status status = STATUS_OK;
    const struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(directory))) {
        const char *other = is_wanted(entry->d_name) ? NULL : other_weights(entry->d_name);
        if (other) source->other_weights = other;
        if (is_wanted(entry->d_name)) status = open_file(source, entry->d_name, error);
    }
    closedir(directory);
    /* readdir's order is arbitrary. */
    if (source->n_files) qsort(source->files, source->n_files, sizeof *source->files, by_path);
    return status == STATUS_OK ? open_pooling(source, error) : status;
}

/* ---- Safetensors ---- */

typedef struct Directory {
    Source *source;
    json_t *config, *generation, *tokenizer_config;
    json_t *named_weights; /* transformers_weights: the file to read, or its index; or NULL */
    OwnModel own;
    bool is_part;        /* the text model of a model of images or sound */
    char whole_type[64]; /* the model_type of the whole, also where is_part */
    Quantization quantization;
    RawTable table;
    Error *error;
} Directory;

static Status parse_optional(const Directory *d, const char *name, json_t **out) {
    const InputFile *file = source_file(d->source, name);
    if (!file) return STATUS_OK;
    return json_parse(out, file->path, file->map, (size_t)file->bytes, d->error);
}

static Status read_shard(Directory *d, const char *name, const char *said_by) {
    const InputFile *file = source_file(d->source, name);
    if (!file)
        return error_set(d->error, "%s: %.100s is missing%s", d->source->path, name, said_by);
    return safetensors_read(file, (size_t)(file - d->source->files), &d->table, d->error);
}

/* Reads the header of each safetensors file that the index, the file `of`, names, each file once.
 */
static Status read_shards(Directory *d, const json_t *index, const char *of) {
    const char *name, *shard;
    json_t *value, *seen = json_object();
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || !seen) {
        json_decref(seen);
        return error_set(d->error, "%s: %.100s has no weight_map", d->source->path, of);
    }
    Status status = STATUS_OK;
    json_object_foreach(map, name, value) {
        shard = json_string_value(value);
        if (!shard || strlen(shard) != json_string_length(value)) {
            status =
                error_set(d->error, "%s: %.100s: '%.100s' has no file", d->source->path, of, name);
        } else if (!json_object_get(seen, shard)) {
            json_object_set_new(seen, shard, json_true());
            status = read_shard(d, shard, ", but the index names it");
        }
        if (status != STATUS_OK) break;
    }
    json_decref(seen);
    return status;
}

/* Reads the shards of the index in the file `name`. */
static Status read_index(Directory *d, const char *name, const char *said_by) {
    json_t *index = NULL;
    if (!source_file(d->source, name))
        return error_set(d->error, "%s: %.100s is missing%s", d->source->path, name, said_by);
    Status status = parse_optional(d, name, &index);
    if (status == STATUS_OK) status = read_shards(d, index, name);
    json_decref(index);
    return status;
}

/* Whether the index beside model.safetensors names other files than this one. */
static bool has_other_shards(const Directory *d) {
    const InputFile *file = source_file(d->source, INDEX_FILE);
    json_t *index = NULL, *value;
    const char *name;
    Error ignored;
    bool found = false;
    if (!file) return false;
    if (json_parse(&index, file->path, file->map, (size_t)file->bytes, &ignored) != STATUS_OK)
        return true;
    json_object_foreach(json_object_get(index, "weight_map"), name, value) {
        const char *shard = json_string_value(value);
        found = found || !shard || strcmp(shard, SINGLE_FILE) != 0;
    }
    json_decref(index);
    return found;
}

/* Reads what config.json names as the file of the weights. */
static Status read_named(Directory *d, const char *name) {
    static const char said_by[] = ", but transformers_weights in config.json names it";
    if (ends_with(name, INDEX_END)) return read_index(d, name, said_by);
    if (ends_with(name, ".safetensors")) return read_shard(d, name, said_by);
    return error_set(d->error,
                     "%s: config.json: transformers_weights is '%.100s', which is neither a "
                     "safetensors file nor the index of such files",
                     d->source->path, name);
}

/* Sets the error of a directory without safetensors. */
static Status no_weights(const Directory *d) {
    if (!d->source->other_weights)
        return error_set(d->error, "%s: " SINGLE_FILE " is missing", d->source->path);
    return error_set(d->error,
                     "%s: its weights are in %s, which can run code or is not read; in Python, "
                     "model.save_pretrained(\"DIR\") writes safetensors: then give DIR",
                     d->source->path, d->source->other_weights);
}

/* Joins weights with scales that are tensors of their own. */
static Status join_scales(Directory *d) {
    bool ignored;
    if (d->quantization.kind == QUANTIZATION_TERNARY)
        return ternary_join(d->source, &d->table, d->quantization.divides, d->error);
    if (d->quantization.kind == QUANTIZATION_PACKED) return int4_join(&d->table, d->error);
    if (d->quantization.kind != QUANTIZATION_SCALED) return mxfp4_join(&d->table, d->error);
    if (scale_join(&d->table, &d->quantization, &ignored, d->error) != STATUS_OK)
        return STATUS_FAILED;
    if (ignored) source_add_note(d->source, scale_join_note);
    return STATUS_OK;
}

/* Gives the tensors of a model of images the names that its released files have. */
static Status rename_saved(Directory *d) {
    char name[256];
    for (size_t i = 0; d->is_part && i < d->table.n; i++) {
        RawTensor *t = &d->table.items[i];
        if (!multimodal_released_name(d->whole_type, t->name, name, sizeof name)) continue;
        char *copy = strdup(name);
        if (!copy) return error_set(d->error, "%s: no memory", d->source->path);
        free(t->name);
        t->name = copy;
    }
    return STATUS_OK;
}

/* Reads the tensor lists of the safetensors, in the order in which transformers looks for files
 * (_get_resolved_checkpoint_files in its modeling_utils.py): of what config.json names, of
 * model.safetensors, of the index's shards; or else of the only file. A model that was saved again
 * with larger shards has model.safetensors beside an index of before. */
static Status read_weights(Directory *d) {
    Status status;
    if (json_is_string(d->named_weights)) {
        status = read_named(d, json_string_value(d->named_weights));
    } else if (source_file(d->source, SINGLE_FILE)) {
        status = read_shard(d, SINGLE_FILE, "");
        if (status == STATUS_OK && has_other_shards(d))
            source_add_note(d->source, INDEX_FILE " is ignored: " SINGLE_FILE
                                                  " stands beside it, which transformers, too, "
                                                  "reads before the files that an index names");
    } else if (source_file(d->source, INDEX_FILE)) {
        status = read_index(d, INDEX_FILE, "");
    } else {
        const InputFile *only = NULL;
        size_t n = 0;
        for (size_t i = 0; i < d->source->n_files; i++) {
            if (!ends_with(d->source->files[i].path, ".safetensors")) continue;
            only = &d->source->files[i];
            n++;
        }
        if (n == 0) return no_weights(d);
        if (n > 1)
            return error_set(d->error,
                             "%s: several safetensors files, but " INDEX_FILE " is missing",
                             d->source->path);
        status = safetensors_read(only, (size_t)(only - d->source->files), &d->table, d->error);
    }
    if (status != STATUS_OK || rename_saved(d) != STATUS_OK) return STATUS_FAILED;
    if (raw_table_sort(&d->table, d->error) != STATUS_OK || join_scales(d) != STATUS_OK)
        return error_prefix(d->error, "%s", d->source->path);
    return STATUS_OK;
}

/* ---- Tensors ---- */

/* Refuses tensors of layers that no rule took, except tables in old checkpoints that can be
 * computed, and Phi 4's adapters for images and sound. */
static Status check_leftovers(const RuleContext *context, Error *error) {
    static const char *const harmless[] = {".inv_freq",
                                           ".masked_bias",
                                           ".attn.bias",
                                           ".attention.bias",
                                           ".rotary_emb.cos_cached",
                                           ".rotary_emb.sin_cached",
                                           ".lora_A.vision.weight",
                                           ".lora_B.vision.weight",
                                           ".lora_A.speech.weight",
                                           ".lora_B.speech.weight",
                                           ".self_attn.query_decay", /* MiniMax-01 */
                                           ".self_attn.key_decay",
                                           ".self_attn.diagonal_decay",
                                           NULL};
    char layers[64];
    bool replaced = context->prefix && strncmp(context->layers, "model.", 6) == 0;
    const char *rest = context->layers + (replaced ? 6 : 0);
    snprintf(layers, sizeof layers, "%s%.*s", replaced ? context->prefix : "",
             (int)strcspn(rest, "%"), rest);
    return rules_check_leftovers(context, layers, harmless, context->source->config.family, error);
}

/* Whether the directory holds the model without an output head, as those that give embeddings do:
 * the class that saved it is the base, "Qwen3Model", and the head is not tied. */
static bool lacks_head(const Directory *d, const TensorRule *rules) {
    const char *class =
        json_string_value(json_array_get(json_object_get(d->config, "architectures"), 0));
    while (rules->to && strcmp(rules->to, "output") != 0) rules++;
    if (!rules->to || !class || !ends_with(class, "Model")) return false;
    char name[128];
    snprintf(name, sizeof name, "%s%s", rules->from, rules_weight(rules));
    for (size_t i = 0; i < d->table.n; i++)
        if (ends_with(d->table.items[i].name, name)) return false;
    return true;
}

/* Maps the tensors of the safetensors files to model.bin's tensors by the rules of the family, and
 * refuses tensors of layers that no rule takes. */
static Status add_tensors(Directory *d, const Family *family) {
    char biases[FAMILY_BIASES_BYTES];
    family_biases(family, d->config, &d->source->config, biases);
    bool tied = json_switch(d->config, "tie_word_embeddings", family->tied);
    if (family->tied_key) tied = json_switch(d->config, family->tied_key, tied);
    RuleContext context = {.source = d->source,
                           .table = &d->table,
                           .prefix = family_prefix(family, &d->table),
                           .layers = family_layers(family),
                           .tied = tied,
                           .biases = family->any_biases ? NULL : biases};
    if (!context.tied && lacks_head(d, family->tensors)) {
        context.tied = true; /* nothing reads it */
        pooling_set_only(d->source);
    }
    if (prediction_find(&context, family->prediction, d->error) != STATUS_OK ||
        rules_apply(&context, family->tensors, d->error) != STATUS_OK ||
        prediction_add(&context, family->prediction, d->error) != STATUS_OK)
        return STATUS_FAILED;
    if (family->more && family->more(&context, d->config, d->error) != STATUS_OK)
        return STATUS_FAILED;
    if (own_model_is(d->config)) return STATUS_OK; /* it has looked at all tensors itself */
    return check_leftovers(&context, d->error);
}

/* The sinusoids' frequencies: exp(i * -ln(base) / dim) in float32 for even i, or, where the last
 * one is 1 / base, exp(i * -ln(base) / (dim / 2 - 1)) for all i. malloc'ed; NULL: no memory. */
static float *sinusoid_frequencies(const Config *config, bool ends_at_base) {
    float *freqs = malloc((config->dim / 2 + 1) * sizeof *freqs);
    double width = ends_at_base ? config->dim / 2 - 1.0 : config->dim;
    float step = (float)(-log((double)config->sinusoid_base) / width);
    for (uint32_t i = 0; freqs && i < config->dim / 2; i++)
        freqs[i] = (float)exp((double)((float)(ends_at_base ? i : 2 * i) * step));
    return freqs;
}

/* Reads the exponents of frequencies that a model has learned. */
static Status read_learned(Directory *d, const Family *family, Rope *rope) {
    const RuleContext context = {
        .source = d->source, .table = &d->table, .prefix = family_prefix(family, &d->table)};
    if (rope->scaling == ROPE_DYNAMIC)
        return error_set(d->error, "config.json: RoPE scaling dynamic with learned frequencies, "
                                   "which this program cannot compute");
    return rules_read(&context, family->rope.learned, 1, (rope->dim + 1) / 2, &rope->exponents,
                      d->error);
}

/* Adds the table `local` for layers with rope_table 1, or the one of the others. */
static Status add_rope_table(Directory *d, const Family *family, bool local) {
    Source *s = d->source;
    Rope rope;
    Status status = rope_from_json(&rope, &family->rope, d->config, local, &s->config, d->error);
    if (status == STATUS_OK && family->rope.learned) status = read_learned(d, family, &rope);
    if (status == STATUS_OK)
        status =
            local ? rope_add_local(s, &rope, d->error) : rope_add(s, "rope.freqs", &rope, d->error);
    rope_free(&rope);
    return status;
}

static Status add_rope(Directory *d, const Family *family) {
    const Config *c = &d->source->config;
    bool second = false;
    for (uint32_t i = 0; i < c->n_layers; i++) second = second || c->rope_table[i] == 1;
    if (add_rope_table(d, family, false) != STATUS_OK) return STATUS_FAILED;
    return second ? add_rope_table(d, family, true) : STATUS_OK;
}

/* Adds the position tables. */
static Status add_tables(Directory *d, const Family *family) {
    Source *source = d->source;
    Config *c = &source->config;
    float *slopes;
    switch (c->position) {
    case POSITION_ROPE:
        return add_rope(d, family) == STATUS_OK ? STATUS_OK
                                                : error_prefix(d->error, "%s", source->path);
    case POSITION_SINUSOIDAL:
        return source_add_values(source, "sinusoid.freqs", 1, c->dim / 2,
                                 sinusoid_frequencies(c, family->sinusoid_ends_at_base), d->error);
    case POSITION_ALIBI:
        slopes = alibi_slopes(c);
        /* Falcon rounds the slopes to bfloat16 and scales them like the scores. */
        for (uint32_t i = 0; slopes && family->alibi_is_scaled && i < c->n_heads; i++)
            slopes[i] = bfloat_to_float(panel_float_to_bfloat(slopes[i])) * c->attention_scale;
        if (family->alibi_is_scaled && c->n_heads > 8)
            source_add_note(
                source, "ALiBi with more than 8 heads: transformers rounds the bias of each "
                        "position to bfloat16, this program does not; the logits differ a little");
        return source_add_values(source, "alibi.slopes", 1, c->n_heads, slopes, d->error);
    default:
        return STATUS_OK;
    }
}

/* ---- Configuration ---- */

/* Adds end-of-text ids: a number or a list of numbers. Ids outside the vocabulary are left out. */
static void read_eos(const json_t *value, Config *c) {
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n && c->n_eos < sizeof c->eos_id / sizeof *c->eos_id; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id >= 0 && id < c->vocab_size) c->eos_id[c->n_eos++] = (uint32_t)id;
    }
}

static void read_special_ids(const Directory *d, const Family *family) {
    Config *c = &d->source->config;
    const json_t *bos = json_object_get(d->config, "bos_token_id");
    json_int_t id = bos ? json_is_integer(bos) ? json_integer_value(bos) : -1 : family->bos_id;
    c->bos_id = id >= 0 && id < c->vocab_size ? (int32_t)id : -1;
    c->n_eos = 0;
    const json_t *eos = json_value(d->generation, "eos_token_id");
    if (!eos) eos = json_object_get(d->config, "eos_token_id");
    const int32_t absent[] = {family->eos_id, family->more_eos_ids[0], family->more_eos_ids[1]};
    if (absent[1] && json_is_null(eos)) eos = NULL;
    if (eos) {
        read_eos(eos, c);
        return;
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (absent[i] >= (i > 0) && (uint32_t)absent[i] < c->vocab_size)
            c->eos_id[c->n_eos++] = (uint32_t)absent[i];
}

/* Refuses a decoder that was made to attend in both directions, by the keys and classes of models
 * of embeddings. */
static Status check_causal(const Directory *d) {
    static const char *const parts[] = {"Bidirectional", "BiModel", "BiForMNTP", "BidirecModel"};
    const char *class =
        json_string_value(json_array_get(json_object_get(d->config, "architectures"), 0));
    for (size_t i = 0; class && i < sizeof parts / sizeof *parts; i++)
        if (strstr(class, parts[i]))
            return error_set(d->error,
                             "%s: config.json: architectures is '%.80s', which attends in both "
                             "directions: not a decoder",
                             d->source->path, class);
    if (json_flag(d->config, "is_causal", true) &&
        !json_flag(d->config, "use_bidirectional_attention", false))
        return STATUS_OK;
    return error_set(d->error,
                     "%s: config.json: it attends in both directions (is_causal is false, or "
                     "use_bidirectional_attention true): not a decoder",
                     d->source->path);
}

/* Refuses a model_type that no family has, and says what the nearest one lacks, which its tensors
 * tell where they can be read. */
static Status refuse_unknown(Directory *d, const char *type) {
    if (family_is_gguf_alone(type))
        return error_set(d->error,
                         "%s: model_type '%.60s' runs from GGUF files alone: llama.cpp's "
                         "convert_hf_to_gguf.py makes one of this directory",
                         d->source->path, type);
    FamilyMatch *match = NULL;
    const char *key, *inner_type;
    const json_t *inner = multimodal_inner(d->config, &key);
    char why[600], lacks[500] = "";
    Error ignored, *error = d->error;
    if (inner && (inner_type = json_text(inner, "model_type")) && family_find(inner_type))
        return error_set(error,
                         "%s: model_type '%.60s' is not known to this program, but its %s is of "
                         "type '%.60s', which runs: try a directory with that object as its "
                         "config.json and these weights",
                         d->source->path, type, key, inner_type);
    d->error = &ignored;
    if (read_weights(d) == STATUS_OK &&
        family_match(inner ? inner : d->config, &d->table, &match, &ignored) == STATUS_OK)
        family_draft_explain(match, lacks, sizeof lacks);
    d->error = error;
    family_explain(type, inner ? inner : d->config,
                   match && match->family ? match->family->model_type : NULL, lacks, why,
                   sizeof why);
    family_match_free(match);
    return error_set(d->error, "%s: model_type '%.60s' %s", d->source->path, type, why);
}

/* Refuses a page that has only lines about GGUF files, or none at all. */
static Status check_page(const Directory *d, const Family *family, const char *file) {
    if (family->keys) return STATUS_OK;
    return error_set(d->error,
                     "%s: %s has no line 'key': it describes no config.json; a page for a "
                     "directory is 'family %s like OTHER', or has keys and tensors",
                     d->source->path, file, family->model_type);
}

/* Finds the family and refuses, by name, what this program cannot compute. */
static Status check_supported(Directory *d, const Family **family) {
    const char *path = d->source->path, *type = json_text(d->config, "model_type");
    if (!type) return error_set(d->error, "%s: config.json: model_type is missing", path);
    if (quantization_read(d->config, &d->quantization, d->error) != STATUS_OK)
        return error_prefix(d->error, "%s", path);
    if (check_causal(d) != STATUS_OK) return STATUS_FAILED;
    if (given_family_read(d->source, family, d->error) != STATUS_OK) return STATUS_FAILED;
    if (*family && strcmp((*family)->model_type, type) == 0)
        return check_page(d, *family, d->source->family_file.path);
    if (*family)
        return error_set(d->error, "%s: config.json: model_type is '%.60s', but %s describes '%s'",
                         path, type, d->source->family_file.path, (*family)->model_type);
    *family = family_find(type);
    return *family ? STATUS_OK : refuse_unknown(d, type);
}

/* An own_transformer is described by the page in its directory, by the user's, or by its weights.
 */
static Status find_own(Directory *d, const Family **family) {
    if (given_family_read(d->source, family, d->error) != STATUS_OK) return STATUS_FAILED;
    if (*family) return check_page(d, *family, d->source->family_file.path);
    if (given_family_of_directory(d->source, family, d->error) != STATUS_OK) return STATUS_FAILED;
    return *family ? check_page(d, *family, GIVEN_FAMILY_FILE) : STATUS_OK;
}

/* Reads the weights of an own_transformer first: they say how large it is. */
static Status describe_own(Directory *d, const Family **family) {
    *family = &d->own.family;
    if (read_weights(d) != STATUS_OK) return STATUS_FAILED;
    return own_model_describe(&d->own, d->config, &d->table, d->error) == STATUS_OK
               ? STATUS_OK
               : error_prefix(d->error, "%s", d->source->path);
}

/* Fills Config: the family's fields, the name, the rotated part of a head, the special ids. */
static Status configure(Directory *d, const Family *family) {
    Config *c = &d->source->config;
    if (family_configure(family, d->config, c, d->error) != STATUS_OK)
        return error_prefix(d->error, "%s", d->source->path);
    const char *path = d->source->path;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/') start--;
    snprintf(c->name, sizeof c->name, "%.*s", (int)(n - start < 120 ? n - start : 120),
             path + start);
    if (c->position == POSITION_ROPE &&
        rope_set_rotary_dim(&family->rope, d->config, c, d->error) != STATUS_OK)
        return error_prefix(d->error, "%s", path);
    read_special_ids(d, family);
    if (config_validate(c, d->error) != STATUS_OK) {
        family_name_keys(family, c, d->error);
        return error_prefix(d->error, "%s: config.json", path);
    }
    return STATUS_OK;
}

/* ---- Tokenizer and template ---- */

static const char *text_of(const InputFile *file) {
    return file ? (const char *)file->map : NULL;
}

static size_t bytes_of(const InputFile *file) {
    return file ? (size_t)file->bytes : 0;
}

/* Imports the tokenizer from the first of these that the directory has: tokenizer.json, vocab.json
 * with merges.txt, tokenizer.model, tekken.json, or the vocabulary of a user's own model. */
static Status read_tokenizer(Directory *d) {
    Source *s = d->source;
    const InputFile *config = source_file(s, "tokenizer_config.json");
    const InputFile *json = source_file(s, "tokenizer.json"), *vocab = source_file(s, "vocab.json");
    const InputFile *merges = source_file(s, "merges.txt"),
                    *spm = source_file(s, "tokenizer.model");
    const InputFile *tekken = source_file(s, "tekken.json"), *other = spm ? spm : tekken;
    const InputFile *added = source_file(s, "added_tokens.json");
    if (s->tokenizer_file.path) return STATUS_OK; /* the user's own is used */
    Status status = STATUS_OK;
    const InputFile *file = json ? json : vocab && merges ? vocab : other;
    if (json) {
        status = tokenizer_import_json(text_of(json), bytes_of(json), text_of(config),
                                       bytes_of(config), &s->tokenizer, d->error);
    } else if (vocab && merges) {
        status = tokenizer_import_slow(text_of(vocab), bytes_of(vocab), text_of(merges),
                                       bytes_of(merges), text_of(added), bytes_of(added),
                                       text_of(config), bytes_of(config), &s->tokenizer, d->error);
    } else if (other) {
        status = tokenizer_from_file(other, NULL, s->config.vocab_size, &s->tokenizer, d->error);
    }
    if (!file && own_model_is(d->config))
        return own_vocabulary_import(d->config, source_file(s, "vocabulary.txt"),
                                     source_file(s, "input.txt"), s->config.vocab_size,
                                     &s->tokenizer, d->error);
    if (status != STATUS_OK && strncmp(d->error->text, file->path, strlen(file->path)) != 0)
        error_prefix(d->error, "%s", file->path);
    return status;
}

/* Takes the chat template from chat_template.jinja, else from the member "chat_template" of
 * tokenizer_config.json, else from that of chat_template.json. The member is a text, or a list of
 * named templates; then "default" is taken. */
static Status read_template(Directory *d) {
    const InputFile *file = source_file(d->source, "chat_template.jinja");
    if (file) return source_set_template(d->source, text_of(file), bytes_of(file), d->error);
    const json_t *value = json_value(d->tokenizer_config, "chat_template");
    json_t *other = NULL;
    if (!value) {
        if (parse_optional(d, "chat_template.json", &other) != STATUS_OK) return STATUS_FAILED;
        value = json_value(other, "chat_template");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_text(item, "name");
        if (name && strcmp(name, "default") == 0) {
            value = json_value(item, "template");
            break;
        }
    }
    Status status = STATUS_OK;
    if (json_is_string(value))
        status = source_set_template(d->source, json_string_value(value), json_string_length(value),
                                     d->error);
    json_decref(other);
    return status;
}

/* Copies the texts of special tokens, which chat templates may name, into the metadata:
 * "template.bos_token" and so on. */
static void add_special_tokens(Directory *d) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "sep_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_value(d->tokenizer_config, names[i]);
        if (json_is_object(value)) value = json_value(value, "content");
        if (!json_is_string(value)) continue;
        char key[64];
        snprintf(key, sizeof key, "template.%s", names[i]);
        metadata_add_text(&d->source->metadata, key, json_string_value(value),
                          json_string_length(value));
    }
}

/* ---- All of it ---- */

/* Reads the JSON files; of a model of images or sound the text model's configuration remains. */
static Status parse_json(Directory *d) {
    const InputFile *file = source_file(d->source, "config.json");
    if (!file) return error_set(d->error, "%s: config.json is missing", d->source->path);
    if (json_parse(&d->config, file->path, file->map, (size_t)file->bytes, d->error) != STATUS_OK ||
        parse_optional(d, "generation_config.json", &d->generation) != STATUS_OK ||
        parse_optional(d, "tokenizer_config.json", &d->tokenizer_config) != STATUS_OK)
        return STATUS_FAILED;
    d->named_weights = json_incref(json_object_get(d->config, "transformers_weights"));
    const char *type = json_text(d->config, "model_type");
    snprintf(d->whole_type, sizeof d->whole_type, "%s", type ? type : "");
    return multimodal_text_config(&d->config, &d->is_part, d->error) == STATUS_OK
               ? STATUS_OK
               : error_prefix(d->error, "%s", d->source->path);
}

static Status parse(Directory *d) {
    const Family *family = NULL;
    if (parse_json(d) != STATUS_OK) return STATUS_FAILED;
    bool is_own = own_model_is(d->config);
    if (is_own && find_own(d, &family) != STATUS_OK) return STATUS_FAILED;
    if (is_own && family) is_own = false;
    if ((family   ? STATUS_OK
         : is_own ? describe_own(d, &family)
                  : check_supported(d, &family)) != STATUS_OK ||
        configure(d, family) != STATUS_OK || (!is_own && read_weights(d) != STATUS_OK) ||
        add_tensors(d, family) != STATUS_OK || add_tables(d, family) != STATUS_OK ||
        read_tokenizer(d) != STATUS_OK || read_template(d) != STATUS_OK ||
        pooling_read(d->source, d->error) != STATUS_OK)
        return STATUS_FAILED;
    recommended_json(d->source, d->generation);
    add_special_tokens(d);
    if (d->is_part || family->reads_text_alone) source_add_note(d->source, source_text_alone);
    return STATUS_OK;
}

static void free_directory(Directory *d) {
    raw_table_free(&d->table);
    own_model_free(&d->own);
    json_decref(d->config);
    json_decref(d->generation);
    json_decref(d->tokenizer_config);
    json_decref(d->named_weights);
}

Status huggingface_parse(Source *source, Error *error) {
    Directory d = {.source = source, .error = error};
    Status status = parse(&d);
    free_directory(&d);
    return status;
}

/* Makes the text model's object the configuration where config.json is of a model with another one
 * around it, and says in a comment of the draft that this is what it describes. */
static Status draft_inner(Directory *d, FILE *out) {
    const char *key;
    const json_t *inner = multimodal_inner(d->config, &key);
    json_t *text = json_copy((json_t *)inner);
    if (!inner) return STATUS_OK;
    if (!text) return error_set(d->error, "%s: no memory", d->source->path);
    if (!json_text(text, "model_type"))
        json_object_set(text, "model_type", json_object_get(d->config, "model_type"));
    const json_t *quantization = json_object_get(d->config, "quantization_config");
    if (quantization && !json_value(text, "quantization_config"))
        json_object_set(text, "quantization_config", (json_t *)quantization);
    fprintf(out,
            "# This is about the %s of config.json: make a directory with that object as its\n"
            "# config.json, and these weights.\n",
            key);
    json_decref(d->config);
    d->config = text;
    return STATUS_OK;
}

static Status draft(Directory *d, FILE *out) {
    FamilyMatch *match = NULL;
    const char *path = d->source->path;
    if (parse_json(d) != STATUS_OK) return STATUS_FAILED;
    const char *type = json_text(d->config, "model_type");
    if (!type) return error_set(d->error, "%s: config.json: model_type is missing", path);
    if (family_find(type)) return families_print(out, type, d->error);
    if (draft_inner(d, out) != STATUS_OK) return STATUS_FAILED;
    type = json_text(d->config, "model_type");
    if (family_find(type)) return families_print(out, type, d->error);
    if (quantization_read(d->config, &d->quantization, d->error) != STATUS_OK)
        return error_prefix(d->error, "%s", path);
    if (read_weights(d) != STATUS_OK) return STATUS_FAILED;
    Status status = family_match(d->config, &d->table, &match, d->error);
    if (status == STATUS_OK) status = family_draft_print(out, match, d->error);
    family_match_free(match);
    return status == STATUS_OK ? STATUS_OK : error_prefix(d->error, "%s", path);
}

Status huggingface_draft(Source *source, FILE *out, Error *error) {
    Directory d = {.source = source, .error = error};
    Status status = draft(&d, out);
    free_directory(&d);
    return status;
}
