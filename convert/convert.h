/* Converts any source to a model.bin: for `export`, and for `run` when MODEL is in another format.
 *
 * Each thread reads a few panels of a matrix at a time, checks them, quantizes them if asked to and
 * packs them, in the order of the file, so that memory does not grow with the model.
 * convert_target.h decides where the file goes. */
#ifndef CONVERT_H
#define CONVERT_H

#include <signal.h>

#include "formats/containers/source.h"

typedef enum ConvertStep {
    CONVERT_WRITING,     /* progress counts bytes of the target, or of the model to calibrate */
    CONVERT_CALIBRATING, /* progress counts tokens */
    CONVERT_CHOOSING     /* progress counts passes over the text, at most `total` */
} ConvertStep;

typedef struct ConvertOptions {
    const char *type; /* of the matrices, as mix.h has it: "f16", "q8", "q4m"; NULL: lossless */
    const struct TypeWish *fits; /* for convert_to_path: type_choice.h chooses the type; or NULL */
    const char *tokenizer;     /* path of a tokenizer to use instead of the source's; NULL: none */
    const char *split_pattern; /* how the tokenizer file splits text, as in tokenizer_from_file; may
                                  be NULL */
    const char *family;        /* path of the page of a family that it may be of; NULL: none */
    bool no_mtp;               /* leave out prediction layers (formats/family/prediction.h) */
    struct AdapterOpening *adapters; /* merged into the weights, for convert_to_path; or NULL */
    uint32_t kv_heads;   /* for convert_to_path: kv_heads_merge; 0: as the source has them */
    const char *target;  /* the target's name in messages; NULL: the source's path */
    const char *pooling; /* for convert_to_path: pooling_set; NULL: as the source says */
    bool gguf;           /* for convert_to_path: the target is a GGUF file (gguf_write.h) */
    bool keeps_target;   /* for convert_to_path: fails where the target exists */
    int n_threads;       /* 0: machine_cores() */
    bool synced; /* for convert_parsed: the caller syncs the target, so that the disk may begin with
                  * what is written; false: it may never reach the disk */
    /* For convert_to_path: the path of a text to calibrate with (calibrate.h). The model is
     * converted losslessly into an unlinked file beside the target and runs over the text. NULL:
     * all inputs matter alike. */
    const char *calibrate;
    /* For convert_to_path, with `calibrate` and instead of `type`: target_size.h chooses the types.
     * NULL: `type` does. */
    const struct TargetSize *target_size;
    /* For convert_parsed: how much the inputs of a tensor matter, by its number in the source, in
     * the form of calibration_importance. May be NULL. */
    const float *(*importance)(size_t tensor, void *context);
    void *importance_context;
    /* Called from time to time, never by two threads at once. May be NULL. */
    void (*progress)(ConvertStep step, uint64_t done, uint64_t total, void *context);
    void *progress_context;
    /* For convert_to_path. Called when every file is open and before a byte of the source is
     * parsed: the moment to give up all rights. May be NULL. */
    Status (*ready)(void *context, Error *error);
    /* Called when the target has its name, with a descriptor of the model.bin. With `gguf` the
     * target is another file, of gguf_bytes; else they are 0. May be NULL. */
    Status (*written)(void *context, int fd, uint64_t gguf_bytes, Error *error);
    void *ready_context; /* of both */
    /* Called at the end for each type of the source that none of the runner's types holds without
     * loss, with a line that names the type it became and the error. `context` is
     * progress_context. May be NULL. */
    void (*note)(const char *line, void *context);
    const volatile sig_atomic_t *cancel; /* nonzero: stop with STATUS_INTERRUPTED; may be NULL */
} ConvertOptions;

/* Converts the model at `source` into out_fd (a new, empty, seekable file, open for reading and
 * writing). The file is complete only if the result is STATUS_OK. Fails when a file of the source
 * was changed meanwhile (input_check_unchanged). */
Status convert_source(const char *source, const ConvertOptions *options, int out_fd, Error *error);

/* Like the function above, for a source that is open and parsed. */
Status convert_parsed(const Source *source, const ConvertOptions *options, int out_fd,
                      Error *error);

/* Writes everything but the weights: configuration, tensor directory, tokenizer and template are
 * where the complete file has them, the weights are a hole, and their checksum is wrong. Takes no
 * time and no room, whatever the model's size. */
Status convert_description(const Source *source, const char *type, int out_fd, Error *error);

#endif
