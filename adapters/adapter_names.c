#include "adapters/adapter_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *adapter_peft_name(const Family *family, const char *module) {
    static const char *const prefixes[] = {"model.language_model.",
                                           "language_model.model.",
                                           "model.",
                                           "transformer.",
                                           "gpt_neox.",
                                           "language_model.backbone.",
                                           "backbone."};
    static const char outer[] = "language_model.";
    const char *start = "", *rest = module;
    bool has_model_prefix = strncmp(family->tensors->from, "model.", 6) == 0;
    bool found = !has_model_prefix;
    /* A prefix of peft's gives way to the rules' own. */
    for (size_t i = 0; !found && i < sizeof prefixes / sizeof *prefixes; i++) {
        found = strncmp(module, prefixes[i], strlen(prefixes[i])) == 0;
        if (found) start = "model.", rest = module + strlen(prefixes[i]);
    }
    if (!found && strncmp(module, outer, sizeof outer - 1) == 0) rest += sizeof outer - 1;
    /* Else the name's first part, "layers" or "lm_head", may be what a rule begins with. */
    size_t first = strcspn(rest, ".");
    const char *layers = family_layers(family);
    found = found || (strncmp(layers, rest, first) == 0 && layers[first] == '.');
    for (const TensorRule *rule = family->tensors; !found && rule->to; rule++)
        found = strncmp(rule->from, rest, first) == 0 &&
                (rule->from[first] == '.' || rule->from[first] == '\0');
    if (!found) start = "model.";
    size_t size = strlen(start) + strlen(rest) + sizeof ".weight";
    char *name = malloc(size);
    if (name) snprintf(name, size, "%s%s.weight", start, rest);
    return name;
}
