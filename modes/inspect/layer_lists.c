#include "modes/inspect/layer_lists.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/experts/mixture.h"
#include "layers/experts/latent_moe.h"
#include "core/self_attention.h"

__attribute__((format(printf, 2, 3))) static void write_text(TextBuffer *t, const char *format,
                                                             ...) {
    char part[256];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    text_put(t, part, n < (int)sizeof part ? (size_t)n : sizeof part - 1, 0);
}

/* ---- Sizes ---- */

static void add_experts(TextBuffer *t, const Config *c) {
    write_text(t, "{%u of %u experts of %u", c->experts.per_token, c->experts.count,
               c->experts.ffn_dim);
    if (c->experts.dim > 0) write_text(t, " behind %u", c->experts.dim);
    if (c->experts.shared_ffn_dim > 0) write_text(t, ", 1 shared of %u", c->experts.shared_ffn_dim);
    write_text(t, "}");
}

static void add_heads(TextBuffer *t, const Config *c, size_t l) {
    const HeadShape h = config_heads(c, l);
    write_text(t, "{%u heads of %u", h.n_heads, h.head_dim);
    if (h.n_kv_heads != h.n_heads) write_text(t, ", %u of keys", h.n_kv_heads);
    if (h.value_dim != h.head_dim) write_text(t, ", values of %u", h.value_dim);
    if (c->window[l] > 0) write_text(t, ", window %u", c->window[l]);
    if (c->chunk[l] > 0) write_text(t, ", chunks of %u", c->chunk[l]);
    if (c->kv_distance[l] > 0) write_text(t, ", keys of layer %zu", l - c->kv_distance[l]);
    write_text(t, "}");
}

/* Writes the sizes of a branch in braces: the width of a feed-forward, experts, or heads. */
static void add_sizes(TextBuffer *t, const Model *m, const Branch *b) {
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[b->layer];
    uint32_t number = c->layer_kind[b->layer];
    bool is_ffn = b->last_linear == &w->ffn.down; /* also of kinds that do more than it */
    if (b->kind == &forward_ffn_kind || (is_ffn && !w->router.w.data)) {
        write_text(t, "{%u%s}", config_ffn_dim(c, b->layer), c->gated ? ", gated" : "");
    } else if (is_ffn || b->kind == &mixture_kind || b->kind == &latent_moe_kind) {
        add_experts(t, c);
    } else if (b->kind->has_heads) {
        add_heads(t, c, b->layer);
    } else if (number == LAYER_LATENT && b->kind == m->weights.layers[b->layer].kind) {
        const HeadShape h = config_heads(c, b->layer);
        write_text(t, "{%u heads of %u, latent of %u}", h.n_heads, h.head_dim,
                   config_latent(c, b->layer).kv_lora_rank);
    }
}

/* ---- The notation ---- */

static void add_factor(TextBuffer *t, float factor) {
    if (factor != 1.0f) write_text(t, "%.3g * ", (double)factor);
}

static void add_function(TextBuffer *t, const Model *m, const Branch *first, const Branch *b);

/* What b reads: x, a norm of it, or what an earlier branch of the layer read. */
static void add_input(TextBuffer *t, const Model *m, const Branch *first, const Branch *b) {
    const Branch *reader = b;
    if (b->in != m->x)
        while (reader > first && (reader->in != b->in || !reader->pre)) reader--;
    if (!reader->pre) {
        write_text(t, reader->in == m->x ? "x" : "n");
        return;
    }
    write_text(t, reader->gate ? "gated norm(x" : "norm(x");
    if (reader->plus) {
        write_text(t, " + ");
        add_function(t, m, first, reader->plus);
    }
    write_text(t, ")");
}

/* What chooses the experts of a mixture, where it is not what the experts read. */
static void add_router(TextBuffer *t, const Model *m, const Branch *b) {
    if (b->kind != &mixture_kind) return;
    if (b->router_scale) write_text(t, ", router: norm(x) / %.3g", sqrt((double)m->config->dim));
    if (m->weights.layers[b->layer].router_table) write_text(t, ", experts by the token");
}

/* Writes what a branch computes: post(f(pre(x))). */
static void add_function(TextBuffer *t, const Model *m, const Branch *first, const Branch *b) {
    add_factor(t, b->part_scale);
    if (b->post) write_text(t, "norm(");
    write_text(t, "%s", b->kind->name);
    add_sizes(t, m, b);
    write_text(t, "(");
    add_input(t, m, first, b);
    add_router(t, m, b);
    write_text(t, b->post ? "))" : ")");
    if (!b->adds_input) return;
    write_text(t, " + ");
    add_input(t, m, first, b);
}

/* The branches from b on that are added as one: f, or f + g. Returns the last one. */
static const Branch *add_sum(TextBuffer *t, const Model *m, const Branch *first, const Branch *b) {
    const Branch *last = b;
    while (last->addition == ADD_TO_NEXT) last++;
    add_factor(t, last->scale);
    if (last->sum_post) write_text(t, "norm(");
    for (; b <= last; b++) {
        add_function(t, m, first, b);
        if (b < last) write_text(t, " + ");
    }
    if (last->sum_post) write_text(t, ")");
    return last;
}

/* Writes how the sum of the branches from b on is added to the residual stream ("x += ", or with
 * factors and a norm). Returns the sum's last branch. */
static const Branch *add_addition(TextBuffer *t, const Model *m, const Branch *first,
                                  const Branch *b) {
    const Branch *last = b;
    while (last->addition == ADD_TO_NEXT) last++;
    bool to_streams = last->streams && last->streams->add;
    bool whole = last->norm_after || last->before != 1.0f || last->after != 1.0f;
    if (last->addition == ADD_LATER) {
        write_text(t, "later x += ");
    } else if (to_streams || !whole) {
        const char *adds = to_streams ? last->streams->adds : "x += ";
        write_text(t, "%s", adds ? adds : "streams += ");
    } else {
        write_text(t, "x = ");
        if (last->norm_after) write_text(t, "norm(");
        add_factor(t, last->after);
        if (last->after != 1.0f) write_text(t, "(");
        add_factor(t, last->before);
        write_text(t, "x + ");
    }
    add_sum(t, m, first, b);
    if (last->addition != ADD_LATER && !to_streams && whole) {
        if (last->after != 1.0f) write_text(t, ")");
        if (last->norm_after) write_text(t, ")");
    }
    if (last->also) write_text(t, ", x += the %s of the layer before", last->also->kind->name);
    return last;
}

void layer_lists_write(TextBuffer *t, const Model *m, size_t l) {
    const Branch *first = m->branches.all + m->branches.first[l];
    const Branch *end = m->branches.all + m->branches.first[l + 1];
    for (const Branch *b = first; b < end; b++) {
        if (b->addition == ADD_TO_INPUT) continue; /* stands in what reads it */
        if (b->streams && b->streams->reads) write_text(t, "    %s\n", b->streams->reads);
        write_text(t, "    ");
        if (b->pre_replaces_x) write_text(t, "x = norm(x), ");
        for (b = add_addition(t, m, first, b); b->same_x;) {
            write_text(t, ", ");
            b = add_addition(t, m, first, b + 1);
        }
        write_text(t, "\n");
    }
}

/* ---- Equal layers ---- */

/* "layers 0-2, 4": lists the n layers whose texts are texts[l]. */
static void write_numbers(TextBuffer *t, char *const *texts, size_t l, size_t n) {
    size_t equal = 0;
    for (size_t k = l; k < n; k++) equal += strcmp(texts[k], texts[l]) == 0;
    write_text(t, equal > 1 ? "layers" : "layer");
    const char *before = " ";
    for (size_t from = l, to; from < n; from = to + 1) {
        for (to = from; to < n && strcmp(texts[to], texts[l]) == 0;) to++;
        if (to == from) continue;
        write_text(t, "%s%zu", before, from);
        if (to - from > 1) write_text(t, "-%zu", to - 1);
        before = ", ";
    }
    write_text(t, "\n");
}

static bool is_first(char *const *texts, size_t l) {
    for (size_t k = 0; k < l; k++)
        if (strcmp(texts[k], texts[l]) == 0) return false;
    return true;
}

/* texts[n_layers] = the lines of each layer. */
static bool write_layers(const Model *m, char **texts) {
    for (size_t l = 0; l < m->config->n_layers; l++) {
        TextBuffer t = {.bytes = NULL};
        layer_lists_write(&t, m, l);
        text_put(&t, "", 1, 0);
        texts[l] = t.bytes;
        if (t.failed || !t.bytes) return false;
    }
    return true;
}

Status layer_lists_run(Session *session, Error *error) {
    const Model *m = session->model;
    size_t n = m->config->n_layers;
    char **texts = calloc(n, sizeof *texts);
    TextBuffer all = {.bytes = NULL};
    bool written = texts && write_layers(m, texts);
    write_text(&all, "x = embedding of the token, [%u]\n", m->config->dim);
    for (size_t l = 0; written && l < n; l++) {
        if (!is_first(texts, l)) continue;
        write_numbers(&all, texts, l, n);
        text_put(&all, texts[l], strlen(texts[l]), 0);
    }
    write_text(&all, "logits = output%s, [%u]\n", m->config->final_norm ? "(norm(x))" : "(x)",
               m->config->vocab_size);
    Status status = STATUS_OK;
    if (!written || all.failed)
        status = error_set(error, "no memory for the lines of %zu layers", n);
    else
        status = output_write(session->output, all.bytes, all.length, error);
    for (size_t l = 0; texts && l < n; l++) free(texts[l]);
    free(texts);
    text_free(&all);
    return status;
}
