#include "layers/model_watch.h"

#include "core/forward_steps.h"

int model_threads(const Model *m) {
    return m->n_threads;
}

const float *model_final_states(const Model *m) {
    return m->normed;
}

/* ---- Observers ---- */

static unsigned functions_of(const PassObserver *o) {
    return (o->begin ? PASS_BEGIN : 0) | (o->part_begins ? PASS_PARTS : 0) |
           (o->embedded ? PASS_EMBEDDED : 0) | (o->multiplied ? PASS_MULTIPLIED : 0) |
           (o->reads_inputs ? PASS_INPUTS : 0) | (o->chosen ? PASS_CHOSEN : 0) |
           (o->scored ? PASS_SCORED : 0) | (o->attended ? PASS_ATTENDED : 0) |
           (o->reached ? PASS_REACHED : 0) | (o->timed ? PASS_TIMED : 0);
}

void model_remove_observer(Model *m, const PassObserver *observer) {
    m->watched = 0;
    for (PassObserver **at = &m->observers; *at;) {
        if (*at == observer) {
            *at = observer->next;
        } else {
            m->watched |= functions_of(*at);
            at = &(*at)->next;
        }
    }
}

void model_add_observer(Model *m, PassObserver *observer) {
    model_remove_observer(m, observer);
    PassObserver **end = &m->observers;
    while (*end) end = &(*end)->next;
    observer->next = NULL;
    *end = observer;
    m->watched |= functions_of(observer);
}

bool model_can_resume(const Model *m) {
    const Config *c = m->config;
    if (c->stack != STACK_PLAIN || m->exchange) return false;
    for (size_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] != LAYER_ATTENTION || c->kv_distance[l] > 0) return false;
    return true;
}
