#include "formats/family/hooks.h"

#include <string.h>

#include "formats/family/family_lists.h"

const char *const hooks_words[] = {"finish", "more", "by_layer", NULL};

const FamilyHook *hooks_find(const char *name) {
    for (const FamilyHook *const *table = families_hooks; *table; table++)
        for (const FamilyHook *hooks = *table; hooks->name; hooks++)
            if (strcmp(hooks->name, name) == 0) return hooks;
    return NULL;
}

bool hooks_take(const FamilyHook *hooks, const char *word, Family *family, GgufFamily *gguf) {
    if (strcmp(word, "finish") == 0) {
        if (gguf) return (gguf->finish = hooks->gguf_finish) != NULL;
        return (family->finish = hooks->finish) != NULL;
    }
    if (strcmp(word, "more") == 0) {
        if (gguf) return (gguf->more = hooks->gguf_more) != NULL;
        return (family->more = hooks->more) != NULL;
    }
    return gguf && (gguf->by_layer = hooks->gguf_by_layer) != NULL;
}
