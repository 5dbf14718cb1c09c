/* The prediction layers of a source, which follow its layers and guess the tokens after the next
 * one (multi-token prediction; layers/arrangements/mtp.h computes them). Each is a layer of the
 * family with tensors of its own beside: norms of the token's embedding and of the hidden state,
 * the projection of both, and the norm before the output head. */
#ifndef FORMATS_FAMILY_PREDICTION_H
#define FORMATS_FAMILY_PREDICTION_H

#include "formats/family/rules.h"

/* How a family's checkpoints name these tensors. */
typedef enum PredictionForm {
    PREDICTION_NONE,  /* not known: the tensors are left out */
    PREDICTION_MTP,   /* "mtp.fc.weight", "mtp.layers.0...": Qwen3-Next, Qwen 3.5 */
    PREDICTION_NEXTN, /* further layers with "eh_proj": DeepSeek V3, GLM-4.5 */
    PREDICTION_GGUF   /* further blocks with "nextn.eh_proj" */
} PredictionForm;

/* Sets Config.mtp.n_layers to the number of prediction layers that the source holds, 0 where its
 * no_mtp is set, with the fields of each as in the last layer that attends; and
 * context->mtp_prefix. rules_apply, which follows, then takes their layers. */
Status prediction_find(RuleContext *context, PredictionForm form, Error *error);

/* Gives each of Config.mtp.n_layers the fields of the last layer that attends. Their number has
 * been checked. */
void prediction_fields(Config *config);

/* Adds what each of them has beside its layer; after rules_apply. */
Status prediction_add(const RuleContext *context, PredictionForm form, Error *error);

#endif
