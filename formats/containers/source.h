/* A source: a model in another format (Hugging Face, GGUF, llama2.c), described in the runner's
 * own terms. It gives a Config, tensors under the runner's names, the tokenizer, the chat template
 * and metadata; convert.h makes a model.bin of them.
 *
 * source_open.h opens a source and lets the reader of its format fill in these structures. A
 * reader describes where the values of each tensor lie (SourceTensor) and never reads weights;
 * source_floats.h and source_blocks.h do that for all formats alike.
 *
 * A new format is a SourceKind below, a NAME_parse(Source *, Error *) that fills in the Source
 * (here beside llama2c.c where the format names all of a model itself; in families/reading/ beside
 * gguf_reader.c where pages of families say what its names mean), and its rows in source_open.c:
 * detect_file or detect_directory, open_files if it has several files, parse_format, add_origin. A
 * new way to store weights is a stored type (formats/stored/). tests/fuzz_NAME.c attacks it. Far
 * away: adapters/adapter.c where heads lie reordered, formats/family/given_family.c (`--family`),
 * and endings of names in modes/open/ (model_names.c, advice.c, conversion_files.c,
 * conversion_list.c).
 *
 * Everything in a source is untrusted. After source_parse every tensor lies inside its file. */
#ifndef FORMATS_CONTAINERS_SOURCE_H
#define FORMATS_CONTAINERS_SOURCE_H

#include "core/config.h"
#include "formats/containers/input.h"
#include "formats/containers/metadata.h"
#include "formats/stored/stored_type.h"
#include "formats/tokenizers/tokenizer_import.h"

typedef enum SourceKind {
    SOURCE_UNKNOWN,
    SOURCE_MODELFILE,   /* a model.bin: only its types can change */
    SOURCE_HUGGINGFACE, /* a directory of safetensors */
    SOURCE_GGUF,
    SOURCE_LLAMA2C,
    SOURCE_RANDOM /* "random:SHAPE", see random.h */
} SourceKind;

/* Rows or columns that are stored as groups of heads, and read as the first head of each group,
 * then the second of each: from `first` on, groups * per_group heads of `width` each. 0 groups:
 * they are read as they are stored. */
typedef struct HeadTiles {
    size_t first, groups, per_group, width;
} HeadTiles;

/* Maps rows of the runner's tensor to rows of the stored one, so that a tensor can be a slice of a
 * fused matrix: row r is the stored row  first + r / chunk * stride + r % chunk,  or first + r
 * where chunk is 0. */
typedef struct RowMap {
    size_t first, chunk, stride;
    size_t head; /* not 0: rows i and i + head / 2 of each run of `head` rows, an even number, are
                  * stored side by side; the others are then 0 */
    HeadTiles tiles; /* of the rows from `first` on; chunk and head are then 0 */
} RowMap;

/* Position of the scales of blocks that a file stores separately from their codes (mxfp4_join.h,
 * int4_join.h). */
typedef struct SeparateScales {
    bool present; /* false: the scales are inside the blocks */
    size_t file;
    uint64_t offset;
    StoredType type; /* STORED_Q4_0: of the scales, F16 or BF16 */
    size_t group;    /* STORED_Q4_0: weights that share one, whole blocks of 32 */
} SeparateScales;

/* Scales of a stored matrix in a tensor of their own (scale_join.h): one for each block of rows x
 * cols weights, which are multiplied with it when they are read as floats. */
typedef struct BlockScales {
    bool present;
    StoredType type; /* F32, F16, BF16 or F8_E8M0 */
    size_t file;
    uint64_t offset;
    size_t rows, cols; /* of a block; neither is 0 */
    size_t per_row;    /* scales in a row of blocks */
    size_t per_matrix; /* in each matrix of a stack; 0: all matrices share theirs */
    size_t first;      /* the row, of those that the scales are for, with which the matrix begins */
} BlockScales;

/* What is added to a tensor's values when they are read as floats: scale * rows * cols, a product
 * of factors [tensor's rows][rank] and [rank][tensor's cols]. Borrowed. */
typedef struct SourceSum {
    const float *rows, *cols;
    size_t rank;
    float scale;
} SourceSum;

typedef struct SourceTensor {
    char name[MODELFILE_NAME_BYTES];
    bool is_vector; /* becomes a TENSOR_VECTOR */
    size_t rows, cols;
    StoredType stored;
    const float *values; /* computed instead of read: [rows][cols], owned; the fields below are
                          * then unused */
    size_t file;         /* index into Source.files */
    uint64_t offset;     /* of the stored tensor in that file */
    size_t stored_rows;  /* shape of the whole stored tensor, of which this may be a part */
    size_t stored_cols;
    SeparateScales scales; /* MXFP4 and Q4_0 only; `offset` is then the offset of the codes */
    BlockScales blocks;
    RowMap map;
    HeadTiles columns;
    float ternary_scale;   /* not 0: packed as ternary_join.h says; `stored` is then the type as
                            * which it is read, F32 or TQ2_0 */
    bool transposed;       /* stored as inputs x outputs: GPT-2's Conv1D */
    float add;             /* added to every value: 1 for Gemma's norms */
    bool minus_exp;        /* every value x becomes -exp(x): decays of layers with a state */
    float *row_scales;     /* [rows], multiplies each row of values; owned. NULL: nothing does */
    uint32_t group;        /* STORED_LLAMA2C_Q8: elements that share a scale */
    float spread, center;  /* STORED_RANDOM: values lie within center +- spread */
    TensorType panels;     /* STORED_PANELS: their type */
    const SourceSum *sums; /* [n_sums], in their order; owned. NULL: none */
    size_t n_sums;
    const char *shares; /* NULL, or the name of an earlier tensor that has the same data, as tied
                         * embeddings do */
} SourceTensor;

enum { SOURCE_MAX_NOTES = 8 };

typedef struct Source {
    SourceKind kind;
    const char *path; /* as given; owned */
    InputFile *files;
    size_t n_files, files_capacity;
    const char
        *other_weights; /* a file of weights that is not read, beside the files; NULL: none.
                         * Seen at opening: the sandbox hides the directory from the parser */

    /* Filled by source_parse. */
    Config config;
    char origin[16]; /* of a model.bin: its "source.format" */
    SourceTensor *tensors;
    size_t n_tensors, tensors_capacity;
    TokenizerBlob tokenizer; /* size 0: none */
    char *chat_template;     /* NULL: none; owned */
    size_t chat_template_bytes;
    Metadata metadata;                          /* beside Config's fields */
    char (*shared_names)[MODELFILE_NAME_BYTES]; /* of layers that share tensors; NULL: none */
    const char *notes[SOURCE_MAX_NOTES]; /* what the result will lack, or how it will differ */
    size_t n_notes;
    char not_applied[256]; /* recommended.h: one of the notes; "": none */
    char left_out[128];    /* rules_check_leftovers: one of the notes; "": none */

    InputFile tokenizer_file;  /* given by the user (path NULL: none) */
    const char *split_pattern; /* of tokenizer_file, as in tokenizer_from_file; borrowed */
    InputFile family_file;     /* the page of a family that the user gave (path NULL: none) */
    struct FamilyPage *family; /* read from it (given_family.h); one block, owned */
    char family_note[192];     /* what --info and the conversion say of it; "": none was used */
    bool only_vocabulary; /* nothing but the tokenizer is wanted: of GGUF no tensor is parsed */
    bool no_mtp;          /* prediction layers are left out (prediction.h) */
} Source;

/* Frees everything and closes the files. */
void source_close(Source *source);

/* Fails when a file of the source, or a tokenizer or page given beside it, was changed since it was
 * opened. */
Status source_check_unchanged(const Source *source, Error *error);

/* ---- For the formats' readers ---- */

/* Opens one more file of the source: files[n_files++]. */
Status source_add_file(Source *source, const char *path, Error *error);
/* The file whose name without directories is `name`; NULL: none. */
const InputFile *source_file(const Source *source, const char *name);

/* Adds a tensor, zero but for its name (printf-style), for the reader to fill in. Returns NULL with
 * an Error when memory is short or the name too long. The pointer is valid until the next call. */
SourceTensor *source_add(Source *source, Error *error, const char *name, ...) PRINTF_LIKE(3, 4);
/* Adds a vector whose values were computed; takes ownership of `values` (malloc'ed; NULL is
 * reported as lack of memory). */
Status source_add_values(Source *source, const char *name, size_t rows, size_t cols, float *values,
                         Error *error);
/* Adds a tensor that has the data of the earlier tensor `shares` (a string constant). */
Status source_add_shared(Source *source, const char *name, const char *shares, size_t rows,
                         size_t cols, Error *error);

/* Makes n_layers layers of the config's n_layers, whose number divides it: layers that follow each
 * other share all tensors of one, as ALBERT's groups do (arXiv:1909.11942; one group is the
 * Universal Transformer's way, arXiv:1807.03819). */
Status source_share_layers(Source *source, uint32_t n_layers, Error *error);

/* Gives layer l all tensors of layer like[l], before it or l itself; like[config.n_layers]. Call it
 * once, when all tensors of layers are there. */
Status source_repeat_layers(Source *source, const uint32_t *like, Error *error);

/* Adds a note (a string constant), for people who convert the source. */
void source_add_note(Source *source, const char *note);
/* The note of a model whose parts for images or sound are left out. */
extern const char source_text_alone[];

/* Stores a copy of text[bytes] as the source's chat template. */
Status source_set_template(Source *source, const char *text, size_t bytes, Error *error);

#endif
