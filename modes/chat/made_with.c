#include "modes/chat/made_with.h"

#include "modes/proof/settings.h"
#include "template/answer_hold.h"

static const char *const reasoning_words[] = {
    [REASONING_AUTO] = "auto", [REASONING_ON] = "on", [REASONING_OFF] = "off"};
static const char *const finishes[] = {[FINISH_NOT] = "interrupted",
                                       [FINISH_EOS] = "end",
                                       [FINISH_STOP] = "stop",
                                       [FINISH_LENGTH] = "length"};

json_t *made_with(const MadeWith *m) {
    json_t *json = settings_of_sampling(m->options);
    if (!json) return NULL;
    json_object_set_new(json, "sample", json_integer((json_int_t)m->options->sampling.sample));
    if (m->prompt->reasoning != REASONING_AUTO)
        json_object_set_new(json, "reasoning", json_string(reasoning_words[m->prompt->reasoning]));
    if (m->prompt->effort)
        json_object_set_new(json, "reasoning-effort", json_string(m->prompt->effort));
    if (m->budget != REASONING_UNLIMITED)
        json_object_set_new(json, "reasoning-budget", json_integer((json_int_t)m->budget));
    json_object_set_new(json, "under", json_string(m->common));
    json_object_set_new(json, "generated", json_integer((json_int_t)m->n_generated));
    json_object_set_new(json, "finish", json_string(finishes[m->finish]));
    return json;
}
