/* A Drafter that proposes the tokens which a text's rule forces, such as the names of members in a
 * JSON Schema. The rule's mask still decides each token, so the distribution is the masked one. */
#ifndef FORCED_H
#define FORCED_H

#include "draft/drafter.h"
#include "generation.h"

/* A Drafter for the text of `rule`, which is borrowed and has `forced`; drafter_free frees it. It
 * must be asked when the rule has taken exactly the text. NULL: no memory. */
Drafter *forced_new(TokenRule *rule);

#endif
