/* The table of the kinds of layers (layer_kind.h). */
#include "layer_kind.h"

#include "layers/convolution.h"
#include "layers/delta.h"
#include "layers/differential.h"
#include "layers/dynamic_mask.h"
#include "layers/head_mixture.h"
#include "layers/blocks.h"
#include "layers/cca.h"
#include "layers/chosen.h"
#include "layers/compressed.h"
#include "layers/latent.h"
#include "layers/lightning.h"
#include "layers/mamba.h"
#include "layers/mamba2.h"
#include "layers/latent_moe.h"
#include "layers/mlstm.h"
#include "layers/none.h"
#include "layers/parallel_mamba.h"
#include "layers/relative.h"
#include "layers/rg_lru.h"
#include "layers/rwkv.h"
#include "layers/shared_block.h"

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
