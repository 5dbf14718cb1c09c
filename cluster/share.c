#include "cluster/share.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHARES = 256 };

/* Rows are gathered so many floats at a time, or one row. */
enum { FLOATS_AT_ONCE = 1 << 20 };

struct Shares {
    Wire *wire;
    RankShare *all[MOST_SHARES];
    size_t n;
    float *sent, *received; /* [capacity], rows as they travel: one rank's after another's */
    size_t capacity;
};

/* ---- The shares of a model ---- */

Status shares_new(Shares **out, Wire *wire, Error *error) {
    Shares *shares = calloc(1, sizeof *shares);
    if (!shares) return error_set(error, "no memory for the shares of ranks");
    shares->wire = wire;
    *out = shares;
    return STATUS_OK;
}

void shares_free(Shares *shares) {
    if (!shares) return;
    for (size_t i = 0; i < shares->n; i++) {
        free(shares->all[i]->counts);
        free(shares->all[i]);
    }
    free(shares->sent);
    free(shares->received);
    free(shares);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void gather(const Share *share, ForwardPass *pass, float *x, size_t n);

/* Deals out the units. */
static void divide(RankShare *s, size_t rank, size_t ranks) {
    size_t width = s->share.width, each = (s->n_units + ranks - 1) / ranks;
    for (size_t r = 0; r < ranks; r++) {
        size_t begin = smaller(smaller(r * each, s->n_units) * s->unit, width);
        size_t end = smaller(smaller((r + 1) * each, s->n_units) * s->unit, width);
        s->firsts[r] = (int)begin;
        s->counts[r] = (int)(end - begin);
    }
    s->first_unit = smaller(rank * each, s->n_units - each);
    s->own_units = each;
    s->first = s->first_unit * s->unit;
    s->own = smaller((s->first_unit + each) * s->unit, width) - s->first;
    if (s->counts[rank] > 0) s->skip = (size_t)s->firsts[rank] - s->first;
}

const RankShare *shares_find(Shares *shares, size_t width, size_t unit) {
    for (size_t i = 0; i < shares->n; i++)
        if (shares->all[i]->share.width == width && shares->all[i]->unit == unit)
            return shares->all[i];
    size_t ranks = wire_ranks(shares->wire);
    if (shares->n == MOST_SHARES || width == 0 || width > INT32_MAX) return NULL;
    RankShare *s = calloc(1, sizeof *s);
    int *lists = calloc(4 * ranks, sizeof *lists);
    if (!s || !lists) {
        free(s);
        free(lists);
        return NULL;
    }
    *s = (RankShare){.share = {.gather = gather, .width = width},
                     .shares = shares,
                     .unit = unit,
                     .n_units = (width + unit - 1) / unit,
                     .counts = lists,
                     .firsts = lists + ranks,
                     .now_counts = lists + 2 * ranks,
                     .now_firsts = lists + 3 * ranks};
    divide(s, wire_rank(shares->wire), ranks);
    shares->all[shares->n++] = s;
    return s;
}

Status shares_reserve(Shares *shares, Error *error) {
    shares->capacity = FLOATS_AT_ONCE;
    for (size_t i = 0; i < shares->n; i++)
        if (shares->all[i]->share.width > shares->capacity)
            shares->capacity = shares->all[i]->share.width;
    shares->sent = malloc(shares->capacity * sizeof(float));
    shares->received = malloc(shares->capacity * sizeof(float));
    if (shares->sent && shares->received) return STATUS_OK;
    return error_set(error, "no memory for what ranks exchange");
}

/* ---- Gathering ---- */

/* One row: the others' elements arrive where they belong. */
static void gather_row(const RankShare *s, const float *own, float *whole) {
    size_t rank = wire_rank(s->shares->wire);
    memmove(whole + s->firsts[rank], own + s->skip, (size_t)s->counts[rank] * sizeof *own);
    wire_gather(s->shares->wire, NULL, whole, s->counts, s->firsts);
}

/* n rows own[n][s->own], into shares->received: for each rank [n][what it sends]. */
static void gather_rows(const RankShare *s, const float *own, size_t n) {
    Shares *shares = s->shares;
    size_t rank = wire_rank(shares->wire), ranks = wire_ranks(shares->wire);
    size_t count = (size_t)s->counts[rank];
    for (size_t r = 0; r < ranks; r++) {
        s->now_counts[r] = s->counts[r] * (int)n;
        s->now_firsts[r] = s->firsts[r] * (int)n;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(shares->sent + i * count, own + i * s->own + s->skip, count * sizeof *own);
    wire_gather(shares->wire, shares->sent, shares->received, s->now_counts, s->now_firsts);
}

/* whole[width] of row i of n, from shares->received. */
static void put_row(const RankShare *s, size_t i, size_t n, float *whole) {
    for (size_t r = 0; r < wire_ranks(s->shares->wire); r++) {
        size_t first = (size_t)s->firsts[r], count = (size_t)s->counts[r];
        memcpy(whole + first, s->shares->received + first * n + i * count, count * sizeof *whole);
    }
}

/* The last rows come first: whole rows take more room than those of one rank, and would overwrite
 * the ones behind them. */
static void gather(const Share *share, ForwardPass *pass, float *x, size_t n) {
    const RankShare *s = (const RankShare *)share;
    size_t width = share->width, most = s->shares->capacity / width;
    for (size_t end = n, first; end > 0; end = first) {
        size_t rows = smaller(end, most);
        first = end - rows;
        if (omp_get_thread_num() == 0) {
            if (rows == 1)
                gather_row(s, x + first * s->own, x + first * width);
            else
                gather_rows(s, x + first * s->own, rows);
        }
        forward_wait(pass);
        if (rows == 1) continue;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < rows; i++) put_row(s, i, rows, x + (first + i) * width);
        forward_wait(pass);
    }
}
