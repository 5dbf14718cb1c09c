/* Low-rank adapters (LoRA) beside a model's products. A row of a pass that an adapter is selected
 * for gets, after W x and the bias,
 *
 *     y = fma(scale, B (A x), y)
 *
 * for each of its adapters in the order in which they were added (docs/numerics.md). The rows of a
 * pass may have different adapters: the rows of one adapter are multiplied together, and all
 * adapters of a product in one list of work. The weights of the base stay as they are, whatever
 * their type.
 *
 * Where several ranks compute the model, each has all factors, and adds to its own rows; the ranks
 * exchange float32 then, because A multiplies with x itself, not with the codes of it.
 *
 *     lora_new(&lora, model, file, &error)
 *     lora_add(lora, matrices, n, &error)         for each adapter
 *     lora_begin(lora, &error)                    from now on the model uses them
 *     lora_free(lora)                             before model_close */
#ifndef LORA_H
#define LORA_H

#include "model.h"

typedef struct Lora Lora;

enum { LORA_MOST = 32 }; /* adapters of a model */

/* What an adapter adds to one matrix of the model: scale * rows_factor * cols_factor. */
typedef struct LoraMatrix {
    const char *name; /* of the model's tensor */
    size_t rows, cols, rank;
    float scale;
    const float *rows_factor;        /* [rows][rank]: B */
    const float *cols_factor;        /* [rank][cols]: A; matrices may share it */
    TensorType rows_type, cols_type; /* float types that hold the factors' values */
} LoraMatrix;

/* `file` is the model's. */
Status lora_new(Lora **out, Model *model, const ModelFile *file, Error *error);
/* Copies the matrices, whose shapes match the model's tensors. An error names a tensor that
 * adapters cannot add to while the model runs. */
Status lora_add(Lora *lora, const LoraMatrix *matrices, size_t n, Error *error);
Status lora_begin(Lora *lora, Error *error);
/* Takes the adapters off the model and frees them; `lora` may be NULL. */
void lora_free(Lora *lora);

/* All adapters, as the bits of lora_select. */
uint64_t lora_all(const Lora *lora);

/* The adapters of a sequence from the next pass on: bit i is the one that was added as number i.
 * Until the first call all adapters are every sequence's. False: no memory. */
bool lora_select(Lora *lora, int32_t sequence, uint64_t adapters);
uint64_t lora_selected(const Lora *lora, int32_t sequence);

/* What lora_begin has added to the model, for tests. */
PassObserver *lora_observer(Lora *lora);

/* Bytes of the factors of adapter i in memory, and the number of its matrices. */
size_t lora_bytes(const Lora *lora, size_t i);
size_t lora_n_matrices(const Lora *lora, size_t i);

#endif
