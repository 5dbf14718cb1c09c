/* What the full program asks of an open model, and what it lets watch and steer its passes. The
 * core does neither. */
#include "core/forward_steps.h"
#include "model.h"

int model_threads(const Model *m) {
    return m->n_threads;
}

void model_set_attention_observer(Model *m, const AttentionObserver *observer) {
    m->observer = observer;
}

void model_set_hook(Model *m, const PassHook *hook) {
    m->hook = hook;
}

void model_set_weight_watch(Model *m, const WeightWatch *watch) {
    m->watch = watch;
}

bool model_can_resume(const Model *m) {
    const Config *c = m->config;
    if (c->stack != STACK_PLAIN || m->exchange) return false;
    for (size_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] != LAYER_ATTENTION || c->kv_distance[l] > 0) return false;
    return true;
}

void model_set_resume(Model *m, PassResume *resume) {
    m->resume = model_can_resume(m) ? resume : NULL;
}

void model_set_clock(Model *m, double *seconds) {
    m->seconds = seconds;
}

void model_set_pass_control(Model *m, PassControl *control) {
    m->control = control;
}

const float *model_final_states(const Model *m) {
    return m->normed;
}
