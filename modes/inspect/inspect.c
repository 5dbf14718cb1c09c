#include "modes/inspect/inspect.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "kvcache/kvcache_sizes.h"
#include "core/config_fields.h"
#include "formats/containers/metadata.h"
#include "formats/family/mtp_names.h"
#include "layers/model_watch.h"
#include "session/config_text.h"
#include "modes/open/fit.h"
#include "modes/inspect/info_fields.h"
#include "modes/inspect/info_json.h"
#include "modes/inspect/inspect_options.h"
#include "modes/inspect/modelfile_verify.h"
#include "modes/inspect/render.h"
#include "modes/open/tensor_totals.h"
#include "session/drafting.h"
#include "modes/inspect/work.h"

Status inspect_print(const Session *session, Error *error, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) return error_set(error, "a line of the output cannot be formatted");
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    return output_write(session->output, text, (size_t)length, error);
}

/* Replaces line ends, so that text from the file cannot look like a line of its own. The output
 * escapes the other control characters when it is a terminal. */
static void one_line(char *text) {
    for (; *text; text++)
        if (*text == '\n') *text = ' ';
}

Status inspect_tensors(const Session *session, Error *error) {
    TensorTotals totals;
    char size[32];
    if (!tensor_totals(session->file, &totals)) return error_set(error, "no memory for a list");
    Status status = inspect_print(session, error, "parameters          %.0f\n", totals.all);
    for (uint32_t type = 0; type < TENSOR_TYPES && status == STATUS_OK; type++)
        if (totals.tensors[type] > 0)
            status = inspect_print(session, error, "  %-17s %zu tensors, %.0f parameters, %s\n",
                                   tensor_type_info(type)->name, totals.tensors[type],
                                   totals.parameters[type],
                                   size_text(totals.bytes[type], size, sizeof size));
    return status;
}

/* Prints what the prediction layers add to the file, where it has any. */
static Status print_prediction(Session *session, Error *error) {
    const ModelFile *file = session->file;
    const Config *c = modelfile_config(file);
    const FileTensor *embedding = modelfile_find(file, "token_embedding");
    const FileTensor *output = modelfile_find(file, "output");
    double parameters = 0, bytes = 0;
    char size[32];
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        if (!mtp_is_tensor(c, t->name) || (embedding && t->offset == embedding->offset) ||
            (output && t->offset == output->offset))
            continue;
        parameters += (double)t->rows * (double)t->cols * t->count;
        bytes += (double)t->bytes;
    }
    if (c->mtp.n_layers == 0) return STATUS_OK;
    return inspect_print(
        session, error, "prediction layers   %u (layers.%u on): %.0f of the parameters, %s\n",
        c->mtp.n_layers, c->n_layers, parameters, size_text(bytes, size, sizeof size));
}

static Status print_config(Session *session, Error *error) {
    const Config *config = modelfile_config(session->file);
    const bool all = inspect_options(session->options)->info == INFO_ALL;
    size_t hidden = 0;
    Status status = STATUS_OK;
    for (size_t i = 0; config_field(i) && status == STATUS_OK; i++) {
        char text[512];
        if (!all && !info_fields_is_set(config, config_field(i))) {
            hidden++;
            continue;
        }
        config_text(config, config_field(i), text, sizeof text);
        one_line(text);
        status = inspect_print(session, error, "%-19s %s\n", config_field(i)->name, text);
    }
    if (hidden == 0 || status != STATUS_OK) return status;
    return inspect_print(session, error, "other fields        %zu at their defaults: --info all\n",
                         hidden);
}

static bool is_config_field(const char *name) {
    for (size_t i = 0; config_field(i); i++)
        if (strcmp(config_field(i)->name, name) == 0) return true;
    return false;
}

/* Writes a metadata value into text[size]: a text, or up to eight numbers. */
static void entry_text(const MetaEntry *entry, char *text, size_t size) {
    double number;
    text[0] = '\0';
    if (entry->type == META_TEXT) {
        snprintf(text, size, "%.*s", (int)entry->count, (const char *)entry->values);
        return;
    }
    for (size_t i = 0; i < entry->count && i < 8; i++) {
        size_t length = strlen(text);
        if (!modelfile_entry_float(entry, i, &number)) continue;
        bool counts = number == floor(number) && fabs(number) < 0x1p53; /* parameters of billions */
        snprintf(text + length, size - length, counts ? "%s%.0f" : "%s%.9g", i ? ", " : "", number);
    }
}

/* Prints the metadata that print_config does not: the model's source, generation defaults and the
 * like. */
static Status print_metadata(Session *session, Error *error) {
    const ModelFile *file = session->file;
    Status status = STATUS_OK;
    for (size_t i = 0; modelfile_meta(file, i) && status == STATUS_OK; i++) {
        const MetaEntry entry = *modelfile_meta(file, i);
        char key[80], text[256];
        snprintf(key, sizeof key, "%.*s", (int)entry.key_bytes, entry.key);
        one_line(key);
        if (is_config_field(key) || strcmp(key, METADATA_TYPE_TABLE) == 0) continue;
        entry_text(&entry, text, sizeof text);
        one_line(text);
        status = inspect_print(session, error, "%-19s %s\n", key, text);
    }
    return status;
}

/* Prints the table of types that export --target-size chose (convert/type_table.h), line by line.
 */
static Status print_type_table(Session *session, Error *error) {
    const char *text;
    size_t bytes;
    if (!modelfile_meta_text(session->file, METADATA_TYPE_TABLE, &text, &bytes)) return STATUS_OK;
    Status status = inspect_print(session, error, "types chosen        for each matrix:\n");
    for (size_t at = 0, end; status == STATUS_OK && at < bytes; at = end + 1) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        end = newline ? (size_t)(newline - text) : bytes;
        int length = end - at < 200 ? (int)(end - at) : 200;
        status = inspect_print(session, error, "  %.*s\n", length, text + at);
    }
    return status;
}

/* Prints the size of a cached position as it is, and with the keys and values of all heads in place
 * of what latent attention stores. */
static Status print_latents(Session *session, Error *error) {
    const Config *c = model_config(session->model);
    KvShape shape = model_kv_shape(session->model, session->kv_type);
    char own[32], expanded[32], index[64] = "";
    size_t bytes = kvcache_seen_bytes(&shape, 1);
    size_text((double)bytes, own, sizeof own);
    for (uint32_t l = 0; l < shape.n_layers; l++) shape.layers[l].index_dim = 0;
    bytes -= kvcache_seen_bytes(&shape, 1);
    if (bytes > 0) {
        char size[32];
        size_text((double)bytes, size, sizeof size);
        snprintf(index, sizeof index, " (%s of them keys of indexers)", size);
    }
    for (uint32_t l = 0; l < shape.n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        KvLayer *layer = &shape.layers[l];
        if (!layer->values_in_keys) continue;
        layer->values_in_keys = false;
        layer->n_kv_heads = h.n_heads;
        layer->key_dim = h.head_dim;
        layer->value_dim = h.value_dim;
    }
    size_text((double)kvcache_seen_bytes(&shape, 1), expanded, sizeof expanded);
    return inspect_print(session, error,
                         "cache of latents    %s a token%s, keys and values of all heads %s\n", own,
                         index, expanded);
}

/* Prints the size of the full KV cache as it is, with a key/value head for each query head, and
 * with a single one: what grouped-query attention saves. */
static Status print_heads(Session *session, Error *error) {
    const Config *c = model_config(session->model);
    const struct {
        const char *name;
        uint32_t heads; /* 0: as it is */
    } kinds[] = {{"multi-head", c->n_heads}, {"as it is", 0}, {"multi-query", 1}};
    char line[256] = "", size[32];
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] == LAYER_LATENT) return print_latents(session, error);
    const KvShape own = model_kv_shape(session->model, session->kv_type);
    if (kvcache_position_bytes(&own) == 0) return STATUS_OK; /* no layer attends */
    for (size_t i = 0; i < 3; i++) {
        KvShape shape = model_kv_shape(session->model, session->kv_type);
        for (uint32_t l = 0; kinds[i].heads && l < shape.n_layers; l++)
            if (shape.layers[l].n_kv_heads > 0)
                shape.layers[l].n_kv_heads = kinds[i].heads == 1 ? 1 : config_heads(c, l).n_heads;
        size_t at = strlen(line);
        snprintf(line + at, sizeof line - at, "%s%s (%u) %s", i ? ", " : "", kinds[i].name,
                 kinds[i].heads ? kinds[i].heads : c->n_kv_heads,
                 size_text((double)kvcache_seen_bytes(&shape, model_context(session->model)), size,
                           sizeof size));
    }
    return inspect_print(session, error, "cache by heads      %s\n", line);
}

/* How many multiply-adds a token takes, and from where on attention, which grows with the text,
 * takes more of them than the matrices of the layers. */
static Status print_work(Session *session, Error *error) {
    const Config *c = model_config(session->model);
    const Work work = work_of(c);
    char more[160] = "";
    if (work.grows)
        snprintf(more, sizeof more,
                 ", and %.0f for each position before it: as much as the layers from position "
                 "%.0f on (%.2f times dim)",
                 work.per_position, work.equal, work.equal / c->dim);
    return inspect_print(session, error, "multiply-adds       %.2f million a token%s\n",
                         work.token / 1e6, more);
}

/* What the cache of one sequence takes: a part for each token and, where layers have windows or
 * states, a part that no longer grows. */
static Status print_cache(Session *session, Error *error) {
    const Model *model = session->model;
    const KvShape shape = model_kv_shape(model, session->kv_type);
    size_t context = model_context(model), most = (size_t)1 << 40;
    size_t token = kvcache_seen_bytes(&shape, most + 1) - kvcache_seen_bytes(&shape, most);
    size_t fixed = kvcache_seen_bytes(&shape, most) - most * token;
    char one[32], rest[32], all[32];
    size_text((double)token, one, sizeof one);
    size_text((double)fixed, rest, sizeof rest);
    if (kvcache_forgets(&shape)) {
        size_text((double)kvcache_sequence_bytes(&shape, context), all, sizeof all);
        return inspect_print(session, error,
                             "cache               %s: %s a token and %s for windows and states, "
                             "%s for the context of %zu\n",
                             kv_type_name(shape.type), one, rest, all, context);
    }
    size_text((double)(token * context), all, sizeof all);
    return inspect_print(session, error,
                         "cache               %s: %s a token, %s for the context of %zu\n",
                         kv_type_name(shape.type), one, all, context);
}

/* The model of --draft-model: its file, and its cache beside the large model's. */
static Status print_draft_model(Session *session, Error *error) {
    const Drafting *d = session->drafting;
    char name[512], bytes[32], one[32], all[32];
    if (!d || !d->model) return STATUS_OK;
    const KvShape *shape = draft_model_kv_shape(d->model);
    size_t context = model_context(draft_model_model(d->model));
    if (context > model_context(session->model)) context = model_context(session->model);
    snprintf(name, sizeof name, "%s", modelfile_path(d->model_file));
    one_line(name);
    return inspect_print(
        session, error, "draft model         %s, %s; its cache: %s a token, %s for %zu\n", name,
        size_text((double)modelfile_bytes(d->model_file), bytes, sizeof bytes),
        size_text((double)kvcache_position_bytes(shape), one, sizeof one),
        size_text((double)kvcache_sequence_bytes(shape, context), all, sizeof all), context);
}

static Status print_adapters(Session *session, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; session->adapters && status == STATUS_OK && i < session->adapters->n; i++) {
        const SessionAdapter *a = &session->adapters->items[i];
        char name[600], size[32];
        snprintf(name, sizeof name, "%s, %s", a->name, a->path);
        one_line(name);
        status = inspect_print(session, error,
                               "adapter             %s: %zu matrices, rank %zu, %s, scale %g, "
                               "sha256 %.16s\n",
                               name, a->n_matrices, a->rank,
                               size_text((double)a->bytes, size, sizeof size), a->scale, a->digest);
    }
    return status;
}

static Status print_needs(Session *session, Error *error) {
    const Model *model = session->model;
    Status status = print_adapters(session, error);
    if (status == STATUS_OK) status = print_cache(session, error);
    if (status == STATUS_OK) status = print_draft_model(session, error);
    if (status != STATUS_OK) return status;
    status = inspect_print(session, error, "machine             %s, %d threads\n",
                           model_isa(model)->name, model_threads(model));
    if (!session->ranks || status != STATUS_OK) return status;
    return inspect_print(session, error, "ranks               %s\n", session->ranks);
}

static Status print_overridden(Session *session, Error *error) {
    if (!session->overridden) return STATUS_OK;
    return inspect_print(session, error, "overridden          %s\n", session->overridden);
}

static Status print_fit(const Session *session, Error *error) {
    const Fit fit = fit_of(session, session->free_memory);
    char text[200];
    fit_text(&fit, model_context(session->model), text, sizeof text);
    return inspect_print(session, error, "memory              %s\n", text);
}

Status inspect_info(Session *session, Error *error) {
    if (session->options->json_object) return info_json_run(session, error);
    char size[32], name[512];
    const ModelFile *file = session->file;
    size_t template_bytes;
    modelfile_section(file, SECTION_TEMPLATE, &template_bytes);
    snprintf(name, sizeof name, "%s", modelfile_path(file));
    one_line(name);
    Status status = inspect_print(session, error, "file                %s, %s\n", name,
                                  size_text((double)modelfile_bytes(file), size, sizeof size));
    if (status == STATUS_OK) status = print_overridden(session, error);
    if (status == STATUS_OK) status = print_config(session, error);
    if (status == STATUS_OK) status = print_metadata(session, error);
    if (status == STATUS_OK) status = inspect_tensors(session, error);
    if (status == STATUS_OK) status = print_type_table(session, error);
    if (status == STATUS_OK) status = print_prediction(session, error);
    if (status == STATUS_OK)
        status = session->tokenizer
                     ? inspect_print(session, error, "tokenizer           %zu tokens\n",
                                     tokenizer_vocab_size(session->tokenizer))
                     : inspect_print(session, error, "tokenizer           none\n");
    if (status == STATUS_OK)
        status = inspect_print(session, error, "chat template       %s\n",
                               template_bytes ? size_text((double)template_bytes, size, sizeof size)
                                              : "none");
    if (status == STATUS_OK && session->model) status = print_work(session, error);
    if (status == STATUS_OK && session->model) status = print_needs(session, error);
    if (status == STATUS_OK && session->model) status = print_fit(session, error);
    if (status == STATUS_OK && session->model) status = print_heads(session, error);
    return status;
}

static void verify_progress(size_t done, size_t total, void *context) {
    session_progress(context, "verifying", done, total);
}

Status inspect_verify(Session *session, Error *error) {
    char size[32];
    Status status = modelfile_verify(session->file, verify_progress, session, error);
    session_progress(session, "verifying", 0, 0);
    if (status != STATUS_OK) return status;
    size_text((double)modelfile_bytes(session->file), size, sizeof size);
    return inspect_print(session, error,
                         "%s: %zu tensors, %s: every checksum is right and every weight "
                         "a number\n",
                         modelfile_path(session->file), modelfile_n_tensors(session->file), size);
}

/* The tokenizer's beginning-of-text token is added only with --bos yes, or as the prompt of a
 * conversation has it. */
Status inspect_tokenize(Session *session, Error *error) {
    const Options *o = session->options;
    unsigned flags =
        (o->special ? TOKENIZE_PARSE_SPECIAL : 0) | (o->bos == BOS_YES ? TOKENIZE_ADD_BOS : 0);
    TokenList ids = {0};
    char *text = NULL;
    size_t length = 0;
    tokenizer_limit(session->tokenizer, SIZE_MAX); /* no embedding is looked up for these ids */
    Status status = o->mode == TEXT_CHAT
                        ? render_ids(session, &ids, error)
                        : tokenizer_encode(session->tokenizer, session->prompt,
                                           session->prompt_length, NULL, flags, &ids, error);
    FILE *line = open_memstream(&text, &length);
    for (size_t i = 0; i < ids.length && line; i++)
        fprintf(line, "%s%d", i ? " " : "", (int)ids.ids[i]);
    if (line) fputc('\n', line);
    bool whole = line && !ferror(line);
    if (line) whole = fclose(line) == 0 && whole;
    if (status == STATUS_OK && !whole) status = error_set(error, "no memory for the ids");
    if (status == STATUS_OK) status = output_write(session->output, text, length, error);
    free(text);
    token_list_free(&ids);
    return status;
}

/* Reads the ids from the prompt. White space, commas and square brackets may stand between them. */
static Status parse_ids(const Session *session, TokenList *ids, Error *error) {
    const char *at = session->prompt;
    size_t n_ids = tokenizer_n_ids(session->tokenizer);
    for (;;) {
        while (isspace((unsigned char)*at) || (*at && strchr(",[]", *at))) at++;
        if (at == session->prompt + session->prompt_length) break;
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno == ERANGE || id < 0 || (size_t)id >= n_ids)
            return error_set(error, "'%.*s' is not a token id from 0 to %zu",
                             (int)strcspn(at, " \n\t,[]"), at, n_ids - 1);
        if (!token_list_push(ids, (int32_t)id)) return error_set(error, "no memory for the ids");
        at = end;
    }
    return STATUS_OK;
}

Status inspect_detokenize(Session *session, Error *error) {
    TokenList ids = {0};
    char *text = NULL;
    size_t length = 0;
    unsigned flags = session->options->special ? 0 : TOKEN_DECODER_SKIP_SPECIAL;
    Status status = parse_ids(session, &ids, error);
    if (status == STATUS_OK)
        status =
            tokenizer_decode(session->tokenizer, ids.ids, ids.length, flags, &text, &length, error);
    if (status == STATUS_OK) status = output_write(session->output, text, length, error);
    free(text);
    token_list_free(&ids);
    return status;
}
