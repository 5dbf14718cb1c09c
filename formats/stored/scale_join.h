/* Weights of 8 bits in safetensors, FP8 or integers, whose scales are a tensor of their own beside
 * them: one number, or one for each row or block. DeepSeek V3's and Qwen 3's FP8 files
 * call it NAME_scale_inv, Mistral's and compressed-tensors' NAME_scale. (transformers,
 * integrations/finegrained_fp8.py.) source_floats.c multiplies the weights with them. */
#ifndef FORMATS_STORED_SCALE_JOIN_H
#define FORMATS_STORED_SCALE_JOIN_H

#include "formats/stored/quantization.h"
#include "formats/family/rules.h"

/* For the source where scales for activations are ignored. */
static const char scale_join_note[] = "scales for rounding activations are left out: neither "
                                      "activations nor the cache are rounded by "
                                      "them";

/* Gives each tensor of FP8 (or of I8) weights in the table the scales beside it. Fails where these
 * are missing or their shape fits neither the weights nor the quantization's blocks. *ignored is
 * set where the table holds scales for activations or caches too, which count as used. */
Status scale_join(RawTable *table, const Quantization *quantization, bool *ignored, Error *error);

/* scale_join for GGUF: gives each NVFP4 tensor NAME.weight the factor NAME.scale, one number or one
 * for each expert, if there is one (ModelOpt's weight_scale_2). */
Status scale_join_gguf(RawTable *table, bool *ignored, Error *error);

#endif
