/* The table of the kinds of stacks (layer_kind.h). */
#include "layers/stacks.h"

static const StackKind *const kinds[STACKS] = {
    [STACK_GEMMA4] = &stack_gemma4,
    [STACK_ALTUP] = &stack_altup,
    [STACK_MIXED_NORMS] = &stack_mixed_norms,
    [STACK_SHORTCUT] = &stack_shortcut,
    [STACK_HYPER] = &stack_hyper,
    [STACK_MTP] = &stack_mtp,
};

const StackKind *stack_kind(StackNumber number) {
    return kinds[number];
}
