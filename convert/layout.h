/* The layout of a model.bin that is being made: the shapes and offsets of all tensors, and the
 * small sections. */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "convert/panel_maker.h"

typedef struct Layout {
    FileTensor *tensors; /* [source->n_tensors], in the source's order; owned */
    Metadata metadata;   /* the whole section; owned */
    FileSection sections[SECTION_KINDS];
    uint32_t n_sections;
    uint64_t data_offset, file_bytes;
    const Source *source;
} Layout;

/* Finds each tensor's place; tensors[source->n_tensors] say their types. Free with layout_free,
 * also after a failure. */
Status layout_make(Layout *layout, const Source *source, const TensorPlan *tensors, Error *error);
void layout_free(Layout *layout);

/* Writes everything but the weights. The header, which makes the file valid, comes last. */
Status layout_write(Layout *layout, uint64_t data_checksum, int fd, Error *error);

/* Writes all of `bytes` at `offset`. */
Status layout_write_at(int fd, const void *data, size_t bytes, uint64_t offset, Error *error);

#endif
