#include "ports/cluster/share.h"

#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ports/cluster/codes.h"

enum { MOST_SHARES = 256 };

/* Rows are gathered so many floats at a time, or one row. */
enum { FLOATS_AT_ONCE = 1 << 20 };

struct Shares {
    Wire *wire;
    Observed *observed;
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
    return observed_new(&shares->observed, wire, error);
}

void shares_free(Shares *shares) {
    if (!shares) return;
    for (size_t i = 0; i < shares->n; i++) {
        free(shares->all[i]->counts);
        free(shares->all[i]);
    }
    observed_free(shares->observed);
    free(shares->sent);
    free(shares->received);
    free(shares);
}

static void share_gather(const Share *share, ForwardPass *pass, float *x, size_t n);

/* Divides the share's units among the ranks, and sets offsets and lengths of what each rank
 * computes and sends. Every rank computes `each` units, the last ones some of their neighbours'
 * once more (share.h); rank r sends units [r * each, (r + 1) * each) alone. */
static void divide(RankShare *s, size_t rank, size_t ranks) {
    size_t width = s->share.width, each = (s->n_units + ranks - 1) / ranks;
    for (size_t r = 0; r < ranks; r++) {
        size_t begin = size_min(size_min(r * each, s->n_units) * s->unit, width);
        size_t end = size_min(size_min((r + 1) * each, s->n_units) * s->unit, width);
        s->firsts[r] = (int)begin;
        s->counts[r] = (int)(end - begin);
    }
    s->first_unit = size_min(rank * each, s->n_units - each);
    s->own_units = each;
    s->first = s->first_unit * s->unit;
    s->own = size_min((s->first_unit + each) * s->unit, width) - s->first;
    if (s->counts[rank] > 0) s->skip = (size_t)s->firsts[rank] - s->first;
    for (size_t r = 0; r < ranks; r++) {
        size_t n = (size_t)s->counts[r];
        s->starts[r] = (int)s->packed_width;
        s->packed[r] = (int)(s->group ? codes_floats(n, s->group) : n);
        s->packed_width += (size_t)s->packed[r];
    }
}

const RankShare *shares_find(Shares *shares, size_t width, size_t unit, size_t group, size_t head) {
    for (size_t i = 0; i < shares->n; i++) {
        const RankShare *s = shares->all[i];
        if (s->share.width == width && s->unit == unit && s->group == group && s->head == head)
            return s;
    }
    size_t ranks = wire_ranks(shares->wire);
    if (shares->n == MOST_SHARES || width == 0 || width > INT32_MAX / 16) return NULL;
    RankShare *s = calloc(1, sizeof *s);
    int *lists = calloc(6 * ranks, sizeof *lists);
    if (!s || !lists) {
        free(s);
        free(lists);
        return NULL;
    }
    *s = (RankShare){.share = {.gather = share_gather, .width = width},
                     .shares = shares,
                     .unit = unit,
                     .n_units = (width + unit - 1) / unit,
                     .group = group,
                     .head = head,
                     .counts = lists,
                     .firsts = lists + ranks,
                     .packed = lists + 2 * ranks,
                     .starts = lists + 3 * ranks,
                     .now_counts = lists + 4 * ranks,
                     .now_firsts = lists + 5 * ranks};
    divide(s, wire_rank(shares->wire), ranks);
    shares->all[shares->n++] = s;
    return s;
}

Observed *shares_observed(Shares *shares) {
    return shares->observed;
}

Status shares_reserve(Shares *shares, Error *error) {
    shares->capacity = FLOATS_AT_ONCE;
    for (size_t i = 0; i < shares->n; i++) {
        const RankShare *s = shares->all[i];
        size_t width = s->share.width > s->packed_width ? s->share.width : s->packed_width;
        if (width > shares->capacity) shares->capacity = width;
    }
    shares->sent = malloc(shares->capacity * sizeof(float));
    shares->received = malloc(shares->capacity * sizeof(float));
    if (shares->sent && shares->received) return STATUS_OK;
    return error_set(error, "no memory for what ranks exchange");
}

/* ---- Gathering ---- */

/* One row of floats: the others' elements arrive where they belong. */
static void gather_row(const RankShare *s, const float *own, float *whole) {
    size_t rank = wire_rank(s->shares->wire);
    memmove(whole + s->firsts[rank], own + s->skip, (size_t)s->counts[rank] * sizeof *own);
    wire_gather(s->shares->wire, NULL, whole, s->counts, s->firsts);
}

/* Puts what this rank sends of row i into shares->sent. */
static void pack_row(const RankShare *s, size_t i, const float *own) {
    size_t rank = wire_rank(s->shares->wire), count = (size_t)s->counts[rank];
    float *packed = s->shares->sent + i * (size_t)s->packed[rank];
    if (s->group)
        codes_pack(own + s->skip, count, s->group, packed);
    else
        memcpy(packed, own + s->skip, count * sizeof *own);
}

/* Sends n rows of shares->sent and receives shares->received: for each rank [n][what it sends]. */
static void gather_rows(const RankShare *s, size_t n) {
    Shares *shares = s->shares;
    for (size_t r = 0; r < wire_ranks(shares->wire); r++) {
        s->now_counts[r] = s->packed[r] * (int)n;
        s->now_firsts[r] = s->starts[r] * (int)n;
    }
    wire_gather(shares->wire, shares->sent, shares->received, s->now_counts, s->now_firsts);
}

/* whole[width] of row i of n, from shares->received. */
static void put_row(const RankShare *s, size_t i, size_t n, float *whole) {
    for (size_t r = 0; r < wire_ranks(s->shares->wire); r++) {
        size_t count = (size_t)s->counts[r];
        const float *packed =
            s->shares->received + (size_t)s->starts[r] * n + i * (size_t)s->packed[r];
        if (s->group)
            codes_unpack(packed, count, s->group, whole + s->firsts[r]);
        else
            memcpy(whole + s->firsts[r], packed, count * sizeof *whole);
    }
}

/* Rank 0's observers of attention see the other ranks' heads. */
static void hand_over(const RankShare *s, ForwardPass *pass) {
    const ObservedHeads heads = {s->first / s->head, s->firsts, s->counts, s->head};
    if (omp_get_thread_num() == 0) observed_hand_over(s->shares->observed, pass, &heads);
    forward_wait(pass);
}

/* Spreads each rank's part of the rows to whole rows on all ranks. The last rows come first: a
 * whole row takes more room than one rank's part, and would overwrite the parts after it. */
static void share_gather(const Share *share, ForwardPass *pass, float *x, size_t n) {
    const RankShare *s = (const RankShare *)share;
    size_t width = share->width, wider = s->packed_width > width ? s->packed_width : width;
    size_t most = s->shares->capacity / wider;
    if (s->head > 0 && pass->model->watched & PASS_ATTENTION) hand_over(s, pass);
    for (size_t end = n, first; end > 0; end = first) {
        size_t rows = size_min(end, most);
        bool in_place = rows == 1 && !s->group;
        first = end - rows;
        if (!in_place) {
#pragma omp for schedule(static) nowait
            for (size_t i = 0; i < rows; i++) pack_row(s, i, x + (first + i) * s->own);
            forward_wait(pass);
        }
        if (omp_get_thread_num() == 0) {
            if (in_place)
                gather_row(s, x + first * s->own, x + first * width);
            else
                gather_rows(s, rows);
        }
        forward_wait(pass);
        if (in_place) continue;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < rows; i++) put_row(s, i, rows, x + (first + i) * width);
        forward_wait(pass);
    }
}
