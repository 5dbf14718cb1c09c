/* The table of the arrangements of layers/ (core/layer_kind.h). */
#include "layers/arrangements/arrangements.h"

static const Arrangement *const arrangements[STACKS] = {
    [STACK_GEMMA4] = &gemma4_arrangement,
    [STACK_ALTUP] = &altup_arrangement,
    [STACK_SHORTCUT] = &shortcut_arrangement,
    [STACK_MIXED_NORMS] = &mixed_norms_arrangement,
    [STACK_MTP] = &mtp_arrangement,
    [STACK_HYPER] = &hyper_arrangement,
    [STACK_GATED_STREAMS] = &gated_streams_arrangement,
    [STACK_SCALED_SUMS] = &scaled_sums_arrangement,
    [STACK_CONVOLVED] = &convolved_arrangement,
    [STACK_BLOCK_SUMS] = &block_sums_arrangement,
    [STACK_RESIDUAL_GATES] = &residual_gates_arrangement,
    [STACK_CYCLES] = &cycles_arrangement,
    [STACK_LOOPED] = &looped_arrangement,
};

const Arrangement *arrangement_of(StackNumber number) {
    return arrangements[number];
}
