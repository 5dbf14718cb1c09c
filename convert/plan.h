/* The plan of a conversion: what becomes of each tensor of a source, decided once, before a weight
 * is read, and then executed by convert.c.
 *
 * A row of the plan (TensorPlan, in panel_maker.h) says of a tensor
 *
 *     from       where its rows lie: the reader of the format has said so (SourceTensor)
 *     reading    who reads them as float32, and what joins, reorders or changes them
 *     type       of the target's matrix: the mix's for its name, or the one that loses nothing
 *     maker      who makes its panels: of numbers, codes or panels that are kept as they are
 *                (panels_kept.h) or of float32 that is rounded (panels_rounded.h)
 *     panels     how many rows and bytes each has
 *     is_measured  whether the error of its type is counted and said at the end (losses.h)
 *
 * and the plan's layout where the panels lie in the target. A tensor that shares the data of an
 * earlier one (tied embeddings) has that one's place and no maker.
 *
 * To execute a row is maker->make(row, first, ...) for the panels of rows `first` on, in any order
 * and by any thread: a panel depends on its rows alone. A new way of storing weights is a reading
 * (source_floats.c) or, where its blocks are kept, a StoredType whose `lossless` type takes them
 * over; a new type is a row in kernels/ and stored_type.c. Neither changes the plan. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "convert/layout.h"
#include "convert/panel_maker.h"

typedef struct ConvertPlan {
    const Source *source;
    TensorPlan *tensors; /* [source->n_tensors], in the source's order; owned */
    Layout layout;       /* of the target */
} ConvertPlan;

/* Decides for a parsed source. `mix` is what ConvertOptions.type is: the matrices' types as mix.h
 * has them, NULL: without loss. Free with convert_plan_free, also after a failure. */
Status convert_plan_make(ConvertPlan *plan, const Source *source, const char *mix, Error *error);
void convert_plan_free(ConvertPlan *plan);

#endif
