#include "modes/inspect/attention_view.h"

#include <stdlib.h>
#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "modes/inspect/attention_maps.h"
#include "modes/inspect/attention_numbers.h"
#include "modes/inspect/attention_picture.h"
#include "modes/inspect/attention_text.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Reads "LAYER.HEAD". */
static bool read_head(const char *value, size_t *layer, uint32_t *head) {
    static const char digits[] = "0123456789";
    size_t n = strspn(value, digits), m = value[n] == '.' ? strspn(value + n + 1, digits) : 0;
    if (n == 0 || n > 6 || m == 0 || m > 6 || value[n + 1 + m]) return false;
    *layer = strtoul(value, NULL, 10);
    *head = (uint32_t)strtoul(value + n + 1, NULL, 10);
    return true;
}

bool attention_view_is_text(const char *value) {
    size_t layer;
    uint32_t head;
    return strcmp(value, "-") == 0 || strcmp(value, "scores") == 0 || strcmp(value, "ranks") == 0 ||
           read_head(value, &layer, &head);
}

/* The session's output as the target of a Sheet that hands on its bytes while it is filled: a whole
 * page can be many times as large as the weights. */
typedef struct Target {
    const Session *session;
    Status status;
    Error *error;
} Target;

static bool write_part(void *context, const char *bytes, size_t n) {
    Target *target = context;
    target->status = output_write(target->session->output, bytes, n, target->error);
    if (target->status == STATUS_OK && *target->session->interrupted)
        target->status = STATUS_INTERRUPTED;
    return target->status == STATUS_OK && !target->session->output->closed;
}

static Status write_head(const AttentionMaps *m, size_t layer, uint32_t head, Sheet *text,
                         Error *error) {
    if (layer >= m->n_layers)
        return error_set(error, "--attention %zu.%u: the model has layers 0 to %u", layer, head,
                         m->n_layers - 1);
    if (!attention_maps_attends(m, layer))
        return error_set(error, "--attention %zu.%u: the layer %s", layer, head,
                         attention_maps_absence(m, layer));
    if (head >= attention_maps_heads(m, layer))
        return error_set(error, "--attention %zu.%u: the layer has heads 0 to %u", layer, head,
                         attention_maps_heads(m, layer) - 1);
    attention_text_head(m, layer, head, text);
    return STATUS_OK;
}

static Status write_form(const AttentionMaps *m, Sheet *text, Error *error) {
    const char *out = inspect_options(m->session->options)->attention;
    size_t layer;
    uint32_t head;
    if (read_head(out, &layer, &head)) return write_head(m, layer, head, text, error);
    if (strcmp(out, "scores") == 0) return attention_text_scores(m, text, error);
    if (strcmp(out, "ranks") == 0) return attention_text_ranks(m, text, error);
    if (ends_with(out, ".json")) return attention_numbers_json(m, 9, text, error);
    if (ends_with(out, ".html")) return attention_numbers_page(m, text, error);
    if (strcmp(out, "-") == 0) {
        attention_text_maps(m, text);
    } else {
        attention_picture_write(m, text);
    }
    return STATUS_OK;
}

static Status write_view(const AttentionMaps *m, Error *error) {
    Target target = {.session = m->session, .error = error};
    Sheet text = {.write = write_part, .context = &target};
    Status status = write_form(m, &text, error);
    if (status == STATUS_OK) sheet_flush(&text);
    if (status == STATUS_OK && text.failed && target.status == STATUS_OK &&
        !m->session->output->closed)
        status = error_set(error, "no memory for the picture");
    sheet_free(&text);
    return status == STATUS_OK ? target.status : status;
}

Status attention_view_run(Session *session, Error *error) {
    const char *out = inspect_options(session->options)->attention;
    bool is_map = strcmp(out, "-") == 0 || ends_with(out, ".svg") || !strchr(out, '.');
    bool with_scores = !is_map || strcmp(out, "scores") == 0 || strcmp(out, "ranks") == 0;
    AttentionMaps maps;
    Status status = attention_maps_collect(&maps, session, with_scores, error);
    if (status == STATUS_OK) status = write_view(&maps, error);
    attention_maps_free(&maps);
    return status;
}
