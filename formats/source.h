/* A model in somebody else's format, made to look like a model.bin: a Config, tensors under the
 * runner's own names, the tokenizer, the chat template and metadata.
 *
 * Opening has two steps, so that a program can give up its right to open files in between:
 *
 *     Source *source;
 *     source_open(&source, path, tokenizer_path, &error)   opens every file it may need
 *     source_parse(source, &error)                         reads headers, fills the fields
 *     source_read_floats(source, tensor, row, n, out, &error)
 *     source_close(source);
 *
 * A format's reader (llama2c.c, huggingface.c with safetensors.c and families.c, gguf.c) fills
 * in the table of tensors and has nothing to do with reading weights: where the values of a
 * canonical row lie is described by the fields of SourceTensor alone. Everything in a source
 * is a stranger's data; after source_parse every tensor lies inside its file. */
#ifndef FORMATS_SOURCE_H
#define FORMATS_SOURCE_H

#include "config.h"
#include "formats/input.h"
#include "formats/metadata.h"
#include "formats/stored.h"
#include "formats/tokenizer_import.h"

typedef enum SourceKind {
    SOURCE_UNKNOWN,
    SOURCE_MODELFILE,   /* a model.bin: nothing to convert */
    SOURCE_HUGGINGFACE, /* a directory of safetensors */
    SOURCE_GGUF,
    SOURCE_LLAMA2C,
    SOURCE_RANDOM /* "random:SHAPE", see random.h */
} SourceKind;

/* What `path` holds, by its first bytes; a directory by its files. The Error says why nothing
 * in it can be a model: no such file, an empty file, pytorch_model.bin alone, ... */
Status source_detect(const char *path, SourceKind *kind, Error *error);

/* The canonical row r is the stored row  first + r / chunk * stride + r % chunk:  a slice of a
 * fused matrix, interleaved by heads or not. chunk 0: first + r. */
typedef struct RowMap {
    size_t first, chunk, stride;
} RowMap;

/* Where the scales of blocks stand that are not beside their codes: mxfp4_apart.h. */
typedef struct ScalesApart {
    bool are;
    size_t file;
    uint64_t offset;
} ScalesApart;

typedef struct SourceTensor {
    char name[MODELFILE_NAME_BYTES];
    bool is_vector; /* becomes a TENSOR_VECTOR */
    size_t rows, cols;
    StoredType stored;
    const float *values; /* made here, not read: [rows][cols], owned; the rest is then unused */
    size_t file;         /* index into Source.files */
    uint64_t offset;     /* of the stored tensor in that file */
    size_t stored_rows;  /* the whole stored tensor, of which this may be a part */
    size_t stored_cols;
    ScalesApart scales; /* of STORED_MXFP4: then `offset` is that of the codes */
    RowMap map;
    bool transposed;      /* stored as inputs x outputs: GPT-2's Conv1D */
    float add;            /* added to every value: Gemma's norms, 1 */
    uint32_t group;       /* STORED_LLAMA2C_Q8: elements that share a scale */
    float spread, center; /* STORED_RANDOM: values are center +- spread */
    const char *shares;   /* NULL, or the earlier tensor whose data it is: tied embeddings */
} SourceTensor;

typedef struct Source {
    SourceKind kind;
    const char *path; /* as given; owned */
    InputFile *files;
    size_t n_files;

    /* Filled by source_parse. */
    Config config;
    SourceTensor *tensors;
    size_t n_tensors, tensors_capacity;
    TokenizerBlob tokenizer; /* size 0: none */
    char *chat_template;     /* NULL: none; owned */
    size_t chat_template_bytes;
    Metadata metadata; /* beside Config's fields */

    InputFile tokenizer_file; /* given by the user (path NULL: none) */
    void *format;             /* the reader's own, until source_close */
    void (*format_free)(void *format);
} Source;

/* Opens every file of the source; `tokenizer_path` (NULL: none) is a tokenizer to use instead
 * of the source's own. */
Status source_open(Source **out, const char *path, const char *tokenizer_path, Error *error);
Status source_parse(Source *source, Error *error);
void source_close(Source *source);

/* Adds a tensor with defaults (chunk 0, add 0, ...) for the reader to fill in; NULL and an
 * Error when memory is short or the name too long. The pointer is good until the next call. */
SourceTensor *source_add(Source *source, Error *error, const char *name, ...) PRINTF_LIKE(3, 4);
/* A tensor whose values were computed here; takes `values` (malloc) over. */
Status source_add_values(Source *source, const char *name, size_t rows, size_t cols, float *values,
                         Error *error);
const SourceTensor *source_find(const Source *source, const char *name);

/* Rows [first, first + n) as float32, out[n][cols]. */
Status source_read_floats(const Source *source, const SourceTensor *tensor, size_t first, size_t n,
                          float *out, Error *error);

/* Rows as they are stored, for tensors whose blocks are taken over unchanged (same_blocks, not
 * transposed, whole blocks a row): out[n] of stored_bytes(cols) each. */
Status source_read_blocks(const Source *source, const SourceTensor *tensor, size_t first, size_t n,
                          void *out, Error *error);

#endif
