/* The maps of attention as a picture: the mean of all heads, then each head, a row for each
 * layer. */
#ifndef ATTENTION_PICTURE_H
#define ATTENTION_PICTURE_H

#include "modes/inspect/attention_maps.h"

/* Writes the picture as SVG. Cells that a query does not see are striped, other cells coloured by
 * their weight: in texts of more than 40 tokens by its cube root, because most weights are small
 * there. Large maps become images, of bins when they have more cells than pixels. */
void attention_picture_write(const AttentionMaps *maps, Sheet *svg);

#endif
