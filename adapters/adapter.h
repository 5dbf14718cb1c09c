/* Low-rank adapters (LoRA, arXiv:2106.09685) of a model, as peft saves them (a directory with
 * adapter_config.json and adapter_model.safetensors) or as llama.cpp's converter makes them (one
 * GGUF file), described in the runner's own terms: which of the model's tensors they add to, in
 * the order of rows that the model's file has. Opened like a source (source_open.h), in two steps:
 *
 *     adapter_open(&adapter, path, &error)          opens the files
 *     adapter_read(&adapter, &base, &error)         parses, checks and reads them
 *     adapter_close(&adapter)
 *
 * What an adapter asks for and this program does not do is refused by name (DoRA, biases, whole
 * modules, ...). Everything in the files is untrusted: after adapter_read every shape fits the
 * model and every number is finite. */
#ifndef ADAPTERS_ADAPTER_H
#define ADAPTERS_ADAPTER_H

#include "formats/containers/source.h"
#include "core/modelfile.h"

/* What an adapter adds to one tensor: scale * rows_factor * cols_factor. A module of the adapter
 * that is several tensors of the model (a fused q, k and v) is several parts with one cols_factor.
 */
typedef struct AdapterPart {
    char name[MODELFILE_NAME_BYTES]; /* of the model's tensor: "layers.3.wq" */
    size_t rows, cols, rank;
    double alpha_over_rank;   /* lora_alpha / rank, or / sqrt(rank) for rsLoRA */
    float *rows_factor;       /* [rows][rank]; owned */
    const float *cols_factor; /* [rank][cols]; the adapter's */
    TensorType rows_type;     /* f32, f16 or bf16: holds the factor as it is in the file */
    TensorType cols_type;
} AdapterPart;

typedef struct Adapter {
    char *path; /* as given; owned */
    InputFile files[2];
    size_t n_files;
    bool is_gguf;

    /* Filled by adapter_read. */
    AdapterPart *parts;
    size_t n_parts, parts_capacity;
    float **cols_factors; /* [n_factors], owned */
    size_t n_factors;
    /* SHA-256 of one line a part, "NAME ROWS COLS RANK LORA_ALPHA/RANK" and the SHA-256 of both
     * factors as float32, and the line's end. */
    char digest[65];
} Adapter;

/* The model that an adapter is for. */
typedef struct AdapterBase {
    const Config *config;
    bool is_reordered;     /* made from a format whose q and k have the rows of interleaved RoPE */
    const ModelFile *file; /* where its tensors are; NULL: in the source */
    const Source *source;
} AdapterBase;

AdapterBase adapter_base_of_file(const ModelFile *file);
AdapterBase adapter_base_of_source(const Source *source);

/* Opens the adapter's files and reads what they say of it. All functions accept a zero-initialized
 * Adapter; adapter_close also a failed one. */
Status adapter_open(Adapter *adapter, const char *path, Error *error);
Status adapter_read(Adapter *adapter, const AdapterBase *base, Error *error);
/* Frees the parts: the files and the path stay. */
void adapter_forget(Adapter *adapter);
void adapter_close(Adapter *adapter);

#endif
