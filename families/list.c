/* The files of this folder with functions that pages name: a new one adds a line here. */
#include "formats/family/family.h"
#include "formats/family/family_lists.h"

/* clang-format off */
#define HOOKS(X) \
    X(apertus) \
    X(axk) \
    X(bailing_hybrid) \
    X(beam) \
    X(chameleon) \
    X(codegen) \
    X(cohere2_moe) \
    X(cohere_compass) \
    X(deepseek) \
    X(deepseek_v4) \
    X(diffllama) \
    X(doge) \
    X(dory) \
    X(dots3_note) \
    X(ernie4_5) \
    X(evolla) \
    X(falcon) \
    X(falcon_h1) \
    X(flint) \
    X(gemma) \
    X(gemma4) \
    X(glm5_next) \
    X(gpt_neo) \
    X(granite_swa) \
    X(granitemoehybrid) \
    X(hrm_text) \
    X(hunyuan) \
    X(hy_v4) \
    X(idefics) \
    X(inkling) \
    X(internlm) \
    X(jetmoe) \
    X(kimi_linear) \
    X(kosmos) \
    X(laguna) \
    X(lara_mini) \
    X(lfm2) \
    X(llama4) \
    X(longcat_flash) \
    X(mamba) \
    X(mimo_v2_flash) \
    X(minicpm3) \
    X(minimax) \
    X(minimax_m3) \
    X(mistral4) \
    X(mistral_large4) \
    X(mllama) \
    X(modernbert_decoder) \
    X(molmo2) \
    X(mpt) \
    X(muse_glimmer) \
    X(nanochat) \
    X(nemotron_h) \
    X(olmo_hybrid) \
    X(opt) \
    X(qwen2) \
    X(qwen3_next) \
    X(qwen4_exp) \
    X(recurrent_gemma) \
    X(rwkv) \
    X(smollm3) \
    X(step3p5) \
    X(xglm) \
    X(xlstm) \
    X(zamba2) \
    X(zaya)

/* clang-format on */

#define DECLARE(name) extern const FamilyHook families_##name[];
HOOKS(DECLARE)

#define ENTRY(name) families_##name,
const FamilyHook *const families_hooks[] = {HOOKS(ENTRY) NULL};
