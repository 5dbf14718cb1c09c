/* Where conversions are written: into files without a name, or into a path that is replaced; and
 * what `export` can change of a model on its way there. */
#ifndef CONVERT_TARGET_H
#define CONVERT_TARGET_H

#include "convert/convert.h"

/* Creates a file without a name in `directory`, for reading and writing; -1 with errno when that
 * fails. */
int convert_unlinked(const char *directory);
/* Like the function above, in the first directory where it works: `first` (NULL: none), $TMPDIR,
 * /var/tmp, /tmp. */
int convert_unlinked_anywhere(const char *first);

/* Converts into an unlinked temporary file, which vanishes with its last descriptor *fd: for
 * `bench`. The file is in run's cache of conversions (cache_directory.h), because there is room for
 * large files, else where convert_unlinked_anywhere puts it. */
Status convert_temporary(const char *source, const ConvertOptions *options, int *fd, Error *error);

/* What `export` asks for beside ConvertOptions. */
typedef struct ExportOptions {
    /* The model. */
    const char *pooling;             /* pooling_set; NULL: as the source says */
    struct AdapterOpening *adapters; /* merged into the weights; or NULL */
    uint32_t kv_heads;               /* kv_heads_merge; 0: as the source has them */
    /* How to choose the target's types, instead of ConvertOptions.type. */
    const struct TypeWish *fits; /* type_choice.h chooses the type; or NULL */
    const struct TargetSize
        *target_size; /* target_size.h chooses them, with `calibrate`; or NULL */
    /* The path of a text to calibrate with (calibrate.h). The model is converted losslessly into an
     * unlinked file beside the target and runs over the text. NULL: all inputs matter alike. */
    const char *calibrate;
    /* The target. */
    bool gguf;  /* it is a GGUF file (gguf_write.h) */
    bool keeps; /* fails where it exists */
    /* Called when every file is open and before a byte of the source is parsed: the moment to give
     * up all rights. May be NULL. */
    Status (*ready)(void *context, Error *error);
    /* Called when the target has its name, with a descriptor of the model.bin. With `gguf` the
     * target is another file, of gguf_bytes; else they are 0. May be NULL. */
    Status (*written)(void *context, int fd, uint64_t gguf_bytes, Error *error);
    void *context; /* of both */
} ExportOptions;

/* Converts into `path`, which is replaced atomically: until the new file is complete and synced to
 * the disk there is the old file or none. `wishes` may be NULL. */
Status convert_to_path(const char *source, const ConvertOptions *options,
                       const ExportOptions *wishes, const char *path, Error *error);

#endif
