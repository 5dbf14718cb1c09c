#include "tests/thread_wire.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum ShownKind { SHOWN_FLOATS, SHOWN_BYTES, SHOWN_BROADCAST } ShownKind;

/* What a rank shows to the others in an exchange. */
typedef struct Shown {
    ShownKind kind;
    const void *data;
    size_t bytes;      /* of data */
    const int *counts; /* [ranks] SHOWN_FLOATS: the floats that it expects of each */
    void *changed;     /* a copy of data, or NULL */
} Shown;

typedef struct Hall {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    size_t ranks, gathered;
    size_t arrived, meetings;
    bool over; /* a rank has left */
    ThreadWireDisturb *disturb;
    void *context;
    Shown *shown; /* [ranks] */
} Hall;

struct Wire {
    size_t rank, exchanges;
    Hall *hall;
    jmp_buf *on_failure;
    char name[40];
};

Wire **thread_wires_new(size_t ranks) {
    Hall *hall = calloc(1, sizeof *hall);
    Wire **wires = calloc(ranks + 1, sizeof *wires);
    if (!hall || !wires || !(hall->shown = calloc(ranks, sizeof *hall->shown))) abort();
    hall->ranks = ranks;
    pthread_mutex_init(&hall->lock, NULL);
    pthread_cond_init(&hall->all_here, NULL);
    for (size_t r = 0; r < ranks; r++) {
        if (!(wires[r] = calloc(1, sizeof **wires))) abort();
        wires[r]->rank = r;
        wires[r]->hall = hall;
        snprintf(wires[r]->name, sizeof wires[r]->name, "rank %zu (a thread)", r);
    }
    return wires;
}

void thread_wires_free(Wire **wires) {
    Hall *hall = wires[0]->hall;
    for (size_t r = 0; wires[r]; r++) free(wires[r]);
    pthread_mutex_destroy(&hall->lock);
    pthread_cond_destroy(&hall->all_here);
    free(hall->shown);
    free(hall);
    free(wires);
}

size_t thread_wires_gathered(Wire *const *wires) {
    return wires[0]->hall->gathered;
}

void thread_wires_disturb(Wire *const *wires, ThreadWireDisturb *disturb, void *context) {
    wires[0]->hall->disturb = disturb;
    wires[0]->hall->context = context;
}

void thread_wire_on_failure(Wire *wire, jmp_buf *out) {
    wire->on_failure = out;
}

void thread_wire_leave(Wire *wire) {
    Hall *hall = wire->hall;
    pthread_mutex_lock(&hall->lock);
    hall->over = true;
    pthread_cond_broadcast(&hall->all_here);
    pthread_mutex_unlock(&hall->lock);
}

size_t wire_rank(const Wire *wire) {
    return wire->rank;
}
size_t wire_ranks(const Wire *wire) {
    return wire->hall->ranks;
}
const char *wire_name(const Wire *wire) {
    return wire->name;
}

/* ---- Exchanges ---- */

/* Waits for all ranks. False: one has left. */
static bool meet(Hall *hall) {
    pthread_mutex_lock(&hall->lock);
    size_t meeting = hall->meetings;
    if (!hall->over && ++hall->arrived == hall->ranks) {
        hall->arrived = 0;
        hall->meetings++;
        pthread_cond_broadcast(&hall->all_here);
    }
    while (!hall->over && hall->meetings == meeting)
        pthread_cond_wait(&hall->all_here, &hall->lock);
    bool met = hall->meetings != meeting;
    pthread_mutex_unlock(&hall->lock);
    return met;
}

/* Whether all ranks mean the same exchange; each comes to the same answer. */
static bool agree(const Hall *hall) {
    const Shown *first = &hall->shown[0];
    for (size_t r = 0; r < hall->ranks; r++) {
        const Shown *s = &hall->shown[r];
        if (s->kind != first->kind) return false;
        if (s->kind != SHOWN_FLOATS && s->bytes != first->bytes) return false;
        for (size_t q = 0; s->kind == SHOWN_FLOATS && q < hall->ranks; q++)
            if (s->counts[q] != first->counts[q]) return false;
    }
    return true;
}

/* Begins an exchange. False: there is none any more; else the others' data are in hall->shown until
 * finish is called. */
static bool show(Wire *wire, Shown shown) {
    Hall *hall = wire->hall;
    size_t exchange = wire->exchanges++;
    if (hall->disturb && shown.bytes > 0 && (shown.kind != SHOWN_BROADCAST || wire->rank == 0)) {
        if (!(shown.changed = malloc(shown.bytes))) abort();
        memcpy(shown.changed, shown.data, shown.bytes);
        hall->disturb(hall->context, exchange, wire->rank, shown.changed, shown.bytes);
        shown.data = shown.changed;
    }
    hall->shown[wire->rank] = shown;
    bool met = meet(hall), agreed = met && agree(hall);
    if (met && !agreed) meet(hall); /* all have compared */
    if (!agreed) {
        if (met) thread_wire_leave(wire);
        free(shown.changed);
    }
    return agreed;
}

static void finish(Wire *wire) {
    meet(wire->hall);
    free(wire->hall->shown[wire->rank].changed);
}

void wire_gather(Wire *wire, const float *own, float *whole, const int *counts, const int *firsts) {
    Hall *hall = wire->hall;
    bool shown = show(wire, (Shown){.kind = SHOWN_FLOATS,
                                    .data = own ? own : whole + firsts[wire->rank],
                                    .bytes = (size_t)counts[wire->rank] * sizeof *whole,
                                    .counts = counts});
    for (size_t r = 0; r < hall->ranks; r++) {
        size_t bytes = (size_t)counts[r] * sizeof *whole;
        if (wire->rank == 0) hall->gathered += (size_t)counts[r];
        if ((!own && r == wire->rank) || bytes == 0) continue;
        if (shown)
            memcpy(whole + firsts[r], hall->shown[r].data, bytes);
        else
            memset(whole + firsts[r], 0, bytes);
    }
    if (shown) finish(wire);
}

void wire_gather_bytes(Wire *wire, const void *own, size_t bytes, void *all) {
    bool shown = show(wire, (Shown){.kind = SHOWN_BYTES, .data = own, .bytes = bytes});
    for (size_t r = 0; r < wire->hall->ranks && shown; r++)
        memcpy((char *)all + r * bytes, wire->hall->shown[r].data, bytes);
    if (shown)
        finish(wire);
    else
        memset(all, 0, wire->hall->ranks * bytes);
}

void wire_broadcast(Wire *wire, void *data, size_t bytes) {
    bool shown = show(wire, (Shown){.kind = SHOWN_BROADCAST, .data = data, .bytes = bytes});
    if (shown && wire->rank > 0) memcpy(data, wire->hall->shown[0].data, bytes);
    if (!shown && wire->rank > 0) memset(data, 0, bytes);
    if (shown) finish(wire);
}

void wire_fail(Wire *wire, const char *format, ...) {
    va_list list;
    if (wire->on_failure) {
        thread_wire_leave(wire);
        longjmp(*wire->on_failure, 1);
    }
    fprintf(stderr, "%s: ", wire->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}
