/* SHA-256 of a model, in an order that does not depend on its container.
 *
 * A tensor's digest covers its values row by row, whatever panels hold them (docs/receipts.md):
 *
 *     vector, f32     each value, float32
 *     f16, bf16(_act) each value, 16 bits
 *     quantized       for each group of a row: the scale, float32; the minimum, float32, where the
 *                     type has one; the codes' values, int8 (uint8 without a sign)
 *
 * all little-endian. So the digest of a matrix in f32, f16 or bf16 is that of its bytes in a
 * safetensors file. `weights` is the SHA-256 of one line a tensor, sorted by name:
 *
 *     NAME TYPE COUNT ROWS COLS DIGEST\n
 *
 * where TYPE of q5_0 is q8 and of q5_1 q8_min, which compute the same bits with the same codes. */
#ifndef MODEL_DIGEST_H
#define MODEL_DIGEST_H

#include <signal.h>

#include "core/modelfile.h"
#include "base/sha256.h"

typedef struct ModelDigestOptions {
    int n_threads;
    /* Called by one thread at a time, with bytes of the file; may be NULL. */
    void (*progress)(uint64_t done, uint64_t total, void *context);
    void *context;
    const volatile sig_atomic_t *interrupted; /* may be NULL */
} ModelDigestOptions;

typedef struct TensorDigest {
    const FileTensor *tensor; /* of the file */
    char sha256[SHA256_HEX];
} TensorDigest;

/* Fills `weights` and returns the digests of all tensors, [modelfile_n_tensors()] sorted by name,
 * in *tensors, which the caller frees. STATUS_INTERRUPTED when *interrupted is set meanwhile. */
Status model_digest_weights(const ModelFile *file, const ModelDigestOptions *options,
                            char weights[SHA256_HEX], TensorDigest **tensors, Error *error);

/* The digest of what says how to compute with the weights: one line FIELD=VALUE for each field of
 * the configuration that is not as config_default() has it, so that a field which a later version
 * adds changes no digest. Without the model's name, family and context: the context in use is an
 * option. */
Status model_digest_config(const Config *config, char digest[SHA256_HEX], Error *error);

#endif
