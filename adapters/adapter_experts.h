/* Adapters of a mixture's parameters (peft's target_parameters): one pair of factors for all
 * experts becomes a module for each expert and matrix.
 *
 *     gate_up_proj [experts][2 * ffn][dim]    a [experts * rank][dim], b [2 * ffn][rank * experts]
 *     down_proj    [experts][dim][ffn]        a [experts * rank][ffn], b [dim][rank * experts]
 *
 * peft (tuners/lora/layer.py, ParamWrapper) calls both after the module that has the parameters,
 * `...mlp.experts`, the one that it wrapped first with `.base_layer` after it. So their shapes
 * tell which they are. The rules of families whose gates and ups are interleaved, or whose
 * parameters are transposed, name no single experts: such adapters are refused. */
#ifndef ADAPTERS_ADAPTER_EXPERTS_H
#define ADAPTERS_ADAPTER_EXPERTS_H

#include "adapters/adapter_modules.h"
#include "formats/family/families.h"

/* Replaces each such module by one module for each expert, named as in checkpoints that store
 * experts as separate matrices. The modules have both factors (adapter_check_modules). `path` is
 * for messages. */
Status adapter_split_experts(AdapterModules *modules, const Family *family, const Config *base,
                             const char *path, Error *error);

#endif
