#include "draft/forced.h"

#include <stdlib.h>

typedef struct Forced {
    Drafter drafter;
    TokenRule *rule;
} Forced;

static size_t forced_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                             size_t most) {
    TokenRule *rule = ((Forced *)drafter)->rule;
    (void)text, (void)n;
    return rule->forced(rule, drafts, most);
}

static void forced_learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter, (void)n, (void)accepted;
}

static void forced_free(Drafter *drafter) {
    free(drafter);
}

Drafter *forced_new(TokenRule *rule) {
    Forced *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->drafter = (Drafter){.most = DRAFTS_MAX,
                           .propose = forced_propose,
                           .learn = forced_learn,
                           .free = forced_free,
                           .first = true};
    f->rule = rule;
    return &f->drafter;
}
