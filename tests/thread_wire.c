#include "tests/thread_wire.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Hall {
    pthread_barrier_t barrier;
    size_t ranks, gathered;
    const void **shown; /* [ranks] what each rank shows to the others */
} Hall;

struct Wire {
    size_t rank;
    Hall *hall;
    char name[40];
};

Wire **thread_wires_new(size_t ranks) {
    Hall *hall = calloc(1, sizeof *hall);
    Wire **wires = calloc(ranks + 1, sizeof *wires);
    if (!hall || !wires || !(hall->shown = calloc(ranks, sizeof *hall->shown))) abort();
    hall->ranks = ranks;
    pthread_barrier_init(&hall->barrier, NULL, (unsigned)ranks);
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
    pthread_barrier_destroy(&hall->barrier);
    free(hall->shown);
    free(hall);
    free(wires);
}

size_t thread_wires_gathered(Wire *const *wires) {
    return wires[0]->hall->gathered;
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

static void show(Wire *wire, const void *data) {
    wire->hall->shown[wire->rank] = data;
    pthread_barrier_wait(&wire->hall->barrier);
}

void wire_gather(Wire *wire, const float *own, float *whole, const int *counts, const int *firsts) {
    Hall *hall = wire->hall;
    show(wire, own ? own : whole + firsts[wire->rank]);
    for (size_t r = 0; r < hall->ranks; r++) {
        if (wire->rank == 0) hall->gathered += (size_t)counts[r];
        if (!own && r == wire->rank) continue;
        memcpy(whole + firsts[r], hall->shown[r], (size_t)counts[r] * sizeof *whole);
    }
    pthread_barrier_wait(&hall->barrier);
}

void wire_gather_bytes(Wire *wire, const void *own, size_t bytes, void *all) {
    show(wire, own);
    for (size_t r = 0; r < wire->hall->ranks; r++)
        memcpy((char *)all + r * bytes, wire->hall->shown[r], bytes);
    pthread_barrier_wait(&wire->hall->barrier);
}

void wire_broadcast(Wire *wire, void *data, size_t bytes) {
    show(wire, data);
    if (wire->rank > 0) memcpy(data, wire->hall->shown[0], bytes);
    pthread_barrier_wait(&wire->hall->barrier);
}

void wire_fail(Wire *wire, const char *format, ...) {
    va_list list;
    fprintf(stderr, "%s: ", wire->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}
