#include "formats/stored/stored_type.h"

static const StoredTypeInfo types[STORED_TYPES] = {
    [STORED_F32] = {"F32", 1, 4, TENSOR_F32, false, false, 0, TENSOR_VECTOR},
    [STORED_F16] = {"F16", 1, 2, TENSOR_F16, false, false, 0, TENSOR_VECTOR},
    [STORED_BF16] = {"BF16", 1, 2, TENSOR_BF16, false, false, 0, TENSOR_VECTOR},
    [STORED_Q8_0] = {"Q8_0", 32, 34, TENSOR_Q8, true, false, 0, TENSOR_VECTOR},
    [STORED_Q4_0] = {"Q4_0", 32, 18, TENSOR_Q4, true, false, 0, TENSOR_VECTOR},
    [STORED_Q4_1] = {"Q4_1", 32, 20, TENSOR_Q4_MIN, true, false, 0, TENSOR_VECTOR},
    [STORED_Q5_0] = {"Q5_0", 32, 22, TENSOR_Q5_0, true, false, 0, TENSOR_VECTOR},
    [STORED_Q5_1] = {"Q5_1", 32, 24, TENSOR_Q5_1, true, false, 0, TENSOR_VECTOR},
    [STORED_Q4_K] = {"Q4_K", 256, 144, TENSOR_Q4_K, true, false, 0, TENSOR_VECTOR},
    [STORED_Q5_K] = {"Q5_K", 256, 176, TENSOR_Q5_K, true, false, 0, TENSOR_VECTOR},
    [STORED_Q6_K] = {"Q6_K", 256, 210, TENSOR_Q6_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ4_NL] = {"IQ4_NL", 32, 18, TENSOR_Q4_NL, true, false, 0, TENSOR_VECTOR},
    [STORED_MXFP4] = {"MXFP4", 32, 17, TENSOR_MXFP4, true, false, 0, TENSOR_VECTOR},
    [STORED_NVFP4] = {"NVFP4", 64, 36, TENSOR_NVFP4_T, true, false, 0, TENSOR_VECTOR},
    [STORED_Q3_K] = {"Q3_K", 256, 110, TENSOR_Q3_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ4_XS] = {"IQ4_XS", 256, 136, TENSOR_IQ4_XS, true, false, 0, TENSOR_VECTOR},
    [STORED_Q2_K] = {"Q2_K", 256, 84, TENSOR_Q2_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ3_S] = {"IQ3_S", 256, 110, TENSOR_IQ3_S_G, true, false, 0, TENSOR_IQ3_S},
    [STORED_IQ3_XXS] = {"IQ3_XXS", 256, 98, TENSOR_IQ3_XXS_G, true, false, 0, TENSOR_IQ3_XXS},
    [STORED_IQ2_S] = {"IQ2_S", 256, 82, TENSOR_IQ2_S, true, false, 0, TENSOR_IQ2},
    [STORED_IQ2_XS] = {"IQ2_XS", 256, 74, TENSOR_IQ2_XS, true, false, 0, TENSOR_IQ2},
    [STORED_IQ2_XXS] = {"IQ2_XXS", 256, 66, TENSOR_IQ2_XXS, true, false, 0, TENSOR_IQ2},
    [STORED_IQ1_M] = {"IQ1_M", 256, 56, TENSOR_IQ1_M, true, false, 0, TENSOR_IQ1},
    [STORED_IQ1_S] = {"IQ1_S", 256, 50, TENSOR_IQ1_S, true, false, 0, TENSOR_IQ1},
    [STORED_TQ2_0] = {"TQ2_0", 256, 66, TENSOR_TQ2_0, true, false, 0, TENSOR_VECTOR},
    [STORED_TQ1_0] = {"TQ1_0", 256, 54, TENSOR_TQ2_0, true, false, 0, TENSOR_VECTOR},
    [STORED_Q2_0] = {"Q2_0", 64, 18, TENSOR_Q2_0, true, false, 0, TENSOR_VECTOR},
    [STORED_Q1_0] = {"Q1_0", 128, 18, TENSOR_Q1_0, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ2_K] = {"IQ2_K", 256, 76, TENSOR_IQ2_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ3_K] = {"IQ3_K", 256, 110, TENSOR_IQ3_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ4_K] = {"IQ4_K", 256, 144, TENSOR_IQ4_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ5_K] = {"IQ5_K", 256, 176, TENSOR_IQ5_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ6_K] = {"IQ6_K", 256, 212, TENSOR_IQ6_K, true, false, 0, TENSOR_VECTOR},
    [STORED_IQ2_KS] = {"IQ2_KS", 256, 72, TENSOR_IQ2_KS, true, false, 2, TENSOR_VECTOR},
    [STORED_IQ3_KS] = {"IQ3_KS", 256, 104, TENSOR_IQ3_KS, true, false, 2, TENSOR_VECTOR},
    [STORED_IQ4_KS] = {"IQ4_KS", 256, 140, TENSOR_IQ4_KS, true, false, 4, TENSOR_VECTOR},
    [STORED_IQ4_KSS] = {"IQ4_KSS", 256, 132, TENSOR_IQ4_KS, true, false, 4, TENSOR_VECTOR},
    [STORED_IQ5_KS] = {"IQ5_KS", 256, 172, TENSOR_IQ5_KS, true, false, 4, TENSOR_VECTOR},
    [STORED_IQ2_KL] = {"IQ2_KL", 256, 88, TENSOR_IQ3_KS, true, false, 2, TENSOR_VECTOR},
    [STORED_F8_E4M3] = {"F8_E4M3", 1, 1, TENSOR_BF16, false, true, 0, TENSOR_VECTOR},
    [STORED_F8_E8M0] = {"F8_E8M0", 1, 1, TENSOR_BF16, false, false, 0, TENSOR_VECTOR},
    [STORED_I8] = {"I8", 1, 1, TENSOR_BF16, false, true, 0, TENSOR_VECTOR},
    [STORED_LLAMA2C_Q8] = {"int8 with float32 scales", 1, 1, TENSOR_F32, false, false, 0,
                           TENSOR_VECTOR},
    [STORED_RANDOM] = {"random", 1, 0, TENSOR_F32, false, false, 0, TENSOR_VECTOR},
    [STORED_PANELS] = {"panels", 1, 0, TENSOR_F32, false, false, 0, TENSOR_VECTOR},
};

const StoredTypeInfo *stored_type_info(StoredType type) {
    return &types[type];
}

bool stored_bytes(StoredType type, size_t n, size_t *bytes) {
    return n % types[type].block == 0 &&
           size_mul(n / types[type].block, types[type].block_bytes, bytes);
}

bool stored_file_bytes(StoredType type, size_t n, size_t cols, size_t *bytes) {
    const size_t scale = types[type].row_scale;
    if (!scale) return stored_bytes(type, n, bytes);
    return cols > 0 && cols % types[type].block == 0 && n % cols == 0 &&
           size_mul(cols / types[type].block, types[type].block_bytes - scale, bytes) &&
           size_add(*bytes, scale, bytes) && size_mul(n / cols, *bytes, bytes);
}
