/* A model.bin, mapped read-only and checked. docs/format.md specifies every byte.
 *
 * Nothing in the file is trusted: after modelfile_open, every offset, length and shape that the
 * functions below return lies inside the mapping. Opening reads the header, the metadata and the
 * directory, never the weights; modes/inspect/modelfile_verify.h checks those. */
#ifndef MODELFILE_H
#define MODELFILE_H

#include "core/config.h"
#include "kernels/tensor.h"

#define MODELFILE_MAGIC "verbatim"
enum {
    MODELFILE_VERSION = 1,
    MODELFILE_NAME_BYTES = 64, /* a tensor's name with its NUL */
    MODELFILE_ALIGNMENT = 64   /* of every section and tensor */
};

typedef enum SectionKind {
    SECTION_METADATA = 1,  /* typed key/value pairs */
    SECTION_TENSORS = 2,   /* the directory */
    SECTION_TOKENIZER = 3, /* docs/tokenizer-section.md; may be absent */
    SECTION_TEMPLATE = 4,  /* the chat template, UTF-8; may be absent */
    SECTION_DATA = 5,      /* the weights */
    SECTION_KINDS
} SectionKind;

/* The file's structures, little-endian, mapped as they are. */
typedef struct FileHeader {
    char magic[8];
    uint32_t version;
    uint32_t n_sections;
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3-64 of the header with this field zero, then the section table */
} FileHeader;

typedef struct FileSection {
    uint32_t kind;
    uint32_t reserved; /* 0 */
    uint64_t offset;   /* from the file's start */
    uint64_t bytes;
    uint64_t checksum; /* XXH3-64 */
} FileSection;

typedef struct FileTensor {
    char name[MODELFILE_NAME_BYTES]; /* NUL-terminated, padded with NULs */
    uint32_t type;                   /* TensorType */
    uint32_t count;                  /* matrices stored one after another (experts); else 1 */
    uint64_t rows;                   /* 1 for a vector */
    uint64_t cols;
    uint64_t offset; /* from the file's start */
    uint64_t bytes;
    uint64_t reserved[3]; /* 0 */
} FileTensor;

/* Metadata: entries one after another, each at a multiple of 8 bytes. */
typedef enum MetaType {
    META_UINT = 1,  /* uint64 */
    META_INT = 2,   /* int64 */
    META_FLOAT = 3, /* float64 */
    META_BOOL = 4,  /* uint8, 0 or 1 */
    META_TEXT = 5,  /* UTF-8 bytes, count of them, no NUL */
    META_TYPES
} MetaType;

typedef struct MetaHeader {
    uint16_t key_bytes;
    uint16_t type;
    uint32_t count; /* elements: 1 for a scalar */
} MetaHeader;       /* then the key, padded to 8 bytes, then the elements, likewise */

typedef struct ModelFile ModelFile;

/* Maps and checks `path`. An `fd` >= 0 is used instead of opening the path, which then only names
 * the file in messages; modelfile_close closes it, and so does a failure. */
Status modelfile_open(ModelFile **out, const char *path, int fd, Error *error);

/* Like modelfile_open, but reads the whole file into memory: nothing that happens to the file later
 * can end the process. It takes the file's size in memory of its own. */
Status modelfile_read(ModelFile **out, const char *path, int fd, Error *error);
void modelfile_close(ModelFile *file);

/* The descriptor of the file whose mapping holds the bytes; -1 where they are a copy. */
int modelfile_mapped_fd(const ModelFile *file);
const char *modelfile_path(const ModelFile *file);
size_t modelfile_bytes(const ModelFile *file);
/* The header, checked. Its n_sections FileSections follow it, checked as well. */
const FileHeader *modelfile_header(const ModelFile *file);
/* The header's checksum, which covers the checksums of all sections: it tells one model from
 * another. */
uint64_t modelfile_checksum(const ModelFile *file);
const Config *modelfile_config(const ModelFile *file); /* read and validated */
/* The Config, writable before a model is opened on the file: --override. */
Config *modelfile_config_to_change(ModelFile *file);

/* Returns a section's bytes in the mapping; NULL and *bytes = 0 when it is absent. */
const void *modelfile_section(const ModelFile *file, SectionKind kind, size_t *bytes);

const char *modelfile_section_name(uint32_t kind);

/* The tensors of the file's directory, whose entries have been checked. */
size_t modelfile_n_tensors(const ModelFile *file);
const FileTensor *modelfile_tensor(const ModelFile *file, size_t i);
const FileTensor *modelfile_find(const ModelFile *file, const char *name); /* NULL: none */

/* A tensor's data, and its matrix number `index` < count as the kernels take it. */
const void *modelfile_data(const ModelFile *file, const FileTensor *tensor);
Matrix modelfile_matrix(const ModelFile *file, const FileTensor *tensor, size_t index);

/* Lets tensor number `i` be tensor number `k` of `from`, of the same shape and perhaps another
 * type, for models that are opened on `file` from now on: one matrix of a model in place of
 * another's. `from` must stay open as long as they do. Fails where the shapes differ or memory is
 * short. */
Status modelfile_replace(ModelFile *file, size_t i, const ModelFile *from, size_t k, Error *error);
/* Takes back all replacements. */
void modelfile_restore(ModelFile *file);

/* Look up metadata that is not in Config. They copy the element number `index` of the key's values;
 * false when the key is absent, has another type, or index is past its count. Whole numbers and
 * booleans can be read as either kind of number where they fit. Text is not NUL-terminated. */
bool modelfile_meta_float(const ModelFile *file, const char *key, size_t index, double *value);
bool modelfile_meta_uint(const ModelFile *file, const char *key, size_t index, uint64_t *value);
bool modelfile_meta_text(const ModelFile *file, const char *key, const char **text, size_t *bytes);

/* One metadata entry, as --info lists them: all entries in the order of the file, Config's fields
 * included. */
typedef struct MetaEntry {
    const char *key; /* not NUL-terminated */
    size_t key_bytes;
    MetaType type;
    size_t count;
    const void *values; /* aligned to 8 bytes; text: count bytes */
} MetaEntry;

/* Like modelfile_meta_float, for an entry. */
bool modelfile_entry_float(const MetaEntry *entry, size_t index, double *value);

const MetaEntry *modelfile_meta(const ModelFile *file, size_t i); /* NULL past the end */

#endif
