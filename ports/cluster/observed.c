#include "ports/cluster/observed.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "layers/model_watch.h"
#include "model.h"

/* A row of weights: this and its n numbers, one row after another. */
typedef struct KeptRow {
    uint32_t layer, row, head;
    int32_t first;
    uint32_t n;
    uint32_t is_scores; /* 0: softmax weights */
} KeptRow;

enum { KEPT_FLOATS = sizeof(KeptRow) / sizeof(float) };

struct Observed {
    PassObserver observer; /* of a rank that follows; the first field */
    Wire *wire;
    const Model *model;
    float *kept; /* [n] rows of this rank */
    size_t n, capacity;
    float *received; /* rows of all ranks */
    size_t received_capacity;
    int *counts, *firsts; /* [ranks] of received */
    bool failed;          /* no memory for a row */
};

/* ---- Keeping ---- */

/* Whether the ranks share the layer's heads. Of other layers rank 0 sees all heads itself. */
static bool is_divided(const Model *m, size_t layer) {
    return config_heads(m->config, layer).n_heads !=
           config_heads(modelfile_config(m->file), layer).n_heads;
}

/* Copies the numbers of a row and head to o->kept until rank 0 asks for them. */
static void observed_keep(Observed *o, const KeptRow *kept, const float *numbers) {
    size_t n = kept->n;
    if (!is_divided(o->model, kept->layer)) return;
#pragma omp critical(observed)
    {
        size_t end = o->n + KEPT_FLOATS + n;
        if (o->failed || !array_reserve(&o->kept, &o->capacity, end, sizeof *o->kept)) {
            o->failed = true;
        } else {
            memcpy(o->kept + o->n, kept, sizeof *kept);
            memcpy(o->kept + o->n + KEPT_FLOATS, numbers, n * sizeof *numbers);
            o->n = end;
        }
    }
}

Status observed_new(Observed **out, Wire *wire, Error *error) {
    size_t ranks = wire_ranks(wire);
    Observed *o = calloc(1, sizeof *o);
    int *counts = calloc(2 * ranks, sizeof *counts);
    if (!o || !counts) {
        free(o);
        free(counts);
        return error_set(error, "no memory to observe ranks");
    }
    *o = (Observed){.wire = wire, .counts = counts, .firsts = counts + ranks};
    *out = o;
    return STATUS_OK;
}

void observed_free(Observed *o) {
    if (!o) return;
    free(o->kept);
    free(o->received);
    free(o->counts);
    free(o);
}

static void keep_weights(PassObserver *observer, size_t layer, size_t row, size_t head,
                         int32_t first, float *weights, size_t n) {
    const KeptRow kept = {(uint32_t)layer, (uint32_t)row, (uint32_t)head, first, (uint32_t)n, 0};
    observed_keep((Observed *)observer, &kept, weights);
}

static void keep_scores(PassObserver *observer, size_t layer, size_t row, size_t head,
                        int32_t first, float *scores, size_t n) {
    const KeptRow kept = {(uint32_t)layer, (uint32_t)row, (uint32_t)head, first, (uint32_t)n, 1};
    observed_keep((Observed *)observer, &kept, scores);
}

unsigned observed_kinds(const Model *model) {
    return (model->watched & PASS_ATTENDED ? OBSERVED_WEIGHTS : 0) |
           (model->watched & PASS_SCORED ? OBSERVED_SCORES : 0);
}

void observed_begin(Observed *o, Model *model, unsigned kinds) {
    o->model = model;
    o->n = 0;
    model_remove_observer(model, &o->observer);
    o->observer = (PassObserver){.scored = kinds & OBSERVED_SCORES ? keep_scores : NULL,
                                 .attended = kinds & OBSERVED_WEIGHTS ? keep_weights : NULL};
    if (kinds) model_add_observer(model, &o->observer);
}

/* ---- Handing over ---- */

/* Numbers the kept rows' heads as the whole model does. */
static void number_heads(Observed *o, size_t first) {
    for (size_t at = 0; at < o->n;) {
        KeptRow row;
        memcpy(&row, o->kept + at, sizeof row);
        row.head += (uint32_t)first;
        memcpy(o->kept + at, &row, sizeof row);
        at += KEPT_FLOATS + row.n;
    }
}

/* The most floats that one rank keeps of a layer: of each row and head its scores and its softmax
 * weights, each a KeptRow and up to `context` numbers. */
static size_t most_floats(const ForwardPass *pass) {
    const Config *whole = modelfile_config(pass->model->file);
    size_t heads = 0;
    for (size_t l = 0; l < whole->n_layers; l++) {
        size_t n = config_heads(whole, l).n_heads;
        if (n > heads) heads = n;
    }
    return 2 * pass->n * heads * (KEPT_FLOATS + pass->model->context);
}

/* Gathers the kept rows of all ranks. */
static void observed_gather(Observed *o, size_t most) {
    size_t ranks = wire_ranks(o->wire), total = 0;
    uint64_t own = o->n, *all = calloc(ranks, sizeof *all);
    if (!all || o->failed) wire_fail(o->wire, "no memory for what attention shows");
    /* cppcheck-suppress nullPointerRedundantCheck; wire_fail does not return */
    wire_gather_bytes(o->wire, &own, sizeof own, all);
    for (size_t r = 0; r < ranks; r++) {
        if (all[r] > most) wire_fail(o->wire, "rank %zu sent more of attention than there is", r);
        if (all[r] > INT_MAX - total)
            wire_fail(o->wire, "attention shows too much at once: choose a smaller --chunk");
        o->firsts[r] = (int)total;
        o->counts[r] = (int)all[r];
        total += all[r];
    }
    free(all);
    if (!array_reserve(&o->received, &o->received_capacity, total + 1, sizeof *o->received) ||
        !array_reserve(&o->kept, &o->capacity, 1, sizeof *o->kept))
        wire_fail(o->wire, "no memory for what attention shows");
    wire_gather(o->wire, o->kept, o->received, o->counts, o->firsts);
    o->n = 0;
}

/* Whether the row, of which `left` floats have come, can be one of this pass. */
static bool is_sound(const ForwardPass *pass, const KeptRow *row, size_t left) {
    const Config *whole = modelfile_config(pass->model->file);
    int32_t last = 0;
    for (size_t i = 0; i < pass->n; i++)
        if (pass->rows[i].position > last) last = pass->rows[i].position;
    return left >= KEPT_FLOATS && row->n <= left - KEPT_FLOATS && row->layer < whole->n_layers &&
           row->row < pass->n && row->head < config_heads(whole, row->layer).n_heads &&
           row->first >= 0 && (int64_t)row->first + row->n <= (int64_t)last + 1;
}

/* Gives rank 0's observers the rows of another rank. A head that two ranks computed is shown once:
 * from the earlier one. */
static void show(const Observed *o, const ForwardPass *pass, size_t rank,
                 const ObservedHeads *heads) {
    PassObserver *observers = pass->model->observers;
    size_t end = (size_t)o->firsts[rank] + (size_t)o->counts[rank];
    for (size_t at = (size_t)o->firsts[rank]; at < end;) {
        KeptRow row = {.n = 0};
        if (end - at >= KEPT_FLOATS) memcpy(&row, o->received + at, sizeof row);
        if (!is_sound(pass, &row, end - at))
            wire_fail(o->wire, "rank %zu sent attention that it cannot have computed", rank);
        float *numbers = o->received + at + KEPT_FLOATS;
        at += KEPT_FLOATS + row.n;
        if (heads->sent[rank] == 0 || row.head * heads->value_dim < (size_t)heads->sent_from[rank])
            continue;
        if (row.is_scores) {
            OBSERVERS_CALL(observers, scored, row.layer, row.row, row.head, row.first, numbers,
                           row.n);
        } else {
            OBSERVERS_CALL(observers, attended, row.layer, row.row, row.head, row.first, numbers,
                           row.n);
        }
    }
}

void observed_hand_over(Observed *o, const ForwardPass *pass, const ObservedHeads *heads) {
    number_heads(o, heads->first);
    observed_gather(o, most_floats(pass));
    if (wire_rank(o->wire) != 0) return;
    for (size_t r = 1; r < wire_ranks(o->wire); r++) show(o, pass, r, heads);
}
