#include "formats/families.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const Family *const tables[] = {
    families_llama,
    families_gpt,
    families_experts,
    families_routed,
    families_recent,
    families_vision,
    families_mixtures,
    families_state,
    families_gemma,
};
/* clang-format on */
enum { TABLES = sizeof tables / sizeof *tables };

const Family *family_find(const char *model_type) {
    for (size_t i = 0; i < TABLES; i++)
        for (const Family *family = tables[i]; family->model_type; family++)
            if (strcmp(family->model_type, model_type) == 0) return family;
    return NULL;
}

void family_names(char *text, size_t size) {
    size_t length = 0;
    if (size) text[0] = '\0';
    for (size_t i = 0; i < TABLES; i++)
        for (const Family *family = tables[i]; family->model_type && length < size; family++)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                       family->model_type);
}
