/* Convolutions that a source holds as one tensor for each of q, k and v. */
#ifndef FORMATS_FAMILY_CONVOLUTIONS_H
#define FORMATS_FAMILY_CONVOLUTIONS_H

#include "formats/family/rules.h"

/* Adds "delta.convolution" to the layers of that kind whose convolutions are such tensors. %u in
 * `names` stands for the layer, %c for one of the letters q, k and v. */
Status convolutions_join(const RuleContext *context, const char *names, Error *error);

#endif
