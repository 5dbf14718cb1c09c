#include "core/isa.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"

typedef struct Candidate {
    Isa isa;
    bool (*supported)(void);
} Candidate;

#define CANDIDATE(name, lanes)                                                                     \
    {{#name, &numeric_##lanes, &kernels_##name, &attention_##lanes}, kernels_##name##_supported},
static const Candidate candidates[] = {EACH_ISA(CANDIDATE)};

const Isa *isa_available(size_t i) {
    for (size_t k = 0; k < sizeof candidates / sizeof *candidates; k++) {
        const Isa *isa = &candidates[k].isa;
        bool works = candidates[k].supported() && (!isa->kernels->agrees || isa->kernels->agrees());
        if (works && i-- == 0) return isa;
        if (machine_ends_at_isa(isa->name)) break;
    }
    return NULL;
}

const Isa *isa_choose(const char *name, Error *error) {
    char known[128] = "";
    const Isa *best = NULL;
    for (size_t i = 0; isa_available(i); i++) {
        const Isa *isa = isa_available(i);
        if (name && strcmp(name, isa->name) == 0) return isa;
        if (!isa->kernels->is_faster || isa->kernels->is_faster()) best = isa;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", isa->name);
    }
    if (!name) return best;
    error_set(error, "no instruction set '%s' on this machine; it has %s", name, known);
    return NULL;
}
