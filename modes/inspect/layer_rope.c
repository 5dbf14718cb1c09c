#include "modes/inspect/layer_rope.h"

#include <math.h>

enum { LATER = 100, MOST_DIM = 1 << 12 };

/* The turn of one head: pairs i of elements first(i) and second(i). */
typedef struct Turn {
    const float *frequencies; /* [n_pairs] */
    size_t n_pairs;
    bool neighbours; /* a pair is elements 2i and 2i + 1; else i and i + n_pairs */
    double factor;   /* by which RoPE also multiplies what it turns; 1 in most models */
} Turn;

static size_t first_of(const Turn *t, size_t pair) {
    return t->neighbours ? 2 * pair : pair;
}

static size_t second_of(const Turn *t, size_t pair) {
    return t->neighbours ? 2 * pair + 1 : pair + t->n_pairs;
}

bool layer_rope_turns(const LayerTrace *trace) {
    const Config *c = modelfile_config(trace->maps.session->file);
    return c->position == POSITION_ROPE && c->rope_table[trace->layer] <= 1 &&
           !c->qk_norm_after_rope;
}

static Turn turn_of(const LayerTrace *trace) {
    const Model *m = trace->maps.session->model;
    const Config *c = m->config;
    size_t table = c->rope_table[trace->layer];
    return (Turn){
        .frequencies = m->weights.rope_freqs[table],
        .n_pairs = m->n_pairs[table],
        .neighbours = c->rope_pairing == ROPE_INTERLEAVED,
        .factor = (double)(table == 0 ? c->rope_attention_factor : c->rope_local_attention_factor)};
}

/* Turns each pair of x by the angle of so many positions, which may be negative. */
static void turn_by(const Turn *t, double positions, double *x) {
    for (size_t i = 0; i < t->n_pairs; i++) {
        double angle = positions * (double)t->frequencies[i];
        double *a = &x[first_of(t, i)], *b = &x[second_of(t, i)], was = *a;
        *a = was * cos(angle) - *b * sin(angle);
        *b = *b * cos(angle) + was * sin(angle);
    }
}

/* The key before the position that the head weighs most; the position itself where it is the first
 * that is seen. */
static size_t best_key(const LayerTrace *trace, uint32_t head) {
    const AttentionMaps *m = &trace->maps;
    const float *weights = attention_map(m, trace->layer, head) + trace->position * m->n;
    size_t best = m->first[trace->layer * m->n + trace->position];
    for (size_t k = best; k < trace->position; k++)
        if (weights[k] > weights[best]) best = k;
    return best;
}

static double product_of(const Turn *t, size_t pair, const double *q, const double *k) {
    size_t a = first_of(t, pair), b = second_of(t, pair);
    return q[a] * k[a] + q[b] * k[b];
}

/* The pair whose product the turn changes most. */
static size_t most_changed(const Turn *t, const double *q, const double *k, const double *q_turned,
                           const double *k_turned) {
    size_t best = 0;
    double most = -1.0;
    for (size_t i = 0; i < t->n_pairs; i++) {
        double change = fabs(product_of(t, i, q, k) - product_of(t, i, q_turned, k_turned));
        if (change > most) most = change, best = i;
    }
    return best;
}

static void write_row(const char *name, const Turn *t, size_t pair, const double *q,
                      const double *k, size_t n, Sheet *out) {
    size_t a = first_of(t, pair), b = second_of(t, pair);
    double whole = 0.0;
    for (size_t i = 0; i < n; i++) whole += q[i] * k[i];
    sheet_printf(out, "  %-24s %9.3f %9.3f  %9.3f %9.3f %9.3f %9.3f\n", name, q[a], q[b], k[a],
                 k[b], product_of(t, pair, q, k), whole);
}

/* Takes the turn of so many positions back. */
static void turn_back(const Turn *t, size_t positions, double *x) {
    turn_by(t, -(double)positions, x);
    for (size_t i = 0; i < t->n_pairs; i++) {
        x[first_of(t, i)] /= t->factor;
        x[second_of(t, i)] /= t->factor;
    }
}

void layer_rope_write(const LayerTrace *trace, const TracedBranch *b, Sheet *out) {
    const HeadShape h = config_heads(modelfile_config(trace->maps.session->file), trace->layer);
    double q[MOST_DIM], k[MOST_DIM], q_turned[MOST_DIM], k_turned[MOST_DIM];
    char query_title[32], key_title[32];
    if (!layer_rope_turns(trace) || !b->q || !b->k) return;
    const Turn turn = turn_of(trace);
    const size_t key = best_key(trace, 0), n = h.head_dim;
    for (size_t i = 0; i < n; i++) {
        q[i] = q_turned[i] = (double)b->q[i];
        k[i] = k_turned[i] = (double)b->k[key * h.n_kv_heads * n + i];
    }
    turn_back(&turn, trace->position, q);
    turn_back(&turn, key, k);
    const size_t pair = most_changed(&turn, q, k, q_turned, k_turned);
    snprintf(query_title, sizeof query_title, "query of token %zu", trace->position);
    snprintf(key_title, sizeof key_title, "key of token %zu", key);
    sheet_printf(out,
                 "\n  RoPE turns elements %zu and %zu of a head by %.6g rad a position, other "
                 "pairs by other angles; head 0:\n",
                 first_of(&turn, pair), second_of(&turn, pair), (double)turn.frequencies[pair]);
    sheet_printf(out, "  %-24s %19s  %19s %9s %9s\n", "", query_title, key_title, "product",
                 "q . k");
    write_row("before", &turn, pair, q, k, n, out);
    write_row("turned, as they meet", &turn, pair, q_turned, k_turned, n, out);
    turn_by(&turn, LATER, q_turned);
    turn_by(&turn, LATER, k_turned);
    write_row("both 100 positions later", &turn, pair, q_turned, k_turned, n, out);
}
