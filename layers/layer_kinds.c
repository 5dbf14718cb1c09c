/* What layers/ gives to the forward pass (core/layer_kind.h): its kinds and its arrangements. */
#include "core/layer_kind.h"

#include "layers/arrangements/arrangements.h"
#include "layers/experts/mixture.h"
#include "layers/limits.h"
#include "layers/state/convolution.h"
#include "layers/state/delta.h"
#include "layers/attention/differential.h"
#include "layers/attention/dynamic_mask.h"
#include "layers/experts/head_mixture.h"
#include "layers/attention/blocks.h"
#include "layers/attention/cca.h"
#include "layers/attention/chosen.h"
#include "layers/attention/compressed.h"
#include "layers/attention/latent.h"
#include "layers/state/lightning.h"
#include "layers/state/mamba.h"
#include "layers/state/mamba2.h"
#include "layers/experts/latent_moe.h"
#include "layers/state/mlstm.h"
#include "layers/none.h"
#include "layers/state/parallel_mamba.h"
#include "layers/attention/relative.h"
#include "layers/state/rg_lru.h"
#include "layers/state/rwkv.h"
#include "layers/attention/shared_block.h"

static const BranchKind *const kinds[LAYER_KINDS] = {
    [LAYER_LATENT] = &latent_kind,
    [LAYER_DELTA] = &delta_kind,
    [LAYER_CONVOLUTION] = &convolution_kind,
    [LAYER_MAMBA2] = &mamba2_kind,
    [LAYER_MAMBA] = &mamba_kind,
    [LAYER_NONE] = &none_kind,
    [LAYER_DIFFERENCE] = &differential_kind,
    [LAYER_LIGHTNING] = &lightning_kind,
    [LAYER_PARALLEL_MAMBA] = &parallel_mamba_kind,
    [LAYER_SHARED] = &shared_block_kind,
    [LAYER_LATENT_MOE] = &latent_moe_kind,
    [LAYER_BLOCKS] = &blocks_kind,
    [LAYER_COMPRESSED] = &compressed_kind,
    [LAYER_CHOSEN] = &chosen_kind,
    [LAYER_CCA] = &cca_kind,
    [LAYER_RELATIVE] = &relative_kind,
    [LAYER_HEAD_MIXTURE] = &head_mixture_kind,
    [LAYER_SHARED_MAMBA] = &shared_mamba_kind,
    [LAYER_RG_LRU] = &rg_lru_kind,
    [LAYER_RWKV] = &rwkv_kind,
    [LAYER_MLSTM] = &mlstm_kind,
    [LAYER_DYNAMIC_MASK] = &dynamic_mask_kind,
};

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

const LayerKinds layer_kinds = {
    .kinds = kinds,
    .arrangements = arrangements,
    .mixture = &mixture_kind,
    .activate_limited = limits_activate,
};
