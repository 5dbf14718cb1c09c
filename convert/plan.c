#include "convert/plan.h"

#include <stdlib.h>

#include "convert/mix.h"
#include "convert/panels_kept.h"
#include "convert/panels_rounded.h"
#include "formats/containers/source_blocks.h"

/* About so many bytes of a vector are read at once. */
enum { VECTOR_BYTES = 1 << 20 };

/* The type that holds the tensor's values without loss. */
static TensorType lossless_type(const SourceTensor *t) {
    const StoredTypeInfo *info = stored_type_info(t->stored);
    if (t->stored == STORED_PANELS) return t->panels;
    /* Its blocks cannot be taken over: they run along the outputs, or hold parts of two heads. */
    if (!source_has_blocks(t) && info->block > 1) return TENSOR_F16;
    return t->add != 0.0f ? TENSOR_F32 : info->lossless;
}

static TensorType type_of(const SourceTensor *t, const Config *config, const char *mix) {
    if (t->is_vector) return TENSOR_VECTOR;
    if (!mix) return lossless_type(t);
    TensorType type = mix_choose(mix, t->name, config);
    /* Who asks for NVFP4 of a matrix that is NVFP4 wants it as it is, not rounded again. */
    return type == TENSOR_NVFP4 && panels_kept(t, TENSOR_NVFP4_T) ? TENSOR_NVFP4_T : type;
}

/* Whether the loss of this tensor is measured: its stored values have no type here that holds them
 * all (an approximate type, or codes with the scales of blocks), the user asked for no type (mix),
 * and its panels are not taken over unchanged (kept). */
static bool loss_is_measured(const SourceTensor *t, const PanelMaker *kept, const char *mix) {
    return (stored_type_info(t->stored)->approximate || t->blocks.present) && !mix && !kept &&
           !t->is_vector;
}

/* Sets the rows and bytes of the pieces that are made at once: panels, or rows of a vector, so many
 * that each piece begins at a multiple of 64 bytes of the target, which is 16 floats. False: they
 * are too large. */
static bool set_pieces(TensorPlan *plan) {
    size_t row_bytes, cols = plan->from->cols;
    plan->panel_rows = PANEL_ROWS;
    if (plan->type != TENSOR_VECTOR)
        return tensor_panel_bytes(plan->type, cols, &plan->panel_bytes);
    if (!size_mul(cols, sizeof(float), &row_bytes)) return false;
    size_t rows = row_bytes > 0 && row_bytes < VECTOR_BYTES ? VECTOR_BYTES / row_bytes : 1;
    plan->panel_rows = round_up(rows, 16);
    return size_mul(plan->panel_rows, row_bytes, &plan->panel_bytes);
}

/* Decides what becomes of a tensor. Its place is the layout's. */
static Status plan_tensor(TensorPlan *plan, const Source *source, const SourceTensor *t,
                          const char *mix, Error *error) {
    *plan = (TensorPlan){.source = source, .from = t};
    if (t->shares) return STATUS_OK;
    plan->reading = source_reading(t);
    plan->type = type_of(t, &source->config, mix);
    const PanelMaker *kept = t->is_vector ? NULL : panels_kept(t, plan->type);
    plan->maker = kept ? kept : panels_rounded(plan->type);
    plan->is_measured = loss_is_measured(t, kept, mix);
    return set_pieces(plan) ? STATUS_OK : error_set(error, "tensor '%s' is too large", t->name);
}

/* Refuses a NAME=TYPE of the mix that is the name of no matrix. */
static Status check_names(const Source *source, const char *mix, Error *error) {
    size_t length;
    const char *name;
    for (size_t k = 0; (name = mix_name(mix, k, &length)); k++) {
        const char *shares = NULL;
        bool found = false;
        for (size_t i = 0; i < source->n_tensors && !found; i++) {
            const SourceTensor *t = &source->tensors[i];
            if (t->is_vector || !mix_is_named(t->name, name, length)) continue;
            if (t->shares) shares = t->shares;
            found = !t->shares;
        }
        if (!found && shares)
            return error_set(error, "'%.*s' is the same matrix as '%s': name that one", (int)length,
                             name, shares);
        if (!found)
            return error_set(error,
                             "no matrix is called '%.*s', or has it between the dots of its "
                             "name, like layers.3.w_down",
                             (int)length, name);
    }
    return STATUS_OK;
}

Status convert_plan_make(ConvertPlan *plan, const Source *source, const char *mix, Error *error) {
    *plan = (ConvertPlan){.source = source};
    if (mix && (mix_check(mix, error) != STATUS_OK || check_names(source, mix, error) != STATUS_OK))
        return STATUS_FAILED;
    plan->tensors = calloc(source->n_tensors + 1, sizeof *plan->tensors);
    if (!plan->tensors) return error_set(error, "no memory");
    for (size_t i = 0; i < source->n_tensors; i++)
        if (plan_tensor(&plan->tensors[i], source, &source->tensors[i], mix, error) != STATUS_OK)
            return STATUS_FAILED;
    return layout_make(&plan->layout, source, plan->tensors, error);
}

void convert_plan_free(ConvertPlan *plan) {
    layout_free(&plan->layout);
    free(plan->tensors);
    *plan = (ConvertPlan){0};
}
