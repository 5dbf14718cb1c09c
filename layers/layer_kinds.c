/* The table of the kinds of layers (core/layer_kind.h). */
#include "core/layer_kind.h"

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
    [LAYER_DELTA] = &delta_layer,
    [LAYER_CONVOLUTION] = &convolution_layer,
    [LAYER_MAMBA2] = &mamba2_layer,
    [LAYER_MAMBA] = &mamba_layer,
    [LAYER_NONE] = &none_layer,
    [LAYER_DIFFERENCE] = &differential_kind,
    [LAYER_LIGHTNING] = &lightning_layer,
    [LAYER_PARALLEL_MAMBA] = &parallel_mamba_layer,
    [LAYER_SHARED] = &shared_block_layer,
    [LAYER_LATENT_MOE] = &latent_moe_layer,
    [LAYER_BLOCKS] = &blocks_layer,
    [LAYER_COMPRESSED] = &compressed_layer,
    [LAYER_CHOSEN] = &chosen_layer,
    [LAYER_CCA] = &cca_layer,
    [LAYER_RELATIVE] = &relative_layer,
    [LAYER_HEAD_MIXTURE] = &head_mixture_layer,
    [LAYER_SHARED_MAMBA] = &shared_mamba_layer,
    [LAYER_RG_LRU] = &rg_lru_layer,
    [LAYER_RWKV] = &rwkv_layer,
    [LAYER_MLSTM] = &mlstm_layer,
    [LAYER_DYNAMIC_MASK] = &dynamic_mask_layer,
};

const BranchKind *layer_kind(uint32_t number) {
    return number < LAYER_KINDS ? kinds[number] : NULL;
}
