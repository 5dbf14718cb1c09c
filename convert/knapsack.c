#include "convert/knapsack.h"

static size_t smallest(const KnapsackUnit *unit) {
    size_t best = 0;
    for (size_t k = 1; k < unit->n; k++) {
        const KnapsackOption *a = &unit->options[k], *b = &unit->options[best];
        if (a->bytes < b->bytes || (a->bytes == b->bytes && a->cost < b->cost)) best = k;
    }
    return best;
}

uint64_t knapsack_least(const KnapsackUnit *units, size_t n) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += units[i].options[smallest(&units[i])].bytes;
    return bytes;
}

/* The next option on the unit's hull after `from`: the larger one that saves most a byte, the
 * largest of equals. `from` itself where no larger one saves anything. */
static size_t next_on_hull(const KnapsackUnit *unit, size_t from, double *rate) {
    size_t best = from;
    *rate = 0.0;
    for (size_t k = 0; k < unit->n; k++) {
        const KnapsackOption *a = &unit->options[from], *b = &unit->options[k];
        if (b->bytes <= a->bytes) continue;
        double saved = (a->cost - b->cost) / (double)(b->bytes - a->bytes);
        if (saved > *rate ||
            (saved > 0.0 && saved >= *rate && b->bytes > unit->options[best].bytes)) {
            *rate = saved;
            best = k;
        }
    }
    return best;
}

/* Takes the steps along all hulls, the best first, up to the first that does not fit. */
static void climb_hulls(const KnapsackUnit *units, size_t n, uint64_t *room, size_t *chosen) {
    for (;;) {
        size_t unit = n, option = 0;
        double best = 0.0, rate;
        for (size_t i = 0; i < n; i++) {
            size_t next = next_on_hull(&units[i], chosen[i], &rate);
            if (!(rate > best)) continue;
            best = rate;
            unit = i;
            option = next;
        }
        if (unit == n) return;
        uint64_t more = units[unit].options[option].bytes - units[unit].options[chosen[unit]].bytes;
        if (more > *room) return;
        *room -= more;
        chosen[unit] = option;
    }
}

typedef struct Exchange {
    size_t units[2], options[2];
    double saved;
} Exchange;

/* Whether options j and l of units i and k fit together into the room; they may be those that are
 * chosen. */
static void try_exchange(const KnapsackUnit *units, uint64_t room, const size_t *chosen, size_t i,
                         size_t j, size_t k, size_t l, Exchange *best) {
    const KnapsackOption *a = &units[i].options[chosen[i]], *b = &units[i].options[j];
    const KnapsackOption *c = &units[k].options[chosen[k]], *d = &units[k].options[l];
    if (b->bytes + d->bytes > a->bytes + c->bytes + room) return;
    double saved = (a->cost - b->cost) + (c->cost - d->cost);
    if (saved > best->saved) *best = (Exchange){{i, k}, {j, l}, saved};
}

static Exchange best_exchange(const KnapsackUnit *units, size_t n, uint64_t room,
                              const size_t *chosen) {
    Exchange best = {.saved = 0.0};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < units[i].n; j++) {
            const KnapsackOption *a = &units[i].options[chosen[i]], *b = &units[i].options[j];
            if (!(b->cost < a->cost)) continue; /* one of the two must gain */
            if (b->bytes <= a->bytes + room && a->cost - b->cost > best.saved)
                best = (Exchange){{i, i}, {j, j}, a->cost - b->cost};
            for (size_t k = 0; k < n; k++)
                for (size_t l = 0; k != i && l < units[k].n; l++)
                    try_exchange(units, room, chosen, i, j, k, l, &best);
        }
    return best;
}

bool knapsack_solve(const KnapsackUnit *units, size_t n, uint64_t limit, size_t *chosen) {
    uint64_t least = knapsack_least(units, n);
    for (size_t i = 0; i < n; i++) chosen[i] = smallest(&units[i]);
    if (least > limit) return false;
    uint64_t room = limit - least;
    climb_hulls(units, n, &room, chosen);
    for (;;) {
        Exchange e = best_exchange(units, n, room, chosen);
        if (!(e.saved > 0.0)) return true;
        for (size_t s = 0; s < (e.units[0] == e.units[1] ? 1u : 2u); s++) {
            const KnapsackOption *options = units[e.units[s]].options;
            room += options[chosen[e.units[s]]].bytes;
            room -= options[e.options[s]].bytes;
            chosen[e.units[s]] = e.options[s];
        }
    }
}
