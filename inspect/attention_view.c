#include "inspect/attention_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/attention_page.h"
#include "inspect/picture.h"
#include "prefill.h"
#include "session/generate.h"

/* ---- Weights --------------------------------------------------------------------------------- */

/* The text and its weights. A "map" is the [query][key] matrix of one layer and head. */
typedef struct View {
    Session *session;
    TokenList ids;
    size_t n;                               /* tokens */
    uint32_t n_layers, n_heads, n_kv_heads; /* n_heads: of the layer that has the most */
    float *weights;                         /* [n_layers][n_heads][n query][n key] */
    size_t base; /* the text's token that is row 0 of the running forward pass */
} View;

static uint32_t layer_heads(const View *v, size_t layer) {
    return config_heads(model_config(v->session->model), layer).n_heads;
}

static float *map_of(const View *v, size_t layer, size_t head) {
    return v->weights + (layer * v->n_heads + head) * v->n * v->n;
}

/* An observer of attention.h: stores one row of a map. */
static void keep_weights(void *context, size_t layer, size_t row, size_t head, int32_t first,
                         float *weights, size_t n) {
    View *v = context;
    memcpy(map_of(v, layer, head) + (v->base + row) * v->n + first, weights, n * sizeof *weights);
}

static Status next_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    View *v = context;
    (void)error;
    v->base = chunk->done;
    return STATUS_OK;
}

/* Runs the text and fills v->weights. */
static Status collect_weights(View *v, Error *error) {
    Model *model = v->session->model;
    const KvShape shape = model_kv_shape(model, v->session->kv_type);
    const AttentionObserver observer = {keep_weights, v};
    const Prefill p = {.ids = v->ids.ids,
                       .n = v->n,
                       .first_wanted = v->n,
                       .interrupted = v->session->interrupted,
                       .after_chunk = next_chunk,
                       .context = v};
    KvCache *cache;
    if (kvcache_new(&cache, &shape, 1, 0, error) != STATUS_OK) return STATUS_FAILED;
    model_set_attention_observer(model, &observer);
    Status status = prefill(model, cache, &p, error);
    model_set_attention_observer(model, NULL);
    kvcache_free(cache);
    return status;
}

/* Whether the layer attends; others keep a state and have no weights, and their maps stay 0. */
static bool attends(const View *v, size_t layer) {
    uint32_t kind = model_config(v->session->model)->layer_kind[layer];
    return kind == LAYER_ATTENTION || kind == LAYER_LATENT || kind == LAYER_DIFFERENCE ||
           kind == LAYER_BESIDE || kind == LAYER_SHARED;
}

/* Fills out[n][n] with the mean map of those of n_layers layers from `first` on that attend, all
 * heads. */
static void mean_map(const View *v, size_t first, size_t n_layers, float *out) {
    size_t cells = v->n * v->n, n_maps = n_layers * v->n_heads, n_attend = 0;
    for (size_t l = 0; l < n_layers; l++)
        n_attend += attends(v, first + l) ? layer_heads(v, first + l) : 0;
    for (size_t i = 0; i < cells; i++) {
        double sum = 0.0;
        for (size_t m = 0; m < n_maps; m++) sum += (double)map_of(v, first, m)[i];
        out[i] = n_attend ? (float)(sum / (double)n_attend) : 0.0f;
    }
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Writes token i into *out, which it empties first: at most max_characters characters, spaces as an
 * open box. The bytes are as the vocabulary has them, so escape them before showing them. */
static void label_of(const View *v, size_t i, size_t max_characters, Sheet *out) {
    size_t length, shown = 0;
    const char *bytes = tokenizer_token_text(v->session->tokenizer, v->ids.ids[i], &length);
    out->length = 0;
    sheet_add(out, "", 0);
    for (size_t k = 0; k < length; shown++) {
        size_t end = k + 1;
        while (end < length && ((unsigned char)bytes[end] & 0xC0) == 0x80) end++;
        if (shown == max_characters) {
            sheet_add(out, "\xE2\x80\xA6", 3); /* an ellipsis */
            return;
        }
        bool is_space =
            bytes[k] == ' ' || (end - k == 3 && memcmp(bytes + k, "\xE2\x96\x81", 3) == 0);
        if (is_space) {
            sheet_add(out, "\xE2\x90\xA3", 3); /* an open box */
        } else {
            sheet_add(out, bytes + k, end - k);
        }
        k = end;
    }
}

/* Writes one line: the model's name, its shape and what was overridden. */
static void describe(const View *v, Sheet *out) {
    const char *name = model_config(v->session->model)->name;
    sheet_printf(out, "%.60s%s%zu tokens, %u layers, %u heads on %u of keys and values", name,
                 name[0] ? ": " : "", v->n, v->n_layers, v->n_heads, v->n_kv_heads);
    if (v->session->overridden) sheet_printf(out, "; overridden: %.200s", v->session->overridden);
}

/* ---- The picture ----------------------------------------------------------------------------- */

/* Where the parts of the picture stand, in pixels: the large map of the mean and, below it, a grid
 * of small maps (tiles), a row for each layer and a column for each head. */
typedef struct Layout {
    double left, top, cell, side;  /* of the large map: its corner, a cell's side, its own */
    double tile_cell, tile, pitch; /* of a tile: a cell's side, its own; from tile to tile */
    double grid_left;              /* the left edge of the tiles */
    double grid_top, tiles_top;    /* the top of the head numbers, and of the tiles below them */
    double width, height;          /* of the whole picture */
} Layout;

static Layout layout_of(const View *v) {
    enum { GAP = 14, MIN_WIDTH = 640 };
    double n = (double)v->n;
    Layout l = {.left = 120, .top = 190, .grid_left = 70};
    l.cell = v->n <= 40 ? 18 : 720.0 / n;
    l.side = l.cell * n;
    l.tile_cell = v->n <= 30 ? 4 : 120.0 / n;
    l.tile = l.tile_cell * n;
    l.pitch = l.tile + GAP;
    l.grid_top = l.top + l.side + 60;
    l.tiles_top = l.grid_top + 18;
    l.width = fmax(fmax(l.left + l.side + 120, l.grid_left + l.pitch * v->n_heads + 20), MIN_WIDTH);
    l.height = l.grid_top + 30 + l.pitch * v->n_layers + 20;
    return l;
}

static void draw_heading(const View *v, Sheet *svg) {
    Sheet description = {0};
    describe(v, &description);
    picture_text(svg, 20, 28, "title", "start", 0, "What each token attends to", 26);
    picture_text(svg, 20, 48, "label", "start", 0, description.bytes, description.length);
    picture_legend(svg, 20, 76, "weight; each row adds up to 1", false);
    picture_text(svg, 210, 84, "small", "start", 0, "rows: the token that looks", 26);
    picture_text(svg, 210, 98, "small", "start", 0, "columns: what it looks at", 25);
    sheet_free(&description);
}

/* Writes each token at its row of the large map and, turned, at its column. */
static void draw_tokens(const View *v, const Layout *l, Sheet *svg) {
    Sheet label = {0};
    for (size_t i = 0; i < v->n; i++) {
        double at = l->cell * ((double)i + 0.5);
        label_of(v, i, 12, &label);
        picture_text(svg, l->left - 6, l->top + at + 4, "label", "end", 0, label.bytes,
                     label.length);
        picture_text(svg, l->left + at + 4, l->top - 6, "label", "start", -60, label.bytes,
                     label.length);
    }
    sheet_free(&label);
}

static void draw_mean(const View *v, const Layout *l, Sheet *svg) {
    float *mean = malloc(v->n * v->n * sizeof *mean);
    if (!mean) {
        svg->failed = true;
        return;
    }
    mean_map(v, 0, v->n_layers, mean);
    picture_heat_map(svg, l->left, l->top, l->cell, l->cell, mean, v->n, v->n, v->n, false);
    if (l->cell >= 11) draw_tokens(v, l, svg);
    picture_text(svg, l->left, l->top + l->side + 18, "label", "start", 0,
                 "the mean of all layers and heads", 32);
    free(mean);
}

static void draw_tiles(const View *v, const Layout *l, Sheet *svg) {
    char text[32];
    for (uint32_t head = 0; head < v->n_heads; head++) {
        int n = snprintf(text, sizeof text, l->tile < 40 ? "%u" : "head %u", head);
        picture_text(svg, l->grid_left + l->pitch * head + l->tile / 2, l->grid_top + 10, "small",
                     "middle", 0, text, (size_t)n);
    }
    for (uint32_t layer = 0; layer < v->n_layers; layer++) {
        double y = l->tiles_top + l->pitch * layer;
        int n = snprintf(text, sizeof text, "layer %u%s", layer, attends(v, layer) ? "" : ": none");
        picture_text(svg, l->grid_left - 8, y + l->tile / 2 + 3, "small", "end", 0, text,
                     (size_t)n);
        uint32_t n_heads = attends(v, layer) ? layer_heads(v, layer) : v->n_heads;
        for (uint32_t head = 0; head < n_heads; head++)
            picture_heat_map(svg, l->grid_left + l->pitch * head, y, l->tile_cell, l->tile_cell,
                             map_of(v, layer, head), v->n, v->n, v->n, false);
    }
}

static void write_picture(const View *v, Sheet *svg) {
    const Layout l = layout_of(v);
    picture_begin(svg, l.width, l.height, "attention");
    draw_heading(v, svg);
    draw_mean(v, &l, svg);
    draw_tiles(v, &l, svg);
    picture_end(svg);
}

/* ---- Numbers and the page -------------------------------------------------------------------- */

/* Writes [[...], ...]: a row of weights for each query. */
static void write_map_json(const View *v, const float *map, int digits, Sheet *out) {
    sheet_printf(out, "[");
    for (size_t i = 0; i < v->n; i++) {
        sheet_printf(out, i ? ",[" : "[");
        for (size_t k = 0; k < v->n; k++)
            sheet_printf(out, k ? ",%.*g" : "%.*g", digits, (double)map[i * v->n + k]);
        sheet_printf(out, "]");
    }
    sheet_printf(out, "]");
}

static void write_string_json(const char *name, const char *value, Sheet *out) {
    sheet_printf(out, "\"%s\": \"", name);
    sheet_json(out, value, strlen(value));
    sheet_printf(out, "\"");
}

/* Writes {"model", ..., "tokens": [{"id", "text"}], "layers": [{"window", "chunk", "heads":
 * [{"kv_head", "weights"}]}]}, and "attends": false in layers that do not attend. n_heads is that
 * of the layer with the most. A row's sum is below 1 where an attention sink took weight. Weights
 * have `digits` significant digits; 9 keep every bit. */
static void write_json(const View *v, int digits, Sheet *out) {
    const Config *c = model_config(v->session->model);
    sheet_printf(out, "{");
    write_string_json("model", c->name, out);
    sheet_printf(out, ", ");
    write_string_json("family", c->family, out);
    sheet_printf(out, ", ");
    write_string_json("overridden", v->session->overridden ? v->session->overridden : "", out);
    sheet_printf(out, ",\n \"n_layers\": %u, \"n_heads\": %u, \"n_kv_heads\": %u,\n \"tokens\": [",
                 v->n_layers, v->n_heads, v->n_kv_heads);
    for (size_t i = 0; i < v->n; i++) {
        size_t length;
        const char *bytes = tokenizer_token_text(v->session->tokenizer, v->ids.ids[i], &length);
        sheet_printf(out, "%s{\"id\": %d, \"text\": \"", i ? ", " : "", v->ids.ids[i]);
        sheet_json(out, bytes, length);
        sheet_printf(out, "\"}");
    }
    sheet_printf(out, "],\n \"layers\": [\n");
    for (uint32_t layer = 0; layer < v->n_layers; layer++) {
        uint32_t n_heads = attends(v, layer) ? layer_heads(v, layer) : v->n_heads;
        uint32_t n_kv_heads = config_heads(c, layer).n_kv_heads;
        sheet_printf(out, "  {%s\"window\": %u, \"chunk\": %u, \"heads\": [\n",
                     attends(v, layer) ? "" : "\"attends\": false, ", c->window[layer],
                     c->chunk[layer]);
        for (uint32_t head = 0; head < n_heads; head++) {
            sheet_printf(out, "   {\"kv_head\": %u, \"weights\": ",
                         (uint32_t)((uint64_t)head * n_kv_heads / n_heads));
            write_map_json(v, map_of(v, layer, head), digits, out);
            sheet_printf(out, "}%s\n", head + 1 < n_heads ? "," : "");
        }
        sheet_printf(out, "  ]}%s\n", layer + 1 < v->n_layers ? "," : "");
    }
    sheet_printf(out, " ]}\n");
}

static void write_page(const View *v, Sheet *out) {
    sheet_add(out, attention_page_head, strlen(attention_page_head));
    write_json(v, 3, out);
    sheet_add(out, attention_page_tail, strlen(attention_page_tail));
}

/* ---- The terminal ---------------------------------------------------------------------------- */

/* Draws one map up to its diagonal: a token is two columns wide, in one of five shades. */
static void write_terminal_map(const View *v, const float *map, Sheet *out) {
    static const char *const shades[] = {"  ", "\xE2\x96\x91\xE2\x96\x91",
                                         "\xE2\x96\x92\xE2\x96\x92", "\xE2\x96\x93\xE2\x96\x93",
                                         "\xE2\x96\x88\xE2\x96\x88"};
    static const double above[] = {0.0, 0.03, 0.1, 0.25, 0.5};
    Sheet label = {0};
    for (size_t i = 0; i < v->n; i++) {
        label_of(v, i, 12, &label);
        size_t columns = 0;
        for (size_t k = 0; k < label.length; k++)
            columns += ((unsigned char)label.bytes[k] & 0xC0) != 0x80;
        sheet_printf(out, "%4zu %*s", i, columns < 13 ? (int)(13 - columns) : 0, "");
        sheet_plain(out, label.bytes, label.length);
        sheet_printf(out, " \xE2\x94\x82");
        for (size_t k = 0; k <= i; k++) {
            size_t shade = 4;
            while (shade > 0 && !((double)map[i * v->n + k] >= above[shade])) shade--;
            sheet_add(out, shades[shade], strlen(shades[shade]));
        }
        sheet_printf(out, "\n");
    }
    sheet_free(&label);
}

/* Draws a map for each layer, the mean of its heads. */
static void write_terminal_maps(const View *v, Sheet *out) {
    float *mean = malloc(v->n * v->n * sizeof *mean);
    if (!mean) {
        out->failed = true;
        return;
    }
    describe(v, out);
    sheet_printf(out, "\nweights: \xE2\x96\x91 from 0.03, \xE2\x96\x92 0.1, \xE2\x96\x93 0.25, "
                      "\xE2\x96\x88 0.5 on; column i is token i\n");
    for (uint32_t layer = 0; layer < v->n_layers; layer++) {
        if (!attends(v, layer)) {
            sheet_printf(out, "\nlayer %u keeps a state and does not attend\n", layer);
            continue;
        }
        mean_map(v, layer, 1, mean);
        sheet_printf(out, "\nlayer %u, mean of %u heads", layer, layer_heads(v, layer));
        const Config *c = model_config(v->session->model);
        if (c->window[layer]) sheet_printf(out, ", window of %u", c->window[layer]);
        if (c->chunk[layer]) sheet_printf(out, ", chunks of %u", c->chunk[layer]);
        sheet_printf(out, "\n");
        write_terminal_map(v, mean, out);
    }
    free(mean);
}

/* ---- The mode -------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The session's output as the target of a Sheet that hands on its bytes while it is filled: a whole
 * picture can be many times as large as the weights. */
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

static Status write_view(const View *v, Error *error) {
    const char *out = v->session->options->attention;
    Target target = {.session = v->session, .error = error};
    Sheet text = {.write = write_part, .context = &target};
    if (strcmp(out, "-") == 0) {
        write_terminal_maps(v, &text);
    } else if (ends_with(out, ".json")) {
        write_json(v, 9, &text);
    } else if (ends_with(out, ".html")) {
        write_page(v, &text);
    } else {
        write_picture(v, &text);
    }
    sheet_flush(&text);
    if (text.failed && target.status == STATUS_OK && !v->session->output->closed)
        target.status = error_set(error, "no memory for the picture");
    sheet_free(&text);
    return target.status;
}

Status attention_view_run(Session *session, Error *error) {
    enum { MOST_BYTES = 1 << 30 };
    const Config *c = model_config(session->model);
    View v = {.session = session,
              .n_layers = c->n_layers,
              .n_heads = c->n_heads,
              .n_kv_heads = c->n_kv_heads};
    Status status = generate_prompt_ids(session, &v.ids, error);
    v.n = v.ids.length;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (attends(&v, l) && layer_heads(&v, l) > v.n_heads) v.n_heads = layer_heads(&v, l);
    double bytes = 4.0 * c->n_layers * v.n_heads * (double)v.n * (double)v.n;
    if (status == STATUS_OK && bytes > MOST_BYTES)
        status =
            error_set(error, "the weights of %zu tokens would be %.1f GiB: give a shorter text",
                      v.n, bytes / (1 << 30));
    if (status == STATUS_OK && !(v.weights = calloc((size_t)bytes / 4 + 1, sizeof *v.weights)))
        status = error_set(error, "no memory for the weights of %zu tokens", v.n);
    if (status == STATUS_OK) status = collect_weights(&v, error);
    if (status == STATUS_OK) status = write_view(&v, error);
    free(v.weights);
    token_list_free(&v.ids);
    return status;
}
